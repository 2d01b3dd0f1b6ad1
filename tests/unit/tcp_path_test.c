/* ICMP about the stack's segments (RFC 9293 §3.9.2.2, RFC 5927, RFC 1191), and neighbours that do not answer. */
#include "net/stack_state.h"
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

TEST(port_and_protocol_unreachable_refuse_a_syn)
{
    for (uint8_t code = 2; code <= 3; code++) {
        p->id = tcp_connect(p->stack, PEER_ADDRESS, PEER_PORT, 0, NULL, p->now_ns);
        peer_step(p);
        EXPECT(p, TCP_SYN, 0, 0, 0);
        peer_send_icmp(p, ICMP_UNREACHABLE, code, 0, 5); /* quotes a segment that the stack has not sent */
        EXPECT_STATE(p, TCP_SYN_SENT);
        peer_send_icmp(p, ICMP_UNREACHABLE, code, 0, 0);
        EXPECT_STATE(p, TCP_CLOSED);
        assert_int_equal(tcp_take_error(p->stack, p->id), TCP_REFUSED);
    }
}

/* Ends a SYN that a filter prohibits: RFC 9293 MUST-56 does not name this ICMP code. */
TEST(prohibited_ends_a_syn)
{
    static const struct {
        uint8_t code;
        enum tcp_result why;
    } errors[] = {
        { ICMP_CODE_NET_PROHIBITED, TCP_NO_ROUTE },
        { ICMP_CODE_HOST_PROHIBITED, TCP_UNREACHABLE },
        { ICMP_CODE_FILTERED, TCP_UNREACHABLE },
    };
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        p->id = tcp_connect(p->stack, PEER_ADDRESS, PEER_PORT, 0, NULL, p->now_ns);
        peer_step(p);
        EXPECT(p, TCP_SYN, 0, 0, 0);
        EXPECT_STATE(p, TCP_SYN_SENT);
        peer_send_icmp(p, ICMP_UNREACHABLE, errors[i].code, 0, 0);
        EXPECT_STATE(p, TCP_CLOSED);
        assert_int_equal(tcp_take_error(p->stack, p->id), errors[i].why);
    }
}

/* RFC 9293 MUST-56. */
TEST(soft_errors_never_end_a_connection)
{
    static const struct {
        uint8_t type, code;
    } errors[] = {
        { ICMP_UNREACHABLE, 0 },   { ICMP_UNREACHABLE, 1 },   { ICMP_UNREACHABLE, 5 },       { ICMP_UNREACHABLE, 12 },
        { ICMP_TIME_EXCEEDED, 0 }, { ICMP_TIME_EXCEEDED, 1 }, { ICMP_PARAMETER_PROBLEM, 0 },
    };
    open_sends_syn();
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        peer_send_icmp(p, errors[i].type, errors[i].code, 0, 0);
        EXPECT_STATE(p, TCP_SYN_SENT);
        assert_int_equal(tcp_take_soft_error(p->stack, p->id), i == 0 ? TCP_NO_ROUTE : TCP_UNREACHABLE);
        assert_int_equal(tcp_take_soft_error(p->stack, p->id), TCP_OK);
    }
    peer_send(p, SA, 0, 1, NULL, 0);
    EXPECT(p, A, 1, 1, 0);
    peer_write(p, 100);
    EXPECT(p, PA, 1, 1, 100);
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        peer_send_icmp(p, errors[i].type, errors[i].code, 0, 1);
    for (uint8_t code = 2; code <= 3; code++) /* hard ones do not end an open connection: RFC 5461 §4.1 */
        peer_send_icmp(p, ICMP_UNREACHABLE, code, 0, 1);
    EXPECT_STATE(p, TCP_ESTABLISHED);
    peer_send(p, A, 1, 101, NULL, 0);
}

