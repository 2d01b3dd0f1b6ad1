/* Output: chooses the data that may be sent now and is worth sending. RFC 9293 §3.8.6.2.1 (the sender's side of the
 * silly window), §3.7.4 (Nagle), §3.8.6.1 (zero windows). Lost data goes first. */
#include "net/tcp/output.h"

#include "base/time.h"
#include "net/stack_state.h"
#include "net/tcp/congestion.h"
#include "net/tcp/deadline.h"
#include "net/tcp/ecn.h"
#include "net/tcp/frame.h"
#include "net/tcp/recovery.h"
#include "net/tcp/send_queue.h"
#include "net/tcp/seq.h"
#include "net/tcp/window.h"

/* ---- Retransmission ---- */

/* Sends the first `bytes` of a segment of the queue again. Sends in place if the segment has its own buffer and the
 * device has given that buffer back. */
bool tcp_resend(struct net_stack *stack, struct tcp_connection *c, struct tcp_segment *s, uint32_t bytes,
                uint64_t now_ns)
{
    ASSERT(tcp_segment_space(s) != 0);
    ASSERT(bytes <= s->bytes);
    tcp_stall_note(c, now_ns);
    uint8_t flags_last = s->bytes != 0 ? TCP_FIN | TCP_PSH : TCP_FIN;
    uint8_t flags = TCP_ACK | (bytes == s->bytes ? s->flags & flags_last : 0);
    bool sent = s->buffer != NULL && (s->marks & (TCP_MARK_SHARED | TCP_MARK_CUT)) == 0
                && tcp_frame_send_held(stack, c, s->buffer, s->buffer->data + s->offset, bytes, s->seq, flags, true,
                                       now_ns);
    if (sent) {
        s->offset = c->head_bytes; /* the frame now begins right before this payload */
    } else {
        const struct tcp_frame frame = { .seq = s->seq, .flags = flags, .segment = s, .bytes = bytes, .again = true };
        if (!tcp_frame_send(stack, c, &frame, now_ns)) {
            c->blocked = true;
            return false;
        }
    }
    NET_COUNT(stack, tcp_tx_resends);
    tcp_sendqueue_mark(c, s, TCP_MARK_RESENT | TCP_MARK_EVER_RESENT, 0);
    s->sent_ns = now_ns;
    c->retransmits_total++;
    tcp_recovery_resent(c);
    if (s->seq == c->snd_una) /* RFC 6675 §6: else the old copy's time-out would end the recovery */
        tcp_rto_restart(c, now_ns);
    return true;
}

/* Cuts a segment of the queue to the bytes that may be sent now, in `bytes`. Returns false if none may. A full queue
 * has no place for the rest. Then the front stays whole, and a part of it goes on: the peer acknowledges that part. */
static bool resend_cut(struct tcp_connection *c, uint32_t index, uint32_t *bytes)
{
    ASSERT(index < c->segment_count);
    struct tcp_segment *s = tcp_sendqueue_at(c, index);
    uint32_t room = min_u32(tcp_send_mss(c), tcp_window_beyond(c, s->seq));
    if (room == 0) {
        if (s->seq != c->snd_una)
            return false;       /* the window has shrunk below the segment */
        room = tcp_send_mss(c); /* MUST-34: the front goes on as a probe of the closed window */
    }
    *bytes = min_u32(s->bytes, room);
    return s->bytes <= room || tcp_sendqueue_split(c, index, room) || s->seq == c->snd_una;
}

/* Resends the first segment that is believed lost, if the congestion window takes it. */
static bool output_lost(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    if (c->queue.lost_bytes == 0)
        return false;
    uint32_t index = 0, bytes;
    ASSERT(c->queue.lost_bytes <= c->snd_nxt - c->snd_una);
    for (; index < c->segment_count; index++) {
        const struct tcp_segment *s = tcp_sendqueue_at(c, index);
        if ((s->marks & (TCP_MARK_LOST | TCP_MARK_RESENT | TCP_MARK_SACKED)) == TCP_MARK_LOST)
            break;
    }
    if (index == c->segment_count || !resend_cut(c, index, &bytes))
        return false;
    struct tcp_segment *s = tcp_sendqueue_at(c, index);
    uint32_t flight = tcp_in_flight(c), space = tcp_segment_space(s);
    if (flight != 0 && flight + space > c->congestion.cwnd)
        return false;
    if (!tcp_resend(stack, c, s, bytes, now_ns))
        return false;
    tcp_recovery_sent(c, space);
    if (c->recovery_state == TCP_RECOVERY)
        NET_COUNT(stack, tcp_tx_resends_fast);
    return true;
}

/* ---- New data ---- */

