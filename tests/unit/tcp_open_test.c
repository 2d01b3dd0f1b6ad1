/* Opening: handshakes from one side and from both, options, sequence numbers, ports, and refused openings. */
#include "tests/lib/tcp_fixture.h"

TEST(options_of_syn_stand_in_linux_order)
{
    p->id = tcp_connect(p->stack, PEER_ADDRESS, PEER_PORT, 0, NULL, p->now_ns);
    peer_step(p);
    const struct seen *syn = EXPECT(p, TCP_SYN, 0, 0, 0);
    assert_int_equal(syn->option_bytes, 20);
    assert_memory_equal(syn->options, "\x02\x04\x05\xb4\x04\x02\x08\x0a", 8);
    assert_memory_equal(syn->options + 12, "\0\0\0\0\x01\x03\x03\0", 8);
    assert_int_equal(syn->window, 65535);
    assert_true(syn->dont_fragment);
}

TEST(disabled_options_are_not_offered)
{
    static const struct {
        bool sack, timestamps, scaling;
        uint32_t bytes;
        const char *text;
    } table[] = {
        { false, false, false, 4, "\x02\x04\x05\xb4" },
        { true, false, false, 8, "\x02\x04\x05\xb4\x01\x01\x04\x02" },
        { false, false, true, 8, "\x02\x04\x05\xb4\x01\x03\x03\x00" },
        { true, false, true, 12, "\x02\x04\x05\xb4\x01\x01\x04\x02\x01\x03\x03\x00" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(table); i++) {
        struct tcp_policy policy = peer_policy_default();
        policy.sack = table[i].sack;
        policy.timestamps = table[i].timestamps;
        policy.window_scaling = table[i].scaling;
        p->id = tcp_connect(p->stack, PEER_ADDRESS, PEER_PORT, 0, &policy, p->now_ns);
        peer_step(p);
        const struct seen *syn = EXPECT(p, TCP_SYN, 0, 0, 0);
        assert_int_equal(syn->option_bytes, table[i].bytes);
        assert_memory_equal(syn->options, table[i].text, table[i].bytes);
        tcp_abort(p->stack, p->id, p->now_ns);
    }
}

TEST(handshake_agrees_on_options_that_both_offer)
{
    struct tcp_info info;
    peer_connect(p, OFFER_ALL);
    tcp_info(p->stack, p->id, &info);
    assert_true(info.sack && info.timestamps && info.window_scaling);
    assert_int_equal(info.snd_scale, 7);
    assert_int_equal(info.snd_mss, 1448);
    tcp_abort(p->stack, p->id, p->now_ns);
    peer_step(p);
    EXPECT(p, TCP_RST | A, 1, 1, 0);

    peer_connect(p, (struct offer){ 0, -1, false, false });
    tcp_info(p->stack, p->id, &info);
    assert_false(info.sack || info.timestamps || info.window_scaling);
    assert_int_equal(info.snd_mss, 536); /* MUST-15 */
}

TEST(accepted_connection_answers_with_the_offered_options)
{
    static const struct {
        struct offer offer;
        uint32_t bytes;
    } table[] = {
        { { 1460, 7, true, true }, 20 },   { { 1460, -1, false, false }, 4 }, { { 0, -1, true, false }, 8 },
        { { 1460, -1, false, true }, 16 }, { { 536, 14, false, false }, 8 },
    };
    p->listener = tcp_listen(p->stack, PEER_STACK_PORT, 4, NULL);
    p->stack_port = PEER_STACK_PORT;
    for (size_t i = 0; i < ARRAY_COUNT(table); i++) {
        uint8_t options[40];
        uint32_t at = 0;
        p->peer_port = (uint16_t)(5000 + i);
        if (table[i].offer.mss) {
            memcpy(options, (uint8_t[]){ 2, 4, (uint8_t)(table[i].offer.mss >> 8), (uint8_t)table[i].offer.mss }, 4);
            at = 4;
        }
        if (table[i].offer.sack) {
            memcpy(options + at, "\x04\x02\x01\x01", 4);
            at += 4;
        }
        if (table[i].offer.timestamps) {
            memcpy(options + at, "\x01\x01\x08\x0a\0\0\0\x05\0\0\0\0", 12);
            at += 12;
        }
        if (table[i].offer.scale >= 0) {
            memcpy(options + at, (uint8_t[]){ 3, 3, (uint8_t)table[i].offer.scale, 0 }, 4);
            at += 4;
        }
        peer_send_options(p, TCP_SYN, 0, 0, NULL, 0, options, at);
        const struct seen *reply = EXPECT(p, SA, 0, 1, 0);
        assert_int_equal(reply->option_bytes, table[i].bytes);
        assert_int_equal(reply->mss, 1460);
        assert_int_equal(reply->sack_permitted, table[i].offer.sack);
        assert_int_equal(reply->timestamps, table[i].offer.timestamps);
        assert_int_equal(reply->scale >= 0, table[i].offer.scale >= 0);
        if (reply->timestamps)
            assert_int_equal(reply->timestamp_echo, 5);
        assert_int_equal(reply->window, 65535);
        peer_send(p, TCP_RST, 1, 0, NULL, 0);
        EXPECT_NONE(p);
    }
}

TEST(mss_of_any_size_is_survived)
{
    static const struct {
        uint16_t mss;
        uint32_t segment;
    } table[] = {
        { 0, 536 }, { 1, 48 }, { 64, 64 }, { 536, 536 }, { 1460, 1460 }, { 9000, 1460 }, { 65535, 1460 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(table); i++) {
        uint8_t mss[4] = { 2, 4, (uint8_t)(table[i].mss >> 8), (uint8_t)table[i].mss };
        p->id = tcp_connect(p->stack, PEER_ADDRESS, PEER_PORT, 0, NULL, p->now_ns);
        peer_step(p);
        EXPECT(p, TCP_SYN, 0, 0, 0);
        peer_send_options(p, SA, 0, 1, NULL, 0, mss, 4);
        EXPECT(p, A, 1, 1, 0);
        peer_write(p, 3000);
        EXPECT(p, table[i].segment * 2 == 3000 ? PA : A, 1, 1, table[i].segment);
        tcp_abort(p->stack, p->id, p->now_ns);
        peer_step(p);
        for (struct seen s; peer_take(p, &s);) {
        }
    }
}

/* RFC 9293 §3.10.7.3, first step. */
TEST(syn_ack_with_wrong_ack_is_reset_and_the_wait_goes_on)
{
    open_sends_syn();
    for (int i = 0; i < 3; i++) {
        static const uint32_t acks[] = { 0, 2, 0x80000000 };
        peer_send(p, SA, 0, acks[i], NULL, 0);
        EXPECT(p, TCP_RST, acks[i], 0, 0);
        EXPECT_STATE(p, TCP_SYN_SENT);
    }
    peer_send(p, SA, 0, 1, NULL, 0);
    EXPECT(p, A, 1, 1, 0);
    EXPECT_STATE(p, TCP_ESTABLISHED);
}

TEST(reset_in_syn_sent_counts_only_with_our_ack)
{
    open_sends_syn();
    peer_send(p, TCP_RST, 0, 0, NULL, 0);
    peer_send(p, TCP_RST | A, 0, 0, NULL, 0);
    peer_send(p, TCP_RST | A, 0, 2, NULL, 0);
    EXPECT_NONE(p);
    EXPECT_STATE(p, TCP_SYN_SENT);
    peer_send(p, TCP_RST | A, 0, 1, NULL, 0);
    EXPECT_NONE(p);
    EXPECT_STATE(p, TCP_CLOSED);
    assert_int_equal(tcp_poll_bits(p->stack, p->id) & TCP_POLL_ERROR, TCP_POLL_ERROR);
    assert_int_equal(tcp_take_error(p->stack, p->id), TCP_REFUSED);
    assert_int_equal(tcp_take_error(p->stack, p->id), TCP_OK);
}

TEST(segment_without_syn_in_syn_sent_is_dropped)
{
    open_sends_syn();
    peer_send(p, A, 0, 1, NULL, 0);
    peer_send(p, TCP_FIN, 0, 0, NULL, 0);
    peer_send(p, 0, 0, 0, NULL, 10);
    EXPECT_NONE(p);
    EXPECT_STATE(p, TCP_SYN_SENT);
}

/* RFC 9293 MUST-10 and figure 8: both SYNs cross. */
TEST(both_may_open_at_once)
{
    uint8_t options[] = { 2, 4, 5, 0xb4, 1, 3, 3, 2 };
    open_sends_syn();
    peer_send_options(p, TCP_SYN, 0, 0, NULL, 0, options, sizeof options);
    EXPECT_STATE(p, TCP_SYN_RECEIVED);
    EXPECT(p, SA, 0, 1, 0);
    peer_send_options(p, SA, 0, 1, NULL, 0, options, sizeof options);
    EXPECT_STATE(p, TCP_ESTABLISHED);
    EXPECT_NONE(p);
    peer_write(p, 100);
    EXPECT(p, PA, 1, 1, 100);
    peer_send(p, A, 1, 101, NULL, 0);
    peer_send(p, PA, 1, 101, NULL, 50);
    EXPECT(p, A, 101, 51, 0);
    peer_read(p, 1, 50);
}

TEST(crossing_open_whose_syn_ack_is_lost_is_completed)
{
    open_sends_syn();
    peer_send(p, TCP_SYN, 0, 0, NULL, 0);
    EXPECT(p, SA, 0, 1, 0);
    assert_true(peer_wait(p, 5 * S));
    EXPECT_AFTER(p, EXPECT(p, SA, 0, 1, 0), 1 * S);
    peer_send(p, A, 1, 1, NULL, 0);
    EXPECT_STATE(p, TCP_ESTABLISHED);
}

TEST(reset_in_crossing_open_refuses)
{
    open_sends_syn();
    peer_send(p, TCP_SYN, 0, 0, NULL, 0);
    EXPECT(p, SA, 0, 1, 0);
    peer_send(p, TCP_RST | A, 1, 1, NULL, 0);
    EXPECT_STATE(p, TCP_CLOSED);
    assert_int_equal(tcp_take_error(p->stack, p->id), TCP_REFUSED);
}

/* RFC 9293 MUST-20 to 23: the SYN is sent again after 1, 2, 4, ... s, and given up after 3 minutes. */
TEST(silent_peer_sees_syns_at_doubled_distances)
{
    static const unsigned seconds[] = { 1, 2, 4, 8, 16, 32, 64 };
    open_sends_syn();
    for (size_t i = 0; i < ARRAY_COUNT(seconds); i++) {
        assert_true(peer_wait(p, 200 * S));
        EXPECT_AFTER(p, EXPECT(p, TCP_SYN, 0, 0, 0), seconds[i] * S);
    }
    assert_false(peer_wait(p, 52 * S)); /* 127 + 52 s */
    EXPECT_STATE(p, TCP_SYN_SENT);
    assert_false(peer_wait(p, 2 * S));
    EXPECT_STATE(p, TCP_CLOSED);
    assert_int_equal(tcp_take_error(p->stack, p->id), TCP_TIMED_OUT);
}

TEST(first_timeout_and_patience_of_a_syn_are_settings)
{
    struct tcp_policy policy = peer_policy_default();
    policy.rto_initial_us = 250000;
    policy.syn_give_up_us = 1000000;
    p->id = tcp_connect(p->stack, PEER_ADDRESS, PEER_PORT, 0, &policy, p->now_ns);
    peer_step(p);
    EXPECT(p, TCP_SYN, 0, 0, 0);
    assert_true(peer_wait(p, 10 * S));
    EXPECT_AFTER(p, EXPECT(p, TCP_SYN, 0, 0, 0), 250 * MS);
    assert_true(peer_wait(p, 10 * S));
    EXPECT_AFTER(p, EXPECT(p, TCP_SYN, 0, 0, 0), 500 * MS);
    assert_false(peer_wait(p, 251 * MS));
    EXPECT_STATE(p, TCP_CLOSED);
}

/* Loses the SYN. Without a measurement the RTO is 3 s (RFC 6298 (5.7)), and the window one segment (RFC 5681 §3.1). */
TEST(lost_syn_sets_a_long_timeout_and_one_segment)
{
    struct tcp_info info;
    open_sends_syn();
    assert_true(peer_wait(p, 2 * S));
    EXPECT(p, TCP_SYN, 0, 0, 0);
    peer_send_options(p, SA, 0, 1, NULL, 0, "\x02\x04\x05\xb4", 4);
    EXPECT(p, A, 1, 1, 0);
    tcp_info(p->stack, p->id, &info);
    assert_int_equal(info.rto_us, 3000000);
    assert_int_equal(info.cwnd_bytes, 1460);
    peer_write(p, 3000);
    EXPECT(p, A, 1, 1, 1460);
    EXPECT_NONE(p);
    assert_true(peer_wait(p, 5 * S));
    EXPECT_AFTER(p, EXPECT(p, A, 1, 1, 1460), 3 * S);
}

TEST(measured_syn_sets_the_timeout)
{
    struct tcp_info info;
    open_sends_syn();
    peer_pass(p, 300 * MS);
    peer_send(p, SA, 0, 1, NULL, 0);
    tcp_info(p->stack, p->id, &info);
    assert_int_equal(info.srtt_us, 300000);
    assert_int_equal(info.rttvar_us, 150000);
    assert_int_equal(info.rto_us, 900000); /* RFC 6298 (2.2): SRTT + 4 RTTVAR */
}

TEST(data_written_while_opening_follows_the_handshake)
{
    open_sends_syn();
    peer_write(p, 10);
    EXPECT_NONE(p);
    peer_send(p, SA, 0, 1, NULL, 0);
    EXPECT(p, PA, 1, 1, 10); /* carries the ACK */
    EXPECT_NONE(p);
}

TEST(shut_down_while_opening_sends_fin_after_the_handshake)
{
    open_sends_syn();
    peer_write(p, 10);
    assert_int_equal(tcp_shutdown(p->stack, p->id, p->now_ns), TCP_OK);
    peer_send(p, SA, 0, 1, NULL, 0);
    EXPECT(p, TCP_FIN | PA, 1, 1, 10);
    EXPECT_STATE(p, TCP_FIN_WAIT_1);
}

TEST(data_in_the_syn_ack_is_kept)
{
    open_sends_syn();
    uint8_t data[5];
    for (uint32_t i = 0; i < 5; i++)
        data[i] = peer_pattern(1 + i);
    peer_send(p, SA, 0, 1, data, 5);
    EXPECT(p, A, 1, 6, 0);
    peer_read(p, 1, 5);
}

TEST(data_in_a_syn_is_left_to_be_resent)
{
    p->listener = tcp_listen(p->stack, PEER_STACK_PORT, 4, NULL);
    p->stack_port = PEER_STACK_PORT;
    peer_send(p, TCP_SYN, 0, 0, NULL, 5);
    EXPECT(p, SA, 0, 1, 0); /* the text is left unacknowledged, so the peer sends it again */
    peer_send(p, PA, 1, 1, NULL, 5);
    EXPECT(p, A, 1, 6, 0);
    p->id = tcp_accept(p->stack, p->listener);
    peer_read(p, 1, 5);
}

TEST(data_with_the_last_ack_is_delivered)
{
    p->listener = tcp_listen(p->stack, PEER_STACK_PORT, 4, NULL);
    p->stack_port = PEER_STACK_PORT;
    peer_send(p, TCP_SYN, 0, 0, NULL, 0);
    EXPECT(p, SA, 0, 1, 0);
    peer_send(p, TCP_FIN | PA, 1, 1, NULL, 100);
    EXPECT(p, A, 1, 102, 0);
    p->id = tcp_accept(p->stack, p->listener);
    EXPECT_STATE(p, TCP_CLOSE_WAIT);
    peer_read(p, 1, 100);
}

TEST(connecting_to_broadcast_and_multicast_is_refused)
{
    static const uint32_t addresses[] = { 0xffffffff, 0xe0000001, 0xf0000001, 0, 0x7f000001, PEER_STACK_ADDRESS };
    for (size_t i = 0; i < ARRAY_COUNT(addresses); i++)
        assert_int_equal(tcp_connect(p->stack, addresses[i], 80, 0, NULL, p->now_ns), TCP_NO_ROUTE);
    assert_int_equal(tcp_connect(p->stack, PEER_ADDRESS, 0, 0, NULL, p->now_ns), TCP_INVALID);
    EXPECT_NONE(p);
}

TEST(syn_to_broadcast_is_ignored)
{
    static const struct {
        uint32_t source, destination;
    } table[] = {
        { PEER_ADDRESS, 0xffffffff },
        { PEER_ADDRESS, 0xe0000001 },
        { 0xffffffff, PEER_STACK_ADDRESS },
        { 0xe0000001, PEER_STACK_ADDRESS },
        { 0x7f000001, PEER_STACK_ADDRESS },
        { 0, PEER_STACK_ADDRESS },
        { PEER_STACK_ADDRESS, PEER_STACK_ADDRESS },
        { PEER_ADDRESS, 0x0a000009 },
    };
    p->listener = tcp_listen(p->stack, PEER_STACK_PORT, 4, NULL);
    for (size_t i = 0; i < ARRAY_COUNT(table); i++) {
        uint8_t packet[64], segment[20] = { 0, 7, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, TCP_SYN, 1, 0 };
        peer_send_packet(p, packet, peer_ip_packet(packet, 6, table[i].source, table[i].destination, segment, 20));
        EXPECT_NONE(p);
        assert_int_equal(p->stack->tcp.half_open_used, 0);
    }
}

/* RFC 6528: for one 4-tuple the ISNs follow a clock of 4 us. Between tuples, and between secrets, they look random. */
TEST(initial_sequence_numbers_are_a_clock_and_a_keyed_function)
{
    struct secret one, other;
    uint8_t bytes[32] = { 1 };
    secret_init(&one, bytes);
    bytes[5] = 1;
    secret_init(&other, bytes);
    uint32_t ones[32] = { 0 }, same = 0, step = 0;
    struct secret_tuple tuple = { PEER_STACK_ADDRESS, PEER_ADDRESS, 40000, 80 };
    uint32_t first = secret_isn(&one, &tuple, 1000 * S);
    assert_int_equal(secret_isn(&one, &tuple, 1000 * S + 4 * MS) - first, 1000);
    assert_int_equal(secret_isn(&one, &tuple, 1000 * S + 3999) - first, 0);
    uint32_t before = first;
    for (uint32_t i = 0; i < 10000; i++) {
        tuple.port = (uint16_t)(30000 + i);
        uint32_t isn = secret_isn(&one, &tuple, 1000 * S);
        for (int bit = 0; bit < 32; bit++)
            ones[bit] += isn >> bit & 1;
        same += isn == secret_isn(&other, &tuple, 1000 * S);
        step += isn - before < 1 << 16;
        before = isn;
    }
    for (int bit = 0; bit < 32; bit++)
        assert_in_range(ones[bit], 4700, 5300); /* 6 standard deviations of 50 each */
    assert_in_range(same, 0, 2);
    assert_in_range(step, 0, 3); /* 1 of 65536 by chance */
}

/* RFC 6056: no port comes back before all have been used, ports are spread evenly, and each destination has another
 * order. */
TEST(source_ports_look_random_and_do_not_repeat)
{
    static uint8_t used[65536];
    uint32_t bins[64] = { 0 }, close = 0;
    uint16_t before = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        int id = tcp_connect(p->stack, PEER_ADDRESS, PEER_PORT, 0, NULL, p->now_ns);
        struct tcp_endpoints ends;
        assert_true(tcp_endpoints(p->stack, id, &ends));
        assert_true(ends.port >= 32768);
        assert_int_equal(used[ends.port]++, 0);
        bins[(ends.port - 32768) / 512]++;
        close += (uint16_t)(ends.port - before) < 64;
        before = ends.port;
        tcp_abort(p->stack, id, p->now_ns);
        peer_step(p);
        for (struct seen s; peer_take(p, &s);) {
        }
    }
    double chi2 = 0;
    for (int i = 0; i < 64; i++)
        chi2 += (bins[i] - 156.25) * (bins[i] - 156.25) / 156.25;
    assert_true(chi2 < 120);       /* 63 degrees of freedom: beyond 120 once in 10^5 */
    assert_in_range(close, 0, 60); /* 20 by chance */
}

TEST(ports_in_use_are_not_chosen_nor_given)
{
    int a = tcp_connect(p->stack, PEER_ADDRESS, 80, 40000, NULL, p->now_ns);
    assert_true(a >= 0);
    assert_int_equal(tcp_connect(p->stack, PEER_ADDRESS, 80, 40000, NULL, p->now_ns), TCP_IN_USE);
    int b = tcp_connect(p->stack, PEER_ADDRESS, 81, 40000, NULL, p->now_ns);
    assert_true(b >= 0 && b != a); /* another 4-tuple */
    tcp_abort(p->stack, a, p->now_ns);
    tcp_abort(p->stack, b, p->now_ns);
    peer_step(p);
    for (struct seen s; peer_take(p, &s);) {
    }
}

TEST(full_connection_table_is_reported)
{
    int ids[PEER_CONNECTION_COUNT];
    for (uint32_t i = 0; i < PEER_CONNECTION_COUNT; i++)
        assert_true((ids[i] = tcp_connect(p->stack, PEER_ADDRESS, 80, 0, NULL, p->now_ns)) >= 0);
    assert_int_equal(tcp_connect(p->stack, PEER_ADDRESS, 80, 0, NULL, p->now_ns), TCP_NO_ROOM);
    tcp_abort(p->stack, ids[5], p->now_ns);
    assert_int_equal(tcp_connect(p->stack, PEER_ADDRESS, 80, 0, NULL, p->now_ns), ids[5]);
}
