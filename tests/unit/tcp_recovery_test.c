/* Rules of losses that no timeline of tests/wire/recovery can say: state from long ago, pauses of the machine, blocks
 * at random, every single loss, CUBIC's arithmetic. */
#include "tests/lib/random.h"
#include "tests/lib/tcp_fixture.h"

enum { MSS = 1000 };
#define OFFER_1000      ((struct offer){ MSS, -1, false, false })
#define OFFER_1000_SACK ((struct offer){ MSS, -1, true, false })

/* Expects `count` full segments from `seq` on; `pushed`: the last has PSH. */
static void expect_segments(uint32_t seq, uint32_t count, bool pushed)
{
    for (uint32_t i = 0; i < count; i++)
        EXPECT(p, pushed && i == count - 1 ? PA : A, seq + i * MSS, 1, MSS);
    EXPECT_NONE(p);
}

/* Opens a connection with a measured round trip of 100 ms: RTTVAR 37.5 ms, RTO 250 ms. */
static void connect_with_rtt(struct offer offer)
{
    peer_connect_after(p, offer, 100 * MS);
    peer_write(p, 1);
    EXPECT(p, PA, 1, 1, 1);
    peer_pass(p, 100 * MS);
    peer_send(p, A, 1, 2, NULL, 0);
}

/* Opens a connection in the same way, and sends `count` full segments, from number 2 on. */
static void send_flight(struct offer offer, uint32_t count)
{
    connect_with_rtt(offer);
    peer_write(p, count * MSS);
    expect_segments(2, count, true);
}

/* RFC 9438 §4.2: after a loss at W_max the window is back there after K seconds. */
TEST(cubic_returns_to_the_old_window_in_its_time)
{
    struct tcp_congestion c;
    struct tcp_policy policy = peer_policy_default();
    tcp_congestion_init(&c, 10 * MSS);
    c.cwnd = c.ssthresh = 1000 * MSS;
    uint64_t now_ns = 100 * S;
    tcp_congestion_lost(&c, &policy, 1000 * MSS, MSS);
    assert_int_equal(c.ssthresh, 700 * MSS);
    c.cwnd = c.ssthresh;
    double k_s = 9.0856; /* cbrt(300 / 0.4) */
    uint64_t rtt_ns = 100 * MS, before_k = 0, at_k = 0, after_k = 0;
    for (int round = 0; round < 140; round++) {
        double t = round * 0.1;
        for (int i = 0; i < 700; i++)
            tcp_congestion_acked(&c, &policy, c.cwnd / 700, MSS, rtt_ns, true, false, now_ns);
        now_ns += rtt_ns;
        if (t < k_s / 2)
            before_k = c.cwnd;
        if (t < k_s)
            at_k = c.cwnd;
        if (t < 1.5 * k_s)
            after_k = c.cwnd;
    }
    EXPECT_BETWEEN("cwnd at K / 2", before_k, 940 * MSS, 975 * MSS); /* 1000 - 0.4 (4.54)^3 = 962 */
    EXPECT_BETWEEN("cwnd at K", at_k, 990 * MSS, 1010 * MSS);
    EXPECT_BETWEEN("cwnd at 1.5 K", after_k, 1020 * MSS, 1050 * MSS); /* 1000 + 0.4 (4.54)^3 = 1037 */
}

/* Grows a large window with a large MSS, long after a loss: the cubic's product must not overflow. */
TEST(cubic_grows_without_overflow)
{
    enum { MSS_LARGE = 46117, WINDOW = 4000 * MSS_LARGE }; /* 10^18 / 2500 times this MSS is little more than 2^64 */
    struct tcp_congestion c;
    struct tcp_policy policy;
    tcp_policy_default(&policy);
    tcp_congestion_init(&c, 10 * MSS_LARGE);
    c.cwnd = c.ssthresh = 100 * MSS_LARGE;
    tcp_congestion_lost(&c, &policy, 100 * MSS_LARGE, MSS_LARGE);
    c.cwnd = c.ssthresh;
    uint64_t begun_ns = 100 * S;
    tcp_congestion_acked(&c, &policy, MSS_LARGE, MSS_LARGE, MS, true, false, begun_ns);
    c.cwnd = WINDOW;
    tcp_congestion_acked(&c, &policy, WINDOW, MSS_LARGE, MS, true, false, begun_ns + 1100 * S);
    EXPECT_NUMBER("cwnd", c.cwnd, WINDOW + WINDOW / 2);
}

/* Plays a loss more than 2^31 bytes after the last one: the guard of RFC 6582 §3.2 step 2 is long passed. */
TEST(third_duplicate_ack_resends_long_after_the_last_loss)
{
    connect_with_rtt(OFFER_1000);
    struct tcp_connection *c = &p->stack->tcp.connections[p->id];
    c->recovery.recover = c->snd_una - 0x80000001;
    peer_write(p, 10 * MSS);
    expect_segments(2, 10, true);
    for (int i = 0; i < 3; i++)
        peer_send(p, A, 1, 2, NULL, 0);
    EXPECT(p, A, 2, 1, MSS);
}