static void flight_begins(struct tcp_connection *c, uint64_t now_ns)
{
    tcp_busy_begin(c, now_ns); /* a message has not been in the ring */
    tcp_rto_start(c, now_ns);
}

/* Moves `bytes` from the unsent end of the stream into a segment and sends it. Returns false if there is no buffer. */
static bool output_segment(struct net_stack *stack, struct tcp_connection *c, uint32_t bytes, bool fin, bool push,
                           uint64_t now_ns)
{
    ASSERT(bytes != 0 || fin);
    ASSERT(bytes <= c->snd_mss);
    uint8_t flags = TCP_ACK | (fin ? TCP_FIN : 0) | (push ? TCP_PSH : 0);
    struct tcp_segment *s = tcp_sendqueue_push(c, c->snd_nxt, (uint16_t)bytes, flags, now_ns);
    if (bytes != 0
        && (c->ack.unsent_bytes != 0 || now_ns - c->deadline.ack_data_ns < c->policy.ack_delay_us * NS_PER_US))
        tcp_ack_slow_down(c); /* an answer: the next answer will carry its ACK */
    const struct tcp_frame frame = {
        .seq = c->snd_nxt, .flags = flags | tcp_cwr_flag(c, bytes), .segment = s, .bytes = bytes
    };
    if (!tcp_frame_send(stack, c, &frame, now_ns)) {
        tcp_sendqueue_unpush(c);
        c->blocked = true;
        return false;
    }
    c->snd_nxt += tcp_segment_space(s);
    tcp_cwr_sent(c, bytes);
    if (bytes != 0 && bytes < c->snd_mss)
        c->snd_small_end = c->snd_nxt;
    if (c->deadline.rto_at_ns == 0)
        flight_begins(c, now_ns);
    tcp_recovery_sent(c, tcp_segment_space(s));
    return true;
}

/* RFC 7661 §4.2: Notes the most bytes in flight during a round trip. */
static void flight_note(struct tcp_connection *c)
{
    uint32_t flight = c->snd_nxt - c->snd_una;
    if (seq_ge(c->snd_una, c->output.flight_max_seq) || c->output.cwnd_limited || flight > c->output.flight_max) {
        c->output.flight_max = flight;
        c->output.flight_max_seq = c->snd_nxt;
    }
}

/* Updates timers and window accounts after a message has left by itself. */
void tcp_output_sent(struct net_stack *stack, struct tcp_connection *c, uint32_t bytes, uint64_t now_ns)
{
    if (bytes < c->snd_mss)
        c->snd_small_end = c->snd_nxt;
    if (c->deadline.rto_at_ns == 0)
        flight_begins(c, now_ns);
    tcp_recovery_sent(c, bytes);
    flight_note(c);
    c->output.last_data_sent_ns = now_ns;
    tcp_tail_probe_want(c);
    tcp_timer_rearm(stack, c, now_ns);
}

/* RFC 9293 §3.8.6.2.1: Returns true if a piece of `bytes` should leave. (1) A full segment leaves; (2, 3) all unsent
 * data, if Nagle lets it go; (3) half of the largest window seen. The override (4) is the window probe's. Nagle has
 * Minshall's form: only an unacknowledged small segment holds another small one back. With Nagle's own form the last
 * part of each long message would wait for a round trip. */
static bool should_send(const struct tcp_connection *c, uint32_t bytes, bool all, bool fin)
{
    if (bytes >= c->snd_mss || fin)
        return true;
    if (all && !c->policy.cork && (c->policy.nodelay || !tcp_edge_in_flight(c, c->snd_small_end)))
        return true;
    return bytes != 0 && !c->policy.cork && bytes >= c->snd_wnd_max / 2;
}

static bool output_new(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    uint32_t unsent = tcp_unsent_bytes(c);
    ASSERT(seq_le(c->snd_una, c->snd_nxt));
    if ((unsent == 0 && !tcp_fin_unsent(c)) || tcp_sendqueue_full(c))
        return false;
    uint32_t room = tcp_window_beyond(c, c->snd_nxt);
    uint32_t bytes = min_u32(min_u32(unsent, c->snd_mss), room);
    bool all = bytes == unsent;
    bool fin = all && tcp_fin_unsent(c) && room > bytes;
    if ((bytes == 0 && !fin) || !should_send(c, bytes, all, fin))
        return false;
    uint32_t flight = tcp_in_flight(c);
    if (flight != 0 && flight + bytes > c->congestion.cwnd) {
        c->output.cwnd_limited = true;
        return false;
    }
    /* PSH marks the end of the data, and a segment cut by the window: more comes only after this one is read. */
    return output_segment(stack, c, bytes, fin, bytes != 0 && (all || bytes < c->snd_mss), now_ns);
}

