/* The sums of digits times weights, which differ between the variants. A variant that hashes each modulus has no
 * probes, and verifies no hits: it has `write` and `candidates` alone. */
#pragma once

#include "app/matcher/filter.h"

/* `row`: the words of the digits from the block's beginning on, and before it. */
struct simd_ops {
    uint32_t digits_min; /* moduli with a smaller K are hashed */
    uint32_t lanes;      /* probes in a vector */

    /* Asserts that the digits are '0'..'9'; writes them as words. `count` is rounded up to a multiple of 32 at most. */
    void (*write)(uint32_t *row, const uint8_t *digits, size_t count);
    /* Returns the sum of digits times weights; both may be read MODULUS_PAD further. */
    uint64_t (*sum)(const uint8_t *digits, const uint64_t *weights, size_t count);
    /* Lists a probe's candidates that begin least..n - 1 digits before its position `at`. Young starts and digits 0 are
     * left out. Lists at most `max`, and returns max + 1 if there are more. */
    uint32_t (*candidates)(const struct modulus_probe *probe, const uint8_t *at, uint32_t least, uint32_t n,
                           uint32_t *list, uint32_t max);
    /* Fills the partial sums of one vector's probes. */
    void (*fill_cache)(struct filter *filter, const uint32_t *row, uint32_t vector);
    /* Takes the next batch of a pass, through a block whose burst has `left` digits from there, up to the first part
     * that has hits. Partial sums serve the first block. */
    void (*probe)(const struct filter *filter, const uint32_t *row, uint32_t left, bool first_block,
                  struct filter_pass *pass);
};

extern const struct simd_ops simd_ops_scalar, simd_ops_avx2, simd_ops_avx512;
