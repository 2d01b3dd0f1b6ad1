/* The handshake, of active and passive opens: our SYN, the options agreed on, ESTABLISHED. RFC 9293 §3.5. */
#include "net/tcp/handshake.h"

#include "base/time.h"
#include "net/stack_state.h"
#include "net/tcp/congestion.h"
#include "net/tcp/deadline.h"
#include "net/tcp/ecn.h"
#include "net/tcp/frame.h"
#include "net/tcp/options.h"
#include "net/tcp/policy.h"
#include "net/tcp/rtt.h"
#include "net/tcp/send_queue.h"
#include "net/tcp/seq.h"
#include "net/tcp/window.h"

/* Applies the options that both ends have offered. RFC 7323 §2.5, §3.2: an option counts if both SYNs carry it. */
void tcp_options_agree(struct net_stack *stack, struct tcp_connection *c, const struct tcp_options *o, uint64_t now_ns)
{
    c->peer_mss = o->has_mss ? o->mss : TCP_MSS_DEFAULT;
    c->sack_on = c->policy.sack && o->sack_permitted;
    c->timestamps_on = c->policy.timestamps && o->has_timestamps;
    if (c->timestamps_on) {
        c->ts_recent = o->timestamp;
        c->ts_recent_ns = now_ns;
    }
    if (c->policy.window_scaling && o->has_window_scale) {
        c->scaling_on = true;
        c->snd_scale = o->window_scale;
        c->rcv_scale = tcp_window_scale_of(stack, &c->policy);
    } else {
        c->rcv_buffer_bytes = min_u32(c->rcv_buffer_bytes, 0xffff);
    }
    tcp_send_mss_update(c);
    /* The size that counts as a full segment until one has come (MUST-40's "every second"): at most our offer. */
    c->rcv_mss = (uint16_t)min_size(c->rcv_mss, tcp_mss_offered(stack, &c->policy) - tcp_options_bytes_each(c));
    ASSERT(c->snd_mss != 0);
    ASSERT(c->snd_scale <= TCP_WINDOW_SCALE_MAX);
}

/* RFC 9293 §3.10.7.3, §3.10.7.4: Enters ESTABLISHED. */
void tcp_established(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    ASSERT(seq_gt(c->snd_una, c->iss));
    /* RFC 5681 §3.1, RFC 6928 §2: a lost SYN leaves one segment. */
    uint32_t segments = c->syn_resent ? 1 : c->policy.initial_window_segments;
    tcp_congestion_init(&c->congestion, tcp_congestion_initial_window(segments, c->snd_mss));
    if (c->rtt.srtt_ns == 0)
        tcp_rto_begin(c);
    c->was_open = true;
    c->state = c->fin_wanted ? TCP_FIN_WAIT_1 : TCP_ESTABLISHED; /* tcp_shutdown was called while opening */
    tcp_ecn_begin(c);
    tcp_received_note(c, now_ns);
    if (c->policy.keepalive)
        tcp_keepalive_start(stack, c, now_ns);
    tcp_frame_head_prepare(stack, c, now_ns);
    ASSERT(c->head_bytes != 0);
    ASSERT(c->timer == TCP_TIMER_NONE && c->deadline.backoff == 0); /* our SYN has been acknowledged */
    stack->tcp.changed = true;
}

/* Sends SYN, or SYN,ACK if both ends open at once. RFC 9293 §3.7.1: MSS in SYNs only. */
void tcp_syn_send(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    ASSERT(c->segment_count != 0);
    bool answering = c->state == TCP_SYN_RECEIVED;
    const struct tcp_syn_options options = {
        .mss = tcp_mss_offered(stack, &c->policy),
        .sack = answering ? c->sack_on : c->policy.sack,
        .timestamps = answering ? c->timestamps_on : c->policy.timestamps,
        .scaling = answering ? c->scaling_on : c->policy.window_scaling,
        .scale = tcp_window_scale_of(stack, &c->policy),
        .timestamp = tcp_timestamp_clock(now_ns, c->timestamp_offset),
        .timestamp_echo = answering ? c->ts_recent : 0,
    };
    struct tcp_reply reply = {
        .address = c->address,
        .peer_address = c->peer_address,
        .port = c->port,
        .peer_port = c->peer_port,
        .seq = c->iss,
        .ack = answering ? c->rcv_nxt : 0,
        .flags = answering ? TCP_SYN | TCP_ACK : TCP_SYN,
        .ttl = c->policy.ttl,
        .tos = c->policy.tos,
        .initiated = true,
        .window = (uint16_t)min_size(c->rcv_buffer_bytes, 0xffff),
    };
    if (c->policy.ecn && !answering && !c->syn_resent) /* RFC 3168 §6.1.1.1: not again, if a filter dislikes it */
        reply.flags |= TCP_ECE | TCP_CWR;
    reply.option_bytes = tcp_options_write_syn(reply.options, &options);
    ASSERT(reply.option_bytes <= TCP_OPTION_BYTES_MAX);
    struct tcp_segment *s = tcp_sendqueue_at(c, 0);
    bool first = s->sent_ns == TCP_NEVER_NS;
    c->blocked = !tcp_reply_send(stack, &reply, now_ns);
    if (c->blocked) {
        tcp_timer_due_at(stack, 0);
        return;
    }
    if (!first) {
        tcp_sendqueue_mark(c, s, TCP_MARK_EVER_RESENT, 0);
        c->retransmits_total++;
        NET_COUNT(stack, tcp_tx_resends);
    }
    s->sent_ns = now_ns;
    c->rcv_adv = seq_max(c->rcv_adv, c->rcv_nxt + reply.window);
    c->last_ack_sent = c->rcv_nxt;
    c->last_sent_ns = now_ns;
}
