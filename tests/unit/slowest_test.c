/* base/slowest.c against all ways, sorted; and its lines in the statistics. */
#include "app/service/slow.h"
#include "app/service/stats.h"
#include "base/log.h"
#include "base/slowest.h"
#include "base/trace.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"

#define MINUTE_NS (60 * NS_PER_S)

static struct slow_way listed[SLOWEST_COUNT];

BEFORE_EACH()
{
    stats_clear();
    slow_init();
    memset(&trace, 0, sizeof trace);
}

static void note(uint64_t at_ns, uint64_t total_ns)
{
    const struct slow_way way = { .at_ns = at_ns, .total_ns = total_ns };
    slowest_note(&way);
}

static int slower_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

TEST(the_slowest_of_many_are_kept)
{
    static uint64_t totals[5000];
    for (size_t i = 0; i < ARRAY_COUNT(totals); i++)
        note(i, totals[i] = 1 + random_below(1000000));
    qsort(totals, ARRAY_COUNT(totals), sizeof *totals, slower_first);
    assert_int_equal(slowest_list(listed, ARRAY_COUNT(totals)), SLOWEST_COUNT);
    for (size_t i = 0; i < SLOWEST_COUNT; i++)
        assert_int_equal(listed[i].total_ns, totals[i]);
}

/* Notes a way each second for five hours. At any time the list is that of the last hour and of the ten minutes in which
 * it began. */
TEST(the_list_is_that_of_the_last_hour)
{
    enum { SECONDS = 5 * 3600 };
    static uint64_t totals[SECONDS], sorted[4200];
    for (size_t i = 0; i < SECONDS; i++) {
        totals[i] = 1 + random_below(1000) * (i < 3600 ? 10 : 1); /* the first hour is slow: it must be forgotten */
        note(i * NS_PER_S, totals[i]);
        if (i % 37 != 36)
            continue;
        size_t from = i >= 3600 ? (i - 3600) / 600 * 600 : 0, count = i - from + 1;
        memcpy(sorted, totals + from, count * sizeof *sorted);
        qsort(sorted, count, sizeof *sorted, slower_first);
        assert_int_equal(slowest_list(listed, i * NS_PER_S), SLOWEST_COUNT);
        for (size_t k = 0; k < SLOWEST_COUNT; k++)
            assert_int_equal(listed[k].total_ns, sorted[k]);
    }
}

TEST(an_old_way_is_forgotten_though_none_is_slower)
{
    note(MINUTE_NS, 500); /* in the generation that began at 0 */
    assert_int_equal(slowest_list(listed, 70 * MINUTE_NS - 1), 1);
    assert_int_equal(slowest_list(listed, 70 * MINUTE_NS), 0);
    for (uint64_t i = 0; i < SLOWEST_COUNT; i++)
        note(90 * MINUTE_NS, 1000);
    assert_false(slowest_would_keep(1000, 91 * MINUTE_NS));
    assert_true(slowest_would_keep(1001, 91 * MINUTE_NS));
    assert_true(slowest_would_keep(1, 100 * MINUTE_NS));
    note(160 * MINUTE_NS, 7);
    assert_int_equal(slowest_list(listed, 160 * MINUTE_NS), 1);
    assert_int_equal(listed[0].total_ns, 7);
}

TEST(ways_are_lines_with_the_turn_before_and_what_rose_meanwhile)
{
    static uint64_t values[] = { 5, 2, 9 }, *const kicks = &values[0], *const resends = &values[1];
    static const struct counter table[] = { { "virtio_net.rx_kicks", COUNTER_COUNT },
                                            { "tcp.tx_resends", COUNTER_COUNT },
                                            { "gve.state_exits", COUNTER_COUNT } };
    static const struct counter_group group = { "", "", table, values, ARRAY_COUNT(table), NULL, 0 };
    static struct stats_copy copy;
    char line[STATS_LINE_BYTES_MAX];
    stats_add_counters(&group);
    slow_init();
    assert_int_equal(stats_line(3, line, sizeof line), 0);
    stats_set_ways("a_ns b_ns c_ns");
    assert_int_equal(stats_line(3, line, sizeof line), 0); /* none is kept */
    ++*kicks;
    slow_turn();
    trace_work(TRACE_WORK_TABLES);
    trace_work(TRACE_WORK_PAGE);
    trace_turn(777);
    *kicks += 3, ++*resends, ++values[2];
    log_clock_ns = 12 * NS_PER_S + 3456789;
    slow_note(5000, (const uint64_t[]){ 1000, 0, UINT64_MAX }, log_clock_ns);
    trace_turn(778);
    slow_turn();
    slow_note(6000, (const uint64_t[]){ 0, 0, 0 }, log_clock_ns);
    stats_publish();
    slow_note(7000, (const uint64_t[]){ 0, 0, 0 }, log_clock_ns);
    slow_note(0, (const uint64_t[]){ 0, 0, 0 }, log_clock_ns); /* is left out */
    assert_true(stats_copy_read(&copy));
    static const char *const expected[] = {
        "slow.columns at_s total_ns a_ns b_ns c_ns turn_ns work resends exits\n",
        "slow.01 12.003456 6000 0 0 0 778 - 0 0\n",
        "slow.02 12.003456 5000 1000 0 4294967295 777 tables+page 1 4\n",
        "",
    };
    for (size_t i = 0; i < ARRAY_COUNT(expected); i++) {
        line[0] = '\0';
        stats_copy_line(&copy, 3 + i, line, sizeof line);
        assert_string_equal(line, expected[i]);
    }
    stats_line(3, line, sizeof line);
    assert_int_equal(stats_line(7, line, sizeof line), 0);
    stats_line(4, line, sizeof line);
    assert_string_equal(line, "slow.01 12.003456 7000 0 0 0 778 - 0 0\n");
}
