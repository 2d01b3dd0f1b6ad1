/* app/time/clock.c, filter.c and discipline.c in virtual time: machines whose clocks are wrong, and servers across a
 * network that delays at random. */
#include "app/time/discipline.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"

#define S  INT64_C(1000000000)
#define MS INT64_C(1000000)
#define US INT64_C(1000)

/* A machine whose clock is `slow_ppb` slow, at true time `true_ns` since its start. */
static struct {
    int64_t true_ns, slow_ppb, stopped_ns, server_ahead_ns;
    int64_t delay_ns, queue_ns; /* one way: at least, and at most on top */
    struct ntp_clock clock;
    struct ntp_discipline discipline;
} world;

static const int64_t epoch_ns = 1800000000 * S;

static uint64_t machine_ns(void)
{
    int64_t running_ns = world.true_ns - world.stopped_ns;
    return (uint64_t)(running_ns - running_ns / S * world.slow_ppb - running_ns % S * world.slow_ppb / S);
}

/* Returns the error of the clock under test. */
static int64_t error_ns(void)
{
    return ntp_clock_ns(&world.clock, machine_ns()) - (epoch_ns + world.server_ahead_ns + world.true_ns);
}

static int64_t queue_ns(void) { return world.queue_ns ? (int64_t)random_below((uint64_t)world.queue_ns) : 0; }

/* Measures once; the discipline expects the next sample in `poll_ns`. */
static enum ntp_update exchange(int64_t poll_ns)
{
    struct ntp_sample sample;
    uint64_t sent_ns = machine_ns();
    world.true_ns += world.delay_ns + queue_ns();
    int64_t server_ns = epoch_ns + world.server_ahead_ns + world.true_ns;
    world.true_ns += world.delay_ns + queue_ns();
    uint64_t seen_ns = machine_ns();
    sample.at_ns = (sent_ns + seen_ns) / 2;
    sample.ahead_ns = server_ns - (int64_t)sample.at_ns;
    sample.delay_ns = seen_ns - sent_ns;
    enum ntp_update update = ntp_discipline_add(&world.discipline, &world.clock, &sample, (uint64_t)poll_ns, seen_ns);
    ntp_clock_check(&world.clock);
    ntp_discipline_check(&world.discipline);
    return update;
}

static void begin(int64_t slow_ppm, int64_t wrong_ns, int64_t delay_ns, int64_t queue_ns_max)
{
    memset(&world, 0, sizeof world);
    world.slow_ppb = slow_ppm * 1000;
    world.delay_ns = delay_ns;
    world.queue_ns = queue_ns_max;
    ntp_clock_init(&world.clock, epoch_ns + wrong_ns, 0);
}

/* Plays `count` exchanges. Returns the largest error at ten moments before each. */
static int64_t play(int count, int64_t poll_ns)
{
    int64_t worst_ns = 0;
    for (int i = 0; i < count; i++) {
        exchange(poll_ns);
        for (int part = 0; part < 10; part++) {
            world.true_ns += poll_ns / 10;
            int64_t error = llabs(error_ns());
            worst_ns = error > worst_ns ? error : worst_ns;
        }
    }
    return worst_ns;
}

TEST(clock_goes_by_its_frequency_and_ends_a_slew)
{
    struct ntp_clock clock;
    ntp_clock_init(&clock, 1000, 50);
    assert_int_equal(ntp_clock_ns(&clock, 50 + 3 * S), 1000 + 3 * S);
    ntp_clock_set_frequency(&clock, NTP_RATE_OF_PPM(100), 50);
    assert_in_range(ntp_clock_ns(&clock, 50 + 10 * S) - 1000 - 10 * S, 1000 * US - US, 1000 * US + US);
    ntp_clock_set_frequency(&clock, 0, 50);
    ntp_clock_slew(&clock, 200 * US, 2 * S, 50);
    assert_in_range(ntp_clock_ns(&clock, 50 + S) - 1000 - S, 99 * US, 101 * US);
    assert_in_range(ntp_clock_ns(&clock, 50 + 9 * S) - 1000 - 9 * S, 200 * US - 100, 200 * US + 100);
    ntp_clock_step(&clock, -S, 50 + 9 * S);
    assert_in_range(ntp_clock_ns(&clock, 50 + 10 * S) - 1000 - 9 * S, 200 * US - 100, 200 * US + 100);
    ntp_clock_slew(&clock, 200 * US, 2 * S, 50 + 10 * S);
    ntp_clock_step(&clock, -S, 50 + 11 * S);
    assert_in_range(ntp_clock_ns(&clock, 50 + 20 * S) - 1000 - 18 * S, 299 * US, 301 * US);
}

