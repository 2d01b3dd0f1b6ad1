/* A pause of the machine, as by a live migration or a suspended host: time passes, and no timer runs. Each test brings
 * one timer into its state, lets the machine pause, and holds what follows: the table of docs/conformance.md, "After a
 * pause of the machine".
 *
 * A pause of 101 s is longer than R2 of the kernel (100 s), one of 3 h longer than any time-out of TCP. */
#include "tests/lib/tcp_fixture.h"

#include "net/tcp/table.h"

static const uint64_t pauses_ns[] = { 101 * S, 3 * 3600 * S };
enum { COPIES_MIN = 3 };

/* Stops the machine, and takes the first turn afterwards. */
static void machine_pauses(uint64_t ns)
{
    p->now_ns += ns;
    p->timestamp += (uint32_t)(ns / MS);
    peer_step(p);
}

/* Begins a test with the kernel's times. */
static void begin_as_kernel(void)
{
    struct tcp_policy policy = peer_policy_default();
    policy.syn_give_up_us = 20000000;
    policy.data_give_up_us = 100000000;
    begin_with(&policy);
}

/* Begins a test with bytes in flight, which the peer does not acknowledge. */
static void begin_with_data(struct offer offer, uint32_t bytes)
{
    begin_as_kernel();
    peer_connect_after(p, offer, 20 * MS);
    peer_write(p, bytes);
}

/* Takes the segments that leave until the connection ends, within this time. Returns their count. */
static unsigned end_await(uint64_t least_ns, uint64_t most_ns)
{
    uint64_t began_ns = p->now_ns;
    unsigned copies = 0;
    struct seen s;
    while (tcp_state(p->stack, p->id) != TCP_CLOSED) {
        assert_true(p->now_ns - began_ns < 1000 * S);
        peer_pass(p, 10 * MS);
    }
    for (; peer_take(p, &s); copies++)
        assert_int_equal(s.flags & TCP_RST, 0);
    assert_int_equal(tcp_take_error(p->stack, p->id), TCP_TIMED_OUT);
    EXPECT_BETWEEN("ns until the end", p->now_ns - began_ns, least_ns, most_ns);
    return copies;
}

/* ---- Retransmission ---- */

/* Lets the ACK of 6 bytes be lost, at any time of the wait for it. After the pause a copy leaves at once, and the
 * peer's ACK 20 ms later counts. */
TEST(data_in_flight_is_sent_again_and_its_ack_counts)
{
    static const uint64_t waits_ns[] = { 0, 190 * MS, S, 30 * S, 70 * S, 99 * S };
    for (size_t i = 0; i < ARRAY_COUNT(pauses_ns) * ARRAY_COUNT(waits_ns); i++) {
        begin_with_data(i % 2 != 0 ? OFFER_ALL : OFFER_PLAIN, 6);
        peer_pass(p, waits_ns[i % ARRAY_COUNT(waits_ns)]);
        peer_drain(p);
        machine_pauses(pauses_ns[i / ARRAY_COUNT(waits_ns)]);
        EXPECT(p, PA, 1, 1, 6);
        EXPECT_STATE(p, TCP_ESTABLISHED);
        peer_pass(p, 20 * MS);
        peer_send(p, A, 1, 7, NULL, 0);
        EXPECT_NONE(p);
        EXPECT_STATE(p, TCP_ESTABLISHED);
        assert_int_equal(tcp_connection_of(p->stack, p->id)->segment_count, 0);
    }
}

/* RFC 9293 §3.8.3: three copies at least leave before the peer is given up, and R2 is as long as without the pause. */
TEST(silence_after_a_pause_ends_by_r2)
{
    for (size_t i = 0; i < ARRAY_COUNT(pauses_ns); i++) {
        begin_with_data(OFFER_ALL, 6);
        peer_drain(p);
        machine_pauses(pauses_ns[i]);
        assert_true(end_await(99 * S, 101 * S) >= COPIES_MIN);
    }
}

/* Pauses shortly before the end of R2. One more time-out is left for an answer. */
TEST(end_of_r2_in_a_pause_leaves_a_time_out)
{
    for (size_t i = 0; i < ARRAY_COUNT(pauses_ns); i++) {
        begin_with_data(OFFER_PLAIN, 6);
        peer_pass(p, 99500 * MS);
        peer_drain(p);
        uint64_t rto_ns = tcp_connection_of(p->stack, p->id)->rtt.rto_ns;
        machine_pauses(pauses_ns[i]);
        EXPECT(p, PA, 1, 1, 6);
        end_await(rto_ns - S, 2 * rto_ns + S);
    }
}

