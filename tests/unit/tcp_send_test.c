/* Sending: Nagle, silly windows, closed windows and their probes, the timeout's table, keepalive. */
#include "tests/lib/tcp_fixture.h"

TEST(last_segment_is_pushed)
{
    peer_connect(p, OFFER_PLAIN);
    peer_write(p, 4000);
    EXPECT(p, A, 1, 1, 1460);
    EXPECT(p, A, 1461, 1, 1460);
    EXPECT(p, PA, 2921, 1, 1080);
    peer_send(p, A, 1, 4001, NULL, 0);
}

/* RFC 9293 SHLD-7, in Minshall's form: only an unacknowledged small segment holds back another. */
TEST(nagle_holds_back_a_second_small_segment)
{
    peer_connect(p, OFFER_PLAIN);
    peer_write(p, 10);
    EXPECT(p, PA, 1, 1, 10);
    peer_write(p, 10);
    peer_write(p, 10);
    EXPECT_NONE(p);
    peer_write(p, 1460); /* a full one goes */
    EXPECT(p, A, 11, 1, 1460);
    EXPECT_NONE(p);
    peer_send(p, A, 1, 11, NULL, 0);
    EXPECT(p, PA, 1471, 1, 20);
    peer_send(p, A, 1, 1491, NULL, 0);
    peer_write(p, 1500); /* none is outstanding: the tail goes at once */
    EXPECT(p, A, 1491, 1, 1460);
    EXPECT(p, PA, 2951, 1, 40);
    peer_send(p, A, 1, 2991, NULL, 0);
}

/* Plays a small segment more than 2^31 bytes after the last one. */
TEST(nagle_forgets_the_small_segment_of_long_ago)
{
    peer_connect(p, OFFER_PLAIN);
    struct tcp_connection *c = &p->stack->tcp.connections[p->id];
    c->snd_small_end = c->snd_una - 0x80000001;
    peer_write(p, 10);
    EXPECT(p, PA, 1, 1, 10);
    peer_send(p, A, 1, 11, NULL, 0);
}

/* RFC 9293 MUST-17. */
TEST(nagle_can_be_off)
{
    peer_connect(p, OFFER_PLAIN);
    peer_write(p, 10);
    EXPECT(p, PA, 1, 1, 10);
    peer_write(p, 10);
    EXPECT_NONE(p);
    tcp_set_nodelay(p->stack, p->id, true, p->now_ns);
    peer_step(p);
    EXPECT(p, PA, 11, 1, 10); /* the bytes held back */
    for (uint32_t i = 0; i < 5; i++) {
        peer_write(p, 1);
        EXPECT(p, PA, 21 + i, 1, 1);
    }
    peer_send(p, A, 1, 26, NULL, 0);
}

TEST(window_of_the_peer_is_not_overrun)
{
    p->window = 2000;
    peer_connect(p, OFFER_PLAIN);
    peer_write(p, 10000);
    EXPECT(p, A, 1, 1, 1460);
    EXPECT_NONE(p); /* 540 would be silly: less than half the window */
    peer_send(p, A, 1, 1461, NULL, 0);
    EXPECT(p, A, 1461, 1, 1460);
    p->window = 4000;
    peer_send(p, A, 1, 1461, NULL, 0); /* an update: room for one more */
    EXPECT(p, A, 2921, 1, 1460);
    EXPECT_NONE(p);
}

/* RFC 9293 MUST-1: the window is unsigned. */
TEST(window_above_32767_is_used)
{
    struct tcp_policy policy = peer_policy_default();
    policy.initial_window_segments = 45;
    begin_with(&policy);
    p->window = 0x8000 + 4000;
    peer_connect(p, OFFER_PLAIN);
    peer_write(p, 60000);
    uint32_t bytes = 0;
    for (struct seen s; peer_take(p, &s);)
        bytes += s.bytes;
    EXPECT_NUMBER("bytes in flight", bytes, 25 * 1460);
}

/* RFC 9293 §3.8.6.2.1 (3): half of the largest window so far; (4): after the override timeout, any size. */
TEST(small_window_is_used_in_the_end)
{
    p->window = 1000;
    peer_connect(p, OFFER_PLAIN);
    peer_write(p, 3000);
    EXPECT(p, PA, 1, 1, 1000);
    p->window = 600;
    peer_send(p, A, 1, 1001, NULL, 0);
    EXPECT(p, PA, 1001, 1, 600);
    p->window = 300;
    peer_send(p, A, 1, 1601, NULL, 0);
    EXPECT_NONE(p);
    uint64_t began_ns = p->now_ns;
    assert_true(peer_wait(p, 2 * S));
    struct seen *s = EXPECT(p, PA, 1601, 1, 300);
    EXPECT_BETWEEN("the override, ms", (s->at_ns - began_ns) / MS, 100, 1000);
}

