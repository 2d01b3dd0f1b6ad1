/* RFC 5961: blind resets, SYNs and ACKs into an open connection; challenge ACKs and their limit. */
#include "tests/lib/tcp_fixture.h"

/* §3.2: only the exact number resets. Others in the window are challenged, and those outside are dropped. */
TEST(only_the_exact_reset_resets)
{
    static const struct {
        uint32_t seq;
        bool challenged, resets;
    } table[] = {
        { 0, false, false },     { 1, false, true },           { 2, true, false },
        { 30000, true, false },  { 65535, true, false },       { 65536, false, false },
        { 65537, false, false }, { 0x80000001, false, false }, { 0xfffffff0, false, false },
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        for (int with_ack = 0; with_ack < 2; with_ack++) {
            peer_connect(p, OFFER_PLAIN);
            peer_send(p, with_ack ? TCP_RST | A : TCP_RST, table[i].seq, 1, NULL, 0);
            if (table[i].challenged)
                EXPECT(p, A, 1, 1, 0);
            EXPECT_NONE(p);
            EXPECT_STATE(p, table[i].resets ? TCP_CLOSED : TCP_ESTABLISHED);
            tcp_abort(p->stack, p->id, p->now_ns);
            peer_step(p);
            for (struct seen s; peer_take(p, &s);) {
            }
        }
    }
}

/* §4.2: with any sequence number. */
TEST(syn_in_an_open_connection_is_challenged)
{
    static const uint32_t seqs[] = { 0, 1, 100, 65536, 0x80000000 };
    peer_connect(p, OFFER_PLAIN);
    for (size_t i = 0; i < sizeof seqs / sizeof seqs[0]; i++) {
        peer_send(p, TCP_SYN, seqs[i], 0, NULL, 0);
        EXPECT(p, A, 1, 1, 0);
        peer_send(p, SA, seqs[i], 1, NULL, 0);
        EXPECT(p, A, 1, 1, 0);
    }
    EXPECT_NONE(p);
    EXPECT_STATE(p, TCP_ESTABLISHED);
}

/* §5.2: an ACK beyond the bytes sent, or older than any window. Its payload is not taken. */
TEST(impossible_ack_is_challenged_and_its_data_dropped)
{
    peer_connect(p, OFFER_PLAIN);
    peer_write(p, 1000);
    EXPECT(p, PA, 1, 1, 1000);
    peer_send(p, A, 1, 1001, NULL, 0);
    peer_send(p, PA, 1, 1002, NULL, 10);
    EXPECT(p, A, 1001, 1, 0);
    peer_send(p, PA, 1, 1001 + 0x80000000, NULL, 10);
    EXPECT(p, A, 1001, 1, 0);
    peer_send(p, PA, 1, 1001 - 65535 - 1, NULL, 10);
    EXPECT(p, A, 1001, 1, 0);
    assert_int_equal(tcp_poll_bits(p->stack, p->id) & TCP_POLL_READ, 0);
    peer_send(p, PA, 1, 1, NULL, 10); /* merely late */
    EXPECT(p, A, 1001, 11, 0);
    peer_read(p, 1, 10);
}

TEST(challenges_are_limited_per_connection)
{
    peer_connect(p, OFFER_PLAIN);
    uint32_t count = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        peer_send(p, TCP_RST, 100 + i, 0, NULL, 0);
        peer_pass(p, MS);
        for (struct seen s; peer_take(p, &s);)
            count++;
    }
    EXPECT_NUMBER("challenges in a second", count, 10);
    assert_int_equal(p->stack->ip.counters.tcp_tx_challenges, count);
    assert_int_equal(p->stack->ip.counters.tcp_tx_challenges_withheld, 1000 - count);
    int first = p->id;
    p->peer_port++;
    peer_connect(p, OFFER_PLAIN); /* another connection has a limit of its own */
    peer_send(p, TCP_RST, 100, 0, NULL, 0);
    EXPECT(p, A, 1, 1, 0);
    peer_send(p, TCP_RST, 100, 0, NULL, 0); /* the segment again: no second answer */
    EXPECT_NONE(p);
    peer_pass(p, 500 * MS);
    peer_send(p, TCP_RST, 100, 0, NULL, 0);
    EXPECT(p, A, 1, 1, 0);
    tcp_abort(p->stack, first, p->now_ns);
    peer_step(p);
    for (struct seen s; peer_take(p, &s);) {
    }
}

/* RFC 9293 §3.10.7.4, first: an unacceptable segment is answered by an ACK, and nothing else happens. */
TEST(segments_outside_the_window_are_acknowledged_and_dropped)
{
    peer_connect(p, OFFER_PLAIN);
    peer_send(p, A, 65537, 1, NULL, 10);
    EXPECT(p, A, 1, 1, 0);
    peer_send(p, FA, 0x90000000, 1, NULL, 0);
    EXPECT(p, A, 1, 1, 0);
    peer_send(p, A, 0, 1, NULL, 0); /* as a keepalive has it */
    EXPECT(p, A, 1, 1, 0);
    peer_send(p, A, 0, 1, NULL, 1);
    EXPECT(p, A, 1, 1, 0);
    EXPECT_STATE(p, TCP_ESTABLISHED);
    assert_int_equal(tcp_poll_bits(p->stack, p->id) & TCP_POLL_READ, 0);
}

TEST(segment_without_ack_is_dropped)
{
    peer_connect(p, OFFER_PLAIN);
    peer_send(p, 0, 1, 0, NULL, 10);
    peer_send(p, TCP_FIN, 1, 0, NULL, 0);
    EXPECT_NONE(p);
    EXPECT_STATE(p, TCP_ESTABLISHED);
}

TEST(resets_with_data_count_by_their_sequence)
{
    peer_connect(p, OFFER_PLAIN);
    peer_send(p, TCP_RST, 1, 0, NULL, 20);
    EXPECT_NONE(p);
    EXPECT_STATE(p, TCP_CLOSED);
}

TEST(odd_flags_do_no_harm)
{
    for (unsigned flags = 0; flags < 256; flags++) {
        peer_connect(p, OFFER_PLAIN);
        peer_send(p, (uint8_t)flags, 5, 1, NULL, 10);
        peer_send(p, (uint8_t)flags, 1, 1, NULL, 0);
        for (struct seen s; peer_take(p, &s);)
            assert_false((flags & TCP_RST) != 0 && (s.flags & TCP_RST) != 0); /* never a RST for a RST */
        tcp_abort(p->stack, p->id, p->now_ns);
        peer_pass(p, 10 * MS);
        for (struct seen s; peer_take(p, &s);) {
        }
    }
}
