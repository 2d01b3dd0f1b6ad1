/* Finding out what was lost, and how fast to send it again. RFC 8985 (RACK-TLP) with SACK, RFC 6582 (NewReno) without;
 * RFC 6937 (PRR) spreads the answer over the ACKs; RFC 3522 and RFC 2883 take back what was needless.
 *
 * Marks segments and sets windows; sends only the tail probe. */
#include "net/tcp_internal.h"

enum {
    DUPLICATE_ACKS_LOSS = TCP_REORDERING_LEAST,
    RACK_WINDOW_PERSIST = 16,       /* RFC 8985 §6.2, step 4: recoveries that a widened window stays for */
};
#define RTT_MIN_WINDOW_NS UINT64_C(300000000000)    /* RFC 8985 §6.1 asks a windowed minimum; Linux: 5 min */

/* ---- RACK: time, not counts ---- */

/* RFC 8985 §6.2: RACK_sent_after. */
static bool sent_after(uint64_t a_ns, uint32_t a_end, uint64_t b_ns, uint32_t b_end)
{
    return a_ns > b_ns || (a_ns == b_ns && seq_gt(a_end, b_end));
}

static void rtt_min_take(struct tcp_connection *c, uint64_t rtt_ns, uint64_t now_ns)
{
    if (c->rtt_min_ns == 0 || rtt_ns <= c->rtt_min_ns || now_ns >= c->rtt_min_until_ns) {
        c->rtt_min_ns = rtt_ns != 0 ? rtt_ns : 1;
        c->rtt_min_until_ns = now_ns + RTT_MIN_WINDOW_NS;
    }
}

/* A segment has come that is so many bytes behind the highest delivered. Linux: tcp_check_sack_reordering. */
static void reordering_note(struct tcp_connection *c, uint32_t behind_bytes)
{
    uint32_t segments = (behind_bytes + c->snd_mss - 1) / c->snd_mss;
    c->rack.reordering_seen = true;
    c->rack.reordering_segments = (uint32_t)max_size(c->rack.reordering_segments, segments);
}

/* §6.2, steps 1 to 3, for a segment just acknowledged or SACKed. Its marks are those from before. */
void tcp_rack_delivered(struct tcp_connection *c, const struct tcp_segment *s, const struct tcp_received *r,
                        uint64_t now_ns)
{
    uint64_t rtt_ns = now_ns - s->sent_ns;
    uint32_t end = tcp_segment_end(s);
    bool resent = (s->marks & TCP_MARK_EVER_RESENT) != 0;
    if (resent) {
        /* The original may have been delivered after all: the echo is older than the resend, or the answer came
         * faster than any. */
        uint32_t stamp = tcp_timestamp_clock(s->sent_ns, c->timestamp_offset);
        if (c->timestamps_on && r->options.has_timestamps && seq_lt(r->options.timestamp_echo, stamp))
            return;
        if (rtt_ns < c->rtt_min_ns)
            return;
    } else {
        rtt_min_take(c, rtt_ns, now_ns);
    }
    c->rack.rtt_ns = rtt_ns;
    if (sent_after(s->sent_ns, end, c->rack.sent_ns, c->rack.end_seq)) {
        c->rack.sent_ns = s->sent_ns;
        c->rack.end_seq = end;
    }
    if (seq_gt(end, c->rack.fack))
        c->rack.fack = end;
    else if (seq_lt(end, c->rack.fack) && !resent)
        reordering_note(c, c->rack.fack - s->seq);
}

/* §6.2, step 4: how much later than its successors a segment may come. */
static uint64_t rack_window_ns(const struct tcp_connection *c)
{
    if (!c->rack.reordering_seen) {
        uint32_t sacked_count = 0;
        if (c->recovery != TCP_OPEN)
            return 0;
        for (uint32_t i = 0; c->sacked_bytes != 0 && i < c->segment_count; i++)
            sacked_count += (tcp_sendqueue_at(c, i)->marks & TCP_MARK_SACKED) != 0;
        if (sacked_count >= DUPLICATE_ACKS_LOSS)
            return 0;
    }
    uint64_t window_ns = c->rack.window_multiplier * (c->rtt_min_ns / 4);
    return window_ns < c->srtt_ns ? window_ns : c->srtt_ns;
}

