/* The watchdog: somebody looks now and then whether the loop still turns. When it does not, with interrupts off or not,
 * the loop's CPU gets an NMI, so that it tells where it stood; if it cannot even do that, the machine is reset.
 *
 * Who looks: the second CPU, if one is up, at the price of one store a turn. Else the loop's own CPU, in the handler of
 * a timer's NMI (kernel/nmi_timer.h), 18 times a second, at the price of these interruptions. Beside either,
 * drivers/i6300esb.h, where a machine has it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kernel/base/counters.h"

/* How long the dump of a loop that stood still may go without a beat: a full log at 115200 baud takes 5.7 s. */
#define WATCHDOG_DUMP_NS UINT64_C(8000000000)

/* From now on the loop may stand still for so long. Says who looks, or that nobody does. */
void watchdog_arm(uint64_t timeout_ns, bool second_cpu);

/* On the second CPU, over and over: looks once a millisecond. */
void watchdog_look(void);

/* In the NMI's handler of the loop's CPU. True: it was the timer's and the loop turns, all is well. Touches no SIMD
 * register, for nobody has saved them. */
bool watchdog_tick(void);

/* The loop turns. */
extern volatile uint64_t watchdog_beats;
static inline void watchdog_beat(void) { watchdog_beats = watchdog_beats + 1; }

/* It was the watchdog's NMI: that is the cause of what follows. */
bool watchdog_has_fired(void);

/* watchdog.timeout_ns (0: nobody looks), .looks, and .age_ns: how old the newest beat was at the last look. */
extern const struct counter_group watchdog_counter_group;
