/* Several copies of one digit stream made into one: whichever connection delivers a digit first supplies it.
 *
 * Each feed's digits are a stretch of the same stream, but it may have begun anywhere, so a feed's place is found by
 * its own digits: the first WEAVE_NEEDLE_DIGITS of them must occur in the recent stream exactly once, and all it has
 * brought must agree. Until then nothing is taken from it. From then on what others brought before is compared, the
 * rest is news. A feed that disagrees has to find its place again. The stream has a gap only when no placed feed is
 * left. With one feed there is nothing to place and nothing is copied. Static memory; knows no connection. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/base/counters.h"

enum {
    WEAVE_FEED_COUNT_MAX = 8,
    WEAVE_NEEDLE_DIGITS = 64,           /* random digits agree by chance once in 10^64 places */
    WEAVE_HISTORY_DIGITS = 16 * 1024,   /* 50 bursts of 300, 10 s: a feed that lags more is of no use */
    WEAVE_JOIN_DIGITS = 2048,           /* kept of a feed without a place: its newest */
};

struct weave_news {
    const uint8_t *digits;              /* in the bytes pushed, or in the feed's own buffer until the next push */
    size_t count;
    bool gap;                           /* the stream was interrupted before these */
};

void weave_init(uint32_t feed_count);

/* The next digits of a feed; those of them that are new to the stream. */
struct weave_news weave_push(uint32_t feed, const uint8_t *digits, size_t count);

/* The feed's connection is gone: its next digits begin anywhere. */
void weave_lost(uint32_t feed);

struct weave_counters {
    uint64_t repeated;                  /* brought by a second feed */
    uint64_t unplaced;                  /* brought by a feed without a place */
    uint64_t placed;                    /* times a feed found its place */
    uint64_t ambiguous;                 /* looks that found several places */
    uint64_t disagreed;                 /* times a feed's digits were other ones than the stream's */
    uint64_t gaps;
};
extern struct weave_counters weave_counters;
extern const struct counter_group weave_counter_group;
