/* Values and counters of TCP that no timeline can say: defaults, windows by formula, ranges, what a counter counts. */
#include "net/tcp/congestion.h"
#include "net/tcp/options.h"
#include "net/tcp/path.h"
#include "net/tcp/ranges.h"
#include "net/tcp/route.h"
#include "net/tcp/rtt.h"
#include "tests/lib/tcp_fixture.h"

TEST(default_times_are_those_that_the_header_promises)
{
    const struct tcp_policy policy = peer_policy_default();
    assert_int_equal(policy.rto_initial_us, 1000000);
    assert_int_equal(policy.rto_min_us, 200000);
    assert_int_equal(policy.rto_max_us, 120000000);
    assert_int_equal(policy.ack_delay_us, 40000);
    assert_int_equal(policy.tlp_ack_delay_us, 200000);
    assert_int_equal(policy.syn_give_up_us, 180000000);
    assert_int_equal(policy.data_give_up_us, 900000000);
    assert_int_equal(policy.time_wait_us, 60000000);
    assert_int_equal(policy.fin_wait_2_us, 60000000);
    assert_int_equal(policy.keepalive_idle_us, UINT64_C(7200000000));
    assert_int_equal(policy.keepalive_interval_us, 75000000);
    assert_int_equal(policy.keepalive_count, 9);
    assert_int_equal(policy.initial_window_segments, 10);
}

