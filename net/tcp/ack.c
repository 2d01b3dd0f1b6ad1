/* The acknowledgement in a segment: checks it, frees acknowledged segments. RFC 9293 §3.10.7.4 (fifth), RFC 5961 §5,
 * RFC 6298 (5.2) and (5.3). */
#include "net/tcp/ack.h"

#include "net/stack_state.h"
#include "net/tcp/challenge.h"
#include "net/tcp/deadline.h"
#include "net/tcp/output.h"
#include "net/tcp/recovery.h"
#include "net/tcp/rtt.h"
#include "net/tcp/send_queue.h"
#include "net/tcp/seq.h"
#include "net/tcp/window.h"

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
    c->soft_error = TCP_OK; /* out of date: the path works */
    tcp_rtt_sample(c, r, resent, sent_ns, now_ns);
    tcp_rto_acked(c, now_ns);
    tcp_busy_end(c, now_ns);
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
    d.limited = c->output.cwnd_limited
                || (c->congestion.cwnd < c->congestion.ssthresh && c->congestion.cwnd < 2 * c->output.flight_max);
    window_take(stack, c, r);
    bool opened = window_before == 0 && c->snd_wnd != 0 && r->ack == c->snd_una;
    if (opened && c->recovery_state == TCP_LOSS && c->segment_count != 0)
        tcp_sendqueue_mark(c, tcp_sendqueue_at(c, 0), 0,
                           TCP_MARK_RESENT); /* the peer refused the segment: not in flight */
    if (c->snd_wnd == 0 && c->segment_count != 0 && !c->orphan)
        tcp_wait_restart(c, now_ns); /* MUST-36 also holds for data in flight when the window closed */
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
