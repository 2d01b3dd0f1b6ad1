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
    MATCHER_TAIL_DIGITS_MAX = 18,       /* as many as a word holds */
};

struct matcher_constant {
    enum matcher_method method;
    bool hash_long;                             /* in bursts of more than MATCHER_SHORT_DIGITS it is hashed instead */
    uint32_t digits;                            /* of M, and of its shortest answer */
    bool sure;                                  /* 64-bit fractions decide without a doubt */
    uint32_t last_digits;                       /* those that an answer may end in: bits 0..9 */

    uint64_t tolerance;                         /* of 64-bit fractions: at most so far from 0 is 0 */

    /* The last digits, for MATCHER_EACH. */
    uint32_t tail_digits;
    uint64_t tail_scale;                        /* 10^tail_digits */
    uint64_t tail_power;                        /* what their value must be a multiple of */

    bool hit_before;                            /* hashing: the last digit's prefix value so far may have occurred */

    struct matcher_look look;                   /* look.digits = 0: M is too small to look ahead */

    /* A kernel may read 16 behind the last of each. Fractions of unit * 10^t / M, the last digit's (t = 0) at [n - 1];
     * of unit * 10^-(t + 1) / m, the first digit's at [0]. */
    _Alignas(64) uint64_t match_weights[MATCHER_N_DIGITS_MAX], follow_weights[MATCHER_N_DIGITS_MAX];
    struct matcher_hash hash;

    struct matcher_big value;                   /* M */
};

/* Whether a multiple of m is one of M is told by its last digit. */
static inline bool matcher_last_digit_tells(const struct matcher_constant *c) { return c->tail_digits <= 1; }

/* The window, in whole blocks of every variant. */
static inline uint32_t matcher_window(uint32_t n)
{
    return (n + MATCHER_BLOCK_DIGITS_MAX - 1) / MATCHER_BLOCK_DIGITS_MAX * MATCHER_BLOCK_DIGITS_MAX;
}

/* Reads a decimal number of 1..2^512-1 without leading zeros; false if it is none. */
bool matcher_constant_read(struct matcher_constant *constant, const char *decimal);

/* Chooses the method and makes the tables for windows of n digits and a kernel. */
void matcher_constant_prepare(struct matcher_constant *constant, uint32_t n, const struct matcher_kernel *kernel);
