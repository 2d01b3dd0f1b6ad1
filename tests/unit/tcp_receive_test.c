/* Receiving: order, overlap, the window and its updates, acknowledgements at once and delayed, SACK and DSACK. */
#include "net/ip/checksum.h"
#include "tests/lib/tcp_fixture.h"

static void connect_delaying(void)
{
    struct tcp_policy policy = peer_policy_default();
    policy.ack = TCP_ACK_DELAYED;
    policy.ack_delay_us = 150000;
    begin_with(&policy);
    peer_connect(p, OFFER_PLAIN);
}

static void connect_with_buffer(uint32_t bytes)
{
    struct tcp_policy policy = peer_policy_default();
    policy.receive_buffer_bytes = bytes;
    begin_with(&policy);
    peer_connect(p, OFFER_PLAIN);
}

/* Sends the stream's first bytes from the peer, in segments of 1000; nobody reads them. */
static void send_thousands(uint32_t segments)
{
    for (uint32_t i = 0; i < segments; i++) {
        peer_send(p, A, 1 + 1000 * i, 1, NULL, 1000);
        EXPECT(p, A, 1, 1001 + 1000 * i, 0);
    }
}

TEST(data_is_acknowledged_at_the_next_idle_turn)
{
    peer_connect(p, OFFER_PLAIN);
    peer_send(p, PA, 1, 1, NULL, 100);
    EXPECT(p, A, 1, 101, 0);
    peer_send(p, A, 101, 1, NULL, 1);
    EXPECT(p, A, 1, 102, 0);
    peer_read(p, 1, 101);
}

/* RFC 9293 MUST-40; and every second full segment is acknowledged (SHLD-19). */
TEST(delayed_ack_waits_its_delay_or_for_a_second_segment)
{
    connect_delaying();
    peer_send(p, PA, 1, 1, NULL, 100);
    EXPECT_NONE(p);
    uint64_t sent_ns = p->now_ns;
    assert_true(peer_wait(p, S));
    EXPECT_NUMBER("delay in ns", EXPECT(p, A, 1, 101, 0)->at_ns - sent_ns, 150 * MS);

    peer_send(p, A, 101, 1, NULL, 1460); /* now full-sized ones */
    EXPECT_NONE(p);
    peer_send(p, A, 1561, 1, NULL, 1460);
    EXPECT(p, A, 1, 3021, 0);
    peer_send(p, A, 3021, 1, NULL, 1460);
    EXPECT_NONE(p);
    peer_send(p, A, 4481, 1, NULL, 1460);
    EXPECT(p, A, 1, 5941, 0);

    peer_send(p, A, 5941, 1, NULL, 10); /* the stack's own data carries the ACK */
    peer_write(p, 5);
    EXPECT(p, PA, 1, 5951, 5);
    peer_send(p, A, 5951, 6, NULL, 0);
    assert_false(peer_wait(p, S));
}

TEST(delayed_ack_is_not_delayed_for_holes)
{
    connect_delaying();
    peer_send(p, A, 101, 1, NULL, 100);
    EXPECT(p, A, 1, 1, 0);
    peer_send(p, A, 1, 1, NULL, 50); /* fills a part of the gap */
    EXPECT(p, A, 1, 51, 0);
    peer_send(p, A, 51, 1, NULL, 50); /* the rest */
    EXPECT(p, A, 1, 201, 0);
    peer_send(p, A, 51, 1, NULL, 50); /* a repetition */
    EXPECT(p, A, 1, 201, 0);
}

TEST(delayed_ack_is_not_delayed_for_fin)
{
    connect_delaying();
    peer_send(p, FA, 1, 1, NULL, 100);
    EXPECT(p, A, 1, 102, 0);
    assert_false(peer_wait(p, S));
}

TEST(fin_of_an_application_that_closes_at_once_carries_the_ack)
{
    connect_delaying();
    p->idle_later = true;
    peer_send(p, FA, 1, 1, NULL, 100);
    assert_int_equal(tcp_shutdown(p->stack, p->id, p->now_ns), TCP_OK);
    p->idle_later = false;
    peer_step(p);
    EXPECT(p, FA, 1, 102, 0);
    EXPECT_NONE(p);
}

