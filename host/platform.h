/* The parts of kernel/ that a hosted program needs: the clock, random bytes, the log on standard error. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Measures the TSC, for some 20 ms, and sends the log to standard error. First of all. */
void platform_init(void);

uint64_t platform_now_ns(void);  /* CLOCK_MONOTONIC, 0 at platform_init */
uint64_t platform_tsc_khz(void); /* as measured */

/* Writes random bytes, at most 256. */
void platform_random(void *out, size_t bytes);
