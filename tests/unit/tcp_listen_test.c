/* Rules of listening that no timeline of tests/wire/listen can say: long floods, ports, changes of the listener. */
#include "net/stack_state.h"
#include "tests/lib/tcp_peer.h"
#include "tests/lib/test.h"

static struct peer peer;
static struct peer *const p = &peer;

BEFORE_EACH()
{
    peer_begin(p, NULL);
    p->listener = tcp_listen(p->stack, PEER_STACK_PORT, 2, NULL);
    p->stack_port = PEER_STACK_PORT;
    assert_true(p->listener >= 0);
}

AFTER_EACH() { peer_end(p); }

/* Sends a SYN from a port. Returns true if the stack answers. */
static bool syn_is_answered(uint16_t port)
{
    struct seen s;
    p->peer_port = port;
    peer_send(p, TCP_SYN, 0, 0, NULL, 0);
    bool answered = peer_take(p, &s);
    assert_true(!answered || s.flags == SA);
    return answered;
}

/* 100 SYNs a millisecond, of which a table of 16 takes 16; each of those has its millisecond to complete the
 * handshake. */
static uint16_t flood_port;
static void flood(uint32_t syns)
{
    for (uint32_t i = 0; i < syns; i++) {
        flood_port = (uint16_t)(flood_port % 30000 + 1);
        syn_is_answered((uint16_t)(30000 + flood_port));
        peer_pass(p, MS / 100);
    }
}

TEST(flood_of_syns_is_bounded_in_space_and_time)
{
    for (uint32_t i = 0; i < 20000; i++)
        assert_int_equal(syn_is_answered((uint16_t)(1024 + i)), i < 16);
    assert_int_equal(p->stack->tcp.half_open_used, 16);
    assert_int_equal(p->stack->ip.counters.tcp_half_open_evicted, 0);
    assert_int_equal(p->stack->ip.counters.tcp_rx_drop_syn_rate, 20000 - 16);
    peer_pass(p, MS);
    flood(10000);
    assert_int_equal(p->stack->tcp.half_open_used, 16);
    assert_in_range(p->stack->ip.counters.tcp_half_open_evicted, 1590, 1616);
}

TEST(client_gets_through_a_flood_by_repeated_syns)
{
    uint32_t tries = 1;
    flood(550);
    for (uint64_t wait_s = 1; !syn_is_answered(7000); wait_s *= 2, tries++) {
        assert_true(tries < 7); /* Linux: tcp_syn_retries is 6 */
        peer_pass(p, wait_s * S);
        flood(550 + 17 * tries);
    }
    assert_true(tries > 1); /* the flood had an effect */
    uint32_t iss = p->stack_iss;
    flood(99); /* the round trip takes a millisecond */
    p->stack_iss = iss;
    p->peer_port = 7000;
    peer_send(p, A, 1, 1, NULL, 0);
    EXPECT_NONE(p);
    p->id = tcp_accept(p->stack, p->listener);
    assert_true(p->id >= 0);
}

/* Fills the backlog. As in Linux, the last ACK is dropped, and the SYN,ACK sent again finds room. */
TEST(full_backlog_makes_peers_wait)
{
    uint32_t iss[4];
    for (uint32_t i = 0; i < 3; i++) { /* three handshakes begin, two fit */
        p->peer_port = (uint16_t)(3000 + i);
        peer_send(p, TCP_SYN, 0, 0, NULL, 0);
        EXPECT(p, SA, 0, 1, 0);
        iss[i] = p->stack_iss;
    }
    for (uint32_t i = 0; i < 3; i++) {
        p->peer_port = (uint16_t)(3000 + i);
        p->stack_iss = iss[i];
        peer_send(p, A, 1, 1, NULL, 0);
    }
    EXPECT_NONE(p);
    assert_int_equal(p->stack->ip.counters.tcp_rx_drop_accept_full, 1);
    p->peer_port = 3003;
    peer_send(p, TCP_SYN, 0, 0, NULL, 0); /* dropped */
    EXPECT_NONE(p);
    int first = tcp_accept(p->stack, p->listener), second = tcp_accept(p->stack, p->listener);
    struct tcp_endpoints ends;
    assert_true(tcp_endpoints(p->stack, first, &ends) && ends.peer_port == 3000); /* oldest first */
    assert_true(tcp_endpoints(p->stack, second, &ends) && ends.peer_port == 3001);
    assert_int_equal(tcp_accept(p->stack, p->listener), TCP_AGAIN);
    assert_true(peer_wait(p, 2 * S));
    EXPECT(p, SA, 0, 1, 0);
    p->peer_port = 3002;
    peer_send(p, A, 1, 1, NULL, 0);
    p->id = tcp_accept(p->stack, p->listener);
    assert_true(p->id >= 0);
}

TEST(peer_that_resets_before_accept_is_forgotten)
{
    for (int i = 0; i < 10; i++) {
        peer_send(p, TCP_SYN, 0, 0, NULL, 0);
        EXPECT(p, SA, 0, 1, 0);
        peer_send(p, A, 1, 1, NULL, 0);
        peer_send(p, TCP_RST, 1, 0, NULL, 0);
    }
    assert_int_equal(tcp_accept(p->stack, p->listener), TCP_AGAIN);
    assert_int_equal(p->stack->tcp.listeners[p->listener].waiting_count, 0);
}

TEST(ports_are_listened_on_once)
{
    assert_int_equal(tcp_listen(p->stack, PEER_STACK_PORT, 1, NULL), TCP_IN_USE);
    assert_int_equal(tcp_listen(p->stack, 0, 1, NULL), TCP_INVALID);
    int others[3];
    for (uint16_t i = 0; i < 3; i++)
        assert_true((others[i] = tcp_listen(p->stack, (uint16_t)(9000 + i), 1, NULL)) >= 0);
    assert_int_equal(tcp_listen(p->stack, 9100, 1, NULL), TCP_NO_ROOM);
    for (int i = 0; i < 3; i++)
        tcp_unlisten(p->stack, others[i], p->now_ns);
}

/* Changes the listener's policy between its SYN,ACK and the ACK: the connection has the options of the SYN,ACK. */
TEST(options_of_a_syn_ack_outlast_a_change_of_the_listener)
{
    static const uint8_t options[] = { 1, 1, 4, 2, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7 };
    struct tcp_policy policy = peer_policy_default();
    policy.window_scale = 7;
    tcp_listen_change(p->stack, p->listener, 2, &policy);
    peer_send_options(p, TCP_SYN, 0, 0, NULL, 0, options, sizeof options);
    const struct seen *s = EXPECT(p, SA, 0, 1, 0);
    assert_int_equal(s->scale, 7);
    assert_true(s->sack_permitted && s->timestamps);
    policy.window_scale = 2;
    policy.timestamps = policy.sack = false;
    tcp_listen_change(p->stack, p->listener, 2, &policy);
    p->timestamps = true;
    peer_send(p, PA, 1, 1, NULL, 1000);
    s = EXPECT(p, A, 1, 1001, 0);
    EXPECT_NUMBER("window field", s->window, 504); /* 64408 bytes are left, in units of 128 */
    assert_true(s->timestamps);
    struct tcp_info info;
    p->id = tcp_accept(p->stack, p->listener);
    assert_true(tcp_info(p->stack, p->id, &info));
    assert_true(info.sack);
    peer_read(p, 1, 1000);
}
