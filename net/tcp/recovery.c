/* Loss detection and the pace of repair. RFC 8985 (RACK-TLP) with SACK, RFC 6582 (NewReno) without. RFC 6937 (PRR)
 * spreads the repair over the ACKs; RFC 3522 and RFC 2883 undo needless reductions.
 *
 * Marks segments, sets windows and the reordering timer; sends nothing.
 *
 * The problem: an ACK tells what has come, and never what was lost. A segment that is missing may be late. Whoever
 * sends again too early wastes the path and halves a window without need; whoever waits for the time-out stands still
 * for 200 ms and more.
 *
 * The first idea counts: three later segments have come, so the missing one is lost. One round trip suffices, but a
 * path that reorders by three segments looks like a loss, and a lost retransmission or a lost tail is never seen.
 *
 * The second idea measures time (RACK). A segment is lost if one that was sent later has come, and it does not come
 * itself within a quarter of the least round trip. That holds for retransmissions, too. The window of reordering is
 * zero until reordering has been seen, widens when DSACK shows a needless resend, and is never above one SRTT. A tail
 * has nothing after it, so a probe makes the peer speak (timer.c). A peer without SACK does not say what has come:
 * there the count of three is left, and one hole is repaired in a round trip.
 *
 * The pace: a repair that sends all at once meets the full queue again. PRR lets an ACK of n bytes release n times
 * ssthresh / flight of them, so the window has fallen to ssthresh when the repair ends, without a pause.
 *
 * The way back: when the ACK of the first resend echoes a time before it, or the peer reports everything twice, nothing
 * was lost. The window is what it was.
 *
 *     OPEN      nothing is missing
 *     RECOVERY  from a detected loss until all that was sent before it is acknowledged; PRR paces
 *     LOSS      the same after a time-out, or after a loss that is no congestion; slow start paces */
#include "net/tcp/recovery.h"

#include "net/stack_state.h"
#include "net/tcp/congestion.h"
#include "net/tcp/deadline.h"
#include "net/tcp/ecn.h"
#include "net/tcp/rtt.h"
#include "net/tcp/send_queue.h"
#include "net/tcp/seq.h"

enum {
    DUPLICATE_ACKS_LOSS = TCP_REORDERING_LEAST,
    RACK_WINDOW_PERSIST = 16, /* RFC 8985 §6.2, step 4: recoveries for which a widened window stays */
};

void tcp_recovery_begin(struct tcp_connection *c)
{
    c->recovery.recover = c->recovery.rack.fack = c->recovery.rack.end_seq = c->iss;
}

/* ---- RACK: time, not counts ---- */

/* RFC 8985 §6.2, RACK_sent_after: Returns true if segment a was sent after segment b. */
static bool sent_after(uint64_t a_ns, uint32_t a_end, uint64_t b_ns, uint32_t b_end)
{
    return a_ns > b_ns || (a_ns == b_ns && seq_gt(a_end, b_end));
}

/* Notes that a segment came late, `behind_bytes` below the highest one delivered. Linux: tcp_check_sack_reordering. */
static void reordering_note(struct tcp_connection *c, uint32_t behind_bytes)
{
    uint32_t segments = (behind_bytes + c->snd_mss - 1) / c->snd_mss;
    c->recovery.rack.reordering_count++;
    c->recovery.rack.reordering_segments = max_u32(c->recovery.rack.reordering_segments, segments);
}

