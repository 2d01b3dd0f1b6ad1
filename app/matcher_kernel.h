/* The vector work of the matcher: sums of digits times weights, for every start at once. app/matcher.c says why.
 *
 * A kernel is one variant (baseline, AVX2, AVX-512); all compute the same sums, bit for bit, in blocks of different
 * sizes. Digits lie in planes: position p in row p % 16, so that one load takes every sixteenth digit, and each lane
 * of a vector works on sixteen digits in a row. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MATCHER_STEPS = 16,             /* digits a lane, rows of the planes */
    MATCHER_LANES_MAX = 16,         /* 32-bit lanes of the widest variant */
    MATCHER_BLOCK_DIGITS_MAX = MATCHER_STEPS * MATCHER_LANES_MAX,

    /* Positions: the segment at work begins at MATCHER_SEGMENT_AT, the window lies before it. Blocks may begin before
     * the window, and may end as far behind the segment as the window is long: room for both. */
    MATCHER_SEGMENT_DIGITS = 1024,
    MATCHER_SEGMENT_AT = 1024 + 2 * MATCHER_BLOCK_DIGITS_MAX,
    MATCHER_POSITIONS = MATCHER_SEGMENT_AT + MATCHER_SEGMENT_DIGITS + 1024 + MATCHER_BLOCK_DIGITS_MAX,
    MATCHER_ROW_WORDS = MATCHER_POSITIONS / MATCHER_STEPS,
};

/* A digit d is stored as d in the lower and d * 2^11 in the upper 16 bits: two factors for one multiply-add. */
#define MATCHER_DIGIT_WORD(d) ((uint32_t)(d) * (1u + (1u << 27)))

struct matcher_planes {
    _Alignas(64) uint32_t row[MATCHER_STEPS][MATCHER_ROW_WORDS];
};

/* Fractions modulo 2^27 for looking ahead, tested by `mask`: nothing but zeros under it means hot. */
struct matcher_look {
    const uint32_t *weights;        /* split into 16-bit factors; blocks[][MATCHER_STEPS][lanes] */
    uint32_t block_count;
    uint32_t mask;
};

/* Fractions modulo 2^64 for deciding. Hit: at most `tolerance` away from 0, either side. */
struct matcher_decide {
    const uint64_t *weights;        /* divided by the digit word of 1, modulo 2^64; blocks[][MATCHER_STEPS][lanes / 2] */
    uint32_t block_count;
    uint64_t tolerance;
};

/* Hash keys: which cell a prefix value falls in. */
struct matcher_keys {
    uint32_t shift;                 /* key >> shift is the cell */
    uint32_t tolerance;             /* equal residues have keys at most this far apart */
    uint32_t last_digits;           /* bit d: an answer may end in the digit d */
};

/* In place of its own cell a probe may use one that never or one that always says yes, an insertion one that nobody
 * reads. */
enum { MATCHER_CELL_WASTE = -3, MATCHER_CELL_NEVER = -2, MATCHER_CELL_ALWAYS = -1 };

struct matcher_kernel {
    uint32_t lanes;                 /* 32-bit lanes: a block is 16 times as many digits, for 64-bit fractions 8 times */

    /* Whether any start before `end` is hot: the sum of digit times weight from the start to `end`, plus `offset`. */
    bool (*look)(const struct matcher_planes *planes, uint32_t end, const struct matcher_look *look, uint32_t offset);
    /* The same, and writes which: bit p % 64 of starts[p / 64]. */
    void (*look_which)(const struct matcher_planes *planes, uint32_t end, const struct matcher_look *look,
                       uint32_t offset, uint64_t starts[MATCHER_POSITIONS / 64]);

    /* The lengths whose digits before `end` make a hit: bit L % 64 of lengths[L / 64]. */
    void (*match)(const struct matcher_planes *planes, uint32_t end, const struct matcher_decide *decide,
                  uint64_t *lengths);
    /* The lengths whose digits from `start` on make a hit. */
    void (*follow)(const struct matcher_planes *planes, uint32_t start, const struct matcher_decide *decide,
                   uint64_t *lengths);

    /* Hashes the prefixes that end after each digit of one block from `begin` (a multiple of 16) on. `carry` is the
     * key before the block, and becomes the key behind it. insert: cells[key] = 1. probe: the same for the first
     * `count` digits, rounded up to 16, but beforehand looks whether the cell was taken: bit p % 16 of hits[p / 16]. */
    void (*insert)(const struct matcher_planes *planes, uint32_t begin, const uint32_t *weights,
                   const struct matcher_keys *keys, uint32_t *carry, uint8_t *cells);
    void (*probe)(const struct matcher_planes *planes, uint32_t begin, uint32_t count, const uint32_t *weights,
                  const struct matcher_keys *keys, uint32_t *carry, uint8_t *cells, uint16_t *hits);

    /* Writes digits, '0'..'9' (asserted), into the planes from `begin` (a multiple of 16) on, and zeros behind them up
     * to the next multiple of 16. */
    void (*write)(struct matcher_planes *planes, uint32_t begin, const uint8_t *digits, size_t count);
};

extern const struct matcher_kernel matcher_kernel_scalar, matcher_kernel_avx2, matcher_kernel_avx512;