TEST(soft_error_is_the_reason_of_a_syn_timeout)
{
    open_sends_syn();
    peer_send_icmp(p, ICMP_UNREACHABLE, 1, 0, 0);
    peer_pass(p, 200 * S);
    EXPECT_STATE(p, TCP_CLOSED);
    assert_int_equal(tcp_take_error(p->stack, p->id), TCP_UNREACHABLE);
    for (struct seen s; peer_take(p, &s);) {
    }
}

/* RFC 9293 MUST-55, RFC 6633. */
TEST(source_quench_is_ignored)
{
    peer_connect(p, OFFER_PLAIN);
    peer_write(p, 1460);
    EXPECT(p, PA, 1, 1, 1460);
    struct tcp_info before, after;
    tcp_info(p->stack, p->id, &before);
    peer_send_icmp(p, ICMP_SOURCE_QUENCH, 0, 0, 1);
    tcp_info(p->stack, p->id, &after);
    assert_int_equal(after.cwnd_bytes, before.cwnd_bytes);
    peer_send(p, A, 1, 1461, NULL, 0);
}

TEST(narrow_path_cuts_and_resends_at_once)
{
    peer_connect(p, OFFER_PLAIN);
    peer_write(p, 2920);
    EXPECT(p, A, 1, 1, 1460);
    EXPECT(p, PA, 1461, 1, 1460);
    struct tcp_info before, after;
    tcp_info(p->stack, p->id, &before);
    peer_send_icmp(p, ICMP_UNREACHABLE, FRAGMENTATION_NEEDED, 1040, 1);
    EXPECT(p, A, 1, 1, 1000);
    EXPECT(p, A, 1001, 1, 460);
    EXPECT(p, A, 1461, 1, 1000);
    EXPECT(p, PA, 2461, 1, 460);
    EXPECT_NONE(p);
    tcp_info(p->stack, p->id, &after);
    assert_int_equal(after.path_mtu_bytes, 1040);
    assert_int_equal(after.cwnd_bytes, before.cwnd_bytes); /* no congestion */
    peer_send(p, A, 1, 2921, NULL, 0);
    peer_write(p, 2000);
    EXPECT(p, A, 2921, 1, 1000);
    EXPECT(p, PA, 3921, 1, 1000);
    peer_send(p, A, 1, 4921, NULL, 0);
}

/* Resends in several round trips what the narrow path has dropped. None of it counts as congestion. */
TEST(narrow_path_is_no_congestion)
{
    struct tcp_info before, after;
    peer_connect(p, OFFER_SACK);
    peer_write(p, 8 * 1460);
    for (struct seen s; peer_take(p, &s);) {
    }
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

/* RFC 5927 §4.1: a blind attacker does not know the sequence numbers in flight. */
TEST(error_that_quotes_nothing_in_flight_is_ignored)
{
    static const uint32_t seqs[] = { 0, 1461, 100000, 0x80000000, 0xffffff00 };
    peer_connect(p, OFFER_PLAIN);
    peer_write(p, 1460);
    EXPECT(p, PA, 1, 1, 1460);
    for (size_t i = 0; i < sizeof seqs / sizeof seqs[0]; i++)
        peer_send_icmp(p, ICMP_UNREACHABLE, FRAGMENTATION_NEEDED, 1040, seqs[i]);
    p->peer_port++;
    peer_send_icmp(p, ICMP_UNREACHABLE, FRAGMENTATION_NEEDED, 1040, 1); /* the connection does not exist */
    p->peer_port--;
    EXPECT_NONE(p);
    struct tcp_info info;
    tcp_info(p->stack, p->id, &info);
    assert_int_equal(info.path_mtu_bytes, 1500);
    peer_send(p, A, 1, 1461, NULL, 0);
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
        for (struct seen s; peer_take(p, &s);) {
        }
        tcp_abort(p->stack, p->id, p->now_ns);
        peer_step(p);
        peer_pass(p, 601 * S); /* the path's MTU expires */
        for (struct seen s; peer_take(p, &s);) {
        }
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