TEST(slew_is_never_faster_than_500_ppm_with_the_frequency)
{
    struct ntp_clock clock;
    for (int64_t ppm = -500; ppm <= 500; ppm += 100)
        for (int64_t offset_ns = -128 * MS; offset_ns <= 128 * MS; offset_ns += 16 * MS) {
            ntp_clock_init(&clock, 0, 0);
            ntp_clock_set_frequency(&clock, NTP_RATE_OF_PPM(ppm), 0);
            ntp_clock_slew(&clock, offset_ns, (uint64_t)S, 0);
            ntp_clock_check(&clock);
            int64_t before_ns = 0;
            for (uint64_t at_ns = (uint64_t)S; at_ns < 1000 * (uint64_t)S; at_ns += (uint64_t)S) {
                int64_t now_ns = ntp_clock_ns(&clock, at_ns);
                assert_in_range(now_ns - before_ns, S - 501 * US, S + 501 * US);
                before_ns = now_ns;
            }
        }
}

/* Reads the clock each nanosecond. Frequency and slew are both negative, and each is rounded down. */
TEST(slowed_clock_never_goes_back_by_a_nanosecond)
{
    struct ntp_clock clock;
    ntp_clock_init(&clock, 1000, 50);
    ntp_clock_set_frequency(&clock, NTP_RATE_OF_PPM(-300), 50);
    ntp_clock_slew(&clock, -10 * US, (uint64_t)S, 50);
    int64_t before_ns = ntp_clock_ns(&clock, 50);
    for (uint64_t at_ns = 51; at_ns < 100000; at_ns++) {
        int64_t now_ns = ntp_clock_ns(&clock, at_ns);
        assert_true(now_ns >= before_ns);
        before_ns = now_ns;
    }
}

TEST(filter_prefers_the_sample_with_the_least_delay)
{
    struct ntp_filter filter = { 0 };
    for (uint32_t i = 0; i < 20; i++) {
        struct ntp_sample sample = { .at_ns = i * (uint64_t)S,
                                     .ahead_ns = i,
                                     .delay_ns = i == 15 ? 100000 : 1000000 + i };
        ntp_filter_add(&filter, &sample);
        assert_int_equal(ntp_filter_count(&filter), i < 8 ? i + 1 : 8);
    }
    assert_int_equal(ntp_filter_best(&filter, 20 * (uint64_t)S)->ahead_ns, 15);
    assert_int_equal(ntp_filter_best(&filter, 200000 * (uint64_t)S)->ahead_ns, 15); /* all age at the same rate */
    for (uint64_t at_s = 20; at_s <= 21; at_s++) {                                  /* by 15 us a second */
        struct ntp_sample later = { at_s * (uint64_t)S, -1, 270000 };
        ntp_filter_add(&filter, &later);
        assert_int_equal(ntp_filter_best(&filter, later.at_ns)->ahead_ns, at_s == 20 ? 15 : -1);
    }
}

TEST(frequency_has_the_error_that_queues_may_feign)
{
    struct ntp_filter filter = { 0 };
    int64_t frequency, error;
    for (uint64_t i = 0; i < 4; i++) {
        assert_false(ntp_filter_frequency(&filter, 1000, &frequency, &error));
        struct ntp_sample sample = { i * (uint64_t)S, (int64_t)i * 1000, i == 1 ? 3000 : i == 2 ? 1000 : 900000 };
        ntp_filter_add(&filter, &sample);
    }
    assert_true(ntp_filter_frequency(&filter, 1000, &frequency, &error));
    assert_int_equal(frequency, (INT64_C(1000) << 32) / S);
    assert_int_equal(error, (INT64_C(1000) << 32) / S); /* half of 2000 ns, in a second */
}

