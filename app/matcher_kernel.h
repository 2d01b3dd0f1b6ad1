/* The arithmetic of the matcher: sums of digits times weights. app/matcher.c says why.
 *
 * A kernel is one variant. AVX2 and AVX-512 work on vectors (app/matcher_lanes.h): on the path digits are words in a
 * row; in idle time they also lie in planes, position p in row p % 16, so that one load takes every sixteenth digit,
 * and each lane of a vector works on sixteen digits in a row. The scalar one knows general registers only
 * (app/matcher_scalar.c). */
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
    uint32_t word[MATCHER_POSITIONS];       /* of weights, for the scalar variant */
};

/* The digits by position, as the kernels want them. */
struct matcher_digits {
    _Alignas(64) uint32_t word[MATCHER_POSITIONS];
    _Alignas(64) uint32_t pair[MATCHER_POSITIONS];      /* for kernels with row_digits = 2: at even positions, the
                                                           digit and the next one as one number of two digits */
    union matcher_planes planes;
};

/* A long burst: a comb is a vector of looks of one constant that are `pitch` digits from one another, so that each of
 * their starts, at the same distance from its look, has the same weight. The digits of such starts are a row: row p is
 * the digit at p, counted from where the combs begin, and those at p + pitch, p + 2 pitch, ... The combs of a
 * constant are gone through together, up to four, N digits each, backwards. Not for the scalar variant. */
enum {
    MATCHER_COMB_DIGITS_MIN = 481,  /* for fewer, combs are too often less than full */
    MATCHER_COMB_N_MAX = 256,       /* up to there combs are cheaper than slots for a long burst's first stretch, too */
    MATCHER_COMB_VECTORS = 4,
    MATCHER_COMB_YOUNG = 4,         /* a start with no more digits has no answer within K */
    MATCHER_COMB_BLOCK = 32,        /* digits of which it is noted whether a start is hot */
    MATCHER_COMB_LAST = MATCHER_WINDOW_DIGITS + MATCHER_COMB_BLOCK - 1,
    MATCHER_COMB_BLOCKS_MAX = MATCHER_WINDOW_DIGITS / MATCHER_COMB_BLOCK,
    MATCHER_COMB_WORDS = MATCHER_WINDOW_DIGITS * MATCHER_LANES_MAX +
                         MATCHER_SEGMENT_DIGITS + MATCHER_COMB_BLOCK * MATCHER_LANES_MAX,
};

/* Looking ahead from one position. Fractions are modulo 2^look_bits; a start is hot if the sum of digits times weights
 * from it on, plus the offset, is at most `limit`. */
struct matcher_look {
    uint32_t digits;                /* K */
    uint32_t limit;
    uint32_t offset;                /* turns "just below 1, or 0" into "at most the limit" */
    uint32_t young_digits;          /* a start with no more digits has no answer within K */
    uint32_t block_count;           /* of the window */
    uint32_t comb[MATCHER_COMB_LAST + 1];   /* of digits by their distance from the look, the last one's at the end; 0
                                               for more than N */
    union matcher_planes weights;   /* of the digit at a position, for the look from the segment's beginning; for one
                                       from e digits on, they stand e positions before. 0 for more than N digits */
};

/* All looks of a stretch of the burst (kernel->stretch), of all constants, by their position: each is a lane of a vector.
 * The digits before them are gone through backwards, in groups of eight; group g are the digits 8 g - 4 to 8 g + 3 of
 * the stretch. (4, so that the stretch's last digit ends a group's first half, see matcher_sweep_prepare.) */
