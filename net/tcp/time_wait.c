/* TIME-WAIT: closed connections that still answer. RFC 9293 §3.6.1, RFC 6191 (reuse). In the bounded table the oldest
 * entry gives way. MUST-13 holds as long as there is room; entries given up are counted. */
#include "net/tcp/time_wait.h"

#include "base/time.h"
#include "net/stack_state.h"
#include "net/tcp/challenge.h"
#include "net/tcp/deadline.h"
#include "net/tcp/frame.h"
#include "net/tcp/rtt.h"
#include "net/tcp/seq.h"
#include "net/tcp/table.h"
#include "net/tcp/window.h"

static struct tcp_time_wait *time_wait_find(struct net_stack *stack, uint64_t key)
{
    struct tcp *tcp = &stack->tcp;
    for (uint32_t i = 0; i < tcp->time_wait_used; i++)
        if (tcp->time_wait_keys[i] == key)
            return &tcp->time_wait[i];
    return NULL;
}

static void time_wait_free(struct net_stack *stack, struct tcp_time_wait *w)
{
    struct tcp *tcp = &stack->tcp;
    uint32_t index = (uint32_t)(w - tcp->time_wait), last = --tcp->time_wait_used;
    ASSERT(index <= last);
    tcp->time_wait[index] = tcp->time_wait[last];
    tcp->time_wait_keys[index] = tcp->time_wait_keys[last];
    tcp->time_wait_keys[last] = 0;
}

static struct tcp_time_wait *time_wait_take(struct net_stack *stack, uint64_t key)
{
    struct tcp *tcp = &stack->tcp;
    if (tcp->time_wait_used == tcp->capacity.time_wait_count) {
        struct tcp_time_wait *oldest = &tcp->time_wait[0];
        for (uint32_t i = 1; i < tcp->time_wait_used; i++)
            if (tcp->time_wait[i].ends_ns < oldest->ends_ns)
                oldest = &tcp->time_wait[i];
        NET_COUNT(stack, tcp_time_wait_evicted);
        time_wait_free(stack, oldest);
    }
    ASSERT(tcp->time_wait_used < tcp->capacity.time_wait_count);
    tcp->time_wait_keys[tcp->time_wait_used] = key;
    return &tcp->time_wait[tcp->time_wait_used++];
}

void tcp_time_wait_enter(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    ASSERT(c->fin_received);
    ASSERT(c->fin_wanted);
    struct tcp_time_wait *w = time_wait_take(stack, tcp_key(c->peer_address, c->peer_port, c->port));
    *w = (struct tcp_time_wait){
        .timestamps_on = c->timestamps_on,
        .ttl = c->policy.ttl,
        .tos = c->policy.tos,
        .address = c->address,
        .peer_address = c->peer_address,
        .port = c->port,
        .peer_port = c->peer_port,
        .snd_nxt = c->snd_nxt,
        .rcv_nxt = c->rcv_nxt,
        .rcv_wnd = tcp_receive_window(c),
        .window = (uint16_t)min_size(tcp_receive_window(c) >> c->rcv_scale, 0xffff),
        .ts_recent = c->ts_recent,
        .timestamp_offset = c->timestamp_offset,
        .time_wait_ns = c->policy.time_wait_us * NS_PER_US,
    };
    w->ends_ns = now_ns + w->time_wait_ns;
    tcp_timer_due_at(stack, w->ends_ns);
    tcp_connection_end(stack, c, TCP_OK);
    /* If the application still has the connection, tcp_read gives the data and then the reason of the end. */
    if (c->used)
        c->state = TCP_TIME_WAIT;
}

static void time_wait_ack(struct net_stack *stack, struct tcp_time_wait *w, const struct tcp_received *r,
                          uint64_t now_ns)
{
    struct tcp_reply reply = {
        .address = w->address,
        .peer_address = w->peer_address,
        .port = w->port,
        .peer_port = w->peer_port,
        .seq = w->snd_nxt,
        .ack = w->rcv_nxt,
        .flags = TCP_ACK,
        .ttl = w->ttl,
        .tos = w->tos,
        .link_destination = r->packet->link_source,
        .window = w->window,
    };
    if (w->timestamps_on)
        tcp_reply_add_timestamps(&reply, tcp_timestamp_clock(now_ns, w->timestamp_offset), w->ts_recent);
    tcp_reply_send(stack, &reply, now_ns);
}

static void time_wait_challenge(struct net_stack *stack, struct tcp_time_wait *w, const struct tcp_received *r,
                                uint64_t now_ns)
{
    if (!tcp_challenge_allowed(&w->challenges, r, now_ns)) {
        NET_COUNT(stack, tcp_tx_challenges_withheld);
        return;
    }
    NET_COUNT(stack, tcp_tx_challenges);
    time_wait_ack(stack, w, r, now_ns);
}