static void rack_window_adapt(struct tcp_connection *c, bool dsack)
{
    if (dsack && (!c->rack.dsack_round_on || seq_ge(c->snd_una, c->rack.dsack_round))) {
        c->rack.dsack_round_on = true;
        c->rack.dsack_round = c->snd_nxt;
        if (c->rack.window_multiplier < UINT8_MAX)
            c->rack.window_multiplier++;
        c->rack.window_persist = RACK_WINDOW_PERSIST;
    }
}

static void rack_window_recovered(struct tcp_connection *c)
{
    if (c->rack.window_persist != 0 && --c->rack.window_persist == 0)
        c->rack.window_multiplier = 1;
}

/* §6.2, step 5: what was sent sufficiently before something delivered is lost. The time until the next segment would
 * be is returned, 0 if none waits. */
static uint64_t rack_detect(struct tcp_connection *c, uint32_t *lost_bytes, uint64_t now_ns)
{
    uint64_t wait_ns = 0;
    if (c->rack.sent_ns == 0 && c->rack.rtt_ns == 0)
        return 0;
    uint64_t window_ns = rack_window_ns(c);
    for (uint32_t i = 0; i < c->segment_count; i++) {
        struct tcp_segment *s = tcp_sendqueue_at(c, i);
        if ((s->marks & TCP_MARK_SACKED) != 0
            || (s->marks & (TCP_MARK_LOST | TCP_MARK_RESENT)) == TCP_MARK_LOST
            || !sent_after(c->rack.sent_ns, c->rack.end_seq, s->sent_ns, tcp_segment_end(s)))
            continue;
        uint64_t lost_at_ns = s->sent_ns + c->rack.rtt_ns + window_ns;
        if (lost_at_ns <= now_ns) {
            *lost_bytes += tcp_segment_space(s);
            tcp_sendqueue_mark(c, s, TCP_MARK_LOST, TCP_MARK_RESENT);
        } else if (lost_at_ns - now_ns > wait_ns) {
            wait_ns = lost_at_ns - now_ns;
        }
    }
    return wait_ns;
}

/* ---- SACK ---- */

/* RFC 2883 §4, Linux's tcp_check_dsack: the first block repeats what is acknowledged, or what the second one holds. */
static bool sack_is_dsack(const struct tcp_received *r)
{
    const struct tcp_range *first = &r->options.sack[0], *second = &r->options.sack[1];
    if (seq_lt(first->left, r->ack))
        return seq_le(first->right, r->ack);
    return r->options.sack_count > 1 && seq_ge(first->left, second->left) && seq_le(first->right, second->right);
}

static void undo_count_dsack(struct tcp_connection *c, const struct tcp_range *block)
{
    if (c->undo.on && c->undo.resends > 0 && seq_ge(block->left, c->undo.una))
        c->undo.resends--;
}

void tcp_sack_accept(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r,
                     struct tcp_delivery *d, uint64_t now_ns)
{
    for (uint32_t b = 0; b < r->options.sack_count; b++) {
        const struct tcp_range *block = &r->options.sack[b];
        if (!seq_lt(block->left, block->right) || seq_gt(block->right, c->snd_nxt)) {
            NET_COUNT(stack, tcp_rx_sack_blocks_bad);
            continue;
        }
        if (b == 0 && sack_is_dsack(r)) {
            NET_COUNT(stack, tcp_rx_dsack);
            d->dsack = true;
            d->dsack_end = block->right;
            undo_count_dsack(c, block);
            continue;
        }
        if (seq_le(block->right, c->snd_una))
            continue;                           /* old news */
        for (uint32_t i = 0; i < c->segment_count; i++) {
            struct tcp_segment *s = tcp_sendqueue_at(c, i);
            if (seq_ge(s->seq, block->right))
                break;
            if ((s->marks & TCP_MARK_SACKED) != 0 || seq_lt(s->seq, block->left)
                || seq_gt(tcp_segment_end(s), block->right))
                continue;
            tcp_rack_delivered(c, s, r, now_ns);
            tcp_sendqueue_mark(c, s, TCP_MARK_SACKED, TCP_MARK_LOST | TCP_MARK_RESENT);
            d->delivered_bytes += tcp_segment_space(s);
            d->sacked = true;
        }
    }
}