/* Takes a segment of the peer, an old one, before the timers run. */
TEST(segment_that_waits_in_the_ring_ends_nothing)
{
    for (size_t i = 0; i < ARRAY_COUNT(pauses_ns); i++) {
        begin_with_data(OFFER_PLAIN, 6);
        peer_pass(p, 40 * S);
        peer_drain(p);
        p->now_ns += pauses_ns[i];
        peer_send(p, A, 1, 1, NULL, 0);
        EXPECT(p, PA, 1, 1, 6);
        peer_pass(p, 20 * MS);
        EXPECT_STATE(p, TCP_ESTABLISHED);
        peer_send(p, A, 1, 7, NULL, 0);
        EXPECT_STATE(p, TCP_ESTABLISHED);
    }
}

/* Plays a slow path without a pause, whose time-outs are nearly as long as R2: RFC 9293 SHLD-10. */
TEST(slow_path_gets_three_copies)
{
    struct tcp_policy policy = peer_policy_default();
    policy.data_give_up_us = 100000000;
    policy.rto_min_us = 60000000;
    begin_with(&policy);
    peer_connect(p, OFFER_PLAIN);
    peer_write(p, 6);
    peer_drain(p);
    assert_int_equal(end_await(100 * S, 900 * S), COPIES_MIN);
}

TEST(application_s_own_time_out_is_as_long_as_it_chose)
{
    struct tcp_policy policy = peer_policy_default();
    policy.data_give_up_us = 2500000;
    policy.user_timeout = true;
    begin_with(&policy);
    peer_connect_after(p, OFFER_PLAIN, 20 * MS);
    peer_write(p, 6);
    peer_drain(p);
    machine_pauses(3 * 3600 * S);
    assert_true(end_await(2000 * MS, 2600 * MS) >= COPIES_MIN);
}

TEST(syn_is_sent_again_and_its_answer_counts)
{
    static const uint64_t waits_ns[] = { 0, 5 * S, 19 * S };
    for (size_t i = 0; i < ARRAY_COUNT(pauses_ns) * ARRAY_COUNT(waits_ns); i++) {
        begin_as_kernel();
        open_sends_syn();
        peer_pass(p, waits_ns[i % ARRAY_COUNT(waits_ns)]);
        peer_drain(p);
        machine_pauses(pauses_ns[i / ARRAY_COUNT(waits_ns)]);
        EXPECT(p, TCP_SYN, 0, 0, 0);
        peer_pass(p, 20 * MS);
        peer_send(p, SA, 0, 1, NULL, 0);
        EXPECT(p, A, 1, 1, 0);
        EXPECT_STATE(p, TCP_ESTABLISHED);
    }
}

TEST(syn_without_an_answer_ends_by_its_r2)
{
    begin_as_kernel();
    open_sends_syn();
    machine_pauses(3 * 3600 * S);
    assert_true(end_await(18 * S, 20 * S) >= COPIES_MIN);
}

/* Pauses after each SYN,ACK, also the last one, after which the half-open connection would end. */
TEST(syn_ack_is_sent_again_and_its_answer_counts)
{
    enum { SYN_ACKS = 6 };
    for (unsigned sent = 1; sent <= SYN_ACKS; sent++) {
        begin_as_kernel();
        p->listener = tcp_listen(p->stack, PEER_STACK_PORT, 4, NULL);
        p->stack_port = PEER_STACK_PORT;
        peer_send(p, TCP_SYN, 0, 0, NULL, 0);
        EXPECT(p, SA, 0, 1, 0);
        for (unsigned i = 1; i < sent; i++) {
            assert_true(peer_wait(p, 200 * S));
            EXPECT(p, SA, 0, 1, 0);
        }
        machine_pauses(3 * 3600 * S);
        EXPECT(p, SA, 0, 1, 0);
        peer_pass(p, 20 * MS);
        peer_send(p, A, 1, 1, NULL, 0);
        p->id = tcp_accept(p->stack, p->listener);
        assert_true(p->id >= 0);
        EXPECT_STATE(p, TCP_ESTABLISHED);
    }
}

