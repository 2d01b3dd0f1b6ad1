/* The acknowledgement in a segment: checks it, frees acknowledged segments, measures the round trip. RFC 9293
 * §3.10.7.4 (fifth), RFC 5961 §5, RFC 6298 §2 and §3, RFC 7323 §4. */
#include "net/tcp/internal.h"

#include "base/time.h"

/* RFC 6298 §2: Takes one round trip into SRTT, RTTVAR and the RTO. As in Linux, the RTO is at least SRTT + rto_min, not
 * just rto_min: a peer that delays its ACKs by up to rto_min then causes no timeout. Beyond Linux's 200 ms a larger
 * rto_min is the least RTO alone, as in (2.4). */
void tcp_rtt_measured(struct tcp_connection *c, uint64_t rtt_ns)
{
    if (rtt_ns == 0)
        rtt_ns = 1;        /* 0 means "none yet" */
    if (c->srtt_ns == 0) { /* (2.2) */
        c->srtt_ns = rtt_ns;
        c->rttvar_ns = rtt_ns / 2;
    } else { /* (2.3) */
        uint64_t distance = c->srtt_ns > rtt_ns ? c->srtt_ns - rtt_ns : rtt_ns - c->srtt_ns;
        c->rttvar_ns = (3 * c->rttvar_ns + distance) / 4;
        c->srtt_ns = (7 * c->srtt_ns + rtt_ns) / 8;
    }
    const uint64_t margin_ns_max = 200000000; /* Linux: TCP_RTO_MIN */
    uint64_t min_ns = c->policy.rto_min_us * NS_PER_US, max_ns = c->policy.rto_max_us * NS_PER_US;
    uint64_t rto_ns = c->srtt_ns + (uint64_t)max_size(4 * c->rttvar_ns, min_size(min_ns, margin_ns_max));
    c->rto_ns = rto_ns < min_ns ? min_ns : rto_ns > max_ns ? max_ns : rto_ns;
    ASSERT(c->srtt_ns != 0);
}

/* RFC 6298 §3, RFC 7323 §4.1: Measures one round trip an ACK. `sent_ns` is the time of the oldest segment that the ACK
 * newly acknowledges, TCP_NEVER_NS if there is none. If any segment was sent again (Karn), the ACK may answer the
 * second copy; the echoed timestamp then serves instead. A round trip across a stall of our own loop is not measured:
 * it says nothing of the path, and would keep the RTO high for dozens of ACKs. */
static void rtt_sample(struct tcp_connection *c, const struct tcp_received *r, bool resent, uint64_t sent_ns,
                       uint64_t now_ns)
{
    uint64_t rtt_ns = TCP_NEVER_NS; /* no sample */
    if (!resent && sent_ns != TCP_NEVER_NS) {
        rtt_ns = now_ns - sent_ns;
    } else if (c->timestamps_on && r->options.has_timestamps && r->options.timestamp_echo != 0) {
        uint32_t age_ms = tcp_timestamp_clock(now_ns, c->timestamp_offset) - r->options.timestamp_echo;
        if (age_ms < UINT32_C(1) << 31)
            rtt_ns = age_ms * NS_PER_MS;
    }
    if (rtt_ns <= now_ns - c->stall_ended_ns)
        tcp_rtt_measured(c, rtt_ns);
}