/* RFC 9293 MUST-58, MUST-59: segments that come together are acknowledged together. */
TEST(queued_segments_are_acknowledged_by_one_ack)
{
    peer_connect(p, OFFER_PLAIN);
    uint8_t packet[3][1600];
    for (uint32_t i = 0; i < 3; i++) {
        uint8_t segment[120] = { 0, PEER_PORT };
        struct tcp_wire *tcp = (struct tcp_wire *)segment;
        store_be16(&tcp->destination_port, p->stack_port);
        store_be32(&tcp->seq, PEER_ISS + 1 + i * 100);
        store_be32(&tcp->ack, p->stack_iss + 1);
        tcp->offset = 0x50;
        tcp->flags = A;
        store_be16(&tcp->window, 65535);
        for (uint32_t k = 0; k < 100; k++)
            segment[20 + k] = peer_pattern(1 + i * 100 + k);
        uint32_t sum = checksum_pseudo_ipv4(PEER_ADDRESS, PEER_STACK_ADDRESS, 6, 120);
        store_be16(&tcp->checksum, checksum_finish(checksum_sum(sum, segment, 120)));
        netdev_ip_push(&p->device, packet[i],
                       peer_ip_packet(packet[i], 6, PEER_ADDRESS, PEER_STACK_ADDRESS, segment, 120));
    }
    peer_step(p);
    EXPECT(p, A, 1, 301, 0);
    EXPECT_NONE(p);
    peer_read(p, 1, 300);
}

TEST(segments_in_any_order_become_the_stream)
{
    /* All 720 orders of 6 pieces of 100 bytes, each overlapping the next by some. */
    for (unsigned order = 0; order < 720; order++) {
        unsigned rest = order, left[6] = { 0, 1, 2, 3, 4, 5 };
        peer_connect(p, OFFER_SACK);
        for (unsigned i = 6; i > 0; i--) {
            unsigned pick = rest % i;
            rest /= i;
            unsigned piece = left[pick];
            left[pick] = left[i - 1];
            uint32_t more = piece < 5 ? piece * 7 : 0;
            peer_send(p, A, 1 + piece * 100, 1, NULL, 100 + more);
        }
        peer_read(p, 1, 600);
        tcp_abort(p->stack, p->id, p->now_ns);
        peer_step(p);
        for (struct seen s; peer_take(p, &s);) {
        }
    }
}

TEST(holes_beyond_the_table_are_dropped_and_come_again)
{
    peer_connect(p, OFFER_SACK);
    for (uint32_t i = 100; i > 0; i--) /* one byte in two, backwards */
        peer_send(p, A, 1 + 2 * i, 1, NULL, 1);
    assert_int_equal(p->stack->ip.counters.tcp_rx_drop_ranges_full, 100 - 32);
    for (struct seen s; peer_take(p, &s);)
        assert_int_equal(s.ack, 1);
    peer_send(p, A, 1, 1, NULL, 1000);
    EXPECT(p, A, 1, 1001, 0);
    peer_read(p, 1, 1000);
}

TEST(duplicates_are_dropped_and_acknowledged)
{
    peer_connect(p, OFFER_PLAIN);
    for (int i = 0; i < 3; i++) {
        peer_send(p, A, 1, 1, NULL, 100);
        EXPECT(p, A, 1, 101, 0);
    }
    peer_send(p, A, 51, 1, NULL, 100); /* half old */
    EXPECT(p, A, 1, 151, 0);
    peer_read(p, 1, 150);
}

/* RFC 2018 §4: the latest first, and all that fit. */
TEST(sack_blocks_name_the_latest_first)
{
    peer_connect(p, OFFER_SACK);
    static const uint32_t lefts[] = { 201, 401, 601, 801, 1001 };
    struct seen *s = NULL;
    for (size_t i = 0; i < 5; i++) {
        peer_send(p, A, lefts[i], 1, NULL, 100);
        s = EXPECT(p, A, 1, 1, 0);
        assert_int_equal(s->sack_count, i < 4 ? i + 1 : 4);
        for (size_t k = 0; k < s->sack_count; k++) {
            assert_int_equal(s->sack[k].left, lefts[i - k]);
            assert_int_equal(s->sack[k].right, lefts[i - k] + 100);
        }
    }
    peer_send(p, A, 301, 1, NULL, 100); /* joins the first two: their union is the latest */
    s = EXPECT(p, A, 1, 1, 0);
    assert_int_equal(s->sack[0].left, 201);
    assert_int_equal(s->sack[0].right, 501);
    assert_int_equal(s->sack[1].left, 1001);
    peer_send(p, A, 1, 1, NULL, 200);
    s = EXPECT(p, A, 1, 501, 0);
    assert_int_equal(s->sack_count, 3);
}

