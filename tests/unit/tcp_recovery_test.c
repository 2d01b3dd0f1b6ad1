/* Losses: fast retransmit and recovery with and without SACK, RACK's clock, tail probes, timeouts, the congestion
 * windows, and a hostile peer's SACK blocks. */
#include "tests/lib/random.h"
#include "tests/lib/tcp_fixture.h"

enum { MSS = 1000 };
#define OFFER_1000      ((struct offer){ MSS, -1, false, false })
#define OFFER_1000_SACK ((struct offer){ MSS, -1, true, false })

static uint32_t cwnd(void)
{
    struct tcp_info info;
    tcp_info(p->stack, p->id, &info);
    return info.cwnd_bytes;
}

static uint32_t ssthresh(void)
{
    struct tcp_info info;
    tcp_info(p->stack, p->id, &info);
    return info.ssthresh_bytes;
}

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

/* ---- Growth ---- */

TEST(slow_start_grows_by_acknowledged_bytes_two_segments_at_most)
{
    struct tcp_policy policy = peer_policy_default();
    policy.initial_window_segments = 4;
    policy.slow_start_ack_segments = 2;
    begin_with(&policy);
    peer_connect(p, OFFER_1000);
    peer_write(p, 60000);
    expect_segments(1, 4, false);
    peer_send(p, A, 1, 1 + MSS, NULL, 0); /* one segment: one more, and the one it frees */
    expect_segments(1 + 4 * MSS, 2, false);
    peer_send(p, A, 1, 1 + 3 * MSS, NULL, 0); /* two: two */
    expect_segments(1 + 6 * MSS, 4, false);
    EXPECT_NUMBER("cwnd", cwnd(), 7 * MSS);
    peer_send(p, A, 1, 1 + 6 * MSS, NULL, 0); /* three: L = 2 (RFC 3465) */
    EXPECT_NUMBER("cwnd", cwnd(), 9 * MSS);
}

/* RFC 5681 §3.1, ACK division: a segment acknowledged byte by byte counts once. */
TEST(splitting_acks_gains_nothing)
{
    peer_connect(p, OFFER_1000);
    peer_write(p, 60000);
    expect_segments(1, 10, false);
    for (uint32_t i = 1; i <= MSS; i++)
        peer_send(p, A, 1, 1 + i, NULL, 0);
    EXPECT_BETWEEN("cwnd", cwnd(), 10 * MSS, 11 * MSS);
}

TEST(congestion_avoidance_grows_a_segment_a_window)
{
    struct tcp_policy policy = peer_policy_default();
    policy.congestion = TCP_NEWRENO;
    begin_with(&policy);
    peer_connect(p, OFFER_1000);
    peer_write(p, 64000);
    expect_segments(1, 10, false);
    for (int i = 0; i < 3; i++) /* a loss leads to congestion avoidance */
        peer_send(p, A, 1, 1, NULL, 0);
    EXPECT(p, A, 1 + 10 * MSS, 1, MSS); /* limited transmit, RFC 3042 */
    EXPECT(p, A, 1 + 11 * MSS, 1, MSS);
    EXPECT(p, A, 1, 1, MSS);
    EXPECT_NUMBER("ssthresh", ssthresh(), 5 * MSS);
    peer_send(p, A, 1, 1 + 12 * MSS, NULL, 0);
    EXPECT_NUMBER("cwnd", cwnd(), 5 * MSS);
    uint32_t ack = 1 + 12 * MSS;
    for (int i = 0; i < 5; i++) {
        for (struct seen s; peer_take(p, &s);) {
        }
        EXPECT_NUMBER("cwnd", cwnd(), 5 * MSS);
        ack += MSS;
        peer_send(p, A, 1, ack, NULL, 0);
    }
    EXPECT_NUMBER("cwnd", cwnd(), 6 * MSS);
    for (struct seen s; peer_take(p, &s);) {
    }
}

