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

/* Returns the TSC for benchmarks: nothing before it is still running, nothing after it has begun. SDM vol. 2, RDTSC:
 * LFENCE waits for earlier instructions and holds back later ones. Every x86-64 has both; RDTSCP is missing from CPU
 * models such as QEMU's qemu64 and kvm64. */
static inline uint64_t cycles_now_serialised(void)
{
    uint32_t low, high;
    __asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
}
