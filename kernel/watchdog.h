/* The watchdog: the second CPU looks now and then whether the loop still turns. When it does not, with interrupts off
 * or not, the loop's CPU gets an NMI, so that it tells where it stood; if it cannot even do that, the second CPU resets
 * the machine itself. Costs the loop one store a turn. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* From now on the loop may stand still for so long. Says so in the log, or that there is no second CPU to look. */
void watchdog_arm(uint64_t timeout_ns, bool second_cpu);

/* On the second CPU, over and over. */
void watchdog_look(void);

/* The loop turns. */
extern volatile uint64_t watchdog_beats;
static inline void watchdog_beat(void) { watchdog_beats = watchdog_beats + 1; }

/* The watchdog has sent the NMI: it is the cause of what follows. */
bool watchdog_has_fired(void);
