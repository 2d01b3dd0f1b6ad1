/* The sums of digits times weights, which differ between the variants. A variant that hashes each modulus has no
 * probes, and verifies no hits: it has `write` and `candidates` alone. */
#pragma once

#include "app/matcher/filter.h"

enum { CANDIDATES_MAX = 16 };

/* The starts that may become answers at most K digits after a position. A planted answer makes one, chance makes one in
 * 40 bursts. */
struct candidates {
    uint32_t count;                  /* CANDIDATES_MAX + 1: there are more than are listed */
    uint32_t before[CANDIDATES_MAX]; /* digits from a start to the position */
};

/* `row`: the words of the digits from the block's beginning on, and before it. */
struct simd_ops {
    uint32_t lanes; /* probes in a vector */

    /* Asserts that the digits are '0'..'9'; writes them as words. `count` is rounded up to a multiple of 32 at most. */
    void (*write)(uint32_t *row, const uint8_t *digits, size_t count);
    /* Returns the sum of digits times weights; both may be read MODULUS_PAD further. */
    uint64_t (*sum)(const uint8_t *digits, const uint64_t *weights, size_t count);
    /* Adds a probe's candidates that begin least..n - 1 digits before its position `at` to an empty list. Young starts
     * and digits 0 are left out. */
    void (*candidates)(const struct modulus_probe *probe, const uint8_t *at, uint32_t least, uint32_t n,
                       struct candidates *list);
    /* Fills the partial sums of one vector's probes. */
    void (*fill_cache)(struct filter *filter, const uint32_t *row, uint32_t vector);
    /* Takes the next batch of a pass through a block, up to the first part that has hits. Partial sums serve the first
     * block. */
    void (*probe)(const struct filter *filter, const uint32_t *row, bool first_block, struct filter_pass *pass);
};

extern const struct simd_ops simd_ops_scalar, simd_ops_avx2, simd_ops_avx512;