/* ---- Without SACK: RFC 6582 ---- */

static void newreno_mark_front(struct tcp_connection *c, struct tcp_delivery *d)
{
    struct tcp_segment *front = tcp_sendqueue_at(c, 0);
    if (c->segment_count == 0 || (front->marks & (TCP_MARK_LOST | TCP_MARK_RESENT)) != 0)
        return;
    tcp_sendqueue_mark(c, front, TCP_MARK_LOST, 0);
    d->lost_bytes += tcp_segment_space(front);
}

/* Each duplicate ACK means that some segment has left the network: the front excepted, which is the missing one. */
static void newreno_duplicate(struct tcp_connection *c, struct tcp_delivery *d)
{
    uint32_t behind_front = c->snd_nxt - tcp_segment_end(tcp_sendqueue_at(c, 0));
    if (c->duplicate_acks < UINT8_MAX)
        c->duplicate_acks++;
    if (c->recovery == TCP_LOSS)
        return;
    uint32_t more = (uint32_t)min_size(c->snd_mss, behind_front - min_size(behind_front, c->duplicate_bytes));
    c->duplicate_bytes += more;
    d->delivered_bytes += more;
    /* §3.2 step 2: not if the duplicates answer what a timeout, or the last recovery, sent needlessly. */
    if (c->recovery == TCP_OPEN && c->duplicate_acks >= DUPLICATE_ACKS_LOSS && seq_gt(c->snd_una, c->recover))
        newreno_mark_front(c, d);
}

static void newreno_advanced(struct tcp_connection *c, struct tcp_delivery *d)
{
    /* The first segment filled the hole; the rest eats up what duplicates had counted. */
    uint32_t behind_hole = d->acked_bytes > c->snd_mss ? d->acked_bytes - c->snd_mss : 0;
    uint32_t eaten = (uint32_t)min_size(c->duplicate_bytes, behind_hole);
    c->duplicate_bytes -= eaten;
    d->delivered_bytes -= eaten;
    if (c->recovery != TCP_RECOVERY) {
        c->duplicate_acks = 0;
        c->duplicate_bytes = 0;
        return;
    }
    /* §3.2 step 3, a partial ACK: the next hole's segment is lost. */
    newreno_mark_front(c, d);
    uint32_t behind_front = c->segment_count != 0 ? c->snd_nxt - tcp_segment_end(tcp_sendqueue_at(c, 0)) : 0;
    c->duplicate_bytes = (uint32_t)min_size(c->duplicate_bytes, behind_front);
}

/* ---- Into recovery, through it, out of it ---- */

static void undo_remember(struct tcp_connection *c, uint64_t now_ns)
{
    c->undo.on = true;
    c->undo.cwnd = c->congestion.cwnd;
    c->undo.ssthresh = c->congestion.ssthresh;
    c->undo.una = c->snd_una;
    c->undo.resends = 0;
    c->undo.resent = false;
    c->undo.resend_timestamp = tcp_timestamp_clock(now_ns, c->timestamp_offset);
}

static uint32_t flight_size(const struct tcp_connection *c)
{
    /* RFC 5681 §3.2 step 2: what limited transmit added does not count. */
    return (uint32_t)min_size(c->snd_nxt - c->snd_una, c->congestion.cwnd);
}

static void recovery_enter(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    NET_COUNT(stack, tcp_recoveries);
    undo_remember(c, now_ns);
    tcp_congestion_lost(&c->congestion, &c->policy, flight_size(c), c->snd_mss);
    c->recovery = TCP_RECOVERY;
    c->recover = c->snd_nxt;
    c->prr.delivered = c->prr.out = 0;
    c->prr.flight = c->snd_nxt - c->snd_una;
    c->tail_probe_on = false;
}

static void recovery_leave(struct tcp_connection *c)
{
    if (c->recovery == TCP_RECOVERY)
        c->congestion.cwnd = c->congestion.ssthresh;    /* RFC 6937 §3, end of recovery */
    c->recovery = TCP_OPEN;
    c->duplicate_acks = 0;
    c->duplicate_bytes = 0;
    c->undo.on = false;
    rack_window_recovered(c);
}