TEST(window_that_is_not_used_does_not_grow)
{
    peer_connect(p, OFFER_1000);
    for (uint32_t i = 0; i < 50; i++) {
        peer_write(p, 100);
        EXPECT(p, PA, 1 + 100 * i, 1, 100);
        peer_send(p, A, 1, 101 + 100 * i, NULL, 0);
    }
    EXPECT_NUMBER("cwnd", cwnd(), 10 * MSS);
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

/* ---- Without SACK: RFC 5681, RFC 6582, RFC 3042 ---- */

/* Plays a loss more than 2^31 bytes after the last one: the guard of RFC 6582 §3.2 step 2 is long passed. */
TEST(third_duplicate_ack_resends_long_after_the_last_loss)
{
    connect_with_rtt(OFFER_1000);
    struct tcp_connection *c = &p->stack->tcp.connections[p->id];
    c->recover = c->snd_una - 0x80000001;
    peer_write(p, 10 * MSS);
    expect_segments(2, 10, true);
    for (int i = 0; i < 3; i++)
        peer_send(p, A, 1, 2, NULL, 0);
    EXPECT(p, A, 2, 1, MSS);
}

TEST(third_duplicate_ack_resends)
{
    send_flight(OFFER_1000, 10);
    peer_send(p, A, 1, 2, NULL, 0);
    peer_send(p, A, 1, 2, NULL, 0);
    EXPECT_NONE(p);
    peer_send(p, A, 1, 2, NULL, 0);
    EXPECT(p, A, 2, 1, MSS);
    EXPECT_NONE(p);
    peer_send(p, A, 1, 2 + 10 * MSS, NULL, 0);
    EXPECT_NONE(p);
    EXPECT_NUMBER("cwnd", cwnd(), 7 * MSS + 0); /* CUBIC: 0.7 of 10 */
}

TEST(segments_with_data_or_other_windows_are_no_duplicates)
{
    send_flight(OFFER_1000, 10);
    for (uint32_t i = 0; i < 4; i++)
        peer_send(p, PA, 1 + i, 2, NULL, 1);
    for (uint32_t i = 0; i < 4; i++)
        EXPECT(p, A, 2 + 10 * MSS, 2 + i, 0);
    for (uint16_t i = 0; i < 4; i++) {
        p->window = (uint16_t)(60000 + i);
        peer_send(p, A, 5, 2, NULL, 0);
    }
    EXPECT_NONE(p);
}

TEST(partial_acks_resend_hole_after_hole)
{
    send_flight(OFFER_1000, 10); /* 1st, 4th and 7th are lost */
    for (int i = 0; i < 7; i++)
        peer_send(p, A, 1, 2, NULL, 0);
    EXPECT(p, A, 2, 1, MSS);
    EXPECT_NONE(p);
    peer_send(p, A, 1, 2 + 3 * MSS, NULL, 0);
    EXPECT(p, A, 2 + 3 * MSS, 1, MSS);
    peer_send(p, A, 1, 2 + 6 * MSS, NULL, 0);
    EXPECT(p, A, 2 + 6 * MSS, 1, MSS);
    peer_send(p, A, 1, 2 + 10 * MSS, NULL, 0);
    EXPECT_NONE(p);
    struct tcp_info info;
    tcp_info(p->stack, p->id, &info);
    assert_false(info.in_recovery);
    EXPECT_NUMBER("resends", info.retransmits_total, 3);
    EXPECT_NUMBER("ssthresh", info.ssthresh_bytes, 7 * MSS); /* one loss event, one reduction */
}

/* RFC 6582 §3.2, step 2: duplicates caused by needless resends after a timeout are not a loss. */
TEST(duplicates_after_a_timeout_do_not_resend_again)
{
    send_flight(OFFER_1000, 4);
    assert_true(peer_wait(p, S));
    EXPECT(p, A, 2, 1, MSS); /* the timeout's; all had only been late */
    for (uint32_t i = 1; i <= 4; i++)
        peer_send(p, A, 1, 2 + i * MSS, NULL, 0);
    for (struct seen s; peer_take(p, &s);) {
    }
    peer_write(p, 3 * MSS);
    for (struct seen s; peer_take(p, &s);) {
    }
    for (int i = 0; i < 3; i++)
        peer_send(p, A, 1, 2 + 4 * MSS, NULL, 0); /* ACKs of segments sent twice */
    EXPECT_NONE(p);
}

/* ---- SACK ---- */

TEST(three_segments_sacked_beyond_a_hole_resend_it)
{
    connect_with_rtt(OFFER_1000_SACK);
    peer_write(p, 12 * MSS);
    expect_segments(2, 10, false);
    peer_pass(p, 100 * MS);
    peer_send_sack(p, 1, 2, &(struct block){ 2 + MSS, 2 + 2 * MSS }, 1);
    EXPECT(p, A, 2 + 10 * MSS, 1, MSS); /* limited transmit */
    peer_send_sack(p, 1, 2, &(struct block){ 2 + MSS, 2 + 3 * MSS }, 1);
    EXPECT(p, PA, 2 + 11 * MSS, 1, MSS);
    peer_send_sack(p, 1, 2, &(struct block){ 2 + MSS, 2 + 4 * MSS }, 1);
    EXPECT(p, A, 2, 1, MSS);
    EXPECT_NONE(p);
    peer_send(p, A, 1, 2 + 12 * MSS, NULL, 0);
}

TEST(only_the_holes_are_resent)
{
    send_flight(OFFER_1000_SACK, 10); /* 1st, 3rd, 6th are lost */
    peer_pass(p, 100 * MS);
    struct block blocks[] = { { 2 + 6 * MSS, 2 + 10 * MSS }, { 2 + 3 * MSS, 2 + 5 * MSS }, { 2 + MSS, 2 + 2 * MSS } };
    peer_send_sack(p, 1, 2, blocks, 3);
    uint32_t seqs[3], count = 0;
    struct seen s;
    while (peer_take(p, &s) && count < 3)
        seqs[count++] = s.seq;
    peer_pass(p, 100 * MS);
    peer_send_sack(p, 1, 2 + 2 * MSS, blocks, 2);
    while (peer_take(p, &s) && count < 3)
        seqs[count++] = s.seq;
    peer_pass(p, 100 * MS);
    peer_send_sack(p, 1, 2 + 5 * MSS, blocks, 1);
    while (peer_take(p, &s) && count < 3)
        seqs[count++] = s.seq;
    assert_int_equal(count, 3);
    assert_int_equal(seqs[0], 2);
    assert_int_equal(seqs[1], 2 + 2 * MSS);
    assert_int_equal(seqs[2], 2 + 5 * MSS);
    peer_send(p, A, 1, 2 + 10 * MSS, NULL, 0);
    EXPECT_NONE(p);
    struct tcp_info info;
    tcp_info(p->stack, p->id, &info);
    EXPECT_NUMBER("resends", info.retransmits_total, 3);
    EXPECT_NUMBER("cwnd", info.cwnd_bytes, 7 * MSS);
}

/* RFC 8985 §6.2: a segment is given a quarter of the least round trip to be merely late. */
TEST(reordering_within_a_quarter_round_trip_is_waited_for)
{
    send_flight(OFFER_1000_SACK, 3);
    peer_pass(p, 100 * MS);
    peer_send_sack(p, 1, 2, &(struct block){ 2 + MSS, 2 + 3 * MSS }, 1);
    EXPECT_NONE(p);
    uint64_t began_ns = p->now_ns;
    assert_true(peer_wait(p, S));
    struct seen *s = EXPECT(p, A, 2, 1, MSS);
    EXPECT_NUMBER("the reordering window, us", (s->at_ns - began_ns) / 1000, 25000);
    peer_send(p, A, 1, 2 + 3 * MSS, NULL, 0);
}

TEST(reordered_segments_are_not_resent_once_reordering_is_known)
{
    connect_with_rtt(OFFER_1000_SACK);
    uint32_t seq = 2;
    for (int i = 0; i < 10; i++) {
        peer_write(p, 5 * MSS);
        expect_segments(seq, 5, true);
        peer_pass(p, 100 * MS);
        peer_send_sack(p, 1, seq, &(struct block){ seq + MSS, seq + (i == 0 ? 3 : 5) * MSS }, 1);
        EXPECT_NONE(p);
        peer_pass(p, 10 * MS);
        peer_send(p, A, 1, seq + 5 * MSS, NULL, 0); /* the first comes 10 ms later */
        EXPECT_NONE(p);
        seq += 5 * MSS;
    }
    EXPECT_NUMBER("recoveries", p->stack->ip.counters.tcp_recoveries, 0);
}

/* RFC 8985: a lost resend is found by time, without waiting for the timeout. */
TEST(lost_resend_is_resent_within_a_round_trip)
{
    connect_with_rtt(OFFER_1000_SACK);
    peer_write(p, 20 * MSS);
    expect_segments(2, 10, false);
    peer_pass(p, 100 * MS);
    peer_send_sack(p, 1, 2, &(struct block){ 2 + MSS, 2 + 10 * MSS }, 1);
    EXPECT(p, A, 2, 1, MSS); /* lost again */
    uint32_t last = 0;
    for (struct seen s; peer_take(p, &s);)
        last = s.seq + s.bytes;
    assert_true(last > 2 + 10 * MSS);
    peer_pass(p, 100 * MS);
    peer_send_sack(p, 1, 2, &(struct block){ 2 + MSS, last }, 1); /* the segments after it have come */
    EXPECT(p, A, 2, 1, MSS);
    EXPECT_NUMBER("timeouts", p->stack->ip.counters.tcp_rto_timeouts, 0);
    peer_send(p, A, 1, last, NULL, 0);
}

/* RFC 2018 §8, RFC 6675 §5.1: after a timeout a SACKed segment counts as lost until it is SACKed again. */
TEST(timeout_forgets_sacked_segments)
{
    struct tcp_policy policy = peer_policy_default();
    policy.tail_probe = false;
    begin_with(&policy);
    send_flight(OFFER_1000_SACK, 3);
    peer_send_sack(p, 1, 2, &(struct block){ 2 + MSS, 2 + 3 * MSS }, 1);
    assert_true(peer_wait(p, S));
    EXPECT(p, A, 2, 1, MSS); /* RACK's */
    assert_true(peer_wait(p, S));
    EXPECT(p, A, 2, 1, MSS);              /* the timeout's */
    peer_send(p, A, 1, 2 + MSS, NULL, 0); /* the peer has dropped the rest */
    EXPECT(p, A, 2 + MSS, 1, MSS);
    EXPECT(p, PA, 2 + 2 * MSS, 1, MSS);
    peer_send(p, A, 1, 2 + 3 * MSS, NULL, 0);
}

/* Sends impossible SACK blocks (CVE-2019-11477 and similar). */
TEST(impossible_sack_blocks_are_ignored)
{
    send_flight(OFFER_1000_SACK, 10);
    static const struct block bad[] = {
        { 2 + 3 * MSS, 2 + MSS },
        { 2 + MSS, 2 + MSS },
        { 2 + MSS, 2 + 11 * MSS },
        { 2 + MSS, 2 + MSS + 0x80000000 },
        { 2 + 20 * MSS, 2 + 30 * MSS },
        { 0x80000000, 0x80000100 },
        { 1, 0 },
        { 2 + MSS + 1, 2 + 2 * MSS - 1 },
        { 2 + MSS, 2 + MSS + 1 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        peer_send_sack(p, 1, 2, &bad[i], 1);
        struct tcp_info info;
        tcp_info(p->stack, p->id, &info);
        EXPECT_NUMBER("sacked bytes", info.sacked_bytes, 0);
        EXPECT_NUMBER("lost bytes", info.lost_bytes, 0);
    }
    for (int i = 0; i < 3000; i++) {
        struct block blocks[4];
        for (int k = 0; k < 4; k++) {
            blocks[k].left = 2 + (uint32_t)random_below(11 * MSS);
            blocks[k].right = blocks[k].left + (uint32_t)random_below(4 * MSS);
        }
        peer_send_sack(p, 1, 2, blocks, 1 + (uint32_t)i % 4);
        peer_pass(p, MS / 10);
        for (struct seen s; peer_take(p, &s);) {
        }
    }
    peer_send(p, A, 1, 2 + 10 * MSS, NULL, 0);
    for (struct seen s; peer_take(p, &s);) {
    }
    struct tcp_info info;
    tcp_info(p->stack, p->id, &info);
    EXPECT_NUMBER("unacked", info.unacked_bytes, 0);
    EXPECT_NUMBER("sacked bytes", info.sacked_bytes, 0);
}

/* RFC 6937: during a recovery the window sinks evenly to ssthresh. */
TEST(window_sinks_evenly_through_recovery)
{
    struct tcp_policy policy = peer_policy_default();
    policy.initial_window_segments = 20;
    policy.congestion = TCP_NEWRENO;
    begin_with(&policy);
    connect_with_rtt(OFFER_1000_SACK);
    peer_write(p, 60 * MSS);
    expect_segments(2, 20, false);
    peer_pass(p, 100 * MS);
    uint32_t sent = 0;
    for (uint32_t i = 1; i < 20; i++) {
        peer_send_sack(p, 1, 2, &(struct block){ 2 + MSS, 2 + (i + 1) * MSS }, 1);
        for (struct seen s; peer_take(p, &s);)
            sent++;
    }
    /* Two by limited transmit and one resend. Then one segment for two ACKs: half of the 17 further ones. */
    EXPECT_BETWEEN("segments sent in recovery", sent, 10, 13);
    EXPECT_NUMBER("ssthresh", ssthresh(), 10 * MSS);
}

/* ---- Tail probes: RFC 8985 §7 ---- */

TEST(lone_segment_is_probed_after_two_round_trips_and_the_peers_delay)
{
    struct tcp_policy policy = peer_policy_default();
    policy.rto_min_us = 1000000;
    begin_with(&policy);
    connect_with_rtt(OFFER_1000_SACK);
    struct tcp_info info;
    tcp_info(p->stack, p->id, &info);
    peer_write(p, 100);
    EXPECT(p, PA, 2, 1, 100);
    assert_true(peer_wait(p, 2 * S));
    EXPECT_AFTER(p, EXPECT(p, PA, 2, 1, 100), (2 * info.srtt_us + 200000) * UINT64_C(1000));
    assert_true(peer_wait(p, 2 * S));
    EXPECT_AFTER(p, EXPECT(p, PA, 2, 1, 100), 1 * S); /* then the timeout, from the probe on */
    peer_send(p, A, 1, 102, NULL, 0);
}

TEST(tail_of_a_flight_is_probed_after_two_round_trips)
{
    struct tcp_policy policy = peer_policy_default();
    policy.rto_min_us = 1000000;
    begin_with(&policy);
    connect_with_rtt(OFFER_1000_SACK);
    struct tcp_info info;
    tcp_info(p->stack, p->id, &info);
    peer_write(p, 5 * MSS);
    expect_segments(2, 5, true);
    assert_true(peer_wait(p, 2 * S));
    EXPECT_AFTER(p, EXPECT(p, PA, 2 + 4 * MSS, 1, MSS), 2 * info.srtt_us * UINT64_C(1000)); /* the last again */
    /* The probe arrived, the other segments did not: RACK resends them at once. */
    peer_pass(p, 100 * MS);
    peer_send_sack(p, 1, 2, &(struct block){ 2 + 4 * MSS, 2 + 5 * MSS }, 1);
    EXPECT(p, A, 2, 1, MSS);
    EXPECT_NUMBER("timeouts", p->stack->ip.counters.tcp_rto_timeouts, 0);
    peer_send(p, A, 1, 2 + 5 * MSS, NULL, 0);
}

TEST(probe_prefers_new_data)
{
    struct tcp_policy policy = peer_policy_default();
    policy.rto_min_us = 1000000;
    policy.initial_window_segments = 3;
    begin_with(&policy);
    connect_with_rtt(OFFER_1000_SACK);
    peer_write(p, 5 * MSS);
    expect_segments(2, 3, false);
    assert_true(peer_wait(p, 2 * S));
    EXPECT(p, A, 2 + 3 * MSS, 1, MSS);
    EXPECT_NUMBER("tail probes", p->stack->ip.counters.tcp_tx_tail_probes, 1);
    peer_send(p, A, 1, 2 + 4 * MSS, NULL, 0);
}

/* §7.4: a probe that repaired a loss is a sign of congestion. A needless probe is not. */
TEST(probe_that_repaired_reduces_the_window)
{
    for (int needless = 0; needless < 2; needless++) {
        struct tcp_policy policy = peer_policy_default();
        policy.rto_min_us = 1000000;
        begin_with(&policy);
        connect_with_rtt(OFFER_1000_SACK);
        peer_write(p, 5 * MSS);
        expect_segments(2, 5, true);
        assert_true(peer_wait(p, 2 * S));
        EXPECT(p, PA, 2 + 4 * MSS, 1, MSS);
        if (needless)
            peer_send_sack(p, 1, 2 + 5 * MSS, &(struct block){ 2 + 4 * MSS, 2 + 5 * MSS }, 1); /* DSACK */
        else
            peer_send(p, A, 1, 2 + 5 * MSS, NULL, 0);
        uint32_t before = cwnd();
        peer_write(p, MSS);
        EXPECT(p, PA, 2 + 5 * MSS, 1, MSS);
        peer_send(p, A, 1, 2 + 6 * MSS, NULL, 0);
        if (needless)
            assert_true(cwnd() >= before);
        else
            assert_true(cwnd() < before);
    }
}

/* ---- Timeouts ---- */

TEST(timeout_leaves_one_segment_and_slow_starts)
{
    struct tcp_policy policy = peer_policy_default();
    policy.congestion = TCP_NEWRENO;
    begin_with(&policy);
    send_flight(OFFER_1000, 10);
    assert_true(peer_wait(p, 2 * S));
    EXPECT(p, A, 2, 1, MSS);
    EXPECT_NONE(p);
    EXPECT_NUMBER("cwnd", cwnd(), MSS);
    EXPECT_NUMBER("ssthresh", ssthresh(), 5 * MSS);
    peer_send(p, A, 1, 2 + MSS, NULL, 0);
    EXPECT(p, A, 2 + MSS, 1, MSS);
    EXPECT(p, A, 2 + 2 * MSS, 1, MSS);
    EXPECT_NONE(p);
    assert_true(peer_wait(p, 2 * S)); /* lost again: ssthresh from the bytes now in flight, RFC 5681 §3.1 */
    EXPECT(p, A, 2 + MSS, 1, MSS);
    EXPECT_NUMBER("cwnd", cwnd(), MSS);
    peer_send(p, A, 1, 2 + 10 * MSS, NULL, 0);
}

TEST(repeated_timeout_of_one_segment_reduces_once)
{
    send_flight(OFFER_1000, 10);
    assert_true(peer_wait(p, 2 * S));
    EXPECT(p, A, 2, 1, MSS);
    uint32_t first = ssthresh();
    for (int i = 0; i < 4; i++) {
        assert_true(peer_wait(p, 20 * S));
        EXPECT(p, A, 2, 1, MSS);
        EXPECT_NUMBER("ssthresh", ssthresh(), first);
    }
    peer_send(p, A, 1, 2 + 10 * MSS, NULL, 0);
}

/* RFC 3522 (Eifel): an echo from before the resend shows that nothing was lost. */
TEST(needless_timeout_is_undone_by_timestamps)
{
    struct tcp_policy policy = peer_policy_default();
    policy.tail_probe = false;
    begin_with(&policy);
    peer_connect(p, (struct offer){ MSS + 12, -1, false, true });
    peer_write(p, 10 * MSS);
    expect_segments(1, 10, true);
    uint32_t echo = p->timestamp_echo;
    uint32_t before = cwnd();
    assert_true(peer_wait(p, 2 * S));
    EXPECT(p, A, 1, 1, MSS);
    EXPECT_NUMBER("cwnd", cwnd(), MSS);
    p->timestamp_echo = echo; /* the answer to the first sending, late */
    peer_send(p, A, 1, 1 + 2 * MSS, NULL, 0);
    EXPECT_NONE(p); /* nothing is resent any more */
    assert_true(cwnd() >= before);
    peer_send(p, A, 1, 1 + 10 * MSS, NULL, 0);
}

TEST(needless_recovery_is_undone_by_dsack)
{
    send_flight(OFFER_1000_SACK, 10);
    uint32_t before = cwnd();
    peer_send_sack(p, 1, 2, &(struct block){ 2 + MSS, 2 + 4 * MSS }, 1);
    EXPECT(p, A, 2, 1, MSS);
    peer_send(p, A, 1, 2 + 4 * MSS, NULL, 0); /* the first had only been late */
    assert_true(cwnd() < before);
    peer_send_sack(p, 1, 2 + 5 * MSS, &(struct block){ 2, 2 + MSS }, 1); /* the segment came twice */
    EXPECT_NUMBER("undone", p->stack->ip.counters.tcp_recoveries_undone, 1);
    assert_true(cwnd() >= before);
    peer_send(p, A, 1, 2 + 10 * MSS, NULL, 0);
}

/* Plays a DSACK more than 2^31 bytes after the last one: RFC 8985 §6.2 step 4 widens the window once more. */
TEST(dsack_widens_the_window_long_after_the_last_one)
{
    connect_with_rtt(OFFER_1000_SACK);
    struct tcp_connection *c = &p->stack->tcp.connections[p->id];
    c->rack.dsack_round_on = true;
    c->rack.dsack_round = c->snd_una - 0x80000001;
    peer_send_sack(p, 1, 2, &(struct block){ 1, 2 }, 1);
    EXPECT_NUMBER("quarters of the round trip", c->rack.window_multiplier, 2);
}

/* Loses a segment on a path whose round trip of 400 ms is longer than the RTO's margin of 200 ms. The fast retransmit
 * has its own time-out: the one of the original would come before the answer. With SACK and without. */
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
        tcp_abort(p->stack, p->id, p->now_ns);
        peer_step(p);
        for (struct seen s; peer_take(p, &s);) {
        }
    }
}

