/* app/digest/capacity.c: the measure of free capacity, over turns that the test makes up. */
#include "app/digest/capacity.h"

#include "app/digest/chains.h"
#include "app/digest/variants.h"
#include "tests/lib/test.h"

#define TURN_NS      (2 * NS_PER_MS) /* longer than real ones, for whole rounds */
#define SLICES_PER_S (NS_PER_S / VARIANTS_CHAIN_SLICE_NS)

static uint64_t now_ns, whole;

static void begin(uint32_t workers)
{
    work_set_workers(workers);
    digest_chains_clear(NULL);
    digest_capacity_init();
    now_ns = 0;
    whole = digest_capacity_free();
}

BEFORE_EACH()
{
    digest_variants_choose(false, 2000000);
    begin(0);
}

AFTER_EACH() { work_set_workers(0); }

/* Plays turns for a time. Each does `done` of 100 parts of the rounds that the times of the start promise. */
static void play(uint64_t ns, uint32_t waiting, uint32_t chains_left, uint64_t done)
{
    for (uint64_t end_ns = now_ns + ns; now_ns < end_ns; now_ns += TURN_NS) {
        uint64_t rounds = digest_chains_rate(chains_left) * TURN_NS / VARIANTS_CHAIN_SLICE_NS * done / 100;
        struct capacity_turn turn = { .waiting = waiting,
                                      .chains_left = chains_left,
                                      .rounds_own = rounds / 2,
                                      .rounds_taken = rounds - rounds / 2 };
        digest_capacity_turn(&turn, now_ns);
    }
}

/* Fails unless the free capacity is this part of the whole, within a hundredth. */
static void assert_free(int64_t thousandths)
{
    int64_t found = (int64_t)(digest_capacity_free() * 1000 / whole);
    if (found < thousandths - 10 || found > thousandths + 10)
        fail_msg("%ld thousandths instead of %ld", found, thousandths);
}

TEST(an_idle_machine_has_all_rounds_that_its_lanes_do)
{
    const size_t width = digest_chains_width();
    assert_true(width >= 1 && width <= SHA256_LANES_MAX);
    assert_in_range(whole, digest_chains_rate(width) * SLICES_PER_S, digest_chains_rate(width) * (SLICES_PER_S + 1));
    for (size_t count = 1; count <= CHAIN_COUNT_MAX; count++)
        assert_true(digest_chains_rate(count) <= digest_chains_rate(width));
    for (size_t count = 1; count < width; count++)
        assert_true(digest_chains_rate(count) < digest_chains_rate(width));
    play(NS_PER_S, 0, 0, 0);
    assert_int_equal(digest_capacity_free(), whole);
}

TEST(more_cpus_have_more_capacity)
{
    const uint64_t alone = whole;
    begin(1);
    const uint64_t one = whole;
    begin(2);
    assert_true(one >= alone && whole > one + one / 4);
}

TEST(waiting_requests_share_the_capacity)
{
    const uint32_t width = (uint32_t)digest_chains_width();
    play(2 * NS_PER_S, width, 0, 0);
    assert_free(500);
    play(2 * NS_PER_S, 3 * width, 0, 0);
    assert_free(250);
    play(2 * NS_PER_S, 0, 0, 0);
    assert_free(1000);
}

TEST(a_busy_machine_never_says_zero)
{
    play(2 * NS_PER_S, CHAIN_COUNT_MAX, CHAIN_COUNT_MAX, 100);
    assert_true(digest_capacity_free() > 0);
}

TEST(a_machine_that_does_a_third_of_its_rounds_has_a_third)
{
    play(2 * NS_PER_S, 0, 1, 33);
    assert_free(330);
    play(2 * NS_PER_S, 0, 1, 100);
    assert_free(1000);
}

/* A balancer sends nothing more to a machine that does no rounds at all. */
TEST(an_idle_machine_forgets_in_seconds_that_it_was_slow)
{
    play(2 * NS_PER_S, 0, 1, 0);
    assert_free(0);
    play(NS_PER_S / 5, 0, 0, 0);
    assert_in_range(digest_capacity_free(), whole / 20, whole / 5); /* 1 - exp(-0.1) */
    play(10 * NS_PER_S, 0, 0, 0);
    assert_free(1000);
}

/* A host stops the machine for 20 ms of each 30. */
TEST(time_that_is_taken_away_lowers_the_speed)
{
    for (int i = 0; i < 100; i++) {
        play(10 * NS_PER_MS, 0, 1, 100);
        now_ns += 20 * NS_PER_MS;
    }
    assert_free(333);
}

/* A chain that ends in the middle of a slice does less than the slice's time promises. */
TEST(turns_without_chains_to_their_end_do_not_count)
{
    for (int i = 0; i < 100000; i++) {
        digest_capacity_turn(&(struct capacity_turn){ .waiting = 0, .chains_left = 0, .rounds_own = 2 }, now_ns);
        now_ns += TURN_NS;
    }
    assert_int_equal(digest_capacity_free(), whole);
}

TEST(means_follow_in_a_fifth_of_a_second)
{
    const uint32_t width = (uint32_t)digest_chains_width();
    play(CAPACITY_WINDOW_NS + TURN_NS, 9 * width, 0, 0);
    assert_in_range(digest_capacity_free(), whole / 2, whole * 2 / 3); /* 1 / (1 + 9 / 11) */
    play(CAPACITY_SMOOTH_NS, 9 * width, 0, 0);
    assert_in_range(digest_capacity_free(), whole / 8, whole / 5); /* 1 / (1 + 9 (1 - 1 / e)) = 0.15 */
}

/* A machine that slept, or stood still, for an hour. */
TEST(a_long_turn_is_one_turn)
{
    const uint32_t width = (uint32_t)digest_chains_width();
    struct capacity_turn turn = { .waiting = CHAIN_COUNT_MAX, .chains_left = width };
    digest_capacity_turn(&turn, now_ns);
    digest_capacity_turn(&turn, now_ns += UINT64_C(3600) * NS_PER_S);
    assert_in_range(digest_capacity_free(), 0, whole);
    play(2 * NS_PER_S, 0, width, 100);
    assert_free(1000);
}