TEST(sack_with_timestamps_has_three_blocks)
{
    peer_connect(p, OFFER_ALL);
    for (uint32_t i = 0; i < 5; i++)
        peer_send(p, A, 201 + 200 * i, 1, NULL, 100);
    for (int i = 0; i < 4; i++)
        EXPECT(p, A, 1, 1, 0);
    struct seen *s = EXPECT(p, A, 1, 1, 0);
    assert_int_equal(s->sack_count, 3);
    assert_true(s->timestamps);
    assert_int_equal(s->option_bytes, 40);
}

TEST(without_sack_agreed_there_are_no_blocks)
{
    peer_connect(p, OFFER_PLAIN);
    peer_send(p, A, 201, 1, NULL, 100);
    assert_int_equal(EXPECT(p, A, 1, 1, 0)->option_bytes, 0);
}

/* RFC 2883 §4. */
TEST(repetitions_are_reported_by_dsack)
{
    peer_connect(p, OFFER_SACK);
    peer_send(p, A, 1, 1, NULL, 200);
    assert_int_equal(EXPECT(p, A, 1, 201, 0)->sack_count, 0);
    peer_send(p, A, 51, 1, NULL, 100); /* below the acknowledgement */
    struct seen *s = EXPECT(p, A, 1, 201, 0);
    assert_int_equal(s->sack_count, 1);
    assert_int_equal(s->sack[0].left, 51);
    assert_int_equal(s->sack[0].right, 151);
    peer_send(p, A, 401, 1, NULL, 100);
    assert_int_equal(EXPECT(p, A, 1, 201, 0)->sack_count, 1);
    peer_send(p, A, 421, 1, NULL, 20); /* inside a block, which is then named second */
    s = EXPECT(p, A, 1, 201, 0);
    assert_int_equal(s->sack_count, 2);
    assert_int_equal(s->sack[0].left, 421);
    assert_int_equal(s->sack[0].right, 441);
    assert_int_equal(s->sack[1].left, 401);
    peer_send(p, A, 151, 1, NULL, 100); /* partly old */
    s = EXPECT(p, A, 1, 251, 0);
    assert_int_equal(s->sack[0].left, 151);
    assert_int_equal(s->sack[0].right, 201);
    peer_send(p, A, 251, 1, NULL, 10); /* reported once */
    assert_int_equal(EXPECT(p, A, 1, 261, 0)->sack_count, 1);
}

/* RFC 2883 §4.2.3, example 6: with three blocks in any order, and a segment at any place over them. */
TEST(dsack_names_the_first_of_several_repeated_parts)
{
    static const uint32_t orders[6][3] = { { 201, 401, 601 }, { 201, 601, 401 }, { 401, 201, 601 },
                                           { 401, 601, 201 }, { 601, 201, 401 }, { 601, 401, 201 } };
    for (size_t order = 0; order < 6; order++)
        for (uint32_t left = 151; left < 750; left += 50)
            for (uint32_t right = left + 50; right <= 751; right += 50) {
                uint32_t first = left;
                peer_connect(p, OFFER_SACK);
                for (size_t i = 0; i < 3; i++) {
                    peer_send(p, A, orders[order][i], 1, NULL, 100);
                    EXPECT(p, A, 1, 1, 0);
                }
                while (first < right && !((first - 1) / 100 % 2 == 0 && first > 200 && first < 700))
                    first += 50; /* the plain reference: 201:301, 401:501 and 601:701 are there */
                uint32_t end = (first - 1) / 100 * 100 + 101 < right ? (first - 1) / 100 * 100 + 101 : right;
                peer_send(p, A, left, 1, NULL, right - left);
                struct seen *s = EXPECT(p, A, 1, 1, 0);
                if (first < right) {
                    EXPECT_NUMBER("DSACK's left", s->sack[0].left, first);
                    EXPECT_NUMBER("DSACK's right", s->sack[0].right, end);
                }
                struct block latest = { s->sack[first < right].left, s->sack[first < right].right };
                EXPECT_BETWEEN("the union's left", latest.left, 0, left);
                EXPECT_BETWEEN("the union's right", latest.right, right, 751);
                tcp_abort(p->stack, p->id, p->now_ns);
                for (struct seen rest; peer_step(p), peer_take(p, &rest);) {
                }
            }
}

