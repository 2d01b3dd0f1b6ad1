/* app/player/stream_merger.c: copies of a stream that start, lag, break and lie at random, against the stream
 * itself. */
#include <time.h>

#include "app/player/stream_merger.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"

enum { STREAM_DIGITS = 400000 };
static uint8_t stream[STREAM_DIGITS], out[STREAM_DIGITS];
static size_t out_count;
static uint64_t pushed_count, unplaced_count;

/* Begins with nothing pushed. */
static void begin_with(uint32_t feeds)
{
    stream_merger_init(feeds);
    out_count = 0;
    pushed_count = unplaced_count = 0;
}

/* Asserts that no digit is counted as unplaced and then no longer: the counter only goes up. */
static void check(void)
{
    stream_merger_check();
    assert_true(stream_merger_counters.unplaced >= unplaced_count);
    unplaced_count = stream_merger_counters.unplaced;
}

/* Pushes digits; collects in `out` the output since the last gap. */
static struct stream_news push(uint32_t feed, const uint8_t *digits, size_t count)
{
    pushed_count += count;
    uint8_t *exact = test_malloc(count ? count : 1);
    memcpy(exact, digits, count);
    struct stream_news news = stream_merger_push(feed, exact, count);
    if (news.gap)
        out_count = 0;
    assert_true(out_count + news.digits.count <= sizeof out);
    memcpy(out + out_count, news.digits.data, news.digits.count);
    out_count += news.digits.count;
    test_free(exact);
    check();
    return news;
}

static void disconnect(uint32_t feed)
{
    stream_merger_disconnect(feed);
    check();
}

static void random_stream(void)
{
    for (size_t i = 0; i < sizeof stream; i++)
        stream[i] = (uint8_t)('0' + random_below(10));
}

static void seeded(void) { random_seed(20220217); }

/* Begins with two inputs of a random stream. */
static void begin_two(void)
{
    seeded();
    random_stream();
    begin_with(2);
}

TEST(one_feed_is_passed_through_in_place)
{
    stream_merger_init(1);
    static const uint8_t digits[] = "123";
    struct stream_news news = stream_merger_push(0, digits, 3);
    assert_ptr_equal(news.digits.data, digits);
    assert_int_equal(news.digits.count, 3);
    assert_false(news.gap);
    stream_merger_disconnect(0);
    news = stream_merger_push(0, digits, 3);
    assert_true(news.gap);
    news = stream_merger_push(0, digits, 3);
    assert_false(news.gap);
    assert_int_equal(stream_merger_counters.gaps, 1);
}

TEST(the_first_to_deliver_supplies_each_digit)
{
    begin_two();
    assert_int_equal(push(0, stream, 200).digits.count, 200);
    assert_int_equal(push(1, stream + 100, 60).digits.count, 0);  /* 60 digits do not locate the copy */
    assert_int_equal(push(1, stream + 160, 90).digits.count, 50); /* these do: 200..250 are new */
    assert_int_equal(push(0, stream + 200, 100).digits.count, 50);
    assert_int_equal(push(1, stream + 250, 10).digits.count, 0);
    assert_int_equal(push(1, stream + 260, 100).digits.count, 60);
    push(0, stream + 300, 5060);
    disconnect(1);
    push(1, stream + 500, 1000 + STREAM_MERGER_JOIN_DIGITS); /* the newest are kept */
    assert_int_equal(push(1, stream + 1500 + STREAM_MERGER_JOIN_DIGITS, 2000).digits.count, 188);
    assert_int_equal(stream_merger_counters.placed, 2);
    assert_int_equal(out_count, 5548);
    assert_memory_equal(out, stream, 5548);
    assert_int_equal(stream_merger_counters.gaps, 0);
}

TEST(copies_at_both_ends_of_the_history_agree)
{
    begin_two();
    push(0, stream, 200);
    push(1, stream + 200 - STREAM_MERGER_ANCHOR_DIGITS, STREAM_MERGER_ANCHOR_DIGITS);
    assert_int_equal(stream_merger_counters.placed, 1);
    push(0, stream + 200, STREAM_MERGER_HISTORY_DIGITS + 100);
    push(1, stream + 200, 300); /* the first 100 are forgotten */
    assert_int_equal(stream_merger_counters.repeated, STREAM_MERGER_ANCHOR_DIGITS + 300);
    assert_int_equal(stream_merger_counters.unplaced, 0);
}

TEST(the_stream_goes_on_without_gap_when_its_leader_is_lost)
{
    begin_two();
    push(0, stream, 300);
    push(1, stream + 150, 100);
    disconnect(0);
    assert_int_equal(push(1, stream + 250, 100).digits.count, 50);
    assert_int_equal(push(0, stream + 330, 64).digits.count, 0); /* back, ahead of the output: 20 digits in common */
    assert_int_equal(push(1, stream + 350, 100).digits.count, 100);
    assert_int_equal(push(0, stream + 394, 100).digits.count, 44);
    assert_memory_equal(out, stream, out_count);
    assert_int_equal(out_count, 494);
    assert_int_equal(stream_merger_counters.gaps, 0);
}

