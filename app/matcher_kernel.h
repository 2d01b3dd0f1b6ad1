/* The arithmetic of the matcher: sums of digits times weights. app/matcher.c says why.
 *
 * A kernel is one variant. AVX2 and AVX-512 work on vectors (app/matcher_lanes.h): digits lie in planes, position p in
 * row p % 16, so that one load takes every sixteenth digit, and each lane of a vector works on sixteen digits in a row.
 * The scalar one knows general registers only (app/matcher_scalar.c). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/base/bytes.h"

enum {
    MATCHER_STEPS = 16,             /* digits a lane, rows of the planes */
    MATCHER_LANES_MAX = 16,         /* 32-bit lanes of the widest variant */
    MATCHER_BLOCK_DIGITS_MAX = MATCHER_STEPS * MATCHER_LANES_MAX,

    MATCHER_WRITE_DIGITS = 8 * MATCHER_STEPS,   /* at most so many are written at once */

    /* Positions: the segment at work begins at MATCHER_SEGMENT_AT, the window lies before it. Blocks may begin before
     * the window. */
    MATCHER_WINDOW_DIGITS = 1024,
    MATCHER_SEGMENT_DIGITS = 1024,
    MATCHER_SEGMENT_AT = MATCHER_WINDOW_DIGITS + 2 * MATCHER_BLOCK_DIGITS_MAX,
    MATCHER_POSITIONS = MATCHER_SEGMENT_AT + MATCHER_SEGMENT_DIGITS + MATCHER_BLOCK_DIGITS_MAX,
    MATCHER_ROW_WORDS = MATCHER_POSITIONS / MATCHER_STEPS + 8,  /* 8: so that rows do not fall on one another's cache
                                                                   sets, and vectors of AVX2 are aligned */
};

/* Position p is row[p % 16][p / 16], and once more row[16 + p % 16][p / 16 - 1]: so a block that begins anywhere finds
 * its sixteen steps in sixteen rows, one behind the other. The scalar variant has digits in a row. */
union matcher_planes {
    _Alignas(64) uint32_t row[2 * MATCHER_STEPS][MATCHER_ROW_WORDS];
    uint8_t digit[MATCHER_POSITIONS];
};

/* Digits for kernels with `digit_words`: d in the lower and d * 2^11 in the upper 16 bits, two factors for one
 * multiply-add of 16-bit numbers. */
#define MATCHER_DIGIT_WORD(d) ((uint32_t)(d) * (1u + (1u << 27)))

/* What the old starts of a look come to, as far as it is known before the burst: the upper 16 bits of their fractions. */
struct matcher_slot {
    _Alignas(64) uint32_t values[1024 / 2];     /* of up to N starts, two a word */
};

/* Looks ahead: the one of number k, when k * digits of the segment are known. Fractions are modulo 2^look_bits; a start
 * is hot if the sum of digits times weights from it on, plus the offset, is at most `limit`. */
struct matcher_look {
    uint32_t digits;                /* K */
    uint32_t limit;
    uint32_t offset;                /* turns "just below 1, or 0" into "at most the limit" */
    uint32_t skip_digits;           /* the last starts are too young; their digits enter as one number, */
    uint32_t skip_shift;            /* which keeps skip_digits of eight bytes, */
    uint64_t skip_weight;           /* and is weighed in 64 bits */
    uint32_t block_count;
    uint32_t slot_count;            /* the looks of number 1..slot_count have their old starts in a slot */
    const uint32_t *weights;        /* by distance from the end; blocks[][MATCHER_STEPS][lanes], the last digits first */
    struct matcher_slot *slots;
};

/* The value of the last skip_digits digits before `end`, times its weight, and the offset: eight digits in one word, the
 * first in its lowest byte, are added up in pairs, then pairs of pairs, then those. */
static inline uint32_t matcher_look_offset(const struct matcher_look *look, const uint8_t *end, uint32_t look_bits)
{
    uint64_t d = load_le64(end - 8) & 0x0f0f0f0f0f0f0f0f;
    d = d >> look->skip_shift << look->skip_shift;
    d = (d * (1 + (10 << 8))) >> 8 & 0x00ff00ff00ff00ff;
    d = (d * (1 + (100 << 16))) >> 16 & 0x0000ffff0000ffff;
    d = (d * (1 + (UINT64_C(10000) << 32))) >> 32;
    return (uint32_t)(d * look->skip_weight >> (64 - look_bits)) + look->offset;
}

/* The prefix values of one constant, from the window's first digit on, and where in the window they occur. Two forms,
 * one for vectors, one for general registers. */
