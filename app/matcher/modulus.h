/* One modulus: its number, its method, and its tables of weights. */
#pragma once

#include "app/matcher/matcher.h"
#include "base/big.h"

enum {
    MODULUS_PAD = 16, /* weights, or digits, that vectors may read beyond the last one */
    MODULUS_AFTER = MODULUS_PAD + MATCHER_N_DIGITS_MAX,
    MODULUS_PLACES = 4096,     /* digits that prefix residues are counted over before their table begins again */
    MODULUS_RESIDUE_BITS = 16, /* a start is a candidate by chance once in 2^15 or less */
    MODULUS_YOUNG_DIGITS = 4,  /* a start with at most 4 digits has no answer within K */
    MODULUS_SURE_BITS = 50,    /* fractions of a modulus of this size leave no doubt */
    MODULUS_TOLERANCE_MAX = 9 * MATCHER_N_DIGITS_MAX,
};

enum modulus_method {
    MODULUS_NONE,   /* M has more than N digits: there are no answers */
    MODULUS_FILTER, /* the look-ahead filter rules out ends */
    MODULUS_HASH,   /* prefix residues are hashed */
};

/* Looks K digits ahead from one position. A start is a candidate if the sum of its digits times weights, plus `offset`,
 * modulo 2^32, is at most `limit`. */
struct modulus_probe {
    uint32_t digits; /* K; 0: M is too small to look ahead */
    uint32_t offset, limit;
    /* In the order of the text: [MODULUS_AFTER] is the weight of the digit after the position, and the ones before it
     * are the weights of the digits before the position. */
    uint32_t weights[MODULUS_AFTER + 1];
};

struct matcher_modulus {
    enum modulus_method method;
    uint32_t digits;                             /* digits of M, and of its shortest answer */
    uint32_t last_digits;                        /* bits 0..9: digits that an answer may end in */
    uint32_t exponents[2];                       /* a and b for M = 2^a 5^b m */
    uint32_t needs[2];                           /* factors that an end needs: min(a, digits), min(b, digits) */
    uint32_t tail_digits;                        /* max(a, b) */
    uint8_t decimal[MATCHER_MODULUS_DIGITS_MAX]; /* M in ASCII */
    bool sure;                                   /* 64-bit fractions decide without a doubt */
    uint64_t tolerance;                          /* sums up to here are fractions that are 0 */
    struct modulus_probe probe;
    _Alignas(64) uint64_t
        key_weights[MODULUS_PLACES + MODULUS_PAD]; /* [t]: fraction of u 10^-(t + 1) / m, rounded up */
    uint64_t tail_weights[MATCHER_N_DIGITS_MAX];   /* [t]: fraction of u 10^t / (2^a 5^b), rounded up */
    struct big value;                              /* M */
};

/* Reads a decimal number of 1..2^512-1 without leading zeros; false if it is none. */
bool modulus_read(struct matcher_modulus *modulus, const char *decimal);
/* The tables under way: how many places have their weights, and the powers that the next place takes. */
struct modulus_making {
    uint32_t n, places;
    struct big m, power;         /* M without its factors 2 and 5; u 10^-places mod m */
    struct big tail, tail_power; /* 2^a 5^b; u 10^places modulo that */
    struct big ahead;            /* 10^(K - 1 + places) mod M */
};
/* Begins to make the tables of weights of a modulus that has just been read, with the unit u drawn from the seed. */
struct modulus_making modulus_prepare_begin(struct matcher_modulus *modulus, uint32_t n,
                                            const uint8_t seed[MATCHER_SEED_BYTES]);
/* Makes the weights of up to `count` further places. Returns true while there are more. */
bool modulus_prepare_some(struct matcher_modulus *modulus, struct modulus_making *making, uint32_t count);

/* Returns true if 2^a 5^b divides the last `length` digits before `end`, by their sum. */
bool modulus_tail_divides(const struct matcher_modulus *modulus, const uint8_t *end, uint32_t length);

static inline bool modulus_may_end_in(const struct matcher_modulus *modulus, uint8_t ascii)
{
    return (modulus->last_digits >> (ascii - '0') & 1) != 0;
}
