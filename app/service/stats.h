/* The statistics: every counter group, histogram and fact that was registered, as text of `name value` lines. One
 * text serves the control channel, the last log lines and the status page. Knows no clock.
 *
 * All of it belongs to one CPU, except a copy of the values, which another CPU may take (under a seqlock) and render.
 *
 * Names are lower-case paths with dots, values are decimal integers or words without a line break. Times have their
 * unit in the name's last part. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/histogram.h"
#include "base/slowest.h"

enum {
    STATS_GROUP_COUNT_MAX = 64,
    STATS_HISTOGRAM_COUNT_MAX = 20,
    STATS_FACT_COUNT_MAX = 32,
    STATS_COUNTER_COUNT_MAX = 640, /* in all groups: a kernel that trades 16 symbols has 531 */
    STATS_LINE_BYTES_MAX = 160,
    STATS_TEXT_BYTES_MAX = 32 * 1024, /* 500 lines of 64 bytes */
};

/* All values as they stood at one moment. */
struct stats_copy {
    uint64_t words[STATS_COUNTER_COUNT_MAX + STATS_HISTOGRAM_COUNT_MAX * sizeof(struct histogram) / sizeof(uint64_t)];
    struct slow_way ways[SLOWEST_COUNT];
    size_t way_count;
};

/* Forgets everything that was registered. */
void stats_clear(void);

/* Adds to the statistics; names and values must stay valid. A fact's text is a word or a few ("build 1a2b3c"). */
void stats_add_counters(const struct counter_group *group);
void stats_add_histogram(const char *name, const struct histogram *histogram);
void stats_add_fact(const char *name, const char *text);

/* Shows the slowest ways (base/slowest.h) in the last lines. `stages` names their stages, a word each; a literal. */
void stats_set_ways(const char *stages);

/* Lets the program write metrics that are made of several counters. `write` writes text `index`, from 0: a few metrics
 * with their comments, in METRICS_TEXT_BYTES_MAX (app/service/metrics.h). It returns the bytes, 0 past the last. */
typedef size_t stats_metrics_writer(const struct stats_copy *from, size_t index, char *out);
void stats_set_metrics(stats_metrics_writer *write);

/* Returns the value of the counter with this path, in the copy, or if that is NULL now; NULL: there is none. */
const uint64_t *stats_find(const struct stats_copy *copy, const char *path);

/* ---- for the platform ---- */

/* Asserts that each counter stands once: no two have the same path, or the same value. Slow: on Linux alone. */
void stats_check(void);

/* Adds the groups of transport_counter_group. */
void stats_add_transport(void);

/* Publishes the values as they are now, for whoever copies them next. Some 2000 words. */
void stats_publish(void);

/* Copies what was published last; on any CPU, after all was registered. False: it met stats_publish, try again. */
bool stats_copy_read(struct stats_copy *copy);

/* Returns what was registered, one by one from 0; false past the last. For other renderings than lines
 * (app/service/metrics.h). Values are those of the copy, or if it is NULL those of now. A counter comes as a group of
 * one. A histogram is copied unless `histogram` is NULL. */
bool stats_counter(const struct stats_copy *copy, size_t index, struct counter_group *counter);
const struct counter_metric *stats_metric(size_t index); /* NULL past the last */
stats_metrics_writer *stats_metrics(void);               /* NULL: none was set */
bool stats_histogram(const struct stats_copy *copy, size_t index, const char **name, struct histogram *histogram);
bool stats_fact(size_t index, const char **name, const char **text);

/* Writes line `index`, from 0, ended by '\n' and NUL: of the values of now, or of those of a copy. Returns the bytes
 * without the NUL; 0 past the last line. */
size_t stats_line(size_t index, char *out, size_t out_bytes);
size_t stats_copy_line(const struct stats_copy *copy, size_t index, char *out, size_t out_bytes);

/* Writes as many whole lines as fit, ended by a NUL; returns the bytes without it. */
size_t stats_render(char *out, size_t out_bytes);