TEST(fin_is_sent_again_and_its_ack_counts)
{
    for (size_t i = 0; i < ARRAY_COUNT(pauses_ns); i++)
        for (int passive = 0; passive < 2; passive++) {
            begin_as_kernel();
            peer_connect_after(p, OFFER_PLAIN, 20 * MS);
            if (passive) {
                peer_send(p, FA, 1, 1, NULL, 0);
                EXPECT(p, A, 1, 2, 0);
            }
            tcp_shutdown(p->stack, p->id, p->now_ns);
            peer_step(p);
            EXPECT(p, FA, 1, 1u + (unsigned)passive, 0);
            machine_pauses(pauses_ns[i]);
            EXPECT(p, FA, 1, 1u + (unsigned)passive, 0);
            EXPECT_STATE(p, passive ? TCP_LAST_ACK : TCP_FIN_WAIT_1);
            peer_pass(p, 20 * MS);
            peer_send(p, A, 1u + (unsigned)passive, 2, NULL, 0);
            EXPECT_STATE(p, passive ? TCP_CLOSED : TCP_FIN_WAIT_2);
            EXPECT_NONE(p);
        }
}

/* ---- Closed windows ---- */

/* Pauses while a probe is out, whose answer is lost. Another probe leaves, and its answer counts. */
TEST(closed_window_is_probed_again_and_the_answer_counts)
{
    for (size_t i = 0; i < ARRAY_COUNT(pauses_ns); i++)
        for (int orphan = 0; orphan < 2; orphan++) {
            begin_as_kernel();
            p->window = 0;
            peer_connect_after(p, OFFER_PLAIN, 20 * MS);
            peer_write(p, 100);
            if (orphan)
                tcp_close(p->stack, p->id, p->now_ns);
            assert_true(peer_wait(p, 2 * S));
            EXPECT(p, A, 0, 1, 0);
            machine_pauses(pauses_ns[i]);
            EXPECT(p, A, 0, 1, 0);
            peer_pass(p, 20 * MS);
            p->window = 1000;
            peer_send(p, A, 1, 1, NULL, 0);
            EXPECT(p, orphan ? PA | TCP_FIN : PA, 1, 1, 100);
        }
}

TEST(closed_window_without_answers_ends_by_r2)
{
    for (size_t i = 0; i < ARRAY_COUNT(pauses_ns); i++) {
        begin_as_kernel();
        p->window = 0;
        peer_connect_after(p, OFFER_PLAIN, 20 * MS);
        peer_write(p, 100);
        machine_pauses(pauses_ns[i]);
        assert_true(end_await(90 * S, 160 * S) >= COPIES_MIN);
    }
}

/* ---- Keepalive ---- */

/* Pauses before the last judgement. The peer is asked once more. */
TEST(keepalive_asks_once_more)
{
    for (int answers = 0; answers < 2; answers++) {
        begin_as_kernel();
        peer_connect(p, OFFER_PLAIN);
        tcp_set_keepalive(p->stack, p->id, true, p->now_ns);
        for (unsigned i = 0; i < tcp_policy_get(p->stack)->keepalive_count; i++) {
            assert_true(peer_wait(p, 8000 * S));
            EXPECT(p, A, 0, 1, 0);
        }
        machine_pauses(3 * 3600 * S);
        EXPECT(p, A, 0, 1, 0);
        EXPECT_STATE(p, TCP_ESTABLISHED);
        if (answers) {
            peer_send(p, A, 1, 1, NULL, 0);
            assert_false(peer_wait(p, 7000 * S));
            EXPECT_STATE(p, TCP_ESTABLISHED);
        } else {
            assert_true(peer_wait(p, 76 * S));
            EXPECT(p, TCP_RST | A, 1, 1, 0);
            EXPECT_STATE(p, TCP_CLOSED);
        }
    }
}

TEST(idle_connection_is_asked_and_lives)
{
    peer_connect(p, OFFER_PLAIN);
    machine_pauses(30 * 24 * 3600 * S);
    EXPECT_NONE(p);
    peer_send(p, PA, 1, 1, NULL, 10);
    peer_read(p, 1, 10);
    peer_pass(p, S);
    peer_drain(p);
    tcp_set_keepalive(p->stack, p->id, true, p->now_ns);
    machine_pauses(3 * 3600 * S);
    EXPECT(p, A, 0, 11, 0); /* keepalive's first question */
    EXPECT_STATE(p, TCP_ESTABLISHED);
}

/* ---- Other timers of TCP ---- */

TEST(delayed_ack_leaves_at_once)
{
    struct tcp_policy policy = peer_policy_default();
    policy.ack = TCP_ACK_DELAYED;
    begin_with(&policy);
    peer_connect(p, OFFER_PLAIN);
    peer_send(p, PA, 1, 1, NULL, 10);
    EXPECT_NONE(p);
    machine_pauses(3 * 3600 * S);
    EXPECT(p, A, 1, 11, 0);
}