/* RFC 8985 §6.2, steps 1 to 3: Takes a segment just acknowledged or SACKed, with its marks from before. */
void tcp_rack_delivered(struct tcp_connection *c, const struct tcp_segment *s, const struct tcp_received *r,
                        uint64_t now_ns)
{
    ASSERT(tcp_segment_space(s) != 0);
    uint64_t rtt_ns = now_ns - s->sent_ns;
    uint32_t end = tcp_segment_end(s);
    bool resent = (s->marks & TCP_MARK_EVER_RESENT) != 0;
    if (resent) {
        /* The original may have been delivered after all: the echo is older than the resend, or the answer came
         * faster than any before. */
        uint32_t stamp = tcp_timestamp_clock(s->sent_ns, c->timestamp_offset);
        if (c->timestamps_on && r->options.has_timestamps && seq_lt(r->options.timestamp_echo, stamp))
            return;
        if (rtt_ns < c->rtt.min_ns)
            return;
    } else {
        tcp_rtt_min_take(c, rtt_ns, now_ns);
    }
    c->recovery.rack.rtt_ns = rtt_ns;
    if (sent_after(s->sent_ns, end, c->recovery.rack.sent_ns, c->recovery.rack.end_seq)) {
        c->recovery.rack.sent_ns = s->sent_ns;
        c->recovery.rack.end_seq = end;
    }
    if (seq_gt(end, c->recovery.rack.fack))
        c->recovery.rack.fack = end;
    else if (seq_lt(end, c->recovery.rack.fack) && !resent)
        reordering_note(c, c->recovery.rack.fack - s->seq);
}

/* RFC 8985 §6.2, step 4: Returns the reordering window: the longest time by which a segment may come later than its
 * successors. */
static uint64_t rack_window_ns(const struct tcp_connection *c)
{
    if (c->recovery.rack.reordering_count == 0) {
        uint32_t sacked_count = 0;
        if (c->recovery_state != TCP_OPEN)
            return 0;
        for (uint32_t i = 0; c->queue.sacked_bytes != 0 && i < c->segment_count; i++)
            sacked_count += (tcp_sendqueue_at(c, i)->marks & TCP_MARK_SACKED) != 0;
        if (sacked_count >= DUPLICATE_ACKS_LOSS)
            return 0;
    }
    uint64_t window_ns = c->recovery.rack.window_multiplier * (c->rtt.min_ns / 4);
    return window_ns < c->rtt.srtt_ns ? window_ns : c->rtt.srtt_ns;
}

static void rack_window_adapt(struct tcp_connection *c, bool dsack)
{
    if (dsack && (!c->recovery.rack.dsack_round_on || !tcp_edge_in_flight(c, c->recovery.rack.dsack_round))) {
        c->recovery.rack.dsack_round_on = true;
        c->recovery.rack.dsack_round = c->snd_nxt;
        if (c->recovery.rack.window_multiplier < UINT8_MAX)
            c->recovery.rack.window_multiplier++;
        c->recovery.rack.window_persist = RACK_WINDOW_PERSIST;
    }
    ASSERT(c->recovery.rack.window_multiplier != 0);
}

static void rack_window_recovered(struct tcp_connection *c)
{
    if (c->recovery.rack.window_persist != 0 && --c->recovery.rack.window_persist == 0)
        c->recovery.rack.window_multiplier = 1;
}

/* RFC 8985 §6.2, step 5: Marks segments lost that were sent long enough before a delivered one. Returns the time
 * until the next segment would be lost, 0 if none waits. */
