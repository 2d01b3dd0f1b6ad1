/* The look-ahead filter's tables and the state of a pass. app/matcher/README.md, "Filter". Digits are taken backwards,
 * in groups of eight: group g is the digits 8 g - 4 .. 8 g + 3 of the block. The shift by 4 makes 256, the block's end,
 * a position that probe_may_end allows. */
#pragma once

#include "app/matcher/modulus.h"

enum {
    FILTER_LANES_MAX = 16,
    FILTER_LANES_MIN = 8,
    FILTER_GROUP = 8,
    FILTER_GROUP_BEFORE = 4,
    FILTER_ROWS = FILTER_GROUP / 2, /* rows of weights in a group: two digits share one, as one number */
    FILTER_BLOCK_DIGITS = 256,      /* digits of a burst that are searched at once */
    FILTER_DIGITS_MIN = 8,          /* K of a modulus that is looked ahead for, at least */
    FILTER_BATCH = 3,               /* vectors that a pass takes together: they share each broadcast digit */
    FILTER_SLICE_PROBES = 144,      /* probes that matcher_next takes at once, whole batches: 15 us at N = 1,024 */
    FILTER_PROBES_MAX = MATCHER_MODULUS_COUNT_MAX * (FILTER_BLOCK_DIGITS / FILTER_DIGITS_MIN + 2),
    FILTER_VECTORS_MAX = FILTER_PROBES_MAX / FILTER_LANES_MIN,
    FILTER_GROUPS_MAX = (MATCHER_N_DIGITS_MAX + FILTER_BLOCK_DIGITS) / FILTER_GROUP + 4,
    FILTER_ROW_WORDS = FILTER_VECTORS_MAX * FILTER_GROUPS_MAX * (1 + FILTER_ROWS) * FILTER_LANES_MIN,
    FILTER_CACHE_SUMS = 64 * 256, /* partial sums prepared for a burst at N <= 256, 2 us; 3/4 of that beyond */
};

struct filter_probe {
    uint16_t at;    /* the position: digits of the block before it */
    uint16_t reach; /* the modulus' next probe: this one is for the ends up to there */
    uint16_t modulus;
};

struct filter_vector {
    uint32_t start[FILTER_LANES_MAX]; /* the sum before the first digit */
    uint32_t limit[FILTER_LANES_MAX];
    int32_t top, bottom;    /* its groups: from top down to bottom, that of its oldest start */
    const uint32_t *group0; /* Each group: the words added before it, then rows of weights, the first digit's
                               first. Group 0 is here, the later ones are before it. */
};

struct filter {
    uint32_t n, lanes;
    uint32_t probe_count, vector_count;
    uint32_t filled;                           /* vectors that have their rows */
    bool ready;                                /* all have: probes may be taken */
    uint16_t needed[FILTER_BLOCK_DIGITS + 2];  /* probes that a block with so many digits left needs */
    uint16_t first[MATCHER_MODULUS_COUNT_MAX]; /* the position of each modulus' first probe; 0: it has none */
    struct filter_probe probe[FILTER_PROBES_MAX];
    struct filter_vector vector[FILTER_VECTORS_MAX];

    /* Partial sums: of each start in the window, what it adds to a probe's sum, known before the burst. The upper 16
     * bits of each, two a word, group after group from the newest on. */
    uint32_t cache_words;   /* one probe's share: enough for N digits, in whole vectors */
    uint32_t cache_limit;   /* the upper 16 bits of the largest limit, plus 1, in both halves of the word */
    uint32_t cache_vectors; /* vectors that idle time fills */
    uint32_t cached;        /* vectors that are filled now */
    _Alignas(64) uint32_t cache[FILTER_PROBES_MAX * (MATCHER_N_DIGITS_MAX / 2 + FILTER_LANES_MAX)];
    uint32_t *row_next; /* the rows of the next vector to fill */
    _Alignas(64) uint32_t row[FILTER_ROW_WORDS];
};

/* The starts by which the probes of a batch are hot. */
enum filter_part {
    FILTER_WHOLE,  /* all of them */
    FILTER_BLOCK,  /* the block's, and FILTER_GROUP_BEFORE digits before: the window's turn comes next */
    FILTER_WINDOW, /* the window's further back, by the cache */
};

/* A pass, and the batch at work. */
struct filter_pass {
    uint32_t needed, taken; /* probes to take; probes taken */
    uint32_t first;         /* the batch's first probe */
    uint64_t hits;          /* probes of the batch that may have a candidate; the first one is bit 0 */
    enum filter_part part;
    _Alignas(64) uint32_t moves[FILTER_BATCH * FILTER_LANES_MAX]; /* added to partial sums: 16 bits, twice */
};

/* Begins to make the tables for windows of n digits and vectors of so many lanes. Until they are ready, no block needs
 * a probe. */
void filter_begin(struct filter *filter, uint32_t lanes, const struct matcher_modulus *moduli, uint32_t count,
                  uint32_t n);
/* Makes a further vector's tables. Returns true while there are more. */
bool filter_fill(struct filter *filter, const struct matcher_modulus *moduli);
/* Makes all of them at once. */
void filter_init(struct filter *filter, uint32_t lanes, const struct matcher_modulus *moduli, uint32_t count,
                 uint32_t n);
void filter_check(const struct filter *filter);
