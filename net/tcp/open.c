/* Opening connections: handshake, active open, and the listener's side of net/tcp/tcp.h. RFC 9293 §3.5, §3.10.1. */
#include "net/tcp/internal.h"

#include "base/time.h"

/* ---- Handshake ---- */

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
        c->rcv_buffer_bytes = (uint32_t)min_size(c->rcv_buffer_bytes, 0xffff);
    }
    c->snd_mss = (uint16_t)tcp_send_mss(c);
    /* The size that counts as a full segment until one has come (MUST-40's "every second"): at most our offer. */
    c->rcv_mss = (uint16_t)min_size(c->rcv_mss, tcp_mss_offered(stack, &c->policy) - tcp_options_bytes_each(c));
    ASSERT(c->snd_mss != 0);
    ASSERT(c->snd_scale <= TCP_WINDOW_SCALE_MAX);
}

/* RFC 9293 §3.10.7.3, §3.10.7.4: Enters ESTABLISHED. */
void tcp_established(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    ASSERT(seq_gt(c->snd_una, c->iss));
    /* RFC 5681 §3.1, RFC 6928 §2: a lost SYN leaves one segment. RFC 6298 (5.7): and a timeout of 3 s. */
    uint32_t segments = c->syn_resent ? 1 : c->policy.initial_window_segments;
    tcp_congestion_init(&c->congestion, tcp_congestion_initial_window(segments, c->snd_mss));
    if (c->srtt_ns == 0) {
        const uint64_t after_loss_ns = UINT64_C(3000000000);
        c->rto_ns = c->policy.rto_initial_us * NS_PER_US;
        if (c->syn_resent && c->rto_ns < after_loss_ns)
            c->rto_ns = after_loss_ns;
    }
    c->backoff = 0;
    c->was_open = true;
    c->state = c->fin_wanted ? TCP_FIN_WAIT_1 : TCP_ESTABLISHED; /* tcp_shutdown was called while opening */
    c->recovery = TCP_OPEN;
    c->rack.fack = c->rack.end_seq = c->snd_una;
    c->ecn_recover = c->iss;
    c->last_received_ns = now_ns;
    if (c->policy.keepalive)
        tcp_keepalive_start(stack, c, now_ns);
    tcp_frame_head_prepare(stack, c, now_ns);
    ASSERT(c->head_bytes != 0);
    tcp_timer_stop(c);
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

/* ---- Active open ---- */

static bool tuple_taken(const struct net_stack *stack, uint32_t address, uint16_t port, uint16_t from_port)
{
    uint64_t key = tcp_key(address, port, from_port);
    return tcp_find(stack, address, port, from_port) != NULL || tcp_time_wait_holds(stack, key)
           || tcp_listen_holds(stack, key);
}

/* RFC 6056: Returns a free port; 0 if all are taken. */
static uint16_t port_choose(struct net_stack *stack, uint32_t address, uint16_t port)
{
    for (uint32_t tries = 0; tries < SECRET_PORT_COUNT; tries++) {
        uint16_t number = stack->tcp.port_number++;
        uint16_t from_port = (uint16_t)(TCP_PORT_FIRST
                                        + secret_port(&stack->ip.secret, stack->ip.interface.address, address, port,
                                                      number));
        if (tcp_listener_find(stack, from_port) == NULL && !tuple_taken(stack, address, port, from_port))
            return from_port;
    }
    return 0;
}

int tcp_connect(struct net_stack *stack, uint32_t address, uint16_t port, uint16_t from_port,
                const struct tcp_policy *policy, uint64_t now_ns)
{
    uint32_t next_hop;
    if (port == 0)
        return TCP_INVALID;
    if (!ipv4_address_is_unicast(address) || ipv4_is_broadcast(&stack->ip, address)
        || address == stack->ip.interface.address || !ipv4_next_hop(&stack->ip, address, &next_hop)) /* MUST-46 */
        return TCP_NO_ROUTE;
    if (from_port == 0)
        from_port = port_choose(stack, address, port);
    else if (tuple_taken(stack, address, port, from_port))
        return TCP_IN_USE;
    if (from_port == 0)
        return TCP_NO_ROOM;
    struct tcp_connection *c = tcp_connection_take(stack, address, port, from_port,
                                                   policy != NULL ? policy : &stack->tcp.policy, now_ns);
    if (c == NULL)
        return TCP_NO_ROOM;

    const struct secret_tuple tuple = { c->address, address, from_port, port };
    c->state = TCP_SYN_SENT;
    tcp_next_hop_set(stack, c, next_hop, now_ns);
    tcp_iss_set(c, secret_isn(&stack->ip.secret, &tuple, now_ns));
    tcp_sendqueue_push(c, c->iss, 0, TCP_SYN, now_ns)->sent_ns = TCP_NEVER_NS; /* until tcp_syn_send sends it */
    tcp_rto_restart(c, now_ns);
    tcp_timer_set(stack, c, TCP_TIMER_RTO, c->rto_at_ns);
    tcp_syn_send(stack, c, now_ns);
    NET_COUNT(stack, tcp_connects);
    tcp_connection_check(c);
    return c->index;
}

/* ---- Passive open ---- */

static uint16_t backlog_of(uint32_t backlog) { return (uint16_t)max_size(1, min_size(backlog, UINT16_MAX)); }

int tcp_listen(struct net_stack *stack, uint16_t port, uint32_t backlog, const struct tcp_policy *policy)
{
    if (port == 0)
        return TCP_INVALID;
    if (tcp_listener_find(stack, port) != NULL)
        return TCP_IN_USE;
    for (uint32_t i = 0; i < stack->tcp.capacity.listener_count; i++) {
        struct tcp_listener *listener = &stack->tcp.listeners[i];
        if (listener->used)
            continue;
        *listener = (struct tcp_listener){
            .used = true,
            .port = port,
            .backlog = backlog_of(backlog),
            .policy = policy != NULL ? *policy : stack->tcp.policy,
        };
        return (int)i;
    }
    return TCP_NO_ROOM;
}

bool tcp_port_in_use(const struct net_stack *stack, uint16_t port)
{
    const struct tcp *tcp = &stack->tcp;
    for (uint32_t i = 0; i < tcp->connection_end; i++)
        if (tcp->keys[i] != 0 && tcp->connections[i].port == port)
            return true;
    for (uint32_t i = 0; i < tcp->time_wait_used; i++)
        if (tcp->time_wait[i].port == port)
            return true;
    return false;
}

static struct tcp_listener *listener_of(const struct net_stack *stack, int listener)
{
    if (listener < 0 || (uint32_t)listener >= stack->tcp.capacity.listener_count)
        return NULL;
    return stack->tcp.listeners[listener].used ? &stack->tcp.listeners[listener] : NULL;
}

void tcp_listen_change(struct net_stack *stack, int listener, uint32_t backlog, const struct tcp_policy *policy)
{
    struct tcp_listener *l = listener_of(stack, listener);
    if (l == NULL)
        return;
    l->backlog = backlog_of(backlog);
    l->policy = *policy;
}

void tcp_unlisten(struct net_stack *stack, int listener, uint64_t now_ns)
{
    struct tcp_listener *l = listener_of(stack, listener);
    if (l == NULL)
        return;
    tcp_listen_forget(stack, listener);
    for (uint32_t i = stack->tcp.connection_end; i-- > 0;) {
        struct tcp_connection *c = &stack->tcp.connections[i];
        if (c->used && c->listener == listener) {
            tcp_reset_send(stack, c, now_ns);
            tcp_connection_end(stack, c, TCP_ABORTED);
        }
    }
    ASSERT(l->waiting_count == 0);
    ASSERT(l->half_open_count == 0);
    l->used = false;
}

int tcp_accept(struct net_stack *stack, int listener)
{
    struct tcp_connection *oldest = NULL;
    if (listener_of(stack, listener) == NULL)
        return TCP_INVALID;
    for (uint32_t i = 0; i < stack->tcp.connection_end; i++) {
        struct tcp_connection *c = &stack->tcp.connections[i];
        if (c->used && c->listener == listener && (oldest == NULL || seq_lt(c->accept_stamp, oldest->accept_stamp)))
            oldest = c;
    }
    if (oldest == NULL)
        return TCP_AGAIN;
    ASSERT(oldest->passive);
    tcp_listener_left(stack, oldest);
    return oldest->index;
}

uint32_t tcp_listener_poll_bits(const struct net_stack *stack, int listener)
{
    const struct tcp_listener *l = listener_of(stack, listener);
    return l != NULL && l->waiting_count != 0 ? TCP_POLL_READ : 0;
}