static uint64_t rack_detect(struct tcp_connection *c, uint32_t *lost_bytes, uint64_t now_ns)
{
    ASSERT(c->sack_on);
    uint64_t wait_ns = 0;
    if (c->recovery.rack.sent_ns == 0 && c->recovery.rack.rtt_ns == 0)
        return 0;
    uint64_t window_ns = rack_window_ns(c);
    for (uint32_t i = 0; i < c->segment_count; i++) {
        struct tcp_segment *s = tcp_sendqueue_at(c, i);
        if ((s->marks & TCP_MARK_SACKED) != 0 || (s->marks & (TCP_MARK_LOST | TCP_MARK_RESENT)) == TCP_MARK_LOST
            || !sent_after(c->recovery.rack.sent_ns, c->recovery.rack.end_seq, s->sent_ns, tcp_segment_end(s)))
            continue;
        uint64_t lost_at_ns = s->sent_ns + c->recovery.rack.rtt_ns + window_ns;
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

/* RFC 2883 §4, Linux's tcp_check_dsack: Returns true if the first block repeats acknowledged data, or lies in the
 * second block. */
static bool sack_is_dsack(const struct tcp_received *r)
{
    const struct tcp_range *first = &r->options.sack[0], *second = &r->options.sack[1];
    if (seq_lt(first->left, r->ack))
        return seq_le(first->right, r->ack);
    return r->options.sack_count > 1 && seq_ge(first->left, second->left) && seq_le(first->right, second->right);
}

static void undo_count_dsack(struct tcp_connection *c, const struct tcp_range *block)
{
    if (c->recovery.undo.on && c->recovery.undo.resends > 0 && seq_ge(block->left, c->recovery.undo.una))
        c->recovery.undo.resends--;
}

/* Copies the blocks that report segments in flight. Counts the impossible ones, and takes the DSACK out. Returns their
 * count. */
static uint32_t sack_blocks_sort_out(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r,
                                     struct tcp_delivery *d, struct tcp_range blocks[TCP_SACK_BLOCK_COUNT_MAX])
{
    uint32_t count = 0;
    ASSERT(r->options.sack_count <= TCP_SACK_BLOCK_COUNT_MAX);
    for (uint32_t b = 0; b < r->options.sack_count; b++) {
        const struct tcp_range *block = &r->options.sack[b];
        if (!seq_lt(block->left, block->right) || seq_gt(block->right, c->snd_nxt)) {
            NET_COUNT(stack, tcp_rx_sack_blocks_bad);
        } else if (b == 0 && sack_is_dsack(r)) {
            NET_COUNT(stack, tcp_rx_dsack);
            d->dsack = true;
            d->dsack_end = block->right;
            undo_count_dsack(c, block);
        } else if (seq_gt(block->right, c->snd_una)) {
            blocks[count++] = *block;
        }
    }
    return count;
}

static bool sack_covers(const struct tcp_range *blocks, uint32_t count, const struct tcp_segment *s)
{
    for (uint32_t b = 0; b < count; b++)
        if (seq_ge(s->seq, blocks[b].left) && seq_le(tcp_segment_end(s), blocks[b].right))
            return true;
    return false;
}

/* Marks the segments that the ACK newly reports, in order of sequence. The order of the blocks says nothing about the
 * order of arrival: several blocks are new at once if earlier ACKs were lost or merged. */
void tcp_sack_accept(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r,
                     struct tcp_delivery *d, uint64_t now_ns)
{
    ASSERT(c->sack_on);
    struct tcp_range blocks[TCP_SACK_BLOCK_COUNT_MAX];
    uint32_t count = sack_blocks_sort_out(stack, c, r, d, blocks);
    for (uint32_t i = 0; count != 0 && i < c->segment_count; i++) {
        struct tcp_segment *s = tcp_sendqueue_at(c, i);
        if ((s->marks & TCP_MARK_SACKED) != 0 || !sack_covers(blocks, count, s))
            continue;
        tcp_rack_delivered(c, s, r, now_ns);
        tcp_sendqueue_mark(c, s, TCP_MARK_SACKED, TCP_MARK_LOST | TCP_MARK_RESENT);
        d->delivered_bytes += tcp_segment_space(s);
        d->sacked = true;
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

/* Returns true if acknowledgements have not passed `edge`, an earlier snd_nxt: they may have reached it. */
static bool is_not_passed(const struct tcp_connection *c, uint32_t edge)
{
    ASSERT(seq_le(c->snd_una, c->snd_nxt));
    return edge == c->snd_una || tcp_edge_in_flight(c, edge);
}

/* Counts a duplicate ACK: some segment has left the network, but not the front, which is the missing one. */
static void newreno_duplicate(struct tcp_connection *c, struct tcp_delivery *d)
{
    ASSERT(c->segment_count != 0);
    uint32_t behind_front = c->snd_nxt - tcp_segment_end(tcp_sendqueue_at(c, 0));
    if (c->recovery.duplicate_acks < UINT8_MAX)
        c->recovery.duplicate_acks++;
    if (c->recovery_state == TCP_LOSS)
        return;
    uint32_t more = min_u32(c->snd_mss, behind_front - min_u32(behind_front, c->recovery.duplicate_bytes));
    c->recovery.duplicate_bytes += more;
    d->delivered_bytes += more;
    /* §3.2 step 2: no loss if the duplicates answer needless resends of a timeout or of the last recovery. */
    if (c->recovery_state == TCP_OPEN && c->recovery.duplicate_acks >= DUPLICATE_ACKS_LOSS
        && !is_not_passed(c, c->recovery.recover))
        newreno_mark_front(c, d);
}

static void newreno_advanced(struct tcp_connection *c, struct tcp_delivery *d)
{
    /* The first segment filled the hole; the rest has been counted by duplicates already. */
    uint32_t behind_hole = d->acked_bytes > c->snd_mss ? d->acked_bytes - c->snd_mss : 0;
    uint32_t eaten = min_u32(c->recovery.duplicate_bytes, behind_hole);
    c->recovery.duplicate_bytes -= eaten;
    ASSERT(eaten <= d->delivered_bytes);
    d->delivered_bytes -= eaten;
    if (c->recovery_state != TCP_RECOVERY) {
        c->recovery.duplicate_acks = 0;
        c->recovery.duplicate_bytes = 0;
        return;
    }
    /* §3.2 step 3, a partial ACK: the next hole's segment is lost. */
    newreno_mark_front(c, d);
    uint32_t behind_front = c->segment_count != 0 ? c->snd_nxt - tcp_segment_end(tcp_sendqueue_at(c, 0)) : 0;
    c->recovery.duplicate_bytes = min_u32(c->recovery.duplicate_bytes, behind_front);
}

/* ---- Into recovery, through it, out of it ---- */

static void undo_remember(struct tcp_connection *c, uint64_t now_ns)
{
    c->recovery.undo.on = true;
    c->recovery.undo.cwnd = c->congestion.cwnd;
    c->recovery.undo.ssthresh = c->congestion.ssthresh;
    c->recovery.undo.una = c->snd_una;
    c->recovery.undo.resends = 0;
    c->recovery.undo.resent = false;
    c->recovery.undo.ecn_cwr = c->ecn.cwr;
    c->recovery.undo.resend_timestamp = tcp_timestamp_clock(now_ns, c->timestamp_offset);
}

static uint32_t flight_size(const struct tcp_connection *c)
{
    /* RFC 5681 §3.2 step 2: data sent by limited transmit does not count. */
    return min_u32(c->snd_nxt - c->snd_una, c->congestion.cwnd);
}

static void recovery_enter(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    ASSERT(c->recovery_state == TCP_OPEN);
    NET_COUNT(stack, tcp_recoveries);
    undo_remember(c, now_ns);
    ASSERT(c->queue.lost_bytes != 0);
    c->recovery_state = TCP_RECOVERY;
    c->recovery.recover = c->snd_nxt;
    if (!tcp_ecn_window_is_reduced(c)) {
        tcp_congestion_lost(&c->congestion, &c->policy, flight_size(c), c->snd_mss);
        tcp_ecn_reduction_note(c);
    }
    c->recovery.prr.delivered = c->recovery.prr.out = 0;
    c->recovery.prr.flight = c->snd_nxt - c->snd_una;
    ASSERT(c->recovery.prr.flight != 0);
    c->tail_probe_on = false;
}

/* Enters the repair of a loss that is no congestion, if nothing else is being repaired: the window stays as it is.
 * Linux: tcp_simple_retransmit. */
void tcp_recovery_repair(struct tcp_connection *c)
{
    ASSERT(c->queue.lost_bytes != 0);
    if (c->recovery_state != TCP_OPEN)
        return;
    c->recovery_state = TCP_LOSS;
    c->recovery.recover = c->snd_nxt;
    c->recovery.undo.on = c->tail_probe_on = false;
}

static void recovery_leave(struct tcp_connection *c)
{
    ASSERT(c->recovery_state != TCP_OPEN);
    if (c->recovery_state == TCP_RECOVERY)
        c->congestion.cwnd = c->congestion.ssthresh; /* RFC 6937 §3, end of recovery */
    c->recovery_state = TCP_OPEN;
    c->recovery.duplicate_acks = 0;
    c->recovery.duplicate_bytes = 0;
    c->recovery.undo.on = false;
    rack_window_recovered(c);
}

/* RFC 6937 §3.1: Sets the bytes that this ACK releases, so that the window falls evenly to ssthresh. */
static void prr_apply(struct tcp_connection *c, const struct tcp_delivery *d)
{
    ASSERT(c->recovery_state == TCP_RECOVERY);
    ASSERT(c->recovery.prr.flight != 0);
    uint32_t mss = c->snd_mss, pipe = tcp_in_flight(c), ssthresh = c->congestion.ssthresh;
    int64_t send;
    c->recovery.prr.delivered += d->delivered_bytes;
    if (pipe > ssthresh) {
        uint64_t share = ((uint64_t)c->recovery.prr.delivered * ssthresh + c->recovery.prr.flight - 1)
                         / c->recovery.prr.flight;
        send = (int64_t)share - c->recovery.prr.out;
    } else {
        /* Slow start as long as the repair makes progress, else the bytes that have left the network. All bytes that
         * this ACK reports count in any case. RFC 6937 would subtract earlier sendings, and a burst of ACKs that were
         * held up would then release nothing. Linux counts as we do. */
        int64_t limit = (int64_t)c->recovery.prr.delivered - c->recovery.prr.out;
        limit = limit > d->delivered_bytes ? limit : d->delivered_bytes;
        if (d->advanced && d->lost_bytes == 0)
            limit += mss;
        send = limit < (int64_t)ssthresh - pipe ? limit : (int64_t)ssthresh - pipe;
    }
    if (c->recovery.prr.out == 0 && send < mss)
        send = mss; /* the fast retransmit itself */
    c->congestion.cwnd = pipe + (uint32_t)(send > 0 ? send : 0);
}

/* Returns true if the present recovery was needless. Either the ACK echoes a time before the first resend (RFC 3522),
 * or the peer has everything twice (RFC 2883 §5). */
static bool recovery_was_needless(const struct tcp_connection *c, const struct tcp_received *r,
                                  const struct tcp_delivery *d)
{
    if (!c->recovery.undo.on || !c->recovery.undo.resent)
        return false;
    bool echo_older = d->advanced && c->timestamps_on && r->options.has_timestamps
                      && seq_lt(r->options.timestamp_echo, c->recovery.undo.resend_timestamp);
    return echo_older || (d->dsack && c->recovery.undo.resends == 0);
}

static void recovery_undo(struct net_stack *stack, struct tcp_connection *c)
{
    NET_COUNT(stack, tcp_recoveries_undone);
    c->congestion.cwnd = max_u32(c->congestion.cwnd, c->recovery.undo.cwnd);
    c->congestion.ssthresh = c->recovery.undo.ssthresh;
    c->congestion.epoch_ns = 0;
    for (uint32_t i = 0; i < c->segment_count; i++)
        tcp_sendqueue_mark(c, tcp_sendqueue_at(c, i), 0, TCP_MARK_LOST);
    ASSERT(c->queue.lost_bytes == 0);
    c->recovery_state = TCP_OPEN;
    c->recovery.duplicate_acks = 0;
    c->recovery.duplicate_bytes = 0;
    c->recovery.undo.on = false;
    tcp_ecn_reduction_undo(c, c->recovery.undo.ecn_cwr);
}

/* RFC 8985 §7.4.2: Tests if a tail probe's resend has repaired a loss, which then counts as congestion. */
static void tail_probe_acked(struct tcp_connection *c, const struct tcp_received *r, const struct tcp_delivery *d)
{
    if (!c->tail_probe_on || seq_lt(r->ack, c->recovery.tail_probe.end_seq))
        return;
    if (!c->recovery.tail_probe.is_resend || (d->dsack && d->dsack_end == c->recovery.tail_probe.end_seq)) {
        c->tail_probe_on = false;
    } else if (seq_gt(r->ack, c->recovery.tail_probe.end_seq)) {
        c->tail_probe_on = false;
        tcp_congestion_lost(&c->congestion, &c->policy, flight_size(c), c->snd_mss);
        c->congestion.cwnd = min_u32(c->congestion.cwnd, c->congestion.ssthresh);
        tcp_ecn_reduction_note(c);
    } else if (!d->advanced && r->bytes == 0 && r->options.sack_count == 0) {
        c->tail_probe_on = false; /* the original and the probe have arrived */
    }
}

/* RFC 3168 §6.1.2: Takes a congestion mark as a loss, once in a window of data, with nothing to resend. Returns true
 * if the ACK must not let the window grow. */
static bool congestion_echoed(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r,
                              const struct tcp_delivery *d)
{
    if (!c->ecn.on || (r->flags & (TCP_ECE | TCP_SYN)) != TCP_ECE)
        return false;
    if (c->recovery_state == TCP_OPEN && !is_not_passed(c, c->ecn.recover)) {
        NET_COUNT(stack, tcp_window_marked);
        uint32_t flight = min_u32(c->snd_nxt - c->snd_una + d->acked_bytes, c->congestion.cwnd);
        tcp_congestion_lost(&c->congestion, &c->policy, flight, c->snd_mss);
        c->congestion.cwnd = min_u32(c->congestion.cwnd, c->congestion.ssthresh);
        tcp_ecn_reduction_note(c);
    }
    return true;
}

void tcp_recovery_after_ack(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r,
                            struct tcp_delivery *d, uint64_t now_ns)
{
    uint64_t wait_ns = 0;
    tail_probe_acked(c, r, d);
    rack_window_adapt(c, d->dsack);
    if (recovery_was_needless(c, r, d))
        recovery_undo(stack, c);
    ASSERT(c->queue.sacked_bytes + c->queue.lost_bytes <= c->snd_nxt - c->snd_una);
    bool after_timeout = c->recovery_state == TCP_LOSS, repaired = false;
    if (c->recovery_state != TCP_OPEN && seq_ge(c->snd_una, c->recovery.recover)) {
        repaired = c->recovery_state == TCP_RECOVERY;
        recovery_leave(c);
    }

    if (c->sack_on)
        wait_ns = rack_detect(c, &d->lost_bytes, now_ns);
    else if (d->duplicate)
        newreno_duplicate(c, d);
    else if (d->advanced)
        newreno_advanced(c, d);

    if (c->recovery_state == TCP_OPEN && c->queue.lost_bytes != 0)
        recovery_enter(stack, c, now_ns);
    bool echoed = congestion_echoed(stack, c, r, d);
    if (c->recovery_state == TCP_RECOVERY)
        prr_apply(c, d);
    else if (d->acked_bytes != 0 && !echoed && !repaired)
        /* The ACK that ends a repair begins no growth; slow start after a timeout goes on. Bytes that SACK or
         * duplicates reported before have released segments already (RFC 3042), and do not count again. */
        tcp_congestion_acked(&c->congestion, &c->policy, min_u32(d->acked_bytes, d->delivered_bytes), c->snd_mss,
                             c->rtt.srtt_ns, d->limited, after_timeout, now_ns);

    if (wait_ns != 0)
        tcp_timer_set(stack, c, TCP_TIMER_REORDER, now_ns + wait_ns);
    else if (c->timer == TCP_TIMER_REORDER)
        tcp_timer_stop(c);
    ASSERT(c->recovery_state != TCP_OPEN || c->queue.lost_bytes == 0);
}

void tcp_recovery_sent(struct tcp_connection *c, uint32_t bytes)
{
    if (c->recovery_state == TCP_RECOVERY)
        c->recovery.prr.out += bytes;
}

void tcp_recovery_resent(struct tcp_connection *c)
{
    c->recovery.undo.resent = true;
    c->recovery.undo.resends++;
}

void tcp_recovery_tail_probed(struct tcp_connection *c, bool is_resend)
{
    c->tail_probe_on = true;
    c->recovery.tail_probe.is_resend = is_resend;
    c->recovery.tail_probe.end_seq = c->snd_nxt;
}

/* RFC 8985 §6.3: Processes the end of the reordering window: the missing segments have not come. */
void tcp_recovery_reorder_timeout(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    struct tcp_delivery d = { 0 };
    uint64_t wait_ns = rack_detect(c, &d.lost_bytes, now_ns);
    if (d.lost_bytes != 0) {
        if (c->recovery_state == TCP_OPEN)
            recovery_enter(stack, c, now_ns);
        if (c->recovery_state == TCP_RECOVERY)
            prr_apply(c, &d);
    }
    if (wait_ns != 0)
        tcp_timer_set(stack, c, TCP_TIMER_REORDER, now_ns + wait_ns);
}

/* RFC 5681 §3.1 (end), RFC 6675 §5.1, RFC 8985 §6.3: Marks all data lost that could have been acknowledged by now.
 * One segment goes out, and slow start repairs the rest. The peer may have dropped SACKed data (RFC 2018 §8). */
void tcp_recovery_timeout(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    ASSERT(c->segment_count != 0);
    NET_COUNT(stack, tcp_rto_timeouts);
    if (c->recovery_state == TCP_OPEN || (c->recovery_state == TCP_LOSS && c->deadline.backoff == 0)) {
        undo_remember(c, now_ns);
        if (!tcp_ecn_window_is_reduced(c))
            tcp_congestion_lost(&c->congestion, &c->policy, flight_size(c), c->snd_mss);
    }
    c->congestion.acked_bytes = 0;
    c->recovery_state = TCP_LOSS;
    c->recovery.recover = c->snd_nxt;
    tcp_ecn_reduction_note(c);
    c->recovery.duplicate_acks = 0;
    c->recovery.duplicate_bytes = 0;
    c->tail_probe_on = false;
    uint64_t recent_ns = c->sack_on ? c->recovery.rack.rtt_ns : 0;
    for (uint32_t i = 0; i < c->segment_count; i++) {
        struct tcp_segment *s = tcp_sendqueue_at(c, i);
        bool lost = i == 0 || s->sent_ns + recent_ns <= now_ns;
        tcp_sendqueue_mark(c, s, lost ? TCP_MARK_LOST : 0, TCP_MARK_SACKED | (lost ? TCP_MARK_RESENT : 0));
    }
    ASSERT(c->queue.sacked_bytes == 0);
    /* One segment beside those that may still arrive. RFC 5681 §3.1 allows one segment in all: that would wait until
     * the younger ones in flight are given up, too. */
    c->congestion.cwnd = tcp_in_flight(c) + c->snd_mss;
}

void tcp_recovery_check(const struct tcp_connection *c)
{
    /* Lost data is repaired. */
    ASSERT(c->recovery_state != TCP_OPEN || c->queue.lost_bytes == 0);
    /* A repair takes the place of a tail probe, and only a repair can be undone. */
    ASSERT(c->recovery_state == TCP_OPEN ? !c->recovery.undo.on : !c->tail_probe_on);
    /* With SACK the marks say what has left the network. */
    ASSERT(!c->sack_on || c->recovery.duplicate_bytes == 0);
    /* Without a window of reordering each segment that comes late would count as lost. */
    ASSERT(c->recovery.rack.window_multiplier != 0);
}