/* RFC 6937 §3.1: how much this ACK lets go, so that the window sinks evenly to ssthresh. */
static void prr_apply(struct tcp_connection *c, const struct tcp_delivery *d)
{
    uint32_t mss = c->snd_mss, pipe = tcp_in_flight(c), ssthresh = c->congestion.ssthresh;
    int64_t send;
    c->prr.delivered += d->delivered_bytes;
    if (pipe > ssthresh) {
        uint64_t share = ((uint64_t)c->prr.delivered * ssthresh + c->prr.flight - 1) / c->prr.flight;
        send = (int64_t)share - c->prr.out;
    } else {
        /* Slow start as long as the repair makes progress, else what has left the network: all of what this ACK tells
         * of, in any case (Linux; RFC 6937 would let what was sent before count against it). */
        int64_t limit = (int64_t)c->prr.delivered - c->prr.out;
        limit = limit > d->delivered_bytes ? limit : d->delivered_bytes;
        if (d->advanced && d->lost_bytes == 0)
            limit += mss;
        send = limit < (int64_t)ssthresh - pipe ? limit : (int64_t)ssthresh - pipe;
    }
    if (c->prr.out == 0 && send < mss)
        send = mss;                             /* the fast retransmit itself */
    c->congestion.cwnd = pipe + (uint32_t)(send > 0 ? send : 0);
}

/* Whether the recovery under way has turned out needless: the ACK echoes a time before the first resend (RFC 3522), or
 * the peer has had everything twice (RFC 2883 §5). */
static bool recovery_was_needless(const struct tcp_connection *c, const struct tcp_received *r,
                                  const struct tcp_delivery *d)
{
    if (!c->undo.on || !c->undo.resent)
        return false;
    bool echo_older = d->advanced && c->timestamps_on && r->options.has_timestamps
        && seq_lt(r->options.timestamp_echo, c->undo.resend_timestamp);
    return echo_older || (d->dsack && c->undo.resends == 0);
}

static void recovery_undo(struct net_stack *stack, struct tcp_connection *c)
{
    NET_COUNT(stack, tcp_recoveries_undone);
    c->congestion.cwnd = (uint32_t)max_size(c->congestion.cwnd, c->undo.cwnd);
    c->congestion.ssthresh = c->undo.ssthresh;
    c->congestion.epoch_ns = 0;
    for (uint32_t i = 0; i < c->segment_count; i++)
        tcp_sendqueue_mark(c, tcp_sendqueue_at(c, i), 0, TCP_MARK_LOST);
    c->recovery = TCP_OPEN;
    c->duplicate_acks = 0;
    c->duplicate_bytes = 0;
    c->undo.on = false;
}

/* RFC 8985 §7.4.2: whether a tail probe's resend has repaired a loss, which then counts as congestion. */
static void tail_probe_judge(struct tcp_connection *c, const struct tcp_received *r, const struct tcp_delivery *d)
{
    if (!c->tail_probe_on || seq_lt(r->ack, c->tail_probe.end_seq))
        return;
    if (!c->tail_probe.is_resend || (d->dsack && d->dsack_end == c->tail_probe.end_seq)) {
        c->tail_probe_on = false;
    } else if (seq_gt(r->ack, c->tail_probe.end_seq)) {
        c->tail_probe_on = false;
        tcp_congestion_lost(&c->congestion, &c->policy, flight_size(c), c->snd_mss);
        c->congestion.cwnd = (uint32_t)min_size(c->congestion.cwnd, c->congestion.ssthresh);
    } else if (!d->advanced && r->bytes == 0 && r->options.sack_count == 0) {
        c->tail_probe_on = false;               /* both copies have arrived */
    }
}

void tcp_recovery_after_ack(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r,
                            struct tcp_delivery *d, uint64_t now_ns)
{
    uint64_t wait_ns = 0;
    tail_probe_judge(c, r, d);
    rack_window_adapt(c, d->dsack);
    if (recovery_was_needless(c, r, d))
        recovery_undo(stack, c);
    bool after_timeout = c->recovery == TCP_LOSS, repaired = false;
    if (c->recovery != TCP_OPEN && seq_ge(c->snd_una, c->recover)) {
        repaired = c->recovery == TCP_RECOVERY;
        recovery_leave(c);
    }