/* RFC 6191 §2, RFC 9293 SHLD-4: Returns true if a SYN cannot be an old one and a listener has its port. The SYN then
 * opens a new connection. */
static bool time_wait_gives_way(const struct net_stack *stack, const struct tcp_time_wait *w,
                                const struct tcp_received *r)
{
    const struct tcp_listener *listener = tcp_listener_find(stack, r->port);
    if ((r->flags & (TCP_FIN | TCP_SYN | TCP_RST | TCP_ACK)) != TCP_SYN || listener == NULL)
        return false;
    bool later = seq_gt(r->seq, w->rcv_nxt), with_timestamps = listener->policy.timestamps && r->options.has_timestamps;
    if (!with_timestamps)
        return later;
    if (!w->timestamps_on)
        return true; /* no SYN of the old connection had one */
    return seq_gt(r->options.timestamp, w->ts_recent) || (r->options.timestamp == w->ts_recent && later);
}

bool tcp_time_wait_input(struct net_stack *stack, struct tcp_received *r, uint64_t now_ns)
{
    struct tcp_time_wait *w = time_wait_find(stack, tcp_key(r->address, r->peer_port, r->port));
    ASSERT(!r->replaces_time_wait);
    if (w == NULL)
        return false;
    if (time_wait_gives_way(stack, w, r)) {
        NET_COUNT(stack, tcp_time_wait_reused);
        r->replaces_time_wait = true;
        r->isn_least = w->snd_nxt + 65535 + 2; /* beyond any window of the old connection */
        time_wait_free(stack, w);
        return false;
    }
    bool in_window = seq_ge(r->seq, w->rcv_nxt) && seq_le(r->seq, w->rcv_nxt + w->rcv_wnd);
    /* RFC 5961 §3.2, as in open states: an RST with the exact number is not one of the old RSTs of RFC 1337. */
    if ((r->flags & TCP_RST) != 0) {
        if (r->seq == w->rcv_nxt) {
            time_wait_free(stack, w);
            return true;
        }
        NET_COUNT(stack, tcp_rx_resets_ignored);
        if (in_window && r->seq != w->rcv_nxt + w->rcv_wnd)
            time_wait_challenge(stack, w, r, now_ns);
        return true;
    }
    bool old_time = w->timestamps_on && r->options.has_timestamps && seq_lt(r->options.timestamp, w->ts_recent);
    bool text = tcp_received_space(r) != 0 && (r->flags & (TCP_SYN | TCP_ACK)) == TCP_ACK;
    if ((r->flags & (TCP_SYN | TCP_ACK)) == 0) { /* fifth, as in open states */
        NET_COUNT(stack, tcp_rx_drop_no_ack);
        return true;
    }
    if (r->seq == w->rcv_nxt && !old_time && !text && (r->flags & TCP_SYN) == 0)
        return true; /* a late ACK: an answer would begin a dialogue */
    if (text && !old_time) {
        /* §3.10.7.4, eighth: the FIN again; 2 MSL begin again. As in Linux, text before the FIN restarts them too:
         * that peer has not had our last ACK either. */
        w->ends_ns = now_ns + w->time_wait_ns;
        tcp_timer_due_at(stack, w->ends_ns);
    }
    if (text)
        time_wait_ack(stack, w, r, now_ns); /* never withheld: the peer repeats the text until an ACK comes */
    else
        time_wait_challenge(stack, w, r, now_ns);
    return true;
}

bool tcp_time_wait_holds(const struct net_stack *stack, uint64_t key)
{
    const struct tcp *tcp = &stack->tcp;
    for (uint32_t i = 0; i < tcp->time_wait_used; i++)
        if (tcp->time_wait_keys[i] == key)
            return true;
    return false;
}

void tcp_time_wait_poll(struct net_stack *stack, uint64_t now_ns)
{
    for (uint32_t i = 0; i < stack->tcp.time_wait_used;) {
        if (stack->tcp.time_wait[i].ends_ns <= now_ns)
            time_wait_free(stack, &stack->tcp.time_wait[i]);
        else
            i++;
    }
}

uint64_t tcp_time_wait_next_deadline_ns(const struct net_stack *stack)
{
    uint64_t deadline_ns = TCP_NEVER_NS;
    for (uint32_t i = 0; i < stack->tcp.time_wait_used; i++)
        if (stack->tcp.time_wait[i].ends_ns < deadline_ns)
            deadline_ns = stack->tcp.time_wait[i].ends_ns;
    return deadline_ns;
}
