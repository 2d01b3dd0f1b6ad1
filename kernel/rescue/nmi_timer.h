/* A timer that interrupts a loop with interrupts off: channel 0 of the PIT, which the I/O APIC hands on as an NMI. (The
 * local APIC's own timer cannot: SDM vol. 3 §10.5.1, it has no delivery mode; performance counters could, but most
 * virtual machines have none.) One shot of 54.9 ms, its longest, at a time: a periodic one KVM would repeat only after
 * an end of interrupt, which an NMI has not. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Sets it up for this CPU, sees that an NMI comes, and starts the time to the first tick. Before the seal. Returns
 * false if this machine has no such timer. */
bool nmi_timer_start(void);

/* Starts the time to the next tick. */
void nmi_timer_arm(void);

/* Returns, in the NMI's handler, true if the timer has run out, and false for an NMI from elsewhere. */
bool nmi_timer_has_fired(void);