/* Pauses in states that only wait for the network to forget. */
TEST(time_wait_and_an_orphan_s_fin_wait_2_end)
{
    peer_connect(p, OFFER_PLAIN);
    close_sends_fin();
    peer_send(p, A, 1, 2, NULL, 0);
    machine_pauses(3 * 3600 * S);
    EXPECT_NONE(p);
    assert_int_equal(p->stack->tcp.connection_end, 0);

    peer_connect(p, OFFER_PLAIN);
    close_sends_fin();
    peer_send(p, FA, 1, 2, NULL, 0);
    EXPECT(p, A, 2, 2, 0);
    assert_int_equal(p->stack->tcp.time_wait_used, 1);
    machine_pauses(3 * 3600 * S);
    assert_int_equal(p->stack->tcp.time_wait_used, 0);
}

/* ---- IP ---- */

/* Pauses after each of the three requests for the gateway's MAC. The answer to the next one counts. */
TEST(neighbour_is_asked_again)
{
    for (unsigned asked = 1; asked <= ARP_REQUEST_COUNT_MAX; asked++) {
        peer_end(p);
        peer_begin_with(p, NULL, 0xffffffff, true);
        const struct net_counters *count = &p->stack->ip.counters;
        peer_pass(p, 10 * S); /* the gateway is asked at the start, in vain */
        uint64_t before = count->arp_tx_requests;
        p->id = tcp_connect(p->stack, PEER_ADDRESS, PEER_PORT, 0, NULL, p->now_ns);
        peer_pass(p, (asked - 1) * S + 500 * MS);
        assert_int_equal(count->arp_tx_requests - before, asked);
        machine_pauses(3 * 3600 * S);
        assert_int_equal(count->arp_tx_requests - before, asked + 1);
        assert_false(arp_has_failed(&p->stack->ip, PEER_GATEWAY));
        peer_pass(p, 20 * MS);
        peer_send_arp_reply(p, 2);
        EXPECT(p, TCP_SYN, 0, 0, 0);
        EXPECT_STATE(p, TCP_SYN_SENT);
    }
}

TEST(unfinished_datagram_is_dropped)
{
    uint8_t packet[20 + 16] = { 0 };
    const struct ipv4_output output = {
        .source = PEER_ADDRESS,
        .destination = PEER_STACK_ADDRESS,
        .protocol = IPV4_PROTOCOL_UDP,
        .id = 7,
        .flags_offset = IPV4_MORE_FRAGMENTS,
    };
    ipv4_header_write((struct ipv4_wire *)packet, &output, 16);
    peer_send_packet(p, packet, sizeof packet);
    assert_int_equal(p->stack->ip.counters.ipv4_rx_fragments, 1);
    machine_pauses(3 * 3600 * S);
    assert_int_equal(p->stack->ip.counters.ipv4_rx_drop_fragment_timeout, 1);
}

/* ---- DHCP: the server's clock went on, so a lease counts the pause ---- */

TEST(lease_counts_the_pause)
{
    enum { SERVER = 0x0a000202, OURS = 0x0a00020f };
    static const struct {
        uint64_t seconds;
        enum dhcp_state state;
        uint32_t destination;
    } cases[] = {
        { 3600, DHCP_SELECTING, UINT32_MAX }, { 3 * 3600 + 100, DHCP_REBINDING, UINT32_MAX },
        { 4 * 3600, DHCP_RENEWING, SERVER },  { 7 * 3600, DHCP_BOUND, 0 },
        { UINT32_MAX, DHCP_BOUND, 0 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct dhcp dhcp = {
            .state = DHCP_BOUND,
            .lease = { .address = OURS, .mask = 0xffffff00, .server = SERVER },
        };
        uint64_t began_ns = 50 * S, lease_ns = cases[i].seconds * S;
        bool ends = cases[i].seconds != UINT32_MAX;
        dhcp.lease.renews_ns = dhcp.due_ns = ends ? began_ns + lease_ns / 2 : UINT64_MAX;
        dhcp.lease.rebinds_ns = ends ? began_ns + lease_ns / 8 * 7 : UINT64_MAX;
        dhcp.lease.ends_ns = ends ? began_ns + lease_ns : UINT64_MAX;
        uint8_t message[DHCP_OUTPUT_BYTES_MAX];
        uint32_t source = 0, destination = 0;
        size_t bytes = dhcp_output(&dhcp, message, &source, &destination, began_ns + 3 * 3600 * S);
        dhcp_check(&dhcp);
        assert_int_equal(dhcp.state, cases[i].state);
        assert_int_equal(bytes != 0, cases[i].state != DHCP_BOUND);
        assert_int_equal(destination, cases[i].destination);
        assert_int_equal(dhcp_lease(&dhcp) != NULL, cases[i].state != DHCP_SELECTING);
    }
}
