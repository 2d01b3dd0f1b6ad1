/* Rules of narrow paths that no timeline of tests/wire/icmp can say: the table of paths, messages that are cut, all
 * MTUs; and a neighbour that does not answer. */
#include "net/tcp/message.h"
#include "net/tcp/window.h"
#include "tests/lib/tcp_fixture.h"

enum { FRAGMENTATION_NEEDED = ICMP_CODE_FRAGMENTATION_NEEDED };

/* RFC 791 §3.2: a link may take no more than 68 bytes. */
TEST(full_segment_fits_the_narrowest_link)
{
    peer_connect(p, OFFER_ALL);
    struct tcp_connection *c = &p->stack->tcp.connections[p->id];
    c->path_mtu_bytes = IPV4_MTU_BYTES_MIN;
    EXPECT_NUMBER("payload", tcp_send_mss(c), IPV4_MTU_BYTES_MIN - sizeof(struct ipv4_wire) - 20 - 12);
    c->peer_mss = 1; /* too small: Linux's TCP_MIN_SND_MSS */
    c->path_mtu_bytes = 1500;
    EXPECT_NUMBER("payload", tcp_send_mss(c), 48 - 12);
}

/* Resends in several round trips what the narrow path has dropped. None of it counts as congestion. */
TEST(narrow_path_is_no_congestion)
{
    struct tcp_info before, after;
    peer_connect(p, OFFER_SACK);
    peer_write(p, 8 * 1460);
    peer_drain(p);
    tcp_info(p->stack, p->id, &before);
    peer_send_icmp(p, ICMP_UNREACHABLE, FRAGMENTATION_NEEDED, 1040, 1);
    uint32_t una = 1;
    while (una < 1 + 8 * 1460) {
        struct seen s;
        assert_true(peer_take(p, &s));
        assert_int_equal(s.seq, una);
        una += s.bytes;
        p->now_ns += MS;
        peer_send(p, A, 1, una, NULL, 0);
    }
    tcp_info(p->stack, p->id, &after);
    assert_true(after.cwnd_bytes >= before.cwnd_bytes);
}

/* Fills the table of path MTUs: a new host takes the place of the entry that expires first, for ten minutes. */
TEST(path_of_a_ninth_host_replaces_the_oldest)
{
    enum { OLDEST = 5, OTHERS = 0x0a630001 };
    peer_connect(p, OFFER_PLAIN);
    struct tcp_path *paths = p->stack->tcp.paths;
    for (uint32_t i = 0; i < TCP_PATH_COUNT; i++)
        paths[i] = (struct tcp_path){ .peer_address = OTHERS + i,
                                      .mtu_bytes = 1000,
                                      .until_ns = p->now_ns + (i == OLDEST ? 1 : 60 + i) * S };
    peer_write(p, 1460);
    EXPECT(p, PA, 1, 1, 1460);
    peer_send_icmp(p, ICMP_UNREACHABLE, FRAGMENTATION_NEEDED, 1040, 1);
    EXPECT(p, A, 1, 1, 1000);
    EXPECT(p, PA, 1001, 1, 460);
    for (uint32_t i = 0; i < TCP_PATH_COUNT; i++)
        EXPECT_NUMBER("host", paths[i].peer_address, i == OLDEST ? PEER_ADDRESS : OTHERS + i);
    EXPECT_NUMBER("MTU", paths[OLDEST].mtu_bytes, 1040);
    EXPECT_NUMBER("kept for", paths[OLDEST].until_ns - p->now_ns, 600 * S);
    peer_send(p, A, 1, 1461, NULL, 0);
}

/* Cuts a message that lies in its transmit buffer. No part's head may overwrite another part. */
TEST(message_cut_for_a_narrow_path_stays_whole)
{
    peer_connect(p, OFFER_PLAIN);
    struct tcp_connection *c = &p->stack->tcp.connections[p->id];
    uint8_t *area = tcp_message(p->stack, c);
    assert_non_null(area);
    for (uint32_t i = 0; i < 1400; i++)
        area[i] = peer_stack_pattern(1 + i);
    assert_true(tcp_message_send_long(p->stack, c, 0, 1400, p->now_ns));
    peer_step(p);
    EXPECT(p, PA, 1, 1, 1400);
    peer_send_icmp(p, ICMP_UNREACHABLE, FRAGMENTATION_NEEDED, 640, 1);
    EXPECT(p, A, 1, 1, 600);
    EXPECT(p, A, 601, 1, 600);
    EXPECT(p, PA, 1201, 1, 200);
    assert_true(peer_wait(p, 2 * S)); /* the whole message was lost again */
    EXPECT(p, A, 1, 1, 600);
    peer_send(p, A, 1, 601, NULL, 0);
    EXPECT(p, A, 601, 1, 600);
    EXPECT(p, PA, 1201, 1, 200);
    assert_true(peer_wait(p, 5 * S));
    EXPECT(p, A, 601, 1, 600);
    peer_send(p, A, 1, 1401, NULL, 0);
    EXPECT_NONE(p);
}

