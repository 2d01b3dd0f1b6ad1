/* The vector work of the matcher: sums of digits times weights, for every start at once. app/matcher.c says why.
 *
 * A kernel is one variant (general registers, AVX2, AVX-512); all compute the same sums, bit for bit, in blocks of different
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

    MATCHER_WRITE_DIGITS = 8 * MATCHER_STEPS,   /* at most so many are written at once */

    /* Positions: the segment at work begins at MATCHER_SEGMENT_AT, the window lies before it. Blocks may begin before
     * the window, and may end as far behind the segment as the window is long: room for both. */
    MATCHER_SEGMENT_DIGITS = 1024,
    MATCHER_SEGMENT_AT = 1024 + 2 * MATCHER_BLOCK_DIGITS_MAX,
    MATCHER_POSITIONS = MATCHER_SEGMENT_AT + MATCHER_SEGMENT_DIGITS + 1024 + MATCHER_BLOCK_DIGITS_MAX,
    MATCHER_ROW_WORDS = MATCHER_POSITIONS / MATCHER_STEPS + 4,  /* 4: so that rows do not fall on one another's cache sets */
};

/* A digit d is stored as d in the lower and d * 2^11 in the upper 16 bits: two factors for one multiply-add. */
#define MATCHER_DIGIT_WORD(d) ((uint32_t)(d) * (1u + (1u << 27)))

/* Position p is row[p % 16][p / 16], and once more row[16 + p % 16][p / 16 - 1]: so a block that begins anywhere finds
 * its sixteen steps in sixteen rows, one behind the other. */
struct matcher_planes {
    _Alignas(64) uint32_t row[2 * MATCHER_STEPS][MATCHER_ROW_WORDS];
};

/* Fractions modulo 2^27 for looking ahead, tested by `mask`: nothing but zeros under it means hot. */
struct matcher_look {
    const uint32_t *weights;        /* if the kernel says so, as 16-bit factors; blocks[][MATCHER_STEPS][lanes] */
    uint32_t block_count;
    uint32_t mask;
};

/* Fractions modulo 2^64 for deciding. Hit: at most `tolerance` away from 0, either side. */
struct matcher_decide {
    const uint64_t *weights;        /* divided by the digit word of 1, modulo 2^64; blocks[][MATCHER_STEPS][lanes / 2] */
    uint32_t block_count;
    uint64_t tolerance;
};

/* Hash keys: which cell a prefix value falls in. 2^14 cells of a byte: half of a first-level cache. */
enum { MATCHER_CELL_SHIFT = 18, MATCHER_CELLS = 1 << (32 - MATCHER_CELL_SHIFT) };

struct matcher_keys {
    uint32_t tolerance;             /* equal residues have keys at most this far apart */
    uint32_t edge_mask;             /* key + tolerance with nothing but zeros under it: near an edge of its cell */
    bool even, five;                /* an answer ends in 0, 2, 4, 6, 8; in 0, 5 */
};

struct matcher_kernel {
    uint32_t lanes;                 /* 32-bit lanes: a block is 16 times as many digits, for 64-bit fractions 8 times */
    bool halves;                    /* look multiplies and adds 16-bit factors */

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
     * key before the block, and becomes the key behind it. insert: taken[cell] = 1 for all. probe: for the first
     * `count` digits, rounded up to 16 (`digits` are the same as text), looks beforehand whether the cell was taken:
     * bit p % 64 of hits[p / 64], where an answer may end. `hit_before`: whether the digit before the block was a hit,
     * whatever it was; returns the same of the block's last one. */
    void (*insert)(const struct matcher_planes *planes, uint32_t begin, const uint32_t *weights,
                   const struct matcher_keys *keys, uint32_t *carry, uint8_t *taken);
    bool (*probe)(const struct matcher_planes *planes, uint32_t begin, const uint8_t *digits, uint32_t count,
                  const uint32_t *weights, const struct matcher_keys *keys, uint32_t *carry, bool hit_before,
                  uint8_t *taken, uint64_t *hits);

    /* Writes digits, '0'..'9' (asserted), into the planes from `begin` (a multiple of 16) on. `count` is rounded up to
     * MATCHER_WRITE_DIGITS. */
    void (*write)(struct matcher_planes *planes, uint32_t begin, const uint8_t *digits, size_t count);
};

extern const struct matcher_kernel matcher_kernel_scalar, matcher_kernel_avx2, matcher_kernel_avx512;
