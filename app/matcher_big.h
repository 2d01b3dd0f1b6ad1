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

/* value = (value * factor + addend) mod modulus, for value < modulus < 2^512, factor and addend at most 10. */
void matcher_big_mul_add_mod(struct matcher_big *value, uint32_t factor, uint32_t addend,
                             const struct matcher_big *modulus);