enum {
    MATCHER_HASHED_DIGITS = MATCHER_WINDOW_DIGITS + MATCHER_SEGMENT_DIGITS,
    MATCHER_CELL_BITS = 14,
    MATCHER_NO_DIGIT = UINT16_MAX,  /* a partner: before the first digit */
    MATCHER_KEY_BITS = 30,          /* a key is a fraction in so many bits: its cell is the upper half word */
};

struct matcher_hash {
    uint32_t base;                  /* the window's first position; `at` below counts from it */
    uint32_t reach;                 /* equal residues have keys at most this far apart: in units of 2^-32 for vectors,
                                       of 2^-64 for general registers */
    uint64_t carry;                 /* the key so far */
    union {
        struct {
            /* blocks[][MATCHER_STEPS][lanes], both */
            _Alignas(64) uint32_t weights[MATCHER_HASHED_DIGITS], keys[MATCHER_HASHED_DIGITS];
            uint32_t edge_mask;     /* key + reach with nothing but zeros under it: near an edge of its cell */
            uint8_t taken[(1 << MATCHER_CELL_BITS) + MATCHER_STEPS];    /* the last ones for zeros */
        } lanes;
        struct {
            uint64_t weights[MATCHER_HASHED_DIGITS], keys[MATCHER_HASHED_DIGITS];
            uint16_t last[1 << MATCHER_CELL_BITS];      /* the newest place in a cell, from 1; 0: none */
            uint16_t before[MATCHER_HASHED_DIGITS];     /* the one before it in the same cell */
        } plain;
    };
};

/* Which of 64 digits are 0, are 5, are odd. */
struct matcher_digit_sets {
    uint64_t zero, five, odd;
};

struct matcher_kernel {
    uint32_t lanes;                 /* 32-bit lanes */
    uint32_t block;                 /* digits: 16 times as many */
    uint32_t look_bits;
    bool digit_words;
    bool hashes_all;                /* hashing is always cheaper than looking */

    /* Writes digits, '0'..'9' (asserted), into the planes from `begin` (a multiple of 16) on. `count` is rounded up to
     * MATCHER_WRITE_DIGITS at most. */
    void (*write)(union matcher_planes *planes, uint32_t begin, const uint8_t *digits, size_t count);
    struct matcher_digit_sets (*digit_sets)(const uint8_t digits[64]);

    /* The sum of digits times weights, 64 bits wide: the weights of these digits one after the other. */
    uint64_t (*fraction)(const uint8_t *digits, const uint64_t *weights, size_t count);

    /* Whether any start may be hot, by the look of this number; `digits` are the segment's, as text. */
    bool (*look)(const union matcher_planes *planes, const uint8_t *digits, const struct matcher_look *look,
                 uint32_t number);
    /* The same, without a doubt, and adds which: bit p % 64 of starts[p / 64]. */
    void (*look_which)(const union matcher_planes *planes, const uint8_t *digits, const struct matcher_look *look,
                       uint32_t number, uint64_t starts[MATCHER_POSITIONS / 64]);
    /* Fills the slots from the window. */
    void (*remember)(const union matcher_planes *planes, const struct matcher_look *look);

    /* Forgets everything, and inserts the prefixes that end after each of `count` digits, a multiple of
     * MATCHER_BLOCK_DIGITS_MAX. */
    void (*insert)(const union matcher_planes *planes, struct matcher_hash *hash, uint32_t count);
    /* Inserts those of the digits at..at + count (at a multiple of MATCHER_BLOCK_DIGITS_MAX), and tells which may have
     * occurred before: bit k % 64 of found[k / 64]; for the digit 0 it tells nothing. */
    void (*probe)(const union matcher_planes *planes, struct matcher_hash *hash, uint32_t at, uint32_t count,
                  uint64_t *found);
    /* Where the prefix value behind the digit `at`, which is not 0, has occurred before, not before `from`: after the
     * digits partners[], at most `max`, not after those that are 0. Returns how many there are. */
    uint32_t (*partners)(const struct matcher_hash *hash, uint32_t at, uint32_t from, uint16_t *partners, uint32_t max);
};

extern const struct matcher_kernel matcher_kernel_scalar, matcher_kernel_avx2, matcher_kernel_avx512;

/* Bit 63 - i of the result is bit i. */
static inline uint64_t matcher_bits_reversed(uint64_t bits)
{
    bits = __builtin_bswap64(bits);
    bits = (bits & 0x0f0f0f0f0f0f0f0f) << 4 | (bits >> 4 & 0x0f0f0f0f0f0f0f0f);
    bits = (bits & 0x3333333333333333) << 2 | (bits >> 2 & 0x3333333333333333);
    return (bits & 0x5555555555555555) << 1 | (bits >> 1 & 0x5555555555555555);
}