enum {
    MATCHER_GROUP = 8,
    MATCHER_GROUP_BEFORE = 4,
    MATCHER_STRETCH_DIGITS = MATCHER_BLOCK_DIGITS_MAX,
    MATCHER_STRETCH_DIGITS_MAX = 2 * MATCHER_STRETCH_DIGITS,    /* the scalar variant's: fewer looks at its end */
    MATCHER_STRETCH_GROUPS = MATCHER_STRETCH_DIGITS_MAX / MATCHER_GROUP + 1,
    MATCHER_SHORT_DIGITS = 136,     /* of a short burst: struct matcher_constant, hash_long */
    MATCHER_LOOK_DIGITS_MIN = MATCHER_GROUP,
    MATCHER_LOOKS_MAX = 8 * (MATCHER_STRETCH_DIGITS / MATCHER_LOOK_DIGITS_MIN + 1) + 8,     /* of 8 constants */
    MATCHER_SWEEP_LANES_MIN = 2,    /* the scalar variant's */
    MATCHER_SWEEPS_MAX = MATCHER_LOOKS_MAX / MATCHER_SWEEP_LANES_MIN,
    MATCHER_SWEEP_GROUPS_MAX = MATCHER_STRETCH_GROUPS + MATCHER_WINDOW_DIGITS / MATCHER_GROUP + 1,
    MATCHER_GROUP_ROWS = MATCHER_GROUP + 1,     /* at most: where two digits share a weight, 5 */
    MATCHER_SLOT_CELL_BITS = 14,
    /* Vectors: if N is greater than MATCHER_CELLS_N, the looks of short bursts have cells as well as slots. */
    MATCHER_CELLS_N = 256,
    MATCHER_CELLS_LOOKS_MAX = 64,
    MATCHER_CELLS_BITS = 15,
    MATCHER_BUNDLE = 3,             /* vectors that are worked on together */
    /* A vector has groups for N digits and for those between the first look of its bundle and its own last one. */
    MATCHER_SWEEP_WORDS = (MATCHER_LOOKS_MAX * (MATCHER_WINDOW_DIGITS / MATCHER_GROUP + 3) +
                           MATCHER_BUNDLE * MATCHER_STRETCH_GROUPS * MATCHER_LANES_MAX) * MATCHER_GROUP_ROWS,
};

struct matcher_sweep_look {
    uint16_t end;                   /* when so many digits of the stretch are known */
    uint16_t next;                  /* where the constant's next look is */
    uint16_t constant;
};

/* One vector of looks. */
struct matcher_sweep_vector {
    uint32_t start[MATCHER_LANES_MAX];      /* the sum before the first digit */
    uint32_t limit[MATCHER_LANES_MAX];
    int32_t top, bottom;            /* its groups: from top down to bottom, that of its first look's oldest start */
    const uint32_t *group0;         /* Of each group what is added before it, then rows of weights, the first digits'
                                       first. Group 0 is here, the later ones are before it. */
};

/* What a look's old starts come to, as far as it is known before the burst: in 32 bits, the upper ones of a fraction of
 * fewer bits. */
struct matcher_cells {
    _Alignas(64) uint64_t taken[(1 << MATCHER_CELLS_BITS) / 64 + 1];    /* bit c: the upper bits of one are c; the first
                                                                           word once more behind the last */
    _Alignas(64) uint32_t sums[MATCHER_WINDOW_DIGITS];                  /* block after block, row after row */
};

struct matcher_sweep {
    uint32_t look_count;
    uint16_t needed[MATCHER_STRETCH_DIGITS_MAX + 2];    /* looks that a stretch with so many digits left needs */
    uint16_t first[8];              /* the end of each constant's first look */
    struct matcher_sweep_look look[MATCHER_LOOKS_MAX];
    struct matcher_sweep_vector vector[MATCHER_SWEEPS_MAX];
    /* Starts before group 0. What they come to, as far as it is known before the burst: the upper 16 bits of their
     * fractions, two a word, look after look. */
    uint32_t slot_words;            /* of one look */
    uint32_t slot_limit;            /* the upper 16 bits of the largest limit, and 1; twice */
    uint8_t old_blocks[MATCHER_LOOKS_MAX];      /* of old starts that a look reaches */
    uint32_t cells_count, cells_filled;         /* so many looks can have cells in `old`; have them by now */
    union {
        struct {
            _Alignas(64) uint32_t slots[MATCHER_LOOKS_MAX * MATCHER_WINDOW_DIGITS / 2];
            struct matcher_cells old[MATCHER_CELLS_LOOKS_MAX];
        };
        /* The scalar variant: bit k % 8 of cells[k / 8][c] says that look k has one in cell c. */
        _Alignas(64) uint8_t cells[MATCHER_LOOKS_MAX / 8][1 << MATCHER_SLOT_CELL_BITS];
    };
};

/* The bundle at work: what its hot starts are found by. */
struct matcher_sweep_state {
    uint32_t needed;                /* looks that are to be taken; set before the sweep, and so is ... */
    uint32_t next;                  /* ... 0: looks that have been taken */
    bool slots_due;                 /* ... of the bundle at work; false before the sweep */
    uint32_t first, vectors;        /* its first look */
    uint64_t young, old;            /* looks that have hot starts in groups, in slots; the first one is bit 0 */
    int32_t top, bottom;            /* the groups it went through */
    uint32_t noted;                 /* hot starts, which the scalar variant has one by one in `marks` */
    /* What is added to old starts: the looks' sums of what is behind them, for slots 16 bits of them, twice. */
    _Alignas(64) uint32_t sums[MATCHER_BUNDLE * MATCHER_LANES_MAX];
    _Alignas(64) uint32_t moves[MATCHER_BUNDLE * MATCHER_LANES_MAX];
    /* Of each group from the top: each vector's sums before it, and what it has of hot starts. */
    _Alignas(64) uint32_t marks[MATCHER_SWEEP_GROUPS_MAX * MATCHER_BUNDLE * 2 * MATCHER_LANES_MAX];
};