/* Leaves buffers of the device to ARP, UDP and others, though the peer acknowledges nothing. */
TEST(messages_keep_no_more_buffers_than_they_may)
{
    peer_connect(p, OFFER_PLAIN);
    struct tcp_connection *c = &p->stack->tcp.connections[p->id];
    p->stack->tcp.capacity.message_count = 3;
    for (uint32_t i = 0; i < 3; i++) {
        uint8_t *area = tcp_message(p->stack, c);
        assert_non_null(area);
        area[0] = peer_stack_pattern(1 + i);
        assert_true(tcp_message_send_long(p->stack, c, 0, 1, p->now_ns));
        peer_step(p);
        EXPECT(p, PA, 1 + i, 1, 1);
    }
    assert_null(tcp_message(p->stack, c));
    net_stack_check(p->stack);
    peer_send(p, A, 1, 2, NULL, 0);
    assert_non_null(tcp_message(p->stack, c));
    assert_non_null(tcp_message(p->stack, c)); /* a second call finds room as well */
    EXPECT_NUMBER("messages", p->stack->tcp.message_count, 3);
    tcp_reset(p->stack, p->id, p->now_ns);
    EXPECT_NUMBER("messages", p->stack->tcp.message_count, 0);
    net_stack_check(p->stack);
}

/* Sends ICMP errors with MTU 0 (RFC 1191 §5: the next plateau below the quoted length), with absurd and larger MTUs. */
TEST(odd_path_mtus_are_survived)
{
    static const struct {
        uint16_t reported, used;
        bool may_fragment;
    } table[] = {
        { 0, 1492, false },  { 67, 552, true },     { 68, 552, true },     { 296, 552, true },     { 551, 552, true },
        { 552, 552, false }, { 1499, 1499, false }, { 1500, 1500, false }, { 65535, 1500, false },
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct tcp_info info;
        peer_connect(p, OFFER_PLAIN);
        peer_write(p, 1460);
        EXPECT(p, PA, 1, 1, 1460);
        peer_send_icmp(p, ICMP_UNREACHABLE, FRAGMENTATION_NEEDED, table[i].reported, 1);
        tcp_info(p->stack, p->id, &info);
        assert_int_equal(info.path_mtu_bytes, table[i].used);
        uint32_t next = 1;
        for (struct seen s; peer_take(p, &s); next += s.bytes) {
            assert_int_equal(s.seq, next);
            assert_int_equal(s.dont_fragment, !table[i].may_fragment);
        }
        assert_int_equal(next, table[i].used < 1500 ? 1461 : 1);
        peer_send_icmp(p, ICMP_UNREACHABLE, FRAGMENTATION_NEEDED, table[i].reported, 1); /* again: no storm */
        if (table[i].reported != 0)
            EXPECT_NONE(p);
        peer_drain(p);
        tcp_abort(p->stack, p->id, p->now_ns);
        peer_step(p);
        peer_pass(p, 601 * S); /* the path's MTU expires */
        peer_drain(p);
    }
}

TEST(neighbour_that_does_not_answer_ends_the_opening)
{
    peer_end(p);
    peer_begin_with(p, NULL, 0xffffff00, true); /* the gateway's MAC is unknown, and the gateway is silent */
    p->id = tcp_connect(p->stack, PEER_ADDRESS, PEER_PORT, 0, NULL, p->now_ns);
    peer_pass(p, 2 * S);
    EXPECT_STATE(p, TCP_SYN_SENT);
    peer_pass(p, 2 * S);
    EXPECT_STATE(p, TCP_CLOSED);
    assert_int_equal(tcp_take_error(p->stack, p->id), TCP_UNREACHABLE);
    EXPECT_NONE(p);
    assert_int_equal(p->stack->ip.counters.arp_tx_requests, 1 + 3); /* the announcement, and three requests */
}
