/* app/service/syslog.c over a fake transport: RFC 5424 to the byte, and its bounds. */
#include "app/service/syslog.h"
#include "base/log.h"
#include "tests/lib/fake_transport.h"
#include "tests/lib/test.h"

static const struct endpoint to = { 0x0a000202, 514 };
static uint64_t now_ns = 1000000000;

/* Drops the text that earlier tests logged: the whole program has one log. */
BEFORE_EACH()
{
    fake_reset();
    syslog_init(&to);
    while (syslog_flush_step(now_ns)) {
    }
    syslog_counters.lines_sent = 0;
    fake.datagram_count = 0;
    log_wall_origin_ns = UINT64_C(1645358369545511000);
    log_clock_ns = 1500000000;
}

static const char *text(uint32_t index)
{
    static char copy[TRANSPORT_DATAGRAM_BYTES_MAX + 1];
    assert_true(index < fake.datagram_count);
    memcpy(copy, fake.datagrams[index].data, fake.datagrams[index].bytes);
    copy[fake.datagrams[index].bytes] = '\0';
    return copy;
}

/* Returns the message after the structured data, whose sequence number grows from test to test. */
static const char *message(uint32_t index) { return strchr(text(index), ']') + 2; }

static void pass(uint64_t ns)
{
    for (uint64_t end = now_ns + ns; now_ns < end; now_ns += 100000)
        syslog_poll(now_ns);
}

TEST(line_is_a_message_of_rfc_5424)
{
    syslog_init(&to);
    log_line("back to Linux: deadline");
    uint32_t last = 0;
    while (syslog_flush_step(now_ns))
        last = fake.datagram_count - 1;
    const char *expected = "<133>1 2022-02-20T11:59:31.045511Z 10.0.2.15 peregrine - - [meta sequenceId=\"";
    assert_memory_equal(text(last), expected, strlen(expected));
    char end[80];
    snprintf(end, sizeof end, "\"%u\" sysUpTime=\"150\"] back to Linux: deadline",
             (unsigned)(syslog_counters.lines_sent + syslog_counters.lines_missed));
    assert_string_equal(text(last) + strlen(expected) - 1, end);
    assert_int_equal(fake.datagrams[last].address, 0x0a000202);
    assert_int_equal(fake.datagrams[last].to_port, 514);
}

TEST(severity_depends_on_the_lines_text)
{
    log_line("trap: page fault (14)");
    log_line("panic: no");
    log_line("net: link up");
    log_line("breaker: open");
    pass(10000000);
    assert_memory_equal(text(0), "<130>1 ", 7);
    assert_memory_equal(text(1), "<130>1 ", 7);
    assert_memory_equal(text(2), "<134>1 ", 7);
    assert_memory_equal(text(3), "<133>1 ", 7);
}

TEST(unknown_time_or_address_is_a_dash)
{
    log_wall_origin_ns = log_clock_ns = 0;
    log_line("x");
    pass(2000000);
    assert_memory_equal(text(0), "<134>1 - 10.0.2.15 ", 19);
    assert_non_null(strstr(text(0), " sysUpTime=\"0\"] x"));
    fake.network.address = 0;
    log_line("y");
    pass(2000000);
    assert_memory_equal(text(1), "<134>1 - - peregrine - - [", 26);
}

TEST(at_most_one_line_a_millisecond)
{
    for (int i = 0; i < 20; i++)
        log_line("%d", i);
    syslog_poll(now_ns);
    assert_int_equal(syslog_next_deadline_ns(), now_ns + SYSLOG_PERIOD_NS);
    syslog_poll(now_ns + SYSLOG_PERIOD_NS - 1);
    assert_int_equal(fake.datagram_count, 1);
    syslog_poll(now_ns + SYSLOG_PERIOD_NS);
    assert_int_equal(fake.datagram_count, 2);
    pass(10000000);
    assert_in_range(fake.datagram_count, 10, 11);
    pass(20000000);
    assert_int_equal(fake.datagram_count, 20);
    assert_string_equal(message(19), "19");
}

TEST(network_that_is_down_or_busy_loses_nothing)
{
    fake.network.up = false;
    log_line("one");
    assert_true(syslog_next_deadline_ns() == UINT64_MAX);
    const uint64_t due_ns = now_ns + SYSLOG_SETTLE_NS;
    pass(5000000);
    assert_false(syslog_flush_step(now_ns));
    assert_int_equal(fake.datagram_count, 0);
    fake.network.up = true;
    assert_int_equal(syslog_next_deadline_ns(), due_ns);
    fake.refuse_udp = true;
    pass(SYSLOG_SETTLE_NS + 5000000);
    assert_true(syslog_counters.send_failed > 0);
    fake.refuse_udp = false;
    pass(5000000);
    assert_int_equal(fake.datagram_count, 1);
    assert_string_equal(message(0), "one");
}

TEST(overwritten_lines_are_counted_and_leave_a_gap)
{
    unsigned before, after;
    log_line("first");
    pass(2000000);
    sscanf(strstr(text(0), "sequenceId"), "sequenceId=\"%u", &before);
    for (int i = 0; i < 3000; i++)
        log_line("%0100d", i);
    pass(2000000);
    sscanf(strstr(text(1), "sequenceId"), "sequenceId=\"%u", &after);
    assert_int_equal(after - before, syslog_counters.lines_missed + 1);
    assert_in_range(syslog_counters.lines_missed, 2300, 2600);
    while (syslog_flush_step(now_ns)) {
    }
    assert_int_equal(syslog_counters.lines_missed + syslog_counters.lines_sent, 3001);
}

TEST(long_line_is_cut_to_the_mtu)
{
    fake.network.mtu_bytes = 300;
    log_line("%0400d", 7);
    pass(2000000);
    assert_int_equal(fake.datagrams[0].bytes, 272);
}

TEST(without_a_receiver_nothing_is_sent)
{
    static const struct endpoint none;
    syslog_init(&none);
    log_line("x");
    pass(2000000);
    assert_false(syslog_flush_step(now_ns));
    assert_int_equal(fake.datagram_count, 0);
    assert_true(syslog_next_deadline_ns() == UINT64_MAX);
}
