#include "app/time/filter.h"

#include <stddef.h>

#include "app/time/clock.h"
#include "base/assert.h"
#include "base/time.h"

uint32_t ntp_filter_count(const struct ntp_filter *filter)
{
    return filter->added_count < NTP_FILTER_COUNT ? filter->added_count : NTP_FILTER_COUNT;
}

uint64_t ntp_sample_queued_ns(const struct ntp_sample *sample, uint64_t least_ns)
{
    return sample->delay_ns > least_ns ? (sample->delay_ns - least_ns) / 2 : 0;
}

/* Returns sample `index`, counted from the oldest that is kept. */
static const struct ntp_sample *sample_at(const struct ntp_filter *filter, uint32_t index)
{
    ASSERT(index < ntp_filter_count(filter));
    return &filter->samples[(filter->added_count - ntp_filter_count(filter) + index) % NTP_FILTER_COUNT];
}

void ntp_filter_add(struct ntp_filter *filter, const struct ntp_sample *sample)
{
    uint32_t count = ntp_filter_count(filter);
    ASSERT(count == 0 || sample_at(filter, count - 1)->at_ns <= sample->at_ns);
    filter->samples[filter->added_count++ % NTP_FILTER_COUNT] = *sample;
}

/* Returns the least of samples `from` up to `end`. A sample's bound is half its delay (RFC 5905 §4), and PHI since. */
static const struct ntp_sample *least(const struct ntp_filter *filter, uint32_t from, uint32_t end, uint64_t now_ns)
{
    const struct ntp_sample *found = NULL;
    uint64_t found_ns = UINT64_MAX;
    ASSERT(from < end);
    for (uint32_t i = from; i < end; i++) {
        const struct ntp_sample *sample = sample_at(filter, i);
        ASSERT(sample->at_ns <= now_ns);
        uint64_t bound_ns = sample->delay_ns / 2 + (now_ns - sample->at_ns) / NS_PER_MS * NTP_PHI_PPM;
        if (bound_ns <= found_ns) {
            found = sample;
            found_ns = bound_ns;
        }
    }
    return found;
}

const struct ntp_sample *ntp_filter_best(const struct ntp_filter *filter, uint64_t now_ns)
{
    return least(filter, 0, ntp_filter_count(filter), now_ns);
}

bool ntp_filter_frequency(const struct ntp_filter *filter, uint64_t least_ns, int64_t *frequency, int64_t *error)
{
    uint32_t count = ntp_filter_count(filter);
    if (count < NTP_FILTER_COUNT / 2)
        return false;
    uint64_t now_ns = sample_at(filter, count - 1)->at_ns;
    const struct ntp_sample *older = least(filter, 0, count / 2, now_ns);
    const struct ntp_sample *newer = least(filter, count / 2, count, now_ns);
    int64_t elapsed_ns = (int64_t)(newer->at_ns - older->at_ns);
    int64_t moved_ns = newer->ahead_ns - older->ahead_ns;
    ASSERT(elapsed_ns >= 0);
    if (elapsed_ns == 0 || moved_ns > (int64_t)NS_PER_S || moved_ns < -(int64_t)NS_PER_S)
        return false; /* the server's clock was stepped, or ours stood still */
    int64_t queued_ns = (int64_t)(ntp_sample_queued_ns(older, least_ns) + ntp_sample_queued_ns(newer, least_ns));
    *frequency = moved_ns * (INT64_C(1) << 32) / elapsed_ns;
    *error = (queued_ns < (int64_t)NS_PER_S ? queued_ns : (int64_t)NS_PER_S) * (INT64_C(1) << 32) / elapsed_ns;
    return true;
}

/* Returns the integer part of a square root, by Newton's method from above. */
static uint64_t square_root(uint64_t value)
{
    if (value < 2)
        return value;
    uint64_t root = value / 2, next = (root + value / root) / 2;
    while (next < root) {
        root = next;
        next = (root + value / root) / 2;
    }
    ASSERT(root <= value / root);
    return root;
}

uint64_t ntp_filter_jitter_ns(const struct ntp_filter *filter, const struct ntp_sample *best, int64_t frequency)
{
    const int64_t far_ns = (int64_t)NS_PER_S; /* the square, times the samples, fits 64 bits */
    uint32_t count = ntp_filter_count(filter);
    uint64_t sum = 0;
    ASSERT(count > 0 && NTP_FILTER_COUNT <= 16);
    for (uint32_t i = 0; i < count; i++) {
        const struct ntp_sample *sample = sample_at(filter, i);
        int64_t drift_ns = ntp_rate_times(frequency, (int64_t)(sample->at_ns - best->at_ns));
        int64_t distance_ns = sample->ahead_ns - best->ahead_ns - drift_ns;
        if (distance_ns > far_ns || distance_ns < -far_ns)
            distance_ns = far_ns;
        sum += (uint64_t)(distance_ns * distance_ns);
    }
    return square_root(sum / count);
}
