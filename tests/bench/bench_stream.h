/* The input of the matcher's benchmarks: the contest's moduli, and digits with answers planted as in the contest. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/matcher/matcher.h"

/* Reads moduli and variant. `moduli` is "online", "onsite" or numbers with commas, which are split in place and must
 * outlive the matcher. Returns false if the variant does not exist. */
bool bench_stream_config(struct matcher_config *config, char *moduli, const char *simd);

/* Writes `count` random digits, the same each time. About every 400 digits stands a multiple of one of the moduli:
 * at random places, or (every != 0) ending at multiples of `every`. */
void bench_stream_fill(uint8_t *text, size_t count, const struct matcher_config *config, size_t every);

/* Writes a worst case; returns false if the stream is unknown:
 *     zeros, nines        these digits alone
 *     digit8              eights alone
 *     side0               shortest multiples of modulus 0 in a row
 *     hot0                the same with another last digit
 *     levels:256:0        places with 0 to 256 factors 2, each with as many more as it has more digits
 *     power2:42:13:21     13 digits that give the number so far 42 factors 2, then 21 zeros, again and again */
bool bench_stream_worst(uint8_t *text, size_t count, const struct matcher_config *config, const char *name);

/* Binds the calling thread to a CPU. */
void bench_pin(unsigned cpu);
