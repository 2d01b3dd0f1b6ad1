/* A histogram of 1 ns to 2^40 ns (18 minutes) in static memory. Buckets are log-linear, 16 to each power of two, so a
 * quantile is at most 1/16 too high. Knows no clock. */
#pragma once

#include <stdint.h>

enum {
    HISTOGRAM_SUB_BITS = 4,
    HISTOGRAM_SUB_COUNT = 1 << HISTOGRAM_SUB_BITS,
    HISTOGRAM_VALUE_BITS = 40, /* larger values count in the last bucket; max stays exact */
    HISTOGRAM_BUCKET_COUNT = (HISTOGRAM_VALUE_BITS - HISTOGRAM_SUB_BITS + 1) * HISTOGRAM_SUB_COUNT,
};

struct histogram {
    uint64_t count, sum, max;
    uint32_t buckets[HISTOGRAM_BUCKET_COUNT];
};

/* Empties a histogram, which is empty as well when it is zeroed. */
void histogram_clear(struct histogram *histogram);
/* Adds a value. */
void histogram_add(struct histogram *histogram, uint64_t value_ns);

/* Returns the smallest bucket bound that at least `share` of 10,000 values do not exceed, and never more than the
 * largest value; 0 when empty. */
uint64_t histogram_quantile(const struct histogram *histogram, uint32_t share);

/* Returns the bucket of a value. */
uint32_t histogram_bucket_of(uint64_t value_ns);
/* Returns the largest value of a bucket. */
uint64_t histogram_bucket_last(uint32_t bucket);