/* RFC 9293 MUST-36, MUST-37: probes double their distance up to a bound, and go on as long as they are answered. */
TEST(closed_window_is_probed_for_as_long_as_answers_come)
{
    p->window = 0;
    peer_connect(p, OFFER_PLAIN);
    peer_write(p, 100);
    EXPECT_NONE(p);
    uint64_t wait_ms = 200, previous_ns = p->now_ns;
    for (int i = 0; i < 20; i++) {
        assert_true(peer_wait(p, 200 * S));
        struct seen *s = EXPECT(p, A, 0, 1, 0);
        EXPECT_NUMBER("distance of probes, ms", (s->at_ns - previous_ns) / MS, wait_ms);
        previous_ns = s->at_ns;
        wait_ms = wait_ms * 2 > 120000 ? 120000 : wait_ms * 2;
        peer_send(p, A, 1, 1, NULL, 0);
    }
    EXPECT_STATE(p, TCP_ESTABLISHED);
    p->window = 100;
    peer_send(p, A, 1, 1, NULL, 0);
    EXPECT(p, PA, 1, 1, 100);
    peer_send(p, A, 1, 101, NULL, 0);
    p->window = 0; /* the next closure begins with the first distance again */
    peer_send(p, A, 1, 101, NULL, 0);
    previous_ns = p->now_ns;
    peer_write(p, 10);
    assert_true(peer_wait(p, 200 * S));
    EXPECT_NUMBER("first probe, ms", (EXPECT(p, A, 100, 1, 0)->at_ns - previous_ns) / MS, 200);
}

TEST(closed_window_without_answers_is_given_up)
{
    struct tcp_policy policy = peer_policy_default();
    policy.data_give_up_us = 100000000;
    begin_with(&policy);
    p->window = 0;
    peer_connect(p, OFFER_PLAIN);
    peer_write(p, 100);
    peer_pass(p, 99 * S);
    EXPECT_STATE(p, TCP_ESTABLISHED);
    peer_pass(p, 200 * S);
    EXPECT_STATE(p, TCP_CLOSED);
    assert_int_equal(tcp_take_error(p->stack, p->id), TCP_TIMED_OUT);
    for (struct seen s; peer_take(p, &s);) {
    }
}

static uint64_t busy_ms(void)
{
    struct tcp_info info;
    tcp_info(p->stack, p->id, &info);
    return (info.busy_ns + (info.busy_since_ns != 0 ? p->now_ns - info.busy_since_ns : 0)) / MS;
}

/* Counts the time from the write to the last ACK, over a closed window, too; not that of a FIN alone. */
TEST(busy_time_begins_with_the_write)
{
    p->window = 0;
    peer_connect(p, OFFER_PLAIN);
    peer_pass(p, S);
    EXPECT_NUMBER("busy ms", busy_ms(), 0);
    peer_write(p, 1000);
    peer_pass(p, 150 * MS);
    EXPECT_NUMBER("busy ms", busy_ms(), 150);
    p->window = 2000;
    peer_send(p, A, 1, 1, NULL, 0);
    EXPECT(p, PA, 1, 1, 1000);
    peer_pass(p, 30 * MS);
    EXPECT_NUMBER("busy ms", busy_ms(), 180);
    peer_send(p, A, 1, 1001, NULL, 0);
    peer_pass(p, S);
    EXPECT_NUMBER("busy ms", busy_ms(), 180);

    peer_write(p, 3000); /* more than the window: the rest goes on waiting */
    EXPECT(p, A, 1001, 1, 1460);
    peer_pass(p, 20 * MS);
    p->window = 0;
    peer_send(p, A, 1, 2461, NULL, 0);
    peer_pass(p, 100 * MS);
    EXPECT_NUMBER("busy ms", busy_ms(), 300);
    p->window = 2000;
    peer_send(p, A, 1, 2461, NULL, 0);
    EXPECT(p, A, 2461, 1, 1460);
    EXPECT(p, PA, 3921, 1, 80);
    peer_send(p, A, 1, 4001, NULL, 0);
    EXPECT_NUMBER("busy ms", busy_ms(), 300);
    tcp_shutdown(p->stack, p->id, p->now_ns);
    peer_step(p);
    EXPECT(p, FA, 4001, 1, 0);
    peer_pass(p, 100 * MS);
    EXPECT_NUMBER("busy ms", busy_ms(), 300);
}

