/* The only source of random numbers: a game follows from its seed alone. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Returns the next number of splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
 * 2014). */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Returns a number from `least` to `most`. */
static inline uint64_t random_between(uint64_t *state, uint64_t least, uint64_t most)
{
    return least + random_next(state) % (most - least + 1);
}

static inline bool random_chance(uint64_t *state, uint32_t in_10000) { return random_next(state) % 10000 < in_10000; }
