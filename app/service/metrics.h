/* The statistics as Prometheus text (exposition format 0.0.4), a few lines at a time, so that a page can be written
 * between two polls of the ring. docs/status.md lists the names. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "app/service/stats.h"
#include "base/histogram.h"

enum { METRICS_TEXT_BYTES_MAX = 384 }; /* in one step: a metric's two comment lines and its sample */

struct metrics_cursor {
    const struct stats_copy *from; /* the values; NULL: those of now */
    unsigned part;
    size_t item, line;
    struct histogram histogram; /* as it stood when its first line was written */
};

/* Writes the next text: whole lines and a NUL. `*bytes` may be 0, because one step looks at a bounded number of
 * counters. A cursor of zeros except `from` stands at the beginning. False at the end, with nothing written. */
bool metrics_next(struct metrics_cursor *cursor, char out[METRICS_TEXT_BYTES_MAX], size_t *bytes);
