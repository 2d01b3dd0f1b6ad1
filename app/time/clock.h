/* The clock that is served: the machine's own clock, with an offset, a frequency and a slew of ours. Knows no network.
 *
 * The machine's clock counts nanoseconds since its start, by the TSC. `frequency` says by how much the TSC is slow. A
 * slew is a further change of the rate. The slew ends when it has moved the clock by the offset asked for. The clock
 * goes back only when it is stepped. Rates are fractions of 2^32. */
#pragma once

#include <stdint.h>

#include "app/time/ntp_spec.h"

#define NTP_RATE_OF_PPM(ppm) ((int64_t)(ppm)*4295) /* 2^32 / 10^6, rounded up */
#define NTP_RATE_MAX         NTP_RATE_OF_PPM(NTP_FREQUENCY_PPM)

struct ntp_clock {
    uint64_t since_ns; /* the machine's clock at the latest change */
    int64_t wall_ns;   /* our nanoseconds at that moment, since 1970 */
    int64_t frequency; /* our seconds a machine's second, less 1 */
    int64_t slew;      /* added to the frequency until slew_ends_ns */
    uint64_t slew_ends_ns;
};

/* Begins: the clock shows `wall_ns` when the machine's shows `now_ns`, and goes as fast. */
void ntp_clock_init(struct ntp_clock *clock, int64_t wall_ns, uint64_t now_ns);

/* Returns our time when the machine's clock shows `now_ns`, at most a few seconds before the latest change. */
int64_t ntp_clock_ns(const struct ntp_clock *clock, uint64_t now_ns);

/* Adds an offset at once. Ends a slew. */
void ntp_clock_step(struct ntp_clock *clock, int64_t offset_ns, uint64_t now_ns);

/* Adds an offset over `over_ns`, or over longer: frequency and slew together change the rate by NTP_RATE_MAX at most.
 * Replaces the slew before. */
void ntp_clock_slew(struct ntp_clock *clock, int64_t offset_ns, uint64_t over_ns, uint64_t now_ns);

/* Changes the frequency, within NTP_RATE_MAX. Ends a slew. */
void ntp_clock_set_frequency(struct ntp_clock *clock, int64_t frequency, uint64_t now_ns);

/* Returns how far a rate moves a clock in a time. */
int64_t ntp_rate_times(int64_t rate, int64_t ns);

/* Asserts the invariant. */
void ntp_clock_check(const struct ntp_clock *clock);
