/* Rules of receiving that no timeline of tests/wire can say: all orders, all overlaps, every bit, the loop's turns. */
#include "tests/lib/packet.h"
#include "tests/lib/tcp_fixture.h"

static void connect_delaying(void)
{
    struct tcp_policy policy = peer_policy_default();
    policy.ack = TCP_ACK_DELAYED;
    policy.ack_delay_us = 150000;
    begin_with(&policy);
    peer_connect(p, OFFER_PLAIN);
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
        abort_connection();
    }
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
                abort_connection();
            }
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

TEST(bad_checksum_is_dropped_in_silence)
{
    peer_connect(p, OFFER_PLAIN);
    for (uint32_t bit = 0; bit < 30 * 8; bit++) {
        uint8_t packet[50];
        packet_tcp(packet, &(struct packet_tcp){ .source = PEER_ADDRESS,
                                                 .destination = PEER_STACK_ADDRESS,
                                                 .source_port = PEER_PORT,
                                                 .destination_port = p->stack_port,
                                                 .seq = PEER_ISS + 1,
                                                 .ack = p->stack_iss + 1,
                                                 .flags = A,
                                                 .window = 65535,
                                                 .payload = "ten bytes",
                                                 .bytes = 10 });
        packet[20 + bit / 8] ^= (uint8_t)(1 << bit % 8);
        peer_send_packet(p, packet, sizeof packet);
        EXPECT_NONE(p);
    }
    assert_int_equal(tcp_poll_bits(p->stack, p->id) & TCP_POLL_READ, 0);
    EXPECT_STATE(p, TCP_ESTABLISHED);
}
