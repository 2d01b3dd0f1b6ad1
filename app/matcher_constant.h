/* One constant of the matcher: what is known of it, and the tables made of it at set-up. app/matcher.c says what the
 * tables mean. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/matcher.h"
#include "app/matcher_big.h"
#include "app/matcher_kernel.h"

/* How the ends of its answers are found. */
enum matcher_method {
    MATCHER_NEVER,      /* it has more than N digits: there are none */
    MATCHER_LOOK,       /* look ahead from every look_digits-th position */
    MATCHER_HASH,       /* hash the prefix values */
    MATCHER_EACH,       /* answers are frequent, or the last digits tell: decide every end that those admit */
};

enum {
    MATCHER_SKIP_DIGITS_MAX = 7,        /* digits - look_digits - 1, see constant_choose_look; not 8 */
    MATCHER_TAIL_DIGITS_MAX = 18,       /* as many as a word holds */
};

struct matcher_constant {
    enum matcher_method method;
    struct matcher_big value;                   /* M */
    uint32_t digits;                            /* of M, and of its shortest answer */
    bool sure;                                  /* 64-bit fractions decide without a doubt */

    /* Looking ahead. look_digits = 0: M is too small for it. */
    uint32_t look_digits;                       /* K */
    uint32_t skip_digits;                       /* digits - K - 1: the last starts are too young */
    uint32_t look_offset;                       /* turns "just below 1, or 0" into "less than the mask's lowest bit" */
    struct matcher_look look;
    uint32_t skip_shift;                        /* keeps the last skip_digits of eight bytes */
    uint64_t skip_weight;                       /* the fraction of 10^K / M */

    /* Sorting out suspects of the hash before they are decided: fractions of unit * v / M, modulo 2^27. */
    struct matcher_look sift;
    uint32_t sift_offset;

    struct matcher_decide match, follow;

    /* The last digits, for MATCHER_EACH. */
    uint32_t tail_digits;
    uint64_t tail_scale;                        /* 10^tail_digits */
    uint64_t tail_power;                        /* what their value must be a multiple of */

    /* Hashing. */
    struct matcher_keys keys;
    uint32_t window_carry;                      /* the key so far: of the window, then of the segment */
    bool hit_before;                            /* the last end so far was a hit */

    _Alignas(64) uint32_t look_weights[MATCHER_N_DIGITS_MAX], sift_weights[MATCHER_N_DIGITS_MAX];
    _Alignas(64) uint64_t match_weights[MATCHER_N_DIGITS_MAX], follow_weights[MATCHER_N_DIGITS_MAX];
    _Alignas(64) uint32_t key_weights[MATCHER_N_DIGITS_MAX + MATCHER_SEGMENT_DIGITS];
    _Alignas(64) uint8_t taken[MATCHER_CELLS + MATCHER_STEPS];     /* the last ones for zeros */
};

/* Reads a decimal number of 1..2^512-1 without leading zeros; false if it is none. */
bool matcher_constant_read(struct matcher_constant *constant, const char *decimal);

/* Chooses the method and makes the tables for windows of n digits, as the kernel wants them. */
void matcher_constant_prepare(struct matcher_constant *constant, uint32_t n, const struct matcher_kernel *kernel);
