/* A timer that interrupts a loop with interrupts off: channel 0 of the PIT, which the I/O APIC hands on as an NMI. (The
 * local APIC's own timer cannot: SDM vol. 3 §10.5.1, it has no delivery mode; performance counters could, but most
 * virtual machines have none.) One shot of 54.9 ms, its longest, at a time: a periodic one KVM would repeat only after
 * an end of interrupt, which an NMI has not. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Sets it up for this CPU and sees that an NMI comes; the first tick then is on its way. Before the seal. False: this
 * machine has no such timer. */
bool nmi_timer_start(void);

/* The next tick. */
void nmi_timer_arm(void);

/* In the NMI's handler: whether it is, or may be, the timer's. An NMI from elsewhere comes at any time. */
bool nmi_timer_is_due(uint64_t now_ns);