struct matcher_comb {
    uint32_t order_count, order[8]; /* of constants */
    uint32_t from, pitch;           /* where the combs begin: digits of the segment before them */
    uint32_t blocks;                /* of N digits */
    const uint32_t *row0;
    const uint8_t *text;            /* its digits where the combs begin */
    _Alignas(64) uint32_t row[MATCHER_COMB_WORDS];
};

/* The combs at work: what their hot starts are found by. */
struct matcher_comb_state {
    uint32_t at, next;              /* the next ones: where in `order`, the end of the first lane's look */
    uint32_t constant;              /* the one at work, and its look */
    const struct matcher_look *look;
    uint32_t count, end[MATCHER_COMB_VECTORS];      /* of each comb the end of the first lane's look */
    uint64_t hot;                   /* looks that have hot starts: as many bits for each vector as it has lanes */
    /* Of each block each vector's sums before it, and what it has of hot starts. */
    _Alignas(64) uint32_t marks[MATCHER_COMB_BLOCKS_MAX * MATCHER_COMB_VECTORS * 2 * MATCHER_LANES_MAX];
};

/* The prefix values of one constant, from the window's first digit on, and where in the window they occur. Two forms,
 * one for vectors, one for general registers. */
enum {
    MATCHER_HASHED_DIGITS = MATCHER_WINDOW_DIGITS + MATCHER_SEGMENT_DIGITS,
    MATCHER_CELL_BITS = 14,
    MATCHER_NO_DIGIT = UINT16_MAX,  /* a partner: before the first digit */
    MATCHER_KEY_BITS = 30,          /* a key is a fraction in so many bits: its cell is the upper half word */
    MATCHER_PLACE_BITS = 16,        /* of a place, below a scalar key */
};

struct matcher_hash {
    uint32_t base;                  /* the window's first position; `at` below counts from it */
    uint32_t reach;                 /* equal residues have keys at most this far apart: in units of 2^-32 for vectors,
                                       of 2^-64 for general registers, where the later one is the greater */
    uint64_t carry;                 /* the key so far */
    union {
        struct {
            _Alignas(64) uint32_t weights[MATCHER_HASHED_DIGITS], keys[MATCHER_HASHED_DIGITS];
            uint32_t edge_mask;     /* key + reach with nothing but zeros under it: near an edge of its cell */
            uint8_t taken[(1 << MATCHER_CELL_BITS) + MATCHER_STEPS];    /* the last ones for zeros */
        } lanes;
        struct {
            /* Keys and weights have 48 bits, weights rounded up; below a key stands the place before in the same cell.
             * Places count on from window to window, so that cells need not be cleared each time: what is there from
             * before `first` counts as none. */
            uint64_t weights[MATCHER_HASHED_DIGITS], keys[MATCHER_HASHED_DIGITS];
            uint32_t first, next;       /* places: of the window's first digit; of the next digit to come */
            uint32_t window;            /* digits */
            uint16_t last[1 << MATCHER_CELL_BITS];      /* the newest place in a cell */
        } plain;
    };
};

struct matcher_kernel {
    uint32_t lanes;                 /* 32-bit lanes */
    uint32_t sweep_lanes;           /* of its sweep's vectors: the scalar one has two in a word */
    uint32_t stretch;               /* digits that are searched at once */
    uint32_t look_digits_min;       /* constants with a smaller K are hashed */
    uint32_t looks_max;             /* those that take more looks for N digits are hashed in long bursts; 0: none */
    uint32_t block;                 /* digits: 16 times as many */
    uint32_t look_bits;
    uint32_t row_digits;            /* of a sweep's row of weights: the last one's weight is that of both */
    bool digit_words;

    /* Writes digits, '0'..'9' (asserted), from position `begin` (a multiple of 16) on, as the path wants them. `count`
     * is rounded up to MATCHER_WRITE_DIGITS at most. Where two digits share a weight, words are written only if they
     * are to be hashed. */
    void (*write)(struct matcher_digits *to, uint32_t begin, const uint8_t *digits, size_t count, bool hashed);
    /* The same for idle time, where that is not the same: else NULL. */
    void (*write_planes)(union matcher_planes *planes, uint32_t begin, const uint8_t *digits, size_t count);
    uint64_t (*zeros)(const uint8_t digits[64]);        /* which of these digits are '0' */

