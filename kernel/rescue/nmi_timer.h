/* A timer that interrupts a loop with interrupts off: channel 0 of the PIT, which the I/O APIC hands on as an NMI. The
 * local APIC's own timer has no delivery mode, so no NMI (SDM vol. 3, "Local Vector Table"). Most virtual machines have
 * no performance counters.
 *
 * The PIT runs one shot at a time, of 54.9 ms, its longest. In a periodic mode KVM would send the next interrupt only
 * after an end of interrupt, and an NMI has none. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Sets it up for this CPU, sees that an NMI comes, and starts the time to the first tick. Before the seal. Returns
 * false if this machine lacks the timer. */
bool nmi_timer_start(void);

/* Starts the time to the next tick. */
void nmi_timer_arm(void);

/* Returns, in the NMI's handler, true if the timer has run out, and false for an NMI from elsewhere. */
bool nmi_timer_has_fired(void);