TEST(window_update_lost_is_found_by_a_probe)
{
    p->window = 1000;
    peer_connect(p, OFFER_PLAIN);
    peer_write(p, 2000);
    EXPECT(p, PA, 1, 1, 1000);
    p->window = 0;
    peer_send(p, A, 1, 1001, NULL, 0);
    assert_true(peer_wait(p, S));
    EXPECT(p, A, 1000, 1, 0);
    p->window = 5000; /* the answer carries the window of the lost update */
    peer_send(p, A, 1, 1001, NULL, 0);
    EXPECT(p, PA, 1001, 1, 1000);
}

/* RFC 9293 MUST-34: if the window shrinks to nothing, data in flight is sent again as the probe, and the connection
 * lives. */
TEST(window_that_shrinks_under_data_in_flight_does_no_harm)
{
    struct tcp_policy policy = peer_policy_default();
    policy.data_give_up_us = 100000000;
    begin_with(&policy);
    peer_connect(p, OFFER_PLAIN);
    peer_write(p, 5000);
    for (uint32_t i = 0; i < 3; i++)
        EXPECT(p, A, 1 + 1460 * i, 1, 1460);
    EXPECT(p, PA, 4381, 1, 620);
    p->window = 0;
    peer_send(p, A, 1, 1461, NULL, 0);
    for (int i = 0; i < 12; i++) {
        assert_true(peer_wait(p, 200 * S));
        EXPECT(p, A, 1461, 1, 1460); /* only the front */
        EXPECT_NONE(p);
        peer_send(p, A, 1, 1461, NULL, 0);
    }
    EXPECT_STATE(p, TCP_ESTABLISHED);
    p->window = 65535;
    peer_send(p, A, 1, 1461, NULL, 0);
    assert_true(peer_wait(p, 200 * S));
    EXPECT(p, A, 1461, 1, 1460);
}

TEST(window_smaller_than_the_segment_cuts_the_resend)
{
    peer_connect(p, OFFER_PLAIN);
    peer_write(p, 1000);
    EXPECT(p, PA, 1, 1, 1000);
    p->window = 400;
    peer_send(p, A, 1, 1, NULL, 0);
    assert_true(peer_wait(p, S));
    EXPECT(p, A, 1, 1, 400);
    peer_send(p, A, 1, 401, NULL, 0);
    EXPECT(p, A, 401, 1, 400);
    peer_send(p, A, 1, 801, NULL, 0);
    EXPECT(p, PA, 801, 1, 200);
}

/* RFC 6298 (5.5), R2: the table of a segment that is never answered. */
TEST(unanswered_data_is_sent_again_at_doubled_distances)
{
    struct tcp_policy policy = peer_policy_default();
    policy.rto_min_us = 1000000;
    policy.rto_max_us = 60000000;
    begin_with(&policy);
    static const unsigned seconds[] = { 1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60, 60, 60, 60, 60, 60, 60, 60, 60 };
    peer_connect(p, OFFER_PLAIN);
    peer_write(p, 100);
    EXPECT(p, PA, 1, 1, 100);
    for (size_t i = 0; i < ARRAY_COUNT(seconds); i++) {
        assert_true(peer_wait(p, 100 * S));
        EXPECT_AFTER(p, EXPECT(p, PA, 1, 1, 100), seconds[i] * S);
    }
    assert_false(peer_wait(p, 56 * S)); /* 843 + 57 = 900 s */
    EXPECT_STATE(p, TCP_ESTABLISHED);
    assert_false(peer_wait(p, 2 * S));
    EXPECT_STATE(p, TCP_CLOSED);
    assert_int_equal(tcp_take_error(p->stack, p->id), TCP_TIMED_OUT);
}