TEST(a_stream_that_repeats_itself_places_nobody)
{
    begin_with(2);
    for (size_t i = 0; i < 4000; i++)
        stream[i] = (uint8_t)('0' + i % 7);
    push(0, stream, 1000);
    assert_int_equal(push(1, stream + 70, 500).digits.count, 0);
    assert_int_equal(stream_merger_counters.ambiguous, 1);
    assert_int_equal(stream_merger_counters.placed, 0);
    assert_int_equal(push(0, stream + 1000, 1000).digits.count, 1000);
    assert_memory_equal(out, stream, 2000);
}

/* Returns the CPU time that 100 pushes of a feed without a place take, in a stream of the first digits. The feed
 * brings the second ones. */
static uint64_t search_ns(const uint8_t *first, const uint8_t *second)
{
    enum { HISTORY_DIGITS = 2 * STREAM_MERGER_HISTORY_DIGITS, PUSHES = 100, PUSH_DIGITS = 250 };
    struct timespec begun, done;
    stream_merger_init(2);
    stream_merger_push(0, first, STREAM_MERGER_HISTORY_DIGITS);
    stream_merger_push(0, first + STREAM_MERGER_HISTORY_DIGITS, HISTORY_DIGITS - STREAM_MERGER_HISTORY_DIGITS);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begun);
    for (size_t i = 0; i < PUSHES; i++)
        assert_int_equal(stream_merger_push(1, second + i * PUSH_DIGITS, PUSH_DIGITS).digits.count, 0);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &done);
    return (uint64_t)(done.tv_sec - begun.tv_sec) * 1000000000 + (uint64_t)done.tv_nsec - (uint64_t)begun.tv_nsec;
}

/* Plays a server that makes each digit of the history look like the feed's place: the answers of the others wait for
 * the search. */
TEST(a_search_takes_as_long_whatever_the_digits)
{
    enum { DIGITS = STREAM_DIGITS / 2, AS_LONG = 4 };
    seeded();
    random_stream();
    uint64_t random_ns = search_ns(stream, stream + DIGITS);
    memset(stream, '0', sizeof stream);
    uint64_t zeros_ns = search_ns(stream, stream);
    for (size_t i = 0; i < DIGITS; i++) {
        stream[i] = (uint8_t)('0' + (i % 3000 == 2999));
        stream[DIGITS + i] = (uint8_t)('0' + (i % 2100 == 600));
    }
    uint64_t ones_ns = search_ns(stream, stream + DIGITS);
    if (zeros_ns > AS_LONG * random_ns || ones_ns > AS_LONG * random_ns)
        fail_msg("random digits %llu ns, zeros %llu ns, zeros and ones %llu ns", (unsigned long long)random_ns,
                 (unsigned long long)zeros_ns, (unsigned long long)ones_ns);
}

TEST(a_feed_of_another_stream_adds_nothing)
{
    begin_two();
    for (size_t at = 0; at < 100000; at += 250) {
        push(0, stream + at, 250);
        push(1, stream + 399999 - at - 250, 250);
    }
    disconnect(1); /* back, after the history has been moved */
    assert_int_equal(push(1, stream + 97000, 3100).digits.count, 100);
    push(0, stream + 100000, 20000); /* more than the history keeps */
    assert_int_equal(push(1, stream + 100100, 20000).digits.count, 100);
    assert_int_equal(out_count, 120100);
    assert_memory_equal(out, stream, out_count);
}

TEST(a_feed_that_disagrees_has_to_find_its_place_again)
{
    begin_two();
    push(0, stream, 300);
    push(1, stream, 250);
    stream[260] ^= 1;
    assert_int_equal(push(1, stream + 250, 100).digits.count, 0);
    stream[260] ^= 1;
    assert_int_equal(stream_merger_counters.disagreed, 1);
    assert_int_equal(push(0, stream + 300, 100).digits.count, 100);
    disconnect(1);
    assert_int_equal(push(1, stream + 300, 150).digits.count, 50);
    assert_memory_equal(out, stream, 450);
}

/* Feeds connect, deliver and break at random. The output between two gaps is always a block of the stream. Each digit
 * is counted once: as new, as repeated, or as unplaced. */
TEST(the_output_is_the_stream)
{
    seeded();
    for (int round = 0; round < 20; round++) {
        random_stream();
        uint32_t feeds = 2 + random_below(7);
        size_t at[STREAM_MERGER_INPUT_COUNT_MAX] = { 0 }, live = 0, begin = 0;
        bool connected[STREAM_MERGER_INPUT_COUNT_MAX] = { false };
        begin_with(feeds);
        while (live < STREAM_DIGITS / 20) {
            uint32_t f = random_below(feeds);
            if (random_below(4) == 0)
                live += random_below(300); /* the server sends */
            if (!connected[f]) {
                connected[f] = random_below(4) == 0;
                at[f] = live;
                continue;
            }
            if (random_below(50) == 0) {
                connected[f] = false;
                disconnect(f);
                continue;
            }
            size_t count = min_size(random_below(500), live - at[f]);
            struct stream_news news = push(f, stream + at[f], count);
            at[f] += count;
            if (out_count == news.digits.count)
                begin = at[f] - news.digits.count;
            if (memcmp(out, stream + begin, out_count))
                fail_msg("the output is not the stream");
        }
        assert_true(stream_merger_counters.placed > 0 && out_count > 0);
        for (uint32_t f = 0; f < feeds; f++)
            disconnect(f);
        assert_int_equal(pushed_count, *stream_merger_digits_group.values + stream_merger_counters.repeated
                                           + stream_merger_counters.unplaced);
    }
}