TEST(window_closes_as_the_application_does_not_read_and_never_shrinks)
{
    connect_with_buffer(10000);
    uint32_t edge = 1 + 10000, sent = 0;
    for (int i = 0; i < 10; i++) {
        peer_send(p, A, 1 + sent, 1, NULL, 1000);
        sent += 1000;
        struct seen *s = EXPECT(p, A, 1, 1 + sent, 0);
        assert_true(s->ack + s->window >= edge);
        assert_int_equal(s->ack + s->window, 10001);
    }
    peer_send(p, A, 1 + sent, 1, NULL, 1000); /* into the closed window */
    assert_int_equal(EXPECT(p, A, 1, 10001, 0)->window, 0);
    peer_send(p, A, 0 + sent, 1, NULL, 0); /* a probe as Linux sends it */
    assert_int_equal(EXPECT(p, A, 1, 10001, 0)->window, 0);
    peer_send(p, PA, 1 + sent, 1, NULL, 1); /* a probe as other stacks send it */
    assert_int_equal(EXPECT(p, A, 1, 10001, 0)->window, 0);
    peer_send(p, A, 1 + sent, 1, NULL, 0); /* MUST-66: its ACK would count */
    EXPECT_NONE(p);
}

/* RFC 9293 MUST-39: reads of 1 byte open no windows of 1 byte. */
TEST(window_opens_by_segments_not_by_bytes)
{
    connect_with_buffer(10000);
    send_thousands(10);
    uint32_t updates = 0, window = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        peer_read(p, 1 + i, 1);
        for (struct seen s; peer_take(p, &s); updates++) {
            assert_int_equal(s.ack, 10001);
            assert_true(s.window >= window + 1460);
            window = s.window;
        }
    }
    EXPECT_BETWEEN("window updates", updates, 3, 6);
    assert_true(window >= 10000 - 2 * 1460);
}

TEST(window_update_after_zero_comes_with_a_segment_of_room)
{
    connect_with_buffer(4000);
    send_thousands(4);
    peer_read(p, 1, 1459);
    EXPECT_NONE(p);
    peer_read(p, 1460, 1);
    assert_int_equal(EXPECT(p, A, 1, 4001, 0)->window, 1460);
}

/* RFC 7323 §2.3. */
TEST(large_buffer_is_offered_by_scale)
{
    struct tcp_policy policy = peer_policy_default();
    policy.receive_buffer_bytes = 65536;
    policy.window_scale = 4;
    begin_with(&policy);
    p->id = tcp_connect(p->stack, PEER_ADDRESS, PEER_PORT, 0, NULL, p->now_ns);
    peer_step(p);
    struct seen *s = EXPECT(p, TCP_SYN, 0, 0, 0);
    assert_int_equal(s->scale, 4);
    assert_int_equal(s->window, 65520); /* the ring, less one unit */
    peer_send_options(p, SA, 0, 1, NULL, 0, "\x02\x04\x05\xb4\x03\x03\x07\x01", 8);
    assert_int_equal(EXPECT(p, A, 1, 1, 0)->window, 65520 >> 4);
    uint32_t edge = 65521;
    for (uint32_t i = 0; i < 60; i++) { /* odd sizes: in units of 16 the edge cannot stay exact */
        peer_send(p, A, 1 + 1001 * i, 1, NULL, 1001);
        s = EXPECT(p, A, 1, 1 + 1001 * (i + 1), 0);
        assert_true(s->ack + ((uint32_t)s->window << 4) > edge - 16);
        edge = s->ack + ((uint32_t)s->window << 4);
        assert_true(edge <= 65537);
    }
}