/* Two samples, a second apart. A distance counts as a second at most; what the frequency explains is none. */
TEST(jitter_is_the_root_mean_square)
{
    static const struct {
        int64_t ahead_ns[2], ppm, jitter_ns;
    } rows[] = { { { 0, 2 }, 0, 1 },
                 { { -1, 0 }, 0, 0 },
                 { { 0, 5 * S }, 0, 707106781 },
                 { { -S - 1, 0 }, 0, 707106781 },
                 { { 10 - 50 * US, 10 }, 50, 10 },
                 { { -50 * US, 3 * S }, 50, 707106781 } };
    for (int64_t i = 0; i < 3000 + (int64_t)ARRAY_COUNT(rows); i++) {
        struct ntp_filter filter = { 0 };
        const struct ntp_sample best = { .at_ns = (uint64_t)S };
        const int64_t ahead_ns[] = { -i, i }, *ahead = i < 3000 ? ahead_ns : rows[i - 3000].ahead_ns;
        const int64_t rate = i < 3000 ? 0 : NTP_RATE_OF_PPM(rows[i - 3000].ppm);
        for (uint64_t k = 0; k < 2; k++)
            ntp_filter_add(&filter, &(struct ntp_sample){ k * (uint64_t)S, ahead[k], 1 });
        assert_int_equal(ntp_filter_jitter_ns(&filter, &best, rate), i < 3000 ? i : rows[i - 3000].jitter_ns);
    }
}

/* Before the first step nothing else sees that the server's clock jumps. */
TEST(jump_of_the_server_is_no_frequency)
{
    for (int64_t jump_ns = -5 * S; jump_ns <= 5 * S; jump_ns += 10 * S) {
        begin(0, 0, 100 * US, 0);
        for (int i = 0; i < 4; i++, world.true_ns += 2 * S) {
            world.server_ahead_ns = i >= 2 ? jump_ns : 0;
            exchange(2 * S);
        }
        assert_int_equal(world.clock.frequency, 0);
        assert_in_range(llabs(error_ns()), 0, US);
    }
}

TEST(first_four_samples_set_the_clock_by_one_step)
{
    begin(50, -20 * 365 * 86400 * S, 100 * US, 0);
    for (int i = 0; i < 3; i++, world.true_ns += 2 * S)
        assert_int_equal(exchange(2 * S), NTP_UPDATE_NONE);
    assert_int_equal(exchange(2 * S), NTP_UPDATE_STEPPED);
    assert_in_range(llabs(error_ns()), 0, 10 * US);
}

/* Checks the required bound: 0.5 ms over ten minutes. The queues are those of a busy machine: some 25 of 10,000
 * networks feign more. */
TEST(clock_of_400_ppm_stays_within_half_a_millisecond)
{
    random_seed(1);
    for (int network = 0; network < 20; network++)
        for (int64_t ppm = -400; ppm <= 400; ppm += 100) {
            begin(ppm, 3 * S, 150 * US, 300 * US);
            play(8, 2 * S);
            assert_in_range(play(150, 4 * S), 0, 500 * US);
            assert_in_range(llabs(world.clock.frequency - NTP_RATE_OF_PPM(ppm)), 0, NTP_RATE_OF_PPM(30));
        }
}

/* Plays four minutes in which every reply is late by up to 40 ms: the clock coasts, within the bound. */
TEST(busy_network_does_not_move_the_clock)
{
    begin(100, 0, 100 * US, 50 * US);
    play(40, 4 * S);
    world.queue_ns = 40 * MS;
    assert_in_range(play(60, 4 * S), 0, 500 * US);
    assert_in_range(llabs(world.clock.frequency - NTP_RATE_OF_PPM(100)), 0, NTP_RATE_OF_PPM(10));
    world.queue_ns = 50 * US;
    play(10, 4 * S);
    assert_in_range(play(20, 4 * S), 0, 100 * US);
}

