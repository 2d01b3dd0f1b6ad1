/* Several copies of one digit stream made into one: whichever connection delivers a digit first supplies it.
 *
 * The digits of an input are a part of the same stream that may begin anywhere, so its own digits tell its place. The
 * first STREAM_MERGER_ANCHOR_DIGITS of them and all that came since must fit the recent stream at exactly one place.
 * Until then nothing is taken from it. From then on digits that others brought before are compared, the rest is new. An
 * input that disagrees has to find its place again. The stream has a gap only when no placed input is left. With one
 * input there is nothing to place and nothing is copied. Static memory; knows no connection. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/counters.h"

enum {
    STREAM_MERGER_INPUT_COUNT_MAX = 8,
    STREAM_MERGER_ANCHOR_DIGITS = 64,         /* random digits agree by chance once in 10^64 places */
    STREAM_MERGER_HISTORY_DIGITS = 16 * 1024, /* 50 bursts of 300, 10 s: an older input is useless */
    STREAM_MERGER_JOIN_DIGITS = 2048,         /* kept of an input without a place: its newest */
};

struct stream_news {
    struct bytes digits; /* in the pushed bytes, or the input's until the next push */
    bool gap;            /* the stream was interrupted before these */
};

void stream_merger_init(uint32_t input_count);

/* Takes the next digits of an input; returns those that are new to the stream. */
struct stream_news stream_merger_push(uint32_t input, const uint8_t *digits, size_t count);

/* Notes that the input's connection is gone: its next digits begin anywhere. */
void stream_merger_disconnect(uint32_t input);

/* Asserts the invariant of all inputs. */
void stream_merger_check(void);

/* Digits: `repeated` came by a second input, `unplaced` by an input that found no place in time. Times: `placed`, an
 * input found its place; `ambiguous`, a search found several places, or too many that look like one; `disagreed`, an
 * input's digits differed from the stream's. */
#define STREAM_MERGER_COUNTERS(X)                                                                                      \
    X(COUNT, repeated), X(COUNT, unplaced), X(COUNT, placed), X(COUNT, ambiguous), X(COUNT, disagreed), X(COUNT, gaps)
extern struct stream_merger_counters {
    uint64_t STREAM_MERGER_COUNTERS(COUNTER_MEMBER);
} stream_merger_counters;
extern const struct counter_group stream_merger_digits_group, stream_merger_counter_group;
