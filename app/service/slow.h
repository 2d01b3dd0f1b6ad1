/* The facts of a slow way (base/slowest.h): in which turn of the loop it fell, and how often the machine sent again or
 * left the guest meanwhile. A program names its stages once and hands in each way when it has ended, off the path. */
#pragma once

#include <stdint.h>

#include "base/slowest.h"

/* Keeps a way, if it is slow. 0 of `total_ns`: it is not measured; of a stage: it is not stamped. */
void slow_note(uint64_t total_ns, const uint64_t stage_ns[SLOWEST_STAGE_COUNT], uint64_t now_ns);

/* ---- for the service ---- */

/* Begins, after the stack's and the device's counters are registered. */
void slow_init(void);

/* Marks the service's part of a turn: a way that ends in the next turn counts from here. */
void slow_turn(void);