    /* The sum of digits times weights, 64 bits wide: the weights of these digits one after the other. */
    uint64_t (*fraction)(const uint8_t *digits, const uint64_t *weights, size_t count);

    /* Adds digits times weights to the fraction until that is within the tolerance of 0. Returns how many digits that
     * took, or 0 if `count` of them do not do it. */
    uint32_t (*follow)(const uint8_t *digits, const uint64_t *weights, uint32_t count, uint64_t tolerance,
                       uint64_t *fraction);

    /* Whether a start in the window is hot by the look from the segment's beginning; adds which: bit p % 64 of
     * starts[p / 64]. */
    bool (*look)(const union matcher_planes *planes, const struct matcher_look *look,
                 uint64_t starts[MATCHER_POSITIONS / 64]);

    /* Not the scalar one. Fills a look's slot from the window; `end` is the look's. */
    void (*remember)(const union matcher_planes *planes, const struct matcher_look *look, uint32_t end, uint32_t blocks,
                     uint32_t *slot);
    /* Not the scalar one. The same for its cells. */
    void (*remember_cells)(const union matcher_planes *planes, const struct matcher_look *look, uint32_t end,
                           uint32_t blocks, struct matcher_cells *cells);
    /* The scalar one, instead: fills the cells of a vector's looks. The vectors in order: the first that has a look in
     * a table of cells clears it. */
    void (*remember_vector)(struct matcher_sweep *sweep, const void *stretch, uint32_t index);
    /* Goes on through the looks of a stretch that has `left` digits or more, bundle by bundle, up to the next one that
     * has a hot start; false if there is none. Old starts are in slots, or else in the groups. A stretch is
     * where its first digit lies: in a row of words; of bytes for the scalar one. */
    bool (*sweep)(const struct matcher_sweep *sweep, const void *stretch, uint32_t left, bool slots,
                  struct matcher_sweep_state *state);
    /* The starts, counted from the beginning of the look's stretch, that are hot by look k of the bundle at work, from
     * `oldest` on; no digits 0. At most `max` of them are told, returns how many there are. */
    uint32_t (*starts)(const struct matcher_sweep *sweep, const void *stretch,
                       const struct matcher_sweep_state *state, uint32_t k, int32_t oldest, int32_t *starts,
                       uint32_t max);

    /* Long bursts; the scalar one has none of these. Writes so many rows, a multiple of 32, of lane 0's digits and
     * those that are one, two, ... pitches behind them. */
    void (*comb_write)(uint32_t *row, const uint8_t *digits, uint32_t pitch, uint32_t count);
    /* Takes the combs of `state`; tells whether one has a hot start. */
    bool (*comb)(const struct matcher_comb *comb, struct matcher_comb_state *state);
    /* The starts, counted from the look, that are hot by look k, from `oldest` on; no digits 0. At most `max` of them
     * are told, returns how many there are. */
    uint32_t (*comb_starts)(const struct matcher_comb *comb, const struct matcher_comb_state *state, uint32_t k,
                            int32_t oldest, int32_t *starts, uint32_t max);

    /* Forgets everything, and inserts the prefixes that end after each of `count` digits, a multiple of
     * MATCHER_BLOCK_DIGITS_MAX. */
    void (*insert)(const struct matcher_digits *digits, struct matcher_hash *hash, uint32_t count);
    /* Inserts those of the digits at..at + count (at a multiple of MATCHER_BLOCK_DIGITS_MAX), and tells which may have
     * occurred before: bit k % 64 of found[k / 64]; for the digit 0 it tells nothing. */
    void (*probe)(const struct matcher_digits *digits, struct matcher_hash *hash, uint32_t at, uint32_t count,
                  uint64_t *found);
    /* Which of 64 digits from `at` on that probe has found may really have occurred before. NULL: not worth asking. */
    uint64_t (*confirm)(const struct matcher_hash *hash, uint32_t at, uint64_t found);
    /* Where the prefix value behind the digit `at`, which is not 0, has occurred before, not before `from`: after the
     * digits partners[], at most `max`; not after those that are 0. Returns how many there are. (The scalar one tells
     * those that are 0, too, and not MATCHER_NO_DIGIT: what begins at the window's first digit has more than N.) */
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