/* RFC 6928 §2: from ten segments on, a segment counts as 1460 bytes at most, and two are the least. */
TEST(initial_window_is_ten_segments_of_1460)
{
    static const struct {
        uint32_t segments, mss, bytes;
    } table[] = {
        { 9, 9000, 81000 },  { 10, 536, 5360 },   { 10, 1460, 14600 }, { 10, 1461, 14600 },
        { 10, 7300, 14600 }, { 10, 7301, 14602 }, { 11, 9000, 18000 }, { 20, 9000, 29200 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(table); i++)
        assert_int_equal(tcp_congestion_initial_window(table[i].segments, table[i].mss), table[i].bytes);
}

/* RFC 9438 §4.2: K is 0 if the window is already above W_max. */
TEST(cubic_epoch_above_the_last_maximum_has_no_plateau)
{
    const struct tcp_policy policy = peer_policy_default();
    struct tcp_congestion c = { .cwnd = 40 * 1000, .ssthresh = 20 * 1000, .w_max = 80 * 1000 };
    tcp_congestion_acked(&c, &policy, 1000, 1000, 100 * MS, true, false, 10 * S);
    assert_int_equal(c.k_ns / MS, 4641); /* the cube root of 40 segments / 0.4 */
    assert_int_equal(c.origin, 80 * 1000);
    c.epoch_ns = 0;
    c.cwnd = 90 * 1000;
    tcp_congestion_acked(&c, &policy, 1000, 1000, 100 * MS, true, false, 20 * S);
    assert_int_equal(c.k_ns, 0);
    assert_int_equal(c.origin, 90 * 1000);
}

TEST(least_round_trip_is_kept_for_five_minutes)
{
    peer_connect(p, OFFER_PLAIN);
    struct tcp_connection *c = &p->stack->tcp.connections[p->id];
    tcp_rtt_min_take(c, 0, 1000 * S);
    assert_int_equal(c->rtt.min_ns, 1);
    tcp_rtt_min_take(c, 10 * MS, 1300 * S);
    tcp_rtt_min_take(c, 50 * MS, 1599 * S);
    assert_int_equal(c->rtt.min_ns, 10 * MS);
    tcp_rtt_min_take(c, 50 * MS, 1600 * S);
    assert_int_equal(c->rtt.min_ns, 50 * MS);
}

TEST(the_last_of_repeated_sack_options_counts)
{
    static const uint8_t field[] = { 5, 18, 0, 0, 0, 1,  0, 0, 0, 2, 0, 0, 0, 3,
                                     0, 0,  0, 4, 5, 10, 0, 0, 0, 7, 0, 0, 0, 9 };
    struct tcp_options options;
    assert_true(tcp_options_parse(&options, field, sizeof field));
    assert_int_equal(options.sack_count, 1);
    assert_int_equal(options.sack[0].left, 7);
    assert_int_equal(options.sack[0].right, 9);
}

/* With as many holes as there may be, only what touches a range is noted: the newest range as well as the oldest. */
TEST(full_ranges_still_grow)
{
    peer_connect(p, OFFER_SACK);
    struct tcp_connection *c = &p->stack->tcp.connections[p->id];
    for (uint32_t i = 0; i < TCP_RANGE_COUNT_MAX; i++)
        assert_true(tcp_ranges_add(c, (struct tcp_range){ c->rcv_nxt + 100 + 100 * i, c->rcv_nxt + 150 + 100 * i }));
    const struct tcp_range newest = c->ranges.blocks[0], oldest = c->ranges.blocks[TCP_RANGE_COUNT_MAX - 1];
    assert_false(tcp_ranges_add(c, (struct tcp_range){ newest.right + 10, newest.right + 20 }));
    assert_true(tcp_ranges_add(c, (struct tcp_range){ newest.right, newest.right + 10 }));
    assert_int_equal(c->ranges.blocks[0].left, newest.left);
    assert_int_equal(c->ranges.blocks[0].right, newest.right + 10);
    assert_true(tcp_ranges_add(c, (struct tcp_range){ oldest.left - 10, oldest.left }));
    assert_int_equal(c->ranges.blocks[0].left, oldest.left - 10);
    assert_int_equal(c->range_count, TCP_RANGE_COUNT_MAX);
    tcp_ranges_clear(c);
}

/* RFC 1191 §6.3: a later connection to the host begins with the path's MTU, and fragments if the path needs it. */
TEST(path_is_remembered_with_its_fragments)
{
    peer_connect(p, OFFER_PLAIN);
    struct tcp_connection *c = &p->stack->tcp.connections[p->id];
    c->path_mtu_bytes = 296;
    c->fragment_ok = true;
    tcp_path_remember(p->stack, c, p->now_ns);
    c->path_mtu_bytes = 1500;
    c->fragment_ok = false;
    tcp_path_recall(p->stack, c, p->now_ns + 599 * S);
    assert_int_equal(c->path_mtu_bytes, 296);
    assert_true(c->fragment_ok);
    c->path_mtu_bytes = 1500;
    c->fragment_ok = false;
    tcp_path_recall(p->stack, c, p->now_ns + 601 * S);
    assert_int_equal(c->path_mtu_bytes, 1500);
    assert_false(c->fragment_ok);
}

TEST(segment_for_nobody_is_counted_and_reset)
{
    p->stack_port = 4444;
    peer_send(p, A, 1, 1, NULL, 0);
    EXPECT(p, TCP_RST, 1, 0, 0);
    assert_int_equal(p->stack->ip.counters.tcp_rx_drop_no_connection, 1);
}

TEST(opening_without_an_answer_is_counted_as_timed_out)
{
    open_sends_syn();
    peer_pass(p, 200 * S);
    assert_int_equal(tcp_take_error(p->stack, p->id), TCP_TIMED_OUT);
    assert_int_equal(p->stack->ip.counters.tcp_timed_out, 1);
    tcp_abort(p->stack, p->id, p->now_ns);
    peer_drain(p);
}

/* RFC 9293 §3.8.6.2.1 (3): a piece below half of the largest window that the peer has shown waits for more room. */
TEST(less_than_half_the_largest_window_waits)
{
    peer_connect(p, OFFER_PLAIN);
    p->window = 1000;
    peer_send(p, A, 1, 1, NULL, 0);
    peer_write(p, 4000);
    uint32_t sent = 0;
    for (struct seen s; peer_take(p, &s);)
        sent += s.bytes;
    p->window = 400;
    peer_send(p, A, 1, 1 + sent, NULL, 0);
    EXPECT_NONE(p);
    p->window = (uint16_t)(p->stack->tcp.connections[p->id].snd_wnd_max / 2);
    peer_send(p, A, 1, 1 + sent, NULL, 0);
    struct seen s;
    assert_true(peer_take(p, &s));
    assert_true(s.bytes >= 500);
}

TEST(lost_address_forgets_half_open_connections)
{
    tcp_listen(p->stack, 5000, 4, NULL);
    p->stack_port = 5000;
    peer_send(p, TCP_SYN, 0, 0, NULL, 0);
    assert_int_equal(p->stack->tcp.half_open_used, 1);
    tcp_address_lost(p->stack);
    assert_int_equal(p->stack->tcp.half_open_used, 0);
    peer_drain(p);
}

TEST(smaller_mss_holds_from_the_next_segment_on)
{
    peer_connect(p, OFFER_PLAIN);
    tcp_set_mss(p->stack, p->id, 500);
    peer_write(p, 1000);
    EXPECT(p, A, 1, 1, 500);
    EXPECT(p, PA, 501, 1, 500);
}