/* Sends SACK blocks at random (CVE-2019-11477 and similar). */
TEST(any_sack_blocks_are_survived)
{
    send_flight(OFFER_1000_SACK, 10);
    for (int i = 0; i < 3000; i++) {
        struct block blocks[4];
        for (int k = 0; k < 4; k++) {
            blocks[k].left = 2 + (uint32_t)random_below(11 * MSS);
            blocks[k].right = blocks[k].left + (uint32_t)random_below(4 * MSS);
        }
        peer_send_sack(p, 1, 2, blocks, 1 + (uint32_t)i % 4);
        peer_pass(p, MS / 10);
        peer_drain(p);
    }
    peer_send(p, A, 1, 2 + 10 * MSS, NULL, 0);
    peer_drain(p);
    struct tcp_info info;
    tcp_info(p->stack, p->id, &info);
    EXPECT_NUMBER("unacked", info.unacked_bytes, 0);
    EXPECT_NUMBER("sacked bytes", info.sacked_bytes, 0);
}

/* Plays a DSACK more than 2^31 bytes after the last one: RFC 8985 §6.2 step 4 widens the window once more. */
TEST(dsack_widens_the_window_long_after_the_last_one)
{
    connect_with_rtt(OFFER_1000_SACK);
    struct tcp_connection *c = &p->stack->tcp.connections[p->id];
    c->recovery.rack.dsack_round_on = true;
    c->recovery.rack.dsack_round = c->snd_una - 0x80000001;
    peer_send_sack(p, 1, 2, &(struct block){ 1, 2 }, 1);
    EXPECT_NUMBER("quarters of the round trip", c->recovery.rack.window_multiplier, 2);
}

/* Loses a segment on a path whose round trip of 400 ms is longer than the RTO's margin of 200 ms. The fast retransmit
 * has its own time-out: the one of the original would come before the answer. With SACK and without. */
/* RFC 8985 §6.2: a segment that comes after later ones, and was sent once, is reordering. Its distance is kept. */
TEST(late_segment_counts_as_reordering)
{
    struct tcp_info info;
    send_flight(OFFER_1000_SACK, 6);
    peer_send_sack(p, 1, 2, &(struct block){ 2 + 5 * MSS, 2 + 6 * MSS }, 1);
    peer_send_sack(p, 1, 2, (const struct block[]){ { 2 + MSS, 2 + 2 * MSS }, { 2 + 5 * MSS, 2 + 6 * MSS } }, 2);
    assert_true(tcp_info(p->stack, p->id, &info));
    assert_int_equal(info.reordering_count, 1);
    assert_int_equal(info.reordering_segments, 5);
    peer_send(p, A, 1, 2 + 6 * MSS, NULL, 0);
    peer_drain(p);
}

/* RFC 8985 §6.2, step 4: sixteen recoveries without a DSACK end the wider window. */
TEST(last_of_sixteen_recoveries_narrows_the_window)
{
    send_flight(OFFER_1000_SACK, 6);
    struct tcp_connection *c = &p->stack->tcp.connections[p->id];
    c->recovery.rack.window_multiplier = 3;
    c->recovery.rack.window_persist = 1;
    peer_send_sack(p, 1, 2, &(struct block){ 2 + MSS, 2 + 5 * MSS }, 1);
    peer_pass(p, 200 * MS);
    assert_int_equal(c->recovery_state, TCP_RECOVERY);
    assert_int_equal(c->recovery.rack.window_multiplier, 3);
    peer_drain(p);
    peer_send(p, A, 1, 2 + 6 * MSS, NULL, 0);
    assert_int_equal(c->recovery_state, TCP_OPEN);
    assert_int_equal(c->recovery.rack.window_multiplier, 1);
    assert_int_equal(c->recovery.rack.window_persist, 0);
}

TEST(fast_retransmit_restarts_the_time_out)
{
    for (int sack = 0; sack < 2; sack++) {
        uint32_t seq = 1;
        peer_connect_after(p, sack ? OFFER_1000_SACK : OFFER_1000, 400 * MS);
        for (int i = 0; i < 10; i++, seq++) { /* the deviation falls */
            peer_write(p, 1);
            EXPECT(p, PA, seq, 1, 1);
            peer_pass(p, 400 * MS);
            peer_send(p, A, 1, seq + 1, NULL, 0);
        }
        peer_write(p, 10 * MSS);
        expect_segments(seq, 10, true);
        peer_pass(p, 400 * MS);
        for (uint32_t i = 2; i <= 4; i++)
            if (sack)
                peer_send_sack(p, 1, seq, &(struct block){ seq + MSS, seq + i * MSS }, 1);
            else
                peer_send(p, A, 1, seq, NULL, 0);
        EXPECT(p, A, seq, 1, MSS);
        peer_pass(p, 399 * MS);
        EXPECT_NONE(p);
        EXPECT_NUMBER("time-outs", p->stack->ip.counters.tcp_rto_timeouts, 0);
        peer_send(p, A, 1, seq + 10 * MSS, NULL, 0);
        abort_connection();
    }
}

