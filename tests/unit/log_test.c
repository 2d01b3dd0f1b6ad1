/* The log ring and its sinks. Each test begins with the lines that the test before left in the ring. */
#include "base/log.h"
#include "tests/lib/test.h"

/* Two sinks for the whole program: one takes everything, the other as many bytes as a test allows. */
static char eager[1 << 20], slow[1 << 20];
static size_t eager_bytes, slow_bytes, slow_step, slow_calls;
static size_t slow_room; /* bytes that the slow sink takes in all before it stalls */

static size_t eager_sink(const char *text, size_t bytes)
{
    memcpy(eager + eager_bytes, text, bytes);
    eager_bytes += bytes;
    return bytes;
}

static size_t slow_sink(const char *text, size_t bytes)
{
    size_t taken = min_size(min_size(bytes, slow_step), slow_room);
    slow_calls++;
    slow_room -= taken;
    memcpy(slow + slow_bytes, text, taken);
    slow_bytes += taken;
    return taken;
}

BEFORE_EACH()
{
    static bool added;
    if (!added) {
        log_add_sink(eager_sink);
        log_add_sink(slow_sink);
        added = true;
    }
    log_defer(false);
    slow_step = slow_room = SIZE_MAX;
    log_flush();
    eager_bytes = slow_bytes = slow_calls = 0;
    log_lines_missed_count = 0;
    log_clock_ns = 0;
}

TEST(log_line_has_stamp_and_newline)
{
    log_clock_ns = 12345678901;
    log_line("hello %d", 7);
    assert_int_equal(eager_bytes, strlen("[   12.345678] hello 7\n"));
    assert_memory_equal(eager, "[   12.345678] hello 7\n", eager_bytes);
}

TEST(log_line_makes_control_characters_harmless)
{
    log_line("a\nb\x1b[31m\x7f");
    assert_memory_equal(eager + 15, "a?b?[31m?\n", 10);
}

TEST(log_line_too_long_is_cut)
{
    char text[2 * LOG_LINE_BYTES_MAX];
    memset(text, 'x', sizeof text);
    log_line("%.*s", (int)sizeof text, text);
    assert_int_equal(eager_bytes, LOG_LINE_BYTES_MAX);
    assert_int_equal(eager[eager_bytes - 1], '\n');
}

TEST(log_deferred_writes_nothing_until_drained)
{
    log_defer(true);
    slow_step = 3;
    log_line("0123456789");
    assert_int_equal(eager_bytes, 0);
    assert_true(log_drain());
    assert_int_equal(slow_bytes, 3);
    int calls = 1;
    while (log_drain())
        calls++;
    assert_int_equal(calls, (15 + 11 + 2) / 3 - 1); /* the last call returns false, because nothing is left */
    assert_int_equal(slow_bytes, eager_bytes);
    assert_memory_equal(slow, eager, eager_bytes);
}

TEST(log_sink_that_is_overtaken_loses_whole_lines)
{
    log_defer(true);
    slow_step = 0;
    for (int i = 0; i < 10000; i++)
        log_line("line %04d", i);
    slow_step = SIZE_MAX;
    while (log_drain()) {
    }
    assert_true(log_lines_missed_count > 0);
    assert_true(slow_bytes <= LOG_RING_BYTES);
    assert_int_equal(slow[0], '[');
    assert_memory_equal(slow + slow_bytes - 10, "line 9999\n", 10);
    size_t lines = 0;
    for (size_t i = 0; i < slow_bytes; i++)
        lines += slow[i] == '\n';
    assert_int_equal(slow_bytes, lines * 25); /* none is torn */
}

TEST(log_flush_gives_up_on_a_stalled_sink)
{
    slow_step = 0;
    log_line("nobody reads this");
    assert_int_equal(slow_bytes, 0);
    assert_int_equal(log_lines_missed_count, 1);
    slow_step = SIZE_MAX;
    log_line("but this");
    assert_memory_equal(slow + 15, "but this\n", 9);
}

