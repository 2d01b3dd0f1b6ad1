/* The idle work of the matcher on a second CPU: the path's digits go there, early answers come back.
 *
 * The second CPU has a matcher of its own and plays the whole stream with it, some microseconds behind the first. What
 * ends in the digits themselves it throws away, for the path has long handed that out; what it completes beforehand
 * comes back through a ring, and the first CPU submits it, unless the digits were quicker (app/ledger.h). So the
 * first CPU never does a slice of early work, and neither ever waits for the other: digits that find the ring full are
 * a gap in the second one's stream, early answers that do are lost, and both are counted.
 *
 *     first CPU:  copilot_init, copilot_digits, copilot_answer, copilot_counters_refresh
 *     second CPU: while (on) copilot_turn();
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/matcher.h"
#include "kernel/base/counters.h"

/* Sets up the second matcher from the path's configuration, which loses its early answers by it. On the first CPU,
 * before the second runs. NULL or a message, as matcher_init. */
const char *copilot_init(struct matcher_config *path);

/* Gives the second CPU the stream's next digits (copied); `gap` as matcher_restart. */
void copilot_digits(const uint8_t *digits, size_t count, bool gap);

/* The next early answer. Its digits are valid until the next call. False: none now; costs one load. */
bool copilot_answer(struct matcher_answer *answer);

/* A slice of work, at most 5 us and one burst's search. False when there was nothing to do, as without copilot_init. */
bool copilot_turn(void);

/* Brings what the second CPU counts into copilot_counter_group. */
void copilot_counters_refresh(void);
extern const struct counter_group copilot_counter_group;
