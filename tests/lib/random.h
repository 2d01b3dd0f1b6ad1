/* The random numbers of all tests: each follows from its seed alone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The difference of the states for one number and the next. */
#define RANDOM_STEP UINT64_C(0x9e3779b97f4a7c15)

/* Returns the next number of splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
 * 2014). */
static inline uint64_t random_from(uint64_t *state)
{
    uint64_t z = *state += RANDOM_STEP;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Returns a number from `least` to `most`. */
static inline uint64_t random_between(uint64_t *state, uint64_t least, uint64_t most)
{
    return least + random_from(state) % (most - least + 1);
}

static inline bool random_chance(uint64_t *state, uint32_t in_10000) { return random_from(state) % 10000 < in_10000; }

/* Each file that includes this header has a state of its own. */
static uint64_t random_state;

static inline uint64_t random_next(void) { return random_from(&random_state); }
static inline uint64_t random_below(uint64_t bound) { return random_next() % bound; }

static inline void random_fill(void *out, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)out)[i] = (uint8_t)random_next();
}

/* Fills a secret as a machine draws it: all of its bits vary. The same seed gives the same secret. */
static inline void random_secret(uint64_t seed, void *out, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)out)[i] = (uint8_t)random_from(&seed);
}

/* Begins with SEED= of the environment; without it with `usual`. Prints the seed, to be given again. */
static inline void random_seed(uint64_t usual)
{
    const char *given = getenv("SEED");
    random_state = given != NULL ? strtoull(given, NULL, 0) : usual;
    fprintf(stderr, "SEED=%llu\n", (unsigned long long)random_state);
}