/* RFC 5681 §4.1: Reduces the window to an initial one after an idle time longer than the RTO. */
static void restart_after_idle(struct tcp_connection *c, uint64_t now_ns)
{
    if (c->policy.slow_start_after_idle && c->segment_count == 0 && c->output.last_data_sent_ns != 0
        && now_ns - c->output.last_data_sent_ns > c->rtt.rto_ns)
        tcp_congestion_idle(&c->congestion,
                            tcp_congestion_initial_window(c->policy.initial_window_segments, c->snd_mss));
}

/* Notes if only the peer's window holds data back: tcpi_rwnd_limited of Linux. */
static void window_limited_note(struct tcp_connection *c, uint64_t now_ns)
{
    uint32_t unsent = tcp_unsent_bytes(c);
    bool limited = unsent != 0 && !c->output.cwnd_limited
                   && tcp_window_beyond(c, c->snd_nxt) < min_size(unsent, c->snd_mss);
    if (limited == (c->output.window_limited_since_ns != 0))
        return;
    if (!limited)
        c->output.window_limited_ns += now_ns - c->output.window_limited_since_ns;
    c->output.window_limited_since_ns = limited ? now_ns : 0;
}

void tcp_output(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    if (!tcp_can_send_data(c))
        return;
    c->blocked = false;
    uint32_t nxt_before = c->snd_nxt;
    if (tcp_unsent_bytes(c) != 0) {
        restart_after_idle(c, now_ns);
        c->output.cwnd_limited = false;
    }
    while (output_lost(stack, c, now_ns)) {
    }
    while (output_new(stack, c, now_ns)) {
    }
    if (tcp_in_flight(c) + c->snd_mss > c->congestion.cwnd)
        c->output.cwnd_limited = true; /* full, even if no data waits: a used window may grow */
    window_limited_note(c, now_ns);
    if (c->snd_nxt != nxt_before)
        flight_note(c);
    if (c->blocked)
        tcp_timer_due_at(stack, 0);
    if (c->snd_nxt != nxt_before) {
        c->output.last_data_sent_ns = now_ns;
        tcp_tail_probe_want(c);
    }
    tcp_timer_rearm(stack, c, now_ns);
    ASSERT(c->segment_count == 0 || c->timer != TCP_TIMER_NONE);
}

/* RFC 8985 §7.3: Sends new data as a tail probe, whatever the congestion window is. */
void tcp_output_tail(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    uint32_t unsent = tcp_unsent_bytes(c);
    uint32_t bytes = min_u32(min_u32(unsent, c->snd_mss), tcp_window_beyond(c, c->snd_nxt));
    if (bytes != 0 && !tcp_sendqueue_full(c))
        output_segment(stack, c, bytes, false, bytes == unsent, now_ns);
}

/* ---- Acknowledgements and probes ---- */

/* Sends a pure ACK. The peer must accept its sequence number even after shrinking its window. Our SYN needs no window:
 * the number is never that of the SYN. */
void tcp_ack_send_now(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    ASSERT(c->state >= TCP_SYN_RECEIVED);
    uint32_t edge = seq_max(c->snd_una + c->snd_wnd, c->iss + 1);
    const struct tcp_frame frame = {
        .seq = seq_min(c->snd_nxt, edge),
        .flags = TCP_ACK,
    };
    bool of_text = c->ack.unsent_bytes != 0;
    if (tcp_frame_send(stack, c, &frame, now_ns)) {
        NET_COUNT(stack, tcp_tx_acks);
        if (of_text)
            tcp_ack_of_data_count(c, now_ns);
    } else {
        tcp_ack_owe(stack, c);
    }
}

/* RFC 9293 §3.8.6.1: Probes the peer's window. Sends data that fits: the override (4) of §3.8.6.2.1. Into a closed
 * window goes a segment without payload, Linux's form. Its sequence number lies before the window, so the peer must
 * answer. */
void tcp_probe_send(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    ASSERT(c->segment_count == 0);
    uint32_t room = tcp_window_beyond(c, c->snd_nxt);
    uint32_t bytes = min_u32(min_u32(tcp_unsent_bytes(c), c->snd_mss), room);
    NET_COUNT(stack, tcp_tx_window_probes);
    if (bytes != 0 && !tcp_sendqueue_full(c)) {
        output_segment(stack, c, bytes, false, true, now_ns); /* PSH: more comes only after this is read */
        return;
    }
    const struct tcp_frame frame = { .seq = c->snd_una - 1, .flags = TCP_ACK };
    if (!tcp_frame_send(stack, c, &frame, now_ns))
        tcp_timer_due_at(stack, 0);
}
