/* The discipline: what measurements of a server do to our clock. RFC 5905 §10 and §11.3, in the small.
 *
 * The first four samples set the clock by a step, because no client has got a time from it yet, and its frequency. From
 * then on it is slewed. An offset above 128 ms that lasts for 300 s is a step again: a machine that stood still would
 * need hours otherwise.
 * An offset that a queue may have feigned is left alone: a busy network does not move the clock.
 * All that is measured is relative to the machine's own clock, so no correction disturbs the next measurement. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/time/clock.h"
#include "app/time/filter.h"

enum ntp_update {
    NTP_UPDATE_NONE,    /* nothing new: too few samples, or an older one was better */
    NTP_UPDATE_SLEWED,  /* the clock is on its way to the server's */
    NTP_UPDATE_STEPPED, /* the clock shows the server's time */
    NTP_UPDATE_FAR,     /* over 128 ms off, for less than 300 s: nothing changes */
};

/* Zeroed: nothing measured. */
struct ntp_discipline {
    struct ntp_filter filter;
    struct ntp_sample used;       /* the latest that moved the clock */
    bool is_set;                  /* by a first step */
    uint32_t frequency_count;     /* measurements in the clock's frequency */
    uint64_t least_ns;            /* the least delay; grows slowly, as routes change */
    uint64_t far_since_ns;        /* 0: not far */
    int64_t offset_ns;            /* the server's time less ours, at the latest update, before it */
    uint64_t delay_ns, jitter_ns; /* the delay of the sample in use, the jitter of all */
};

/* Takes a sample, and moves the clock. `over_ns`: until the next sample is expected. */
enum ntp_update ntp_discipline_add(struct ntp_discipline *discipline, struct ntp_clock *clock,
                                   const struct ntp_sample *sample, uint64_t over_ns, uint64_t now_ns);

/* Asserts the invariant. */
void ntp_discipline_check(const struct ntp_discipline *discipline);
