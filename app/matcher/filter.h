/* The look-ahead filter's tables and the state of a pass. filter.c explains the method and draws the tables. */
#pragma once

#include "app/matcher/modulus.h"
#include "base/bytes.h"

enum {
    FILTER_LANES_MAX = 16,
    FILTER_LANES_MIN = 8,

    /* Digits are taken backwards, in groups of eight: group g is the digits 8 g - 4 .. 8 g + 3 of the block. The shift
     * by 4 makes 256, the block's end, a position that probe_may_stand allows. Two digits share a row of weights, as
     * one number. */
    FILTER_GROUP = 8,
    FILTER_GROUP_BEFORE = 4,
    FILTER_ROWS = FILTER_GROUP / 2,

    FILTER_BLOCK_DIGITS = 256, /* digits of a burst that are searched at once */
    FILTER_DIGITS_MIN = 8,     /* K of a modulus that is looked ahead for, at least */
    FILTER_BATCH = 3,          /* vectors that a pass takes together: they share each broadcast digit */
    FILTER_PROBES_MAX = MATCHER_MODULUS_COUNT_MAX * (FILTER_BLOCK_DIGITS / FILTER_DIGITS_MIN + 2),
    FILTER_VECTORS_MAX = FILTER_PROBES_MAX / FILTER_LANES_MIN,
    FILTER_GROUPS_MAX = (MATCHER_N_DIGITS_MAX + FILTER_BLOCK_DIGITS) / FILTER_GROUP + 4,
    FILTER_ROW_WORDS = FILTER_VECTORS_MAX * FILTER_GROUPS_MAX * (1 + FILTER_ROWS) * FILTER_LANES_MIN,

    /* Partial sums that idle time prepares in 2 us, for N <= 256. Three quarters of that beyond. */
    FILTER_CACHE_SUMS = 64 * 256,
};

/* A probe stands at a position, and decides the ends after that up to its reach, the modulus' next position. */
struct filter_probe {
    uint16_t at; /* digits of the block before the position */
    uint16_t reach;
    uint16_t modulus;
};

/* The tables of as many probes as a vector has lanes. */
struct filter_vector {
    uint32_t start[FILTER_LANES_MAX]; /* the sum before the first digit */
    int32_t top, bottom;              /* the groups from top down to bottom; bottom holds the oldest start */
    /* A group is the words added before its digits are taken, then rows of weights, the first digit's first. Group 0 is
     * here, the later ones are before it. */
    const uint32_t *group0;
};

struct filter {
    uint32_t n, lanes;
    uint32_t probe_count, vector_count;
    uint32_t filled;                           /* vectors that have their rows */
    uint32_t limit;                            /* the largest of the probes' limits: sums up to there are hits */
    uint16_t needed[FILTER_BLOCK_DIGITS + 2];  /* probes that a block needs, by the digits that are left */
    uint16_t first[MATCHER_MODULUS_COUNT_MAX]; /* the position of each modulus' first probe; 0: it has none */
    struct filter_probe probe[FILTER_PROBES_MAX];
    struct filter_vector vector[FILTER_VECTORS_MAX];

    /* Partial sums: the part of a probe's sum, for each start in the window, that is known before the burst. The upper
     * 16 bits of each are kept, two a word, group after group from the newest on. A probe has cache_words of them,
     * enough for N digits, in whole pieces of 8 vectors' width. */
    uint32_t cache_words;
    uint32_t cache_vectors; /* vectors that idle time fills */
    uint32_t cached;        /* vectors that are filled now */
    _Alignas(64) uint32_t cache[FILTER_PROBES_MAX * (MATCHER_N_DIGITS_MAX / 2 + FILTER_LANES_MAX)];
    uint32_t *row_next; /* the rows of the next vector to fill */
    _Alignas(64) uint32_t row[FILTER_ROW_WORDS];
};

/* The part of a batch that has been searched last: its hits are of starts there. search.c draws the parts. After
 * FILTER_BLOCK the window's part of the same batch is still to be searched. */
enum filter_part {
    FILTER_WHOLE,  /* all starts, in a batch without partial sums */
    FILTER_BLOCK,  /* the block's starts, and those at most FILTER_GROUP_BEFORE digits before */
    FILTER_WINDOW, /* the starts further back, by the cache */
};

/* A pass, and the batch at work. */
struct filter_pass {
    uint32_t needed, taken; /* probes; none are needed until all vectors have their tables */
    uint32_t first;         /* the batch's first probe */
    uint64_t hits;          /* bits: probes of the batch that may have a candidate */
    enum filter_part part;
    _Alignas(64) uint32_t moves[FILTER_BATCH * FILTER_LANES_MAX]; /* added to partial sums: 16 bits, twice */
};

/* Begins to make the tables for windows of n digits. */
void filter_begin(struct filter *filter, uint32_t lanes, const struct matcher_modulus *moduli, uint32_t count,
                  uint32_t n);
/* Makes the next vector's tables. */
void filter_fill(struct filter *filter, const struct matcher_modulus *moduli);
/* Returns the group of the last digit that a probe takes. */
static inline int32_t filter_top_group(const struct filter_probe *probe)
{
    return (probe->at + FILTER_GROUP_BEFORE - 1) / FILTER_GROUP;
}
static inline bool filter_ready(const struct filter *filter) { return filter->filled == filter->vector_count; }
void filter_check(const struct filter *filter, const struct matcher_modulus *moduli);