/* Frees the segments that the cumulative acknowledgement covers. */
static void ack_advance(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r,
                        struct tcp_delivery *d, uint64_t now_ns)
{
    ASSERT(seq_gt(r->ack, c->snd_una));
    ASSERT(seq_le(r->ack, c->snd_nxt));
    uint64_t sent_ns = TCP_NEVER_NS;
    bool resent = false;
    d->advanced = true;
    d->acked_bytes = r->ack - c->snd_una;
    while (c->segment_count > 0) {
        const struct tcp_segment *s = tcp_sendqueue_at(c, 0);
        if (seq_gt(tcp_segment_end(s), r->ack))
            break;
        resent = resent || (s->marks & TCP_MARK_EVER_RESENT) != 0;
        if ((s->marks & TCP_MARK_SACKED) == 0) {
            if (sent_ns == TCP_NEVER_NS)
                sent_ns = s->sent_ns;
            d->delivered_bytes += tcp_segment_space(s);
            tcp_rack_delivered(c, s, r, now_ns);
        }
        tcp_sendqueue_pop(stack, c);
    }
    if (c->segment_count > 0 && seq_lt(tcp_sendqueue_at(c, 0)->seq, r->ack)) {
        d->delivered_bytes += r->ack - tcp_sendqueue_at(c, 0)->seq;
        tcp_sendqueue_trim(c, r->ack);
    }
    c->snd_una = r->ack;
    ASSERT(c->segment_count != 0 || c->snd_una == c->snd_nxt);
    c->bytes_acked += d->acked_bytes;
    c->backoff = 0;
    c->probe_count = 0; /* the window had opened: a later wait counts from 0 */
    c->unanswered_ns = now_ns;
    c->soft_error = TCP_OK; /* out of date: the path works */
    c->tail_probe_wanted = true;
    rtt_sample(c, r, resent, sent_ns, now_ns);
    if (c->segment_count == 0) { /* RFC 6298 (5.2); no output follows the ACK of our FIN */
        c->rto_at_ns = 0;
        tcp_timer_stop(c);
    } else {
        tcp_rto_restart(c, now_ns); /* (5.3) */
    }
    if (c->busy_since_ns != 0 && seq_ge(r->ack, c->snd_end)) {
        c->busy_ns += now_ns - c->busy_since_ns;
        c->busy_since_ns = 0;
    }
    stack->tcp.changed = true; /* there is room to write */
}

static void window_take(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r)
{
    uint32_t window_before = c->snd_wnd;
    tcp_window_take(c, (uint32_t)r->window << r->scale, r->seq, r->ack);
    if (c->snd_wnd == 0 && window_before != 0)
        NET_COUNT(stack, tcp_rx_zero_window);
}

bool tcp_ack_accept(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r, uint64_t now_ns)
{
    ASSERT(seq_le(c->snd_una, c->snd_nxt));
    tcp_stall_note(c, now_ns);
    /* RFC 5961 §5.2: refuses an ACK of unsent data, and one from before any window. */
    if (seq_gt(r->ack, c->snd_nxt) || seq_lt(r->ack, c->snd_una - c->snd_wnd_max)) {
        NET_COUNT(stack, tcp_rx_drop_bad_ack);
        tcp_challenge(stack, c, r, now_ns);
        return false;
    }
    struct tcp_delivery d = { 0 };
    if (seq_lt(r->ack, c->snd_una)) { /* late; the payload still counts, and the SACK blocks may be new */
        if (c->sack_on && r->options.sack_count != 0)
            tcp_sack_accept(stack, c, r, &d, now_ns);
        if (d.sacked)
            tcp_recovery_after_ack(stack, c, r, &d, now_ns);
        return true;
    }

    /* The order matters: the window before the duplicate test, the marks before the detection. */
    uint32_t window_before = c->snd_wnd;
    d.limited = c->cwnd_limited
                || (c->congestion.cwnd < c->congestion.ssthresh && c->congestion.cwnd < 2 * c->flight_max);
    window_take(stack, c, r);
    bool opened = window_before == 0 && c->snd_wnd != 0 && r->ack == c->snd_una;
    if (opened && c->recovery == TCP_LOSS && c->segment_count != 0)
        tcp_sendqueue_mark(c, tcp_sendqueue_at(c, 0), 0,
                           TCP_MARK_RESENT); /* the peer refused the segment: not in flight */
    if (c->snd_wnd == 0 && c->segment_count != 0 && !c->orphan)
        c->unanswered_ns = now_ns; /* MUST-36 also holds for data in flight when the window closed */
    if (seq_gt(r->ack, c->snd_una)) {
        ack_advance(stack, c, r, &d, now_ns);
    } else if (c->segment_count != 0 && tcp_received_space(r) == 0 && c->snd_wnd == window_before) {
        NET_COUNT(stack, tcp_rx_acks_duplicate);
        d.duplicate = true;
    }
    if (c->sack_on && r->options.sack_count != 0)
        tcp_sack_accept(stack, c, r, &d, now_ns);
    tcp_recovery_after_ack(stack, c, r, &d, now_ns);
    return true;
}
