/* The submit circuit breaker: opens when most of what we submit is refused. A wrong m=, a stale stream or a second
 * player under the same name brings that about, and each submission costs a point. Once open it stays open. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"

enum { CIRCUIT_BREAKER_SLICE_COUNT = 8 }; /* the window moves on by an eighth at a time */

/* Opens at `refused_max` results wrong or dup within the window, if there are as many of them as of the others in it.
 * 0: never. */
void circuit_breaker_init(uint32_t refused_max, uint64_t window_ns);

/* Counts a result of a submission. */
void circuit_breaker_result(bool refused, uint64_t now_ns);

bool circuit_breaker_is_open(void);
uint64_t circuit_breaker_opened_ns(void); /* when it opened */

#define CIRCUIT_BREAKER_COUNTERS(X) X(LEVEL, open), X(LEVEL, refused_in_window), X(LEVEL, others_in_window)
extern struct circuit_breaker_counters {
    uint64_t CIRCUIT_BREAKER_COUNTERS(COUNTER_MEMBER);
} circuit_breaker_counters;
extern const struct counter_group circuit_breaker_counter_group;
