/* The watchdog: a second CPU that looks now and then whether the loop still turns. When it does not, with interrupts off
 * or not, the loop's CPU gets an NMI, so that it tells where it stood; if it cannot even do that, the second CPU resets
 * the machine itself. Costs the loop one store a turn. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Starts the second CPU, before the seal. False (and a line in the log) if there is none or it does not come up. */
bool watchdog_start(uint64_t timeout_ns);

/* The loop turns. */
extern volatile uint64_t watchdog_beats;
static inline void watchdog_beat(void) { watchdog_beats = watchdog_beats + 1; }

/* The watchdog has sent the NMI: it is the cause of what follows. */
bool watchdog_has_fired(void);
