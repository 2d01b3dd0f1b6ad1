/* What the matcher's benchmarks play: the contest's constants, and digits with answers planted as in the contest. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/matcher.h"

/* Constants and variant from their words: `constants` is "online", "onsite" or numbers with commas, which are cut up in
 * place and must outlive the matcher. False: there is no such variant. */
bool bench_stream_config(struct matcher_config *config, char *constants, const char *simd);

/* `count` digits, the same each time: random, with a multiple of one of the constants about every 400 digits; at random
 * places, or (every != 0) each ending at a multiple of `every`. */
void bench_stream_fill(uint8_t *text, size_t count, const struct matcher_config *config, size_t every);

/* The calling thread stays on this CPU. */
void bench_pin(unsigned cpu);