/* RFC 6298 §2: the numbers of the formula. */
TEST(timeout_follows_the_measured_round_trips)
{
    struct tcp_policy policy = peer_policy_default();
    struct tcp_info info;
    policy.rto_min_us = 1000;
    begin_with(&policy);
    open_sends_syn();
    peer_pass(p, 100 * MS);
    peer_send(p, SA, 0, 1, NULL, 0);
    EXPECT(p, A, 1, 1, 0);
    double srtt = 100, rttvar = 50;
    static const unsigned rtts[] = { 100, 80, 120, 150, 100, 100, 10 };
    uint32_t seq = 1;
    for (size_t i = 0; i < ARRAY_COUNT(rtts); i++) {
        peer_write(p, 10);
        EXPECT(p, PA, seq, 1, 10);
        seq += 10;
        peer_pass(p, rtts[i] * MS);
        peer_send(p, A, 1, seq, NULL, 0);
        double distance = srtt > rtts[i] ? srtt - rtts[i] : rtts[i] - srtt;
        rttvar = 0.75 * rttvar + 0.25 * distance;
        srtt = 0.875 * srtt + 0.125 * rtts[i];
        tcp_info(p->stack, p->id, &info);
        EXPECT_BETWEEN("srtt us", info.srtt_us, (uint64_t)(srtt * 1000) - 2, (uint64_t)(srtt * 1000) + 2);
        EXPECT_BETWEEN("rttvar us", info.rttvar_us, (uint64_t)(rttvar * 1000) - 2, (uint64_t)(rttvar * 1000) + 2);
        EXPECT_BETWEEN("rto us", info.rto_us, (uint64_t)((srtt + 4 * rttvar) * 1000) - 4,
                       (uint64_t)((srtt + 4 * rttvar) * 1000) + 4);
    }
}

/* Takes no sample from the ACK of a resent segment (Karn's algorithm). The doubled timeout stays until the next
 * sample. */
TEST(resent_segment_measures_nothing)
{
    struct tcp_info info;
    uint32_t srtt_us;
    peer_connect(p, OFFER_PLAIN);
    tcp_info(p->stack, p->id, &info);
    srtt_us = info.srtt_us;
    peer_write(p, 10);
    EXPECT(p, PA, 1, 1, 10);
    assert_true(peer_wait(p, S));
    EXPECT(p, PA, 1, 1, 10);
    peer_pass(p, 50 * MS);
    peer_send(p, A, 1, 11, NULL, 0);
    tcp_info(p->stack, p->id, &info);
    assert_int_equal(info.srtt_us, srtt_us);
    assert_int_equal(info.rto_us, 400000);
    peer_write(p, 10);
    EXPECT(p, PA, 11, 1, 10);
    peer_pass(p, 50 * MS);
    peer_send(p, A, 1, 21, NULL, 0);
    tcp_info(p->stack, p->id, &info);
    assert_true(info.srtt_us > srtt_us);
    assert_int_equal(info.rto_us, 200000 + info.srtt_us);
}

TEST(timestamps_measure_even_resends)
{
    struct tcp_policy policy = peer_policy_default();
    policy.tail_probe = false;
    begin_with(&policy);
    struct tcp_info info;
    peer_connect(p, OFFER_ALL);
    peer_write(p, 10);
    EXPECT(p, PA, 1, 1, 10);
    assert_true(peer_wait(p, S));
    EXPECT(p, PA, 1, 1, 10);
    peer_pass(p, 80 * MS);
    peer_send(p, A, 1, 11, NULL, 0); /* echoes the resend's */
    tcp_info(p->stack, p->id, &info);
    EXPECT_BETWEEN("srtt us", info.srtt_us, 9000, 11000); /* 1/8 of 80 ms */
}

/* RFC 9293 MUST-24 to 29. */
TEST(keepalive_is_off_and_probes_when_on)
{
    peer_connect(p, OFFER_PLAIN);
    assert_false(peer_wait(p, 3 * 7200 * S));
    tcp_set_keepalive(p->stack, p->id, true, p->now_ns);
    uint64_t began_ns = p->now_ns;
    assert_true(peer_wait(p, 8000 * S));
    struct seen *s = EXPECT(p, A, 0, 1, 0); /* SND.NXT - 1, no data */
    EXPECT_NUMBER("idle s", (s->at_ns - began_ns) / S, 7200);
    peer_send(p, A, 1, 1, NULL, 0); /* alive: 2 h again */
    began_ns = p->now_ns;
    assert_true(peer_wait(p, 8000 * S));
    EXPECT_NUMBER("idle s", (EXPECT(p, A, 0, 1, 0)->at_ns - began_ns) / S, 7200);
    for (int i = 0; i < 8; i++) { /* MUST-26: one lost answer is not the end */
        assert_true(peer_wait(p, 100 * S));
        EXPECT_AFTER(p, EXPECT(p, A, 0, 1, 0), 75 * S);
        EXPECT_STATE(p, TCP_ESTABLISHED);
    }
    assert_true(peer_wait(p, 80 * S));
    EXPECT_AFTER(p, EXPECT(p, TCP_RST | A, 1, 1, 0), 75 * S);
    EXPECT_STATE(p, TCP_CLOSED);
    assert_int_equal(tcp_take_error(p->stack, p->id), TCP_TIMED_OUT);
}

