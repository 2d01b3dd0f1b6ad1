/* The submit circuit breaker: opens when most of what we submit is refused, which a wrong m=, a stale stream or a
 * second player under the same name brings about, and each submission costs a point. Once open it stays open. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kernel/base/counters.h"

enum { BREAKER_SLICE_COUNT = 8 };       /* the window moves on by an eighth at a time */

/* Opens at `refused_max` results wrong or dup within the window, if there are as many of them as of the others in it.
 * 0: never. */
void breaker_init(uint32_t refused_max, uint64_t window_ns);

/* A result of a submission. */
void breaker_result(bool refused, uint64_t now_ns);

bool breaker_is_open(void);
uint64_t breaker_opened_ns(void);       /* when it opened */

extern const struct counter_group breaker_counter_group;
