#include "app/time/discipline.h"

#include <string.h>

#include "base/assert.h"
#include "base/time.h"

enum {
    FIRST_COUNT = 4,   /* samples before the first step */
    CHANGE_PPM = 60,   /* no TSC changes its frequency by more, once it is known */
    LEAST_GROWTH = 64, /* the least delay doubles in 45 samples that all take longer */
    CHANGE_FAST_PPM = NTP_FREQUENCY_PPM,
};

static uint64_t magnitude(int64_t value) { return value < 0 ? -(uint64_t)value : (uint64_t)value; }

void ntp_discipline_check(const struct ntp_discipline *discipline)
{
    ASSERT(!discipline->is_set || discipline->filter.added_count > 0);
    ASSERT(discipline->is_set || discipline->far_since_ns == 0);
}

/* Returns true if a clock of one steady frequency can have given both this sample and the one in use. If not, one of
 * the clocks was stepped, or this machine stood still. */
static bool is_steady(const struct ntp_discipline *discipline, const struct ntp_clock *clock,
                      const struct ntp_sample *sample)
{
    const struct ntp_sample *used = &discipline->used;
    ASSERT(sample->at_ns >= used->at_ns);
    uint64_t elapsed_ns = sample->at_ns - used->at_ns;
    int64_t moved_ns = sample->ahead_ns - used->ahead_ns - ntp_rate_times(clock->frequency, (int64_t)elapsed_ns);
    uint64_t change_ppm = discipline->frequency_count < NTP_FREQUENCY_AVERAGE ? CHANGE_FAST_PPM : CHANGE_PPM;
    return magnitude(moved_ns) <= sample->delay_ns + used->delay_ns + NS_PER_MS + elapsed_ns / NS_PER_MS * change_ppm;
}

/* Brings a measurement into the frequency: the mean of the first four, then a moving average. */
static void update_frequency(struct ntp_discipline *discipline, struct ntp_clock *clock, uint64_t now_ns)
{
    int64_t measured, error;
    if (!ntp_filter_frequency(&discipline->filter, discipline->least_ns, &measured, &error))
        return;
    if (discipline->frequency_count < NTP_FREQUENCY_AVERAGE)
        discipline->frequency_count++;
    else if (error > NTP_RATE_OF_PPM(NTP_PHI_PPM))
        return;
    int64_t change = (measured - clock->frequency) / (int64_t)discipline->frequency_count;
    ntp_clock_set_frequency(clock, clock->frequency + change, now_ns);
}

/* Returns the server's time less ours, carried from the sample's time to now. */
static int64_t offset_of(const struct ntp_clock *clock, const struct ntp_sample *sample, uint64_t now_ns)
{
    ASSERT(now_ns >= sample->at_ns);
    int64_t drift_ns = ntp_rate_times(clock->frequency, (int64_t)(now_ns - sample->at_ns));
    return (int64_t)now_ns + sample->ahead_ns + drift_ns - ntp_clock_ns(clock, now_ns);
}

/* Returns the part of an offset that no queue explains. */
static int64_t certain_of(int64_t offset_ns, uint64_t queued_ns)
{
    uint64_t size_ns = magnitude(offset_ns) > queued_ns ? magnitude(offset_ns) - queued_ns : 0;
    ASSERT(size_ns <= magnitude(offset_ns));
    return offset_ns < 0 ? -(int64_t)size_ns : (int64_t)size_ns;
}

/* Decides how an offset is taken out, and does. */
static enum ntp_update move(struct ntp_discipline *discipline, struct ntp_clock *clock, uint64_t over_ns,
                            uint64_t now_ns)
{
    uint64_t queued_ns = ntp_sample_queued_ns(&discipline->used, discipline->least_ns);
    int64_t certain_ns = certain_of(discipline->offset_ns, queued_ns);
    bool is_far = magnitude(certain_ns) > NTP_STEP_NS;
    if (discipline->is_set && !is_far) {
        discipline->far_since_ns = 0;
        ntp_clock_slew(clock, certain_ns, over_ns, now_ns);
        return NTP_UPDATE_SLEWED;
    }
    if (discipline->is_set && discipline->far_since_ns == 0)
        discipline->far_since_ns = now_ns;
    ASSERT(discipline->far_since_ns <= now_ns);
    if (discipline->is_set && now_ns - discipline->far_since_ns < NTP_STEP_OUT_NS)
        return NTP_UPDATE_FAR;
    discipline->is_set = true;
    discipline->far_since_ns = 0;
    ntp_clock_step(clock, discipline->offset_ns, now_ns);
    return NTP_UPDATE_STEPPED;
}

enum ntp_update ntp_discipline_add(struct ntp_discipline *discipline, struct ntp_clock *clock,
                                   const struct ntp_sample *sample, uint64_t over_ns, uint64_t now_ns)
{
    ASSERT(over_ns > 0);
    struct ntp_filter *filter = &discipline->filter;
    if (discipline->is_set && !is_steady(discipline, clock, sample))
        memset(filter, 0, sizeof *filter);
    ntp_filter_add(filter, sample);
    uint64_t least_ns = discipline->least_ns + discipline->least_ns / LEAST_GROWTH;
    discipline->least_ns = least_ns == 0 || sample->delay_ns < least_ns ? sample->delay_ns : least_ns;
    const struct ntp_sample *best = ntp_filter_best(filter, now_ns);
    if (!discipline->is_set && ntp_filter_count(filter) < FIRST_COUNT)
        return NTP_UPDATE_NONE;
    /* The first samples give the frequency at once, even if an older one gives the offset. At 400 ppm the clock would
     * be wrong by milliseconds before the next best sample comes, and a slew has only 100 ppm left to mend that. */
    bool is_newer = !discipline->is_set || best->at_ns > discipline->used.at_ns;
    if (is_newer || discipline->frequency_count < NTP_FREQUENCY_AVERAGE)
        update_frequency(discipline, clock, now_ns);
    if (!is_newer)
        return NTP_UPDATE_NONE;
    discipline->used = *best;
    discipline->offset_ns = offset_of(clock, best, now_ns);
    discipline->delay_ns = best->delay_ns;
    discipline->jitter_ns = ntp_filter_jitter_ns(filter, best, clock->frequency);
    enum ntp_update update = move(discipline, clock, over_ns, now_ns);
    ntp_discipline_check(discipline);
    return update;
}
