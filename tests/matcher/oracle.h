/* The schoolbook answer to the problem of docs/contest.md: keep the remainder of every suffix, multiply by ten, add the
 * digit, reduce. Quadratic, over GMP's low-level numbers; shares no code and no idea with app/matcher. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ORACLE_N_MAX = 1024, ORACLE_CONSTANTS_MAX = 8 };

struct oracle;

struct oracle *oracle_new(uint32_t n, const char *const *moduli, uint32_t count);
void oracle_free(struct oracle *oracle);

/* Takes one more digit. Afterwards oracle_divisors(length) returns the moduli (bits) that divide the last `length`
 * digits, or 0 if these digits are no answer. */
void oracle_push(struct oracle *oracle, uint8_t digit);
uint32_t oracle_divisors(const struct oracle *oracle, uint32_t length);

/* Begins again after a gap in the stream. */
void oracle_restart(struct oracle *oracle);