/* Moves the server further away for good. After some minutes the new delay is the least, and the clock is right. */
TEST(longer_route_is_learnt)
{
    begin(100, 0, 100 * US, 50 * US);
    play(40, 4 * S);
    world.delay_ns = 5 * MS;
    play(400, 4 * S);
    assert_in_range(play(40, 4 * S), 0, 300 * US);
}

TEST(slow_polls_keep_the_clock_as_well)
{
    begin(80, 0, 20 * MS, 2 * MS);
    play(8, 2 * S);
    play(12, 64 * S);
    assert_in_range(play(100, 64 * S), 0, 4 * MS);
    assert_in_range(llabs(world.clock.frequency - NTP_RATE_OF_PPM(80)), 0, NTP_RATE_OF_PPM(10));
}

TEST(single_late_reply_moves_nothing)
{
    begin(20, 0, 100 * US, 20 * US);
    play(30, 4 * S);
    int64_t delay_ns = world.delay_ns;
    world.queue_ns = 80 * MS;
    const int64_t frequency = world.clock.frequency;
    assert_int_equal(exchange(4 * S), NTP_UPDATE_NONE);
    assert_int_equal(world.clock.frequency, frequency);
    world.true_ns += 4 * S;
    world.queue_ns = 20 * US;
    world.delay_ns = delay_ns;
    assert_in_range(play(8, 4 * S), 0, 100 * US);
}

/* Stops the machine for some ms: its clock is slewed, its frequency stays. */
TEST(short_stop_is_slewed_without_touching_the_frequency)
{
    static const int64_t poll_ns[] = { 4 * S, 64 * S }, stop_ns[] = { 50 * MS, 20 * MS };
    for (int i = 0; i < 2; i++) {
        begin(100, 0, 100 * US, 50 * US);
        play(40, poll_ns[i]);
        world.true_ns += stop_ns[i];
        world.stopped_ns += stop_ns[i];
        play(1, poll_ns[i]);
        assert_in_range(llabs(world.clock.frequency - NTP_RATE_OF_PPM(100)), 0, NTP_RATE_OF_PPM(10));
        play(50, poll_ns[i]); /* 50 ms at less than 500 ppm */
        assert_in_range(play(20, poll_ns[i]), 0, 200 * US);
    }
}

/* Stops the machine twice. Before, the server is far for 200 s, which is not enough. */
TEST(long_stop_is_stepped_after_300_seconds)
{
    begin(100, 0, 100 * US, 50 * US);
    play(40, 4 * S);
    world.server_ahead_ns = 5 * S;
    play(50, 4 * S);
    world.server_ahead_ns = 0;
    assert_in_range(play(20, 4 * S), 0, 200 * US);
    for (int stop = 0; stop < 2; stop++) {
        world.true_ns += 5 * S;
        world.stopped_ns += 5 * S;
        int64_t began_ns = world.true_ns;
        enum ntp_update update;
        while ((update = exchange(4 * S)) != NTP_UPDATE_STEPPED) {
            assert_true(update == NTP_UPDATE_FAR || update == NTP_UPDATE_NONE);
            assert_in_range(world.true_ns - began_ns, 0, 320 * S);
            world.true_ns += 4 * S;
        }
        assert_in_range(world.true_ns - began_ns, 300 * S, 320 * S);
        assert_in_range(play(20, 4 * S), 0, 200 * US);
    }
}

TEST(clock_never_goes_back_after_the_first_step)
{
    begin(-300, 7 * S, 200 * US, 5 * MS);
    play(4, 2 * S);
    int64_t before_ns = ntp_clock_ns(&world.clock, machine_ns());
    for (int i = 0; i < 400; i++) {
        exchange(S);
        for (int part = 0; part < 100; part++) {
            int64_t now_ns = ntp_clock_ns(&world.clock, machine_ns());
            assert_true(now_ns >= before_ns);
            before_ns = now_ns;
            world.true_ns += S / 100;
        }
    }
}
