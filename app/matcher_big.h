/* Natural numbers of up to MATCHER_BIG_WORDS 64-bit words, least significant first: what the matcher needs of
 * them, for set-up and for exact checks; nothing here is on the hot path. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MATCHER_BIG_WORDS = 9 };     /* 512 bits of a constant, and one word for a product with a small number */

struct matcher_big {
    uint64_t word[MATCHER_BIG_WORDS];
};

/* value = value * factor + addend. The result must fit (asserted). */
void matcher_big_mul_add(struct matcher_big *value, uint64_t factor, uint64_t addend);

/* value = value / divisor; returns the remainder. */
uint64_t matcher_big_div(struct matcher_big *value, uint64_t divisor);

/* a <=> b as -1, 0, 1. */
int matcher_big_compare(const struct matcher_big *a, const struct matcher_big *b);

/* a += b, a -= b. The result must fit and not be negative (asserted). */
void matcher_big_add(struct matcher_big *a, const struct matcher_big *b);
void matcher_big_sub(struct matcher_big *a, const struct matcher_big *b);

bool matcher_big_is_zero(const struct matcher_big *value);
uint32_t matcher_big_bits(const struct matcher_big *value);     /* 0 for 0 */

/* value = value mod modulus, modulus at most 2^512. */
void matcher_big_mod(struct matcher_big *value, const struct matcher_big *modulus);

/* The nearest integer to 2^64 * value / modulus, modulo 2^64, for value < modulus <= 2^512. */
uint64_t matcher_big_fraction(const struct matcher_big *value, const struct matcher_big *modulus);

/* value = (value * 10^count + the number that `count` ASCII digits write) mod modulus, modulus at most 2^512. */
void matcher_big_append_mod(struct matcher_big *value, const uint8_t *digits, size_t count,
                            const struct matcher_big *modulus);
