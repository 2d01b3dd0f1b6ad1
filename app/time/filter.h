/* The clock filter: the latest eight measurements of a server, and what they say. RFC 5905 §10, in the small.
 *
 * A sample is the server's time less the machine's own, so that no change of our clock makes it wrong. The one with the
 * least delay was hindered least by queues. A sample ages: its bound grows by PHI, so that old ones lose. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/time/ntp_spec.h"

struct ntp_sample {
    uint64_t at_ns;    /* the machine's clock at the middle of the exchange */
    int64_t ahead_ns;  /* the server's time since 1970, less at_ns */
    uint64_t delay_ns; /* there and back, without the server's part */
};

/* Returns how wrong queues on one way can have made a sample, if the least delay there and back is `least_ns`: half of
 * what came on top. */
uint64_t ntp_sample_queued_ns(const struct ntp_sample *sample, uint64_t least_ns);

/* Zeroed: empty. */
struct ntp_filter {
    uint32_t added_count;                        /* in all */
    struct ntp_sample samples[NTP_FILTER_COUNT]; /* sample n stands at n modulo the size */
};

void ntp_filter_add(struct ntp_filter *filter, const struct ntp_sample *sample);

/* Returns how many samples it holds. */
uint32_t ntp_filter_count(const struct ntp_filter *filter);

/* Returns the sample with the least bound on its error. The filter is not empty. */
const struct ntp_sample *ntp_filter_best(const struct ntp_filter *filter, uint64_t now_ns);

/* Measures how much faster than the machine's clock the server's goes, as a rate of app/time/clock.h. The rate is the
 * slope between the least delayed samples of the older and of the newer half. `error` bounds the part of queues in the
 * slope, if no exchange is quicker than `least_ns`. Returns false with fewer than four samples. */
bool ntp_filter_frequency(const struct ntp_filter *filter, uint64_t least_ns, int64_t *frequency, int64_t *error);

/* Returns the root mean square of the offsets' distances from that of `best`, drift at `frequency` taken out. */
uint64_t ntp_filter_jitter_ns(const struct ntp_filter *filter, const struct ntp_sample *best, int64_t frequency);