TEST(scale_of_the_peer_applies_to_all_but_syns)
{
    static const struct {
        uint8_t offered, used;
    } table[] = { { 0, 0 }, { 7, 7 }, { 14, 14 }, { 15, 14 }, { 255, 14 } };
    for (size_t i = 0; i < ARRAY_COUNT(table); i++) {
        uint8_t options[] = { 2, 4, 5, 0xb4, 3, 3, table[i].offered, 0 };
        struct tcp_info info;
        p->window = 1000;
        p->id = tcp_connect(p->stack, PEER_ADDRESS, PEER_PORT, 0, NULL, p->now_ns);
        peer_step(p);
        EXPECT(p, TCP_SYN, 0, 0, 0);
        peer_send_options(p, SA, 0, 1, NULL, 0, options, sizeof options);
        EXPECT(p, A, 1, 1, 0);
        tcp_info(p->stack, p->id, &info);
        assert_int_equal(info.snd_wnd, 1000);
        peer_send(p, A, 1, 1, NULL, 0);
        tcp_info(p->stack, p->id, &info);
        assert_int_equal(info.snd_wnd, 1000 << table[i].used);
        tcp_abort(p->stack, p->id, p->now_ns);
        peer_step(p);
        for (struct seen s; peer_take(p, &s);) {
        }
    }
}

/* RFC 7323 §4.3, §5. */
TEST(timestamps_are_echoed_by_the_rule_and_old_ones_refused)
{
    peer_connect(p, OFFER_ALL);
    uint32_t t = p->timestamp;
    p->timestamp = t + 10;
    peer_send(p, A, 1, 1, NULL, 100);
    assert_int_equal(EXPECT(p, A, 1, 101, 0)->timestamp_echo, t + 10);
    p->timestamp = t + 20;
    peer_send(p, A, 201, 1, NULL, 100); /* beyond a hole: not echoed */
    assert_int_equal(EXPECT(p, A, 1, 101, 0)->timestamp_echo, t + 10);
    p->timestamp = t + 15;
    peer_send(p, A, 101, 1, NULL, 100); /* fills the hole: its timestamp is echoed */
    assert_int_equal(EXPECT(p, A, 1, 301, 0)->timestamp_echo, t + 15);
    p->timestamp = t + 14;
    peer_send(p, A, 301, 1, NULL, 100); /* PAWS: acknowledged, dropped */
    assert_int_equal(EXPECT(p, A, 1, 301, 0)->timestamp_echo, t + 15);
    peer_send(p, TCP_RST, 301, 1, NULL, 0); /* PAWS does not apply to a RST */
    EXPECT_STATE(p, TCP_CLOSED);
    assert_int_equal(p->stack->ip.counters.tcp_rx_drop_paws, 1);
}

TEST(timestamp_that_wrapped_is_newer)
{
    p->timestamp = 0xfffffff0;
    peer_connect(p, OFFER_ALL);
    p->timestamp = 0x10;
    peer_send(p, A, 1, 1, NULL, 100);
    assert_int_equal(EXPECT(p, A, 1, 101, 0)->timestamp_echo, 0x10);
}

/* RFC 7323 §5.5: after 24 days of silence any time will do. */
TEST(timestamp_after_24_days_is_accepted)
{
    peer_connect(p, OFFER_ALL);
    peer_pass(p, UINT64_C(25) * 24 * 3600 * S);
    p->timestamp = 1;
    peer_send(p, A, 1, 1, NULL, 100);
    assert_int_equal(EXPECT(p, A, 1, 101, 0)->timestamp_echo, 1);
}

TEST(timestamps_stand_in_every_segment_and_begin_anywhere)
{
    peer_connect(p, OFFER_ALL);
    peer_write(p, 3000);
    uint32_t stamp = 0;
    for (uint32_t i = 0; i < 3; i++) {
        struct seen *s = EXPECT(p, i == 2 ? PA : A, 1 + 1448 * i, 1, i == 2 ? 104 : 1448);
        assert_true(s->timestamps);
        stamp = s->timestamp;
    }
    /* RFC 7323 §5.4: the clock's origin differs from pair to pair. */
    assert_int_not_equal(stamp, (uint32_t)(p->now_ns / MS));
    peer_send(p, A, 1, 3001, NULL, 0);
}