static uint32_t rto_us(void)
{
    struct tcp_info info;
    tcp_info(p->stack, p->id, &info);
    return info.rto_us;
}

/* Stops the machine: time passes, and no timer runs. */
static void machine_pauses(uint64_t ns)
{
    p->now_ns += ns;
    p->timestamp += (uint32_t)(ns / MS);
}

/* Pauses with data in flight. The answer lies in the ring when the machine goes on, and is taken before the timers
 * run; or the timers run first. */
TEST(round_trip_across_a_pause_is_no_sample)
{
    for (int timestamps = 0; timestamps < 2; timestamps++)
        for (int timers_first = 0; timers_first < 2; timers_first++) {
            peer_connect_after(p, (struct offer){ MSS + 12 * timestamps, -1, true, timestamps }, 100 * MS);
            uint32_t before_us = rto_us();
            peer_write(p, 2 * MSS);
            expect_segments(1, 2, true);
            uint32_t echo = p->timestamp_echo;
            machine_pauses(60 * S);
            if (timers_first) {
                peer_step(p);
                EXPECT(p, PA, 1 + MSS, 1, MSS); /* the tail probe */
            }
            p->timestamp_echo = echo;
            peer_send(p, A, 1, 1 + MSS, NULL, 0);
            peer_send(p, A, 1, 1 + 2 * MSS, NULL, 0);
            EXPECT_NUMBER("rto_us", rto_us(), before_us);
            peer_write(p, 1); /* a round trip without a pause */
            EXPECT(p, PA, 1 + 2 * MSS, 1, 1);
            peer_pass(p, 50 * MS);
            peer_send(p, A, 1, 2 + 2 * MSS, NULL, 0);
            EXPECT_BETWEEN("rto_us", rto_us(), before_us / 2, before_us - 1);
            abort_connection();
        }
}

/* Pauses between SYN and SYN,ACK, and between SYN,ACK and ACK. */
TEST(handshake_across_a_pause_is_no_sample)
{
    open_sends_syn();
    machine_pauses(60 * S);
    peer_send(p, SA, 0, 1, NULL, 0);
    EXPECT(p, A, 1, 1, 0);
    EXPECT_NUMBER("rto_us", rto_us(), 1000000);
    tcp_abort(p->stack, p->id, p->now_ns);
    peer_step(p);
    EXPECT(p, TCP_RST | A, 1, 1, 0);

    p->listener = tcp_listen(p->stack, PEER_STACK_PORT, 1, NULL);
    p->stack_port = PEER_STACK_PORT;
    peer_send(p, TCP_SYN, 0, 0, NULL, 0);
    EXPECT(p, SA, 0, 1, 0);
    machine_pauses(60 * S);
    peer_send(p, A, 1, 1, NULL, 0);
    p->id = tcp_accept(p->stack, p->listener);
    EXPECT_NUMBER("rto_us", rto_us(), 1000000);
}

/* Loses the k-th segment of a transfer of 12 segments, for each k, with each set of options. */
TEST(any_one_segment_may_be_lost)
{
    for (int options = 0; options < 4; options++)
        for (uint32_t lost = 0; lost < 12; lost++) {
            struct offer offer = { (options & 2) ? MSS + 12 : MSS, -1, options & 1, options & 2 };
            bool have[16] = { false };
            uint32_t nxt = 1, index = 0;
            peer_connect_after(p, offer, 50 * MS);
            peer_write(p, 12 * MSS);
            for (int turns = 0; turns < 100 && nxt < 1 + 12 * MSS; turns++) {
                struct seen flight[16];
                uint32_t count = 0;
                assert_true(peer_wait(p, 10 * S));
                while (peer_take(p, &flight[count]))
                    count++;
                peer_pass(p, 50 * MS);
                for (uint32_t i = 0; i < count; i++) {
                    const struct seen *s = &flight[i];
                    if (index++ == lost)
                        continue;
                    have[(s->seq - 1) / MSS] = true;
                    while (nxt < 1 + 12 * MSS && have[(nxt - 1) / MSS])
                        nxt += MSS;
                    if ((options & 1) && nxt <= s->seq)
                        peer_send_sack(p, 1, nxt, &(struct block){ s->seq, s->seq + s->bytes }, 1);
                    else
                        peer_send(p, A, 1, nxt, NULL, 0);
                }
            }
            assert_int_equal(nxt, 1 + 12 * MSS);
            struct tcp_info info;
            tcp_info(p->stack, p->id, &info);
            assert_int_equal(info.unacked_bytes, 0);
            EXPECT_BETWEEN("resends", info.retransmits_total, 1, 2);
            abort_connection();
        }
}
