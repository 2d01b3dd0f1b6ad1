#include "app/time/clock.h"

#include "base/assert.h"

int64_t ntp_rate_times(int64_t rate, int64_t ns) { return (int64_t)((__int128)rate * ns >> 32); }

static int64_t within(int64_t value, int64_t low, int64_t high)
{
    ASSERT(low <= high);
    return value < low ? low : value > high ? high : value;
}

void ntp_clock_check(const struct ntp_clock *clock)
{
    int64_t rate = clock->frequency + clock->slew;
    ASSERT(clock->frequency >= -NTP_RATE_MAX && clock->frequency <= NTP_RATE_MAX);
    ASSERT(rate >= -NTP_RATE_MAX && rate <= NTP_RATE_MAX);
    ASSERT(clock->slew_ends_ns >= clock->since_ns);
}

void ntp_clock_init(struct ntp_clock *clock, int64_t wall_ns, uint64_t now_ns)
{
    *clock = (struct ntp_clock){ .since_ns = now_ns, .wall_ns = wall_ns, .slew_ends_ns = now_ns };
    ntp_clock_check(clock);
}

int64_t ntp_clock_ns(const struct ntp_clock *clock, uint64_t now_ns)
{
    int64_t elapsed_ns = (int64_t)(now_ns - clock->since_ns);
    int64_t slewed_ns = (int64_t)((now_ns < clock->slew_ends_ns ? now_ns : clock->slew_ends_ns) - clock->since_ns);
    /* Rounded once: two roundings may fall on one nanosecond, and the clock would go back. */
    __int128 gained = (__int128)clock->frequency * elapsed_ns + (__int128)clock->slew * slewed_ns;
    return clock->wall_ns + elapsed_ns + (int64_t)(gained >> 32);
}

/* Makes `now_ns` the latest change, and ends the slew there. */
static void begin_change(struct ntp_clock *clock, uint64_t now_ns)
{
    ASSERT(now_ns >= clock->since_ns);
    clock->wall_ns = ntp_clock_ns(clock, now_ns);
    clock->since_ns = clock->slew_ends_ns = now_ns;
    clock->slew = 0;
}

void ntp_clock_step(struct ntp_clock *clock, int64_t offset_ns, uint64_t now_ns)
{
    begin_change(clock, now_ns);
    clock->wall_ns += offset_ns;
    ntp_clock_check(clock);
}

void ntp_clock_slew(struct ntp_clock *clock, int64_t offset_ns, uint64_t over_ns, uint64_t now_ns)
{
    ASSERT(over_ns > 0 && over_ns <= 3600 * NS_PER_S);
    ASSERT(offset_ns <= (int64_t)NS_PER_S && offset_ns >= -(int64_t)NS_PER_S); /* for 64 bits */
    begin_change(clock, now_ns);
    int64_t wanted = offset_ns * (INT64_C(1) << 32) / (int64_t)over_ns;
    clock->slew = within(wanted, -NTP_RATE_MAX - clock->frequency, NTP_RATE_MAX - clock->frequency);
    if (clock->slew != 0 && (clock->slew > 0) == (offset_ns > 0))
        clock->slew_ends_ns = now_ns + (uint64_t)(offset_ns * (INT64_C(1) << 32) / clock->slew);
    else
        clock->slew = 0; /* the frequency leaves no room, or nothing is to do */
    ntp_clock_check(clock);
}

void ntp_clock_set_frequency(struct ntp_clock *clock, int64_t frequency, uint64_t now_ns)
{
    begin_change(clock, now_ns);
    clock->frequency = within(frequency, -NTP_RATE_MAX, NTP_RATE_MAX);
    ntp_clock_check(clock);
}