/* ---- Pauses of the machine ---- */

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
            tcp_abort(p->stack, p->id, p->now_ns);
            peer_step(p);
            for (struct seen s; peer_take(p, &s);) {
            }
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

/* ---- Every single loss ---- */

/* Loses the k-th segment of a transfer of 12 segments, for each k, with each set of options. */
TEST(any_one_segment_may_be_lost)
{
    for (int options = 0; options < 4; options++) {
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
            tcp_abort(p->stack, p->id, p->now_ns);
            peer_step(p);
            for (struct seen s; peer_take(p, &s);) {
            }
        }
    }
}

/* Writes shortly before the time-out of an earlier segment. The later one may still be on its way, and keeps nothing
 * from being sent again. */
TEST(timeout_resends_beside_data_sent_a_moment_ago)
{
    struct tcp_policy policy = peer_policy_default();
    policy.tail_probe = false;
    begin_with(&policy);
    peer_connect_after(p, OFFER_SACK, 500 * MS);
    peer_write(p, 1460);
    EXPECT(p, PA, 1, 1, 1460);
    peer_pass(p, 500 * MS);
    peer_send(p, A, 1, 1461, NULL, 0);
    struct tcp_info info;
    tcp_info(p->stack, p->id, &info);
    peer_write(p, 1460); /* lost */
    EXPECT(p, PA, 1461, 1, 1460);
    peer_pass(p, (info.rto_us - 100000) * UINT64_C(1000));
    peer_write(p, 1460);
    EXPECT(p, PA, 2921, 1, 1460);
    peer_pass(p, 150 * MS);
    EXPECT(p, PA, 1461, 1, 1460);
    peer_send(p, A, 1, 4381, NULL, 0);
}
