/* The statistics: every counter group, histogram and fact that was registered, as text of `name value` lines. One
 * text serves the control channel, the last log lines and the status page. Knows no clock.
 *
 * Names are lower-case paths with dots, values are decimal integers or words without a line break. Times have their
 * unit in the name's last part. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/histogram.h"
#include "kernel/base/counters.h"

enum {
    STATS_GROUP_COUNT_MAX = 48,
    STATS_HISTOGRAM_COUNT_MAX = 16,
    STATS_FACT_COUNT_MAX = 32,
    STATS_LINE_BYTES_MAX = 160,
    STATS_TEXT_BYTES_MAX = 32 * 1024,   /* 500 lines of 64 bytes */
};

/* Forgets everything that was registered. */
void stats_clear(void);

/* Registers; names and values are borrowed for ever. A fact's text is a word or a few, set once ("build 1a2b3c") or
 * changed in place by its owner. */
void stats_add_counters(const struct counter_group *group);
void stats_add_histogram(const char *name, const struct histogram *histogram);
void stats_add_fact(const char *name, const char *text);

/* Also takes the groups of transport_counter_group. */
void stats_add_transport(void);

/* What was registered, one by one from 0; false past the last. For other renderings than lines (app/metrics.h). Values
 * of groups named pool., breaker., watchdog., loop. and clock. may go down; all others only count up. */
bool stats_counter(size_t index, struct counter *counter);
bool stats_histogram(size_t index, const char **name, const struct histogram **histogram);
bool stats_fact(size_t index, const char **name, const char **text);

/* Line `index` from 0, ended by '\n' and NUL; its bytes without the NUL, 0 past the last line. */
size_t stats_line(size_t index, char *out, size_t out_bytes);

/* As many whole lines as fit, ended by a NUL; returns the bytes without it. */
size_t stats_render(char *out, size_t out_bytes);