/* Takes all transmit buffers away for longer than all probes take. */
TEST(keepalive_that_could_not_leave_does_not_count)
{
    static struct tx_buffer *buffers[NETDEV_IP_BUFFER_COUNT];
    struct netdev *device = &p->device.device;
    size_t count = 0;
    peer_connect(p, OFFER_PLAIN);
    tcp_set_keepalive(p->stack, p->id, true, p->now_ns);
    while (count < NETDEV_IP_BUFFER_COUNT && (buffers[count] = device->ops->tx_acquire(device)) != NULL)
        count++;
    assert_true(count > 0);
    peer_pass(p, (7200 + 12 * 75) * S);
    while (count > 0)
        device->ops->tx_release(device, buffers[--count]);
    EXPECT_STATE(p, TCP_ESTABLISHED);
    assert_true(peer_wait(p, 76 * S));
    EXPECT(p, A, 0, 1, 0);
    peer_send(p, A, 1, 1, NULL, 0);
}

/* RFC 5681 §4.1. */
TEST(window_after_idle_is_the_initial_window)
{
    struct tcp_info info;
    peer_connect(p, OFFER_PLAIN);
    uint32_t seq = 1;
    for (int i = 0; i < 3; i++) {
        peer_write(p, 20 * 1460);
        for (struct seen s; peer_take(p, &s);)
            peer_send(p, A, 1, s.seq + s.bytes, NULL, 0);
        seq += 20 * 1460;
    }
    tcp_info(p->stack, p->id, &info);
    assert_true(info.cwnd_bytes > 20 * 1460);
    peer_pass(p, 10 * S);
    peer_write(p, 20 * 1460);
    uint32_t count = 0;
    for (struct seen s; peer_take(p, &s);)
        count++;
    EXPECT_NUMBER("segments at once", count, 10);
    peer_send(p, A, 1, seq + 20 * 1460, NULL, 0);
}

TEST(initial_window_is_ten_segments_or_as_configured)
{
    static const uint32_t segments[] = { 1, 2, 3, 4, 10, 16 };
    for (size_t i = 0; i < ARRAY_COUNT(segments); i++) {
        struct tcp_policy policy = peer_policy_default();
        policy.initial_window_segments = segments[i];
        begin_with(&policy);
        peer_connect(p, OFFER_PLAIN);
        peer_write(p, 60000);
        uint32_t count = 0;
        for (struct seen s; peer_take(p, &s);)
            count++;
        EXPECT_NUMBER("segments at once", count, segments[i]);
    }
}

TEST(send_buffer_bounds_a_write)
{
    static uint8_t data[100000];
    p->window = 0;
    peer_connect(p, OFFER_PLAIN);
    assert_int_equal(tcp_write(p->stack, p->id, data, sizeof data, p->now_ns), 65536);
    assert_int_equal(tcp_write(p->stack, p->id, data, 1, p->now_ns), TCP_AGAIN);
    assert_int_equal(tcp_poll_bits(p->stack, p->id) & TCP_POLL_WRITE, 0);
}

/* Fills the queue of segments, then shrinks the window below one segment. A full queue has no place for the rest of a
 * segment that is cut. */
TEST(full_queue_goes_on_in_a_window_below_its_segments)
{
    enum { SEGMENTS = 128, BYTES = 400 };
    struct tcp_policy policy = peer_policy_default();
    policy.nodelay = true;
    begin_with(&policy);
    peer_connect(p, OFFER_PLAIN);
    p->stack->tcp.connections[p->id].congestion.cwnd = 1u << 20;
    for (uint32_t i = 0; i < SEGMENTS; i++)
        peer_write(p, BYTES);
    for (struct seen s; peer_take(p, &s);) {
    }
    p->window = 150;
    uint32_t una = 1;
    peer_send(p, A, 1, una, NULL, 0);
    while (una < 1 + 3 * BYTES) {
        struct seen s;
        assert_true(peer_wait(p, 100 * S));
        while (peer_take(p, &s)) {
            assert_true(s.bytes <= 150);
            if (s.seq <= una && s.seq + s.bytes > una)
                una = s.seq + s.bytes;
        }
        peer_send(p, A, 1, una, NULL, 0);
    }
    tcp_abort(p->stack, p->id, p->now_ns);
    peer_step(p);
    for (struct seen s; peer_take(p, &s);) {
    }
}