TEST(log_flush_counts_each_line_that_a_stalled_sink_misses)
{
    log_defer(true);
    slow_step = 0;
    for (int i = 0; i < 3; i++)
        log_line("nobody reads line %d", i);
    log_flush();
    assert_int_equal(log_lines_missed_count, 3);
}

TEST(log_flush_ends_a_line_that_was_torn)
{
    slow_room = 20;
    log_line("half of this");
    assert_int_equal(log_lines_missed_count, 1);
    slow_room = SIZE_MAX;
    log_line("next");
    assert_int_equal(slow_bytes, 20 + 1 + 15 + 5);
    assert_memory_equal(slow, "[    0.000000] half \n[    0.000000] next\n", slow_bytes);
}

TEST(log_overtaken_sink_ends_its_line)
{
    log_defer(true);
    slow_step = 18;
    log_line("overtaken");
    log_drain();
    for (int i = 0; i < 5000; i++)
        log_line("line %04d", i);
    slow_step = SIZE_MAX;
    while (log_drain()) {
    }
    assert_memory_equal(slow, "[    0.000000] ove\n[", 20);
}

TEST(log_flush_waits_less_for_a_sink_that_has_stalled)
{
    slow_step = 0;
    log_line("first");
    size_t first = slow_calls;
    log_line("second");
    assert_true((slow_calls - first) * 10 < first);
    slow_step = SIZE_MAX;
    log_line("it is back");
    slow_step = slow_calls = 0;
    log_line("gone again");
    assert_int_equal(slow_calls, first);
}

TEST(log_tail_holds_the_newest_whole_lines)
{
    log_line("one");
    log_line("two");
    log_line("three");
    char line[LOG_LINE_BYTES_MAX];
    uint64_t end, begin = log_tail_position(45, &end); /* 15 + 4 and 15 + 6 fit, 15 + 4 more does not */
    assert_int_equal(end - begin, 40);
    assert_int_equal(end, log_end());
    assert_int_equal(log_read(&begin, line), 19);
    assert_memory_equal(line, "[    0.000000] two\n", 19);
    assert_int_equal(log_tail_position(20, &end), end);
}

TEST(log_sink_added_late_gets_the_lines_in_the_ring)
{
    log_line("before");
    eager_bytes = 0;
    log_add_sink(eager_sink); /* again: a third sink into the same buffer */
    char line[LOG_LINE_BYTES_MAX];
    uint64_t position = 0;
    size_t at = 0, bytes;
    for (; (bytes = log_read(&position, line)) != 0; at += bytes)
        assert_memory_equal(eager + at, line, bytes);
    assert_int_equal(eager_bytes, at);
}

TEST(log_read_continues_at_its_position)
{
    char line[LOG_LINE_BYTES_MAX];
    uint64_t position = 0;
    while (log_read(&position, line) != 0)
        ;
    log_line("one");
    log_line("two");
    assert_int_equal(log_read(&position, line), strlen("[    0.000000] one\n"));
    assert_memory_equal(line, "[    0.000000] one\n", strlen("[    0.000000] one\n"));
    assert_int_equal(log_read(&position, line), strlen("[    0.000000] two\n"));
    assert_int_equal(log_read(&position, line), 0);
    assert_int_equal(log_read(&position, line), 0);
}

TEST(log_read_skips_overwritten_lines)
{
    char line[LOG_LINE_BYTES_MAX];
    uint64_t position = 0, lines = 0, bytes;
    log_line("old");
    while (log_read(&position, line) != 0)
        ;
    uint64_t before = position;
    for (int i = 0; i < 3000; i++)
        log_line("%04d is the number of this line of the log", i);
    while ((bytes = log_read(&position, line)) != 0) {
        assert_int_equal(line[0], '[');
        assert_int_equal(line[bytes - 1], '\n');
        lines++;
    }
    assert_true(lines > 900 && lines < 3000);
    assert_memory_equal(line + 15, "2999 is", 7);
    assert_int_equal(position - before, 3000 * strlen("[    0.000000] 0000 is the number of this line of the log\n"));
    position += 1000; /* a position of another run: begins with the oldest line again */
    assert_true(log_read(&position, line) != 0);
}
