/* Counts values in log-linear buckets, and finds quantiles. Knows no unit. */
#include "base/histogram.h"

#include <string.h>

#include "base/assert.h"

/* Chooses the bucket by the position e of the highest bit and the four bits below it: rows of 16. Values below 16
 * have a bucket each; the row of e = 4 follows them without a gap. */
uint32_t histogram_bucket_of(uint64_t value_ns)
{
    if (value_ns < HISTOGRAM_SUB_COUNT)
        return (uint32_t)value_ns;
    if (value_ns >> HISTOGRAM_VALUE_BITS)
        return HISTOGRAM_BUCKET_COUNT - 1;
    uint32_t shift = 63 - HISTOGRAM_SUB_BITS - (uint32_t)__builtin_clzll(value_ns);
    return (shift << HISTOGRAM_SUB_BITS) + (uint32_t)(value_ns >> shift);
}

uint64_t histogram_bucket_last(uint32_t bucket)
{
    ASSERT(bucket < HISTOGRAM_BUCKET_COUNT);
    if (bucket < 2 * HISTOGRAM_SUB_COUNT)
        return bucket;
    uint32_t shift = (bucket >> HISTOGRAM_SUB_BITS) - 1;
    uint64_t mantissa = bucket - ((uint64_t)shift << HISTOGRAM_SUB_BITS);
    return ((mantissa + 1) << shift) - 1;
}

void histogram_clear(struct histogram *histogram) { memset(histogram, 0, sizeof *histogram); }

void histogram_add(struct histogram *histogram, uint64_t value_ns)
{
    histogram->count++;
    histogram->sum += value_ns;
    if (value_ns > histogram->max)
        histogram->max = value_ns;
    histogram->buckets[histogram_bucket_of(value_ns)]++;
}

uint64_t histogram_quantile(const struct histogram *histogram, uint32_t share)
{
    ASSERT(share <= 10000);
    if (histogram->count == 0)
        return 0;
    uint64_t wanted = (histogram->count * share + 9999) / 10000;
    uint64_t seen = 0;
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKET_COUNT - 1; bucket++) {
        seen += histogram->buckets[bucket];
        if (seen >= wanted && seen > 0) {
            uint64_t last = histogram_bucket_last(bucket);
            return last < histogram->max ? last : histogram->max;
        }
    }
    return histogram->max;
}
