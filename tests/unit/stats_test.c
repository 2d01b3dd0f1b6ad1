/* base/histogram.c, app/service/stats.c */
#include "app/service/stats.h"
#include "net/transport_path.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"

#define FAKE(X) X(COUNT, sent)
static const uint64_t sent = 7;
static const struct counter_group fake_group = COUNTER_GROUP("fake.", "", FAKE, sent);

bool transport_counter_group(size_t index, struct counter_group *group)
{
    *group = fake_group;
    return index < 1;
}

static struct histogram h;

TEST(buckets_follow_each_other_without_gap_or_overlap)
{
    for (uint32_t b = 0; b + 1 < HISTOGRAM_BUCKET_COUNT; b++) {
        assert_int_equal(histogram_bucket_of(histogram_bucket_last(b)), b);
        assert_int_equal(histogram_bucket_of(histogram_bucket_last(b) + 1), b + 1);
    }
    assert_int_equal(histogram_bucket_last(HISTOGRAM_BUCKET_COUNT - 1), (UINT64_C(1) << HISTOGRAM_VALUE_BITS) - 1);
    assert_int_equal(histogram_bucket_of(UINT64_MAX), HISTOGRAM_BUCKET_COUNT - 1);
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

TEST(quantiles_are_at_most_a_sixteenth_too_high)
{
    static uint64_t values[10001];
    histogram_clear(&h);
    assert_int_equal(histogram_quantile(&h, 5000), 0);
    for (size_t i = 0; i < 10001; i++) {
        values[i] = random_below(1000 + i * i);
        histogram_add(&h, values[i]);
    }
    qsort(values, 10001, sizeof *values, compare_u64);
    static const uint32_t shares[] = { 0, 1, 10, 1000, 5000, 9000, 9900, 9990, 9999, 10000 };
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        size_t rank = (10001 * (size_t)shares[i] + 9999) / 10000;
        uint64_t exact = values[rank ? rank - 1 : 0], q = histogram_quantile(&h, shares[i]);
        assert_true(q >= exact && q <= exact + exact / 16);
    }
    assert_int_equal(histogram_quantile(&h, 10000), values[10000]);
}

TEST(one_value_is_every_quantile)
{
    histogram_clear(&h);
    histogram_add(&h, 123456789);
    assert_int_equal(histogram_quantile(&h, 1), 123456789);
    assert_int_equal(histogram_quantile(&h, 10000), 123456789);
    histogram_add(&h, UINT64_MAX);
    assert_true(histogram_quantile(&h, 10000) == UINT64_MAX);
}

TEST(lines_are_rendered_whole_and_in_order)
{
    static const uint64_t values[] = { 1, UINT64_MAX };
    static const struct counter table[] = { { "a", COUNTER_COUNT }, { "b", COUNTER_COUNT } };
    static const struct counter_group group = { "x.", "", table, values, 2, NULL, 0 };
    stats_clear();
    stats_add_counters(&group);
    stats_add_transport();
    stats_add_fact("build", "abc");
    histogram_clear(&h);
    histogram_add(&h, 5);
    histogram_add(&h, 8);
    stats_add_histogram("answer.total", &h);
    static const char expected[] = "build abc\nanswer.total.count 2\nanswer.total.mean_ns 6\nanswer.total.p50_ns 5\n"
                                   "answer.total.p90_ns 8\nanswer.total.p99_ns 8\nanswer.total.p999_ns 8\n"
                                   "answer.total.p9999_ns 8\n"
                                   "answer.total.max_ns 8\nx.a 1\nx.b 18446744073709551615\nfake.sent 7\n";
    char out[STATS_TEXT_BYTES_MAX];
    assert_int_equal(stats_render(out, sizeof out), sizeof expected - 1);
    assert_string_equal(out, expected);

    for (size_t room = 1; room < sizeof expected; room++) {
        size_t bytes = stats_render(out, room);
        assert_true(bytes < room);
        assert_int_equal(out[bytes], 0);
        assert_memory_equal(out, expected, bytes);
        assert_true(bytes == 0 || out[bytes - 1] == '\n');
    }
}

TEST(a_copy_keeps_the_published_values)
{
    static uint64_t a;
    static const struct counter table[] = { { "a", COUNTER_COUNT } };
    static const struct counter_group group = { "x.", "", table, &a, 1, NULL, 0 };
    static struct stats_copy copy;
    stats_clear();
    stats_add_transport();
    stats_add_counters(&group);
    stats_add_histogram("answer.total", &h);
    histogram_clear(&h);
    histogram_add(&h, 5);
    a = 1;
    stats_publish();
    histogram_add(&h, 700);
    a = 2;
    assert_true(stats_copy_read(&copy));
    char line[STATS_LINE_BYTES_MAX];
    static const struct {
        size_t index;
        const char *then, *now;
    } rows[] = {
        { 0, "answer.total.count 1\n", "answer.total.count 2\n" },
        { 1, "answer.total.mean_ns 5\n", "answer.total.mean_ns 352\n" },
        { 7, "answer.total.max_ns 5\n", "answer.total.max_ns 700\n" },
        { 8, "fake.sent 7\n", "fake.sent 7\n" },
        { 9, "x.a 1\n", "x.a 2\n" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        stats_copy_line(&copy, rows[i].index, line, sizeof line);
        assert_string_equal(line, rows[i].then);
        stats_line(rows[i].index, line, sizeof line);
        assert_string_equal(line, rows[i].now);
    }
    assert_int_equal(stats_copy_line(&copy, 10, line, sizeof line), 0);
}

TEST(a_long_fact_is_cut_and_still_ends_its_line)
{
    char text[400], line[STATS_LINE_BYTES_MAX];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    stats_clear();
    stats_add_fact("long", text);
    size_t bytes = stats_line(0, line, sizeof line);
    assert_true(bytes < sizeof line && line[bytes - 1] == '\n' && line[bytes] == '\0');
    assert_int_equal(stats_line(1, line, sizeof line), 0);
}