    if (c->sack_on)
        wait_ns = rack_detect(c, &d->lost_bytes, now_ns);
    else if (d->duplicate)
        newreno_duplicate(c, d);
    else if (d->advanced)
        newreno_advanced(c, d);

    if (c->recovery == TCP_OPEN && c->lost_bytes != 0)
        recovery_enter(stack, c, now_ns);
    if (c->recovery == TCP_RECOVERY)
        prr_apply(c, d);
    else if (d->acked_bytes != 0 && !repaired)  /* what ends a repair begins no growth; slow start after a timeout goes on */
        /* What SACK or duplicates told before has already let segments go (RFC 3042): it does not count again. */
        tcp_congestion_acked(&c->congestion, &c->policy, (uint32_t)min_size(d->acked_bytes, d->delivered_bytes),
                             c->snd_mss, c->srtt_ns, d->limited,
                             after_timeout, now_ns);

    if (wait_ns != 0)
        tcp_timer_set(stack, c, TCP_TIMER_REORDER, now_ns + wait_ns);
    else if (c->timer == TCP_TIMER_REORDER)
        tcp_timer_stop(c);
}

void tcp_recovery_sent(struct tcp_connection *c, uint32_t bytes)
{
    if (c->recovery == TCP_RECOVERY)
        c->prr.out += bytes;
}

/* The reordering window has passed without the segments that were waited for. RFC 8985 §6.3. */
void tcp_recovery_reorder_timeout(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    struct tcp_delivery d = { 0 };
    uint64_t wait_ns = rack_detect(c, &d.lost_bytes, now_ns);
    if (d.lost_bytes != 0) {
        if (c->recovery == TCP_OPEN)
            recovery_enter(stack, c, now_ns);
        if (c->recovery == TCP_RECOVERY)
            prr_apply(c, &d);
    }
    if (wait_ns != 0)
        tcp_timer_set(stack, c, TCP_TIMER_REORDER, now_ns + wait_ns);
    tcp_output(stack, c, now_ns);
}

/* RFC 5681 §3.1 (end), RFC 6675 §5.1, RFC 8985 §6.3: everything that could have been acknowledged by now is lost; one
 * segment goes out, and slow start repairs the rest. What the peer SACKed it may have dropped (RFC 2018 §8). */
void tcp_recovery_timeout(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    NET_COUNT(stack, tcp_rto_timeouts);
    if (c->recovery == TCP_OPEN || (c->recovery == TCP_LOSS && c->backoff == 0)) {
        undo_remember(c, now_ns);
        tcp_congestion_lost(&c->congestion, &c->policy, flight_size(c), c->snd_mss);
    }
    c->congestion.cwnd = c->snd_mss;
    c->congestion.acked_bytes = 0;
    c->recovery = TCP_LOSS;
    c->recover = c->snd_nxt;
    c->duplicate_acks = 0;
    c->duplicate_bytes = 0;
    c->tail_probe_on = false;
    uint64_t recent_ns = c->sack_on ? c->rack.rtt_ns : 0;
    for (uint32_t i = 0; i < c->segment_count; i++) {
        struct tcp_segment *s = tcp_sendqueue_at(c, i);
        bool lost = i == 0 || s->sent_ns + recent_ns <= now_ns;
        tcp_sendqueue_mark(c, s, lost ? TCP_MARK_LOST : 0, TCP_MARK_SACKED | (lost ? TCP_MARK_RESENT : 0));
    }
}

/* RFC 8985 §7.3: new data if there is any and the peer takes it, else the last segment again. */
void tcp_tail_probe_send(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    NET_COUNT(stack, tcp_tx_tail_probes);
    uint32_t nxt_before = c->snd_nxt;
    tcp_output_tail(stack, c, now_ns);
    c->tail_probe.is_resend = c->snd_nxt == nxt_before;
    if (c->tail_probe.is_resend && !tcp_resend(stack, c, tcp_sendqueue_at(c, c->segment_count - 1), now_ns))
        return;
    c->tail_probe_on = true;
    c->tail_probe.end_seq = c->snd_nxt;
}