/* RFC 9293 MUST-30, MUST-31: the urgent pointer does no harm, and urgent data is delivered in line. */
TEST(urgent_data_is_delivered_in_line)
{
    static const uint16_t pointers[] = { 0, 1, 50, 100, 1000, 65535 };
    peer_connect(p, OFFER_PLAIN);
    uint32_t seq = 1;
    for (size_t i = 0; i < ARRAY_COUNT(pointers); i++) {
        uint8_t packet[200], segment[120] = { 0, PEER_PORT };
        struct tcp_wire *tcp = (struct tcp_wire *)segment;
        store_be16(&tcp->destination_port, p->stack_port);
        store_be32(&tcp->seq, PEER_ISS + seq);
        store_be32(&tcp->ack, p->stack_iss + 1);
        tcp->offset = 0x50;
        tcp->flags = A | TCP_URG;
        store_be16(&tcp->window, 65535);
        store_be16(&tcp->urgent, pointers[i]);
        uint32_t bytes = i == 0 ? 0 : 100;
        for (uint32_t k = 0; k < bytes; k++)
            segment[20 + k] = peer_pattern(seq + k);
        uint32_t sum = checksum_pseudo_ipv4(PEER_ADDRESS, PEER_STACK_ADDRESS, 6, (uint16_t)(20 + bytes));
        store_be16(&tcp->checksum, checksum_finish(checksum_sum(sum, segment, 20 + bytes)));
        peer_send_packet(p, packet, peer_ip_packet(packet, 6, PEER_ADDRESS, PEER_STACK_ADDRESS, segment, 20 + bytes));
        seq += bytes;
    }
    peer_read(p, 1, 500);
    for (struct seen s; peer_take(p, &s);) {
    }
}

TEST(peek_leaves_the_bytes)
{
    uint8_t bytes[10];
    peer_connect(p, OFFER_PLAIN);
    assert_int_equal(tcp_read(p->stack, p->id, bytes, 10, false, p->now_ns), TCP_AGAIN);
    peer_send(p, A, 1, 1, NULL, 10);
    EXPECT(p, A, 1, 11, 0);
    assert_int_equal(tcp_read(p->stack, p->id, bytes, 4, true, p->now_ns), 4);
    assert_int_equal(tcp_read(p->stack, p->id, bytes, 10, true, p->now_ns), 10);
    peer_read(p, 1, 10);
    assert_int_equal(tcp_read(p->stack, p->id, bytes, 10, true, p->now_ns), TCP_AGAIN);
}

TEST(bad_checksum_is_dropped_in_silence)
{
    peer_connect(p, OFFER_PLAIN);
    for (uint32_t bit = 0; bit < 30 * 8; bit++) {
        uint8_t packet[200], segment[30] = { 0, PEER_PORT };
        struct tcp_wire *tcp = (struct tcp_wire *)segment;
        store_be16(&tcp->destination_port, p->stack_port);
        store_be32(&tcp->seq, PEER_ISS + 1);
        store_be32(&tcp->ack, p->stack_iss + 1);
        tcp->offset = 0x50;
        tcp->flags = A;
        store_be16(&tcp->window, 65535);
        uint32_t sum = checksum_pseudo_ipv4(PEER_ADDRESS, PEER_STACK_ADDRESS, 6, 30);
        store_be16(&tcp->checksum, checksum_finish(checksum_sum(sum, segment, 30)));
        segment[bit / 8] ^= (uint8_t)(1 << bit % 8);
        peer_send_packet(p, packet, peer_ip_packet(packet, 6, PEER_ADDRESS, PEER_STACK_ADDRESS, segment, 30));
        EXPECT_NONE(p);
    }
    assert_int_equal(tcp_poll_bits(p->stack, p->id) & TCP_POLL_READ, 0);
    EXPECT_STATE(p, TCP_ESTABLISHED);
}
