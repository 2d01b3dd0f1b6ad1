/* The time-stamp counter. SDM vol. 3, "Time-Stamp Counter". */
#pragma once

#include <stdint.h>

/* Returns the TSC. Not serialising: cheap enough for the hot path, may float a few instructions either way. */
static inline uint64_t cycles_now(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

/* Returns the TSC for benchmarks: nothing before it is still running, nothing after it has begun.
 * SDM vol. 2, RDTSCP and LFENCE: RDTSCP waits for earlier instructions, LFENCE holds back later ones. */
static inline uint64_t cycles_now_serialised(void)
{
    uint32_t low, high, aux;
    __asm__ volatile("rdtscp\n\tlfence" : "=a"(low), "=d"(high), "=c"(aux) : : "memory");
    return (uint64_t)high << 32 | low;
}
