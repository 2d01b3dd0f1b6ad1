/* Natural numbers of up to BIG_WORDS 64-bit words, least significant first. Not made for speed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BIG_WORDS = 9 }; /* 512 bits, and one word for a product with a small number */

struct big {
    uint64_t word[BIG_WORDS];
};

/* Computes value = value * factor + addend. The result must fit (asserted). */
void big_mul_add(struct big *value, uint64_t factor, uint64_t addend);

/* Divides value by divisor; returns the remainder. */
uint64_t big_div(struct big *value, uint64_t divisor);

/* Returns a <=> b as -1, 0, 1. */
int big_compare(const struct big *a, const struct big *b);

/* Computes a += b, a -= b. The result must fit and not be negative (asserted). */
void big_add(struct big *a, const struct big *b);
void big_sub(struct big *a, const struct big *b);

bool big_is_zero(const struct big *value);
uint32_t big_bits(const struct big *value); /* 0 for 0 */

/* Reduces value modulo modulus, modulus at most 2^512. */
void big_mod(struct big *value, const struct big *modulus);

/* Returns 2^64 * value / modulus, rounded down, for value < modulus < 2^512. */
uint64_t big_fraction(const struct big *value, const struct big *modulus);

/* Computes value = (value * 10^count + the number that `count` ASCII digits write) mod modulus, which is at most
 * 2^512. */
void big_append_mod(struct big *value, const uint8_t *digits, size_t count, const struct big *modulus);

/* Returns the greatest common divisor of a number and a factor that is not 0. */
uint64_t big_gcd(const struct big *value, uint64_t factor);

/* Computes value = value / 10 mod modulus, for value < modulus and a modulus without the factors 2 and 5. */
void big_div_ten_mod(struct big *value, const struct big *modulus);
