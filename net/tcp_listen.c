/* Passive opens. RFC 9293 §3.10.7.2 (LISTEN) and §3.10.7.4 for SYN-RECEIVED.
 *
 * A SYN costs an entry of a small table, not a connection: a flood fills the table and takes nothing from open
 * connections. The connection is made when the handshake is complete. In a full table each entry has its millisecond to
 * get there, then it gives way in its turn; a SYN that comes too early for that is dropped before it costs anything. Whose
 * entry has given way still gets in: the sequence number of a SYN,ACK from a full table is a cookie. */
#include "net/tcp_internal.h"

enum { SYN_ACK_RESENDS_MAX = 5 };       /* Linux: tcp_synack_retries; with 1 s to begin, given up after 63 s */
/* A repeated SYN is answered at once, but not more often than this. Linux: tcp_invalid_ratelimit. */
#define HALF_OPEN_AGAIN_NS UINT64_C(500000000)
/* In a full table an entry has this long, some round trips of a data centre. With 64 entries 64000 SYNs a second are
 * answered at most, some 2 % of the processor; of a client's, which are repeated after 1, 3, 7 s, one gets through floods of
 * ten times as many, more likely than not. */
#define HALF_OPEN_TURN_NS UINT64_C(1000000)

struct tcp_listener *tcp_listener_find(const struct net_stack *stack, uint16_t port)
{
    for (uint32_t i = 0; i < stack->tcp.capacity.listener_count; i++)
        if (stack->tcp.listeners[i].used && stack->tcp.listeners[i].port == port)
            return &stack->tcp.listeners[i];
    return NULL;
}

static struct tcp_half_open *half_open_find(struct net_stack *stack, uint64_t key)
{
    struct tcp *tcp = &stack->tcp;
    for (uint32_t i = 0; i < tcp->half_open_used; i++)
        if (tcp->half_open_keys[i] == key)
            return &tcp->half_open[i];
    return NULL;
}

static void half_open_free(struct net_stack *stack, struct tcp_half_open *h)
{
    struct tcp *tcp = &stack->tcp;
    uint32_t index = (uint32_t)(h - tcp->half_open), last = --tcp->half_open_used;
    tcp->listeners[h->listener].half_open_count--;
    tcp->half_open[index] = tcp->half_open[last];
    tcp->half_open_keys[index] = tcp->half_open_keys[last];
    tcp->half_open_keys[last] = 0;
}

/* Whether there is a place for one more, or one may give way: not before it has had its time, and not all at once. */
static bool half_open_has_place(const struct tcp *tcp, uint64_t now_ns)
{
    uint32_t count = tcp->capacity.half_open_count;
    return tcp->half_open_used < count
        || (now_ns >= tcp->half_open_next_ns
            && now_ns - tcp->half_open[tcp->half_open_turn % count].first_sent_ns >= HALF_OPEN_TURN_NS);
}

/* The place. When all are taken, each gives way in its turn: under a flood that is the one that has waited longest, and
 * looking for it would cost as much as the rest of a SYN. */
static struct tcp_half_open *half_open_take(struct net_stack *stack, uint64_t key, uint64_t now_ns)
{
    struct tcp *tcp = &stack->tcp;
    uint32_t index = tcp->half_open_used;
    if (index < tcp->capacity.half_open_count) {
        tcp->half_open_used++;
    } else {
        index = tcp->half_open_turn++ % tcp->capacity.half_open_count;
        uint64_t since_ns = now_ns - HALF_OPEN_TURN_NS;         /* what is saved up is a table's worth */
        tcp->half_open_next_ns = (tcp->half_open_next_ns > since_ns ? tcp->half_open_next_ns : since_ns)
            + HALF_OPEN_TURN_NS / tcp->capacity.half_open_count;
        tcp->listeners[tcp->half_open[index].listener].half_open_count--;
        NET_COUNT(stack, tcp_half_open_evicted);
    }
    tcp->half_open_keys[index] = key;
    return &tcp->half_open[index];
}

/* ---- Cookies: RFC 4987 §3.6 ---- */

/* Five bits of time, one of SACK, two of MSS, 24 that only we can have made; no other option is offered with one. */
#define COOKIE_TICK_SHIFT 36            /* of nanoseconds: 69 s; good for this tick and the next */
static const uint16_t cookie_mss[] = { TCP_MSS_DEFAULT, 1300, 1440, 1460 };
enum { COOKIE_SACK = 4 };

static uint32_t cookie_make(const struct net_stack *stack, const struct tcp_received *r, uint32_t irs, uint64_t tick,
                            uint32_t what)
{
    const struct secret_tuple tuple = { stack->interface.address, r->address, r->port, r->peer_port };
    uint32_t proof = secret_cookie(&stack->secret, &tuple, irs, tick << 3 | what) & 0xffffff;
    return (uint32_t)tick << 27 | what << 24 | proof;
}

/* What the answer to a SYN that is being treated so will have to say. */
static uint32_t cookie_for(const struct net_stack *stack, const struct tcp_received *r, bool sack, uint64_t now_ns)
{
    uint32_t what = 0;
    while (what + 1 < ARRAY_COUNT(cookie_mss) && cookie_mss[what + 1] <= r->options.mss)
        what++;
    return cookie_make(stack, r, r->seq, now_ns >> COOKIE_TICK_SHIFT, what | (sack ? COOKIE_SACK : 0));
}

/* Whether this ACK answers a cookie of ours, and what that said. */
static bool cookie_answered(const struct net_stack *stack, const struct tcp_received *r, uint64_t now_ns, uint32_t *what)
{
    uint32_t cookie = r->ack - 1;
    *what = cookie >> 24 & 7;
    for (uint64_t tick = now_ns >> COOKIE_TICK_SHIFT, age = 0; age < 2; age++)
        if (cookie == cookie_make(stack, r, r->seq - 1, tick - age, *what))
            return true;
    return false;
}

/* ---- Replies ---- */

/* What a reply to this half-open connection begins with. */
static struct tcp_reply half_open_reply(const struct net_stack *stack, const struct tcp_half_open *h)
{
    const struct tcp_policy *policy = &stack->tcp.listeners[h->listener].policy;
    return (struct tcp_reply){
        .address = h->address,
        .peer_address = h->peer_address,
        .port = h->port,
        .peer_port = h->peer_port,
        .seq = h->iss + 1,
        .ack = h->irs + 1,
        .flags = TCP_ACK,
        .ttl = policy->ttl,
        .tos = policy->tos,
        .window = (uint16_t)min_size(h->window >> (h->scaling_on ? h->our_scale : 0), 0xffff),
    };
}

static void syn_ack_send(struct net_stack *stack, struct tcp_half_open *h, uint64_t now_ns)
{
    struct tcp_reply reply = half_open_reply(stack, h);
    const struct tcp_syn_options options = {
        .mss = h->our_mss,
        .sack = h->sack_on,
        .timestamps = h->timestamps_on,
        .scaling = h->scaling_on,
        .scale = h->our_scale,
        .timestamp = tcp_timestamp_clock(now_ns, h->timestamp_offset),
        .timestamp_echo = h->ts_recent,
    };
    reply.seq = h->iss;
    reply.flags = TCP_SYN | TCP_ACK;
    reply.window = (uint16_t)min_size(h->window, 0xffff);       /* RFC 7323 §2.2: not scaled */
    reply.option_bytes = tcp_options_write_syn(reply.options, &options);
    h->sent_ns = now_ns;
    tcp_reply_send(stack, &reply, now_ns);
}

/* A plain ACK of what has come: RFC 9293's answer to segments that do not fit. */
static void half_open_challenge(struct net_stack *stack, struct tcp_half_open *h, const struct tcp_received *r,
                                uint64_t now_ns)
{
    struct tcp_reply reply = half_open_reply(stack, h);
    if (!tcp_challenge_allowed(&h->challenges, r, now_ns)) {
        NET_COUNT(stack, tcp_tx_challenges_withheld);
        return;
    }
    if (h->timestamps_on)
        tcp_reply_add_timestamps(&reply, tcp_timestamp_clock(now_ns, h->timestamp_offset), h->ts_recent);
    NET_COUNT(stack, tcp_tx_challenges);
    tcp_reply_send(stack, &reply, now_ns);
}

/* ---- LISTEN ---- */

static void listen_syn(struct net_stack *stack, struct tcp_listener *listener, const struct tcp_received *r,
                       uint64_t now_ns)
{
    const struct tcp_policy *policy = &listener->policy;
    const struct tcp_options *o = &r->options;
    if (listener->waiting_count >= listener->backlog) {
        NET_COUNT(stack, tcp_rx_drop_syn_backlog);      /* the peer will ask again */
        return;
    }
    if (!half_open_has_place(&stack->tcp, now_ns)) {
        NET_COUNT(stack, tcp_rx_drop_syn_rate);         /* likewise */
        return;
    }
    /* A full table may forget it. Not with a smaller MSS than a cookie can tell, nor where a TIME-WAIT sets the number. */
    bool cookie = stack->tcp.half_open_used == stack->tcp.capacity.half_open_count && !stack->tcp.isn_above_on
        && (!o->has_mss || o->mss >= cookie_mss[0]);
    struct tcp_half_open *h = half_open_take(stack, tcp_key(r->address, r->peer_port, r->port), now_ns);
    const struct secret_tuple tuple = { stack->interface.address, r->address, r->port, r->peer_port };
    uint32_t iss = cookie ? cookie_for(stack, r, policy->sack && o->sack_permitted, now_ns)
                          : secret_isn(&stack->secret, &tuple, now_ns);
    if (cookie) {
        NET_COUNT(stack, tcp_tx_cookies);
        stack->tcp.cookies_until_ns = now_ns + (UINT64_C(2) << COOKIE_TICK_SHIFT);
    }
    if (stack->tcp.isn_above_on && seq_lt(iss, stack->tcp.isn_above))
        iss = stack->tcp.isn_above;     /* a TIME-WAIT gave way: nothing of the old connection may fit the new */
    *h = (struct tcp_half_open){
        .listener = (uint8_t)(listener - stack->tcp.listeners),
        .timestamps_on = policy->timestamps && o->has_timestamps && !cookie,
        .sack_on = policy->sack && o->sack_permitted,
        .scaling_on = policy->window_scaling && o->has_window_scale && !cookie,
        .peer_scale = o->window_scale,
        .our_scale = tcp_window_scale_of(stack, policy),
        .peer_mss = o->has_mss ? o->mss : TCP_MSS_DEFAULT,
        .our_mss = tcp_mss_offered(stack, policy),
        .address = stack->interface.address,
        .peer_address = r->address,
        .port = r->port,
        .peer_port = r->peer_port,
        .irs = r->seq,
        .iss = iss,
        .ts_recent = o->timestamp,
        .timestamp_offset = secret_timestamp_offset(&stack->secret, &tuple),
        .window = tcp_receive_buffer_of(stack, policy),
        .first_sent_ns = now_ns,
        .timeout_ns = policy->rto_initial_us * UINT64_C(1000),
        .timeout_max_ns = policy->rto_max_us * UINT64_C(1000),
    };
    h->timer_ns = now_ns + h->timeout_ns;
    listener->half_open_count++;
    tcp_timer_due_at(stack, h->timer_ns);
    syn_ack_send(stack, h, now_ns);
}

/* ---- SYN-RECEIVED ---- */

static void half_open_complete(struct net_stack *stack, struct tcp_half_open *h, struct tcp_received *r,
                               uint64_t now_ns)
{
    struct tcp_listener *listener = &stack->tcp.listeners[h->listener];
    if (listener->waiting_count >= listener->backlog) {
        NET_COUNT(stack, tcp_rx_drop_accept_full);      /* as Linux: forget the ACK; the SYN,ACK is sent again */
        return;
    }
    struct tcp_connection *c = tcp_connection_take(stack, h->peer_address, h->peer_port, h->port, &listener->policy,
                                                   now_ns);
    if (c == NULL) {
        NET_COUNT(stack, tcp_rx_drop_table_full);       /* nothing to wait for: say so */
        half_open_free(stack, h);
        tcp_reply_reset(stack, r, now_ns);
        return;
    }
    const struct tcp_options agreed = {
        .has_mss = true,
        .mss = h->peer_mss,
        .has_window_scale = h->scaling_on,
        .window_scale = h->peer_scale,
        .sack_permitted = h->sack_on,
        .has_timestamps = h->timestamps_on,
        .timestamp = h->ts_recent,
    };
    c->passive = true;
    c->listener = h->listener;
    c->accept_stamp = stack->tcp.accept_order++;
    c->iss = h->iss;
    c->snd_una = c->snd_nxt = c->snd_end = h->iss + 1;
    c->recover = h->iss;
    c->snd_small_end = c->snd_una;
    c->irs = h->irs;
    c->rcv_nxt = c->rcv_read = c->last_ack_sent = h->irs + 1;
    c->snd_wl1 = r->seq - 1;
    c->syn_resent = h->resends != 0;
    tcp_options_agree(stack, c, &agreed, now_ns);
    c->rcv_adv = c->rcv_nxt + (uint32_t)min_size(h->window, 0xffff);    /* what the SYN,ACK offered */
    if (h->resends == 0 && !h->sent_twice)      /* Karn: which one is acknowledged cannot be told */
        tcp_rtt_measured(c, now_ns - h->sent_ns);
    listener->waiting_count++;
    half_open_free(stack, h);
    tcp_established(stack, c, now_ns);
    NET_COUNT(stack, tcp_accepts);
    tcp_connection_input(stack, c, r, now_ns);
}

static void half_open_input(struct net_stack *stack, struct tcp_half_open *h, struct tcp_received *r, uint64_t now_ns)
{
    const uint32_t left = h->irs + 1, right = left + (uint32_t)min_size(h->window, 0xffff);
    bool in_window = seq_within(r->seq, left, right);

    if ((r->flags & (TCP_SYN | TCP_ACK | TCP_RST)) == TCP_SYN && r->seq == h->irs) {
        if (now_ns >= h->again_ns) {    /* the same SYN again; ours was lost, or is on its way */
            h->again_ns = now_ns + HALF_OPEN_AGAIN_NS;
            h->timer_ns = now_ns + h->timeout_ns;
            h->sent_twice = true;
            syn_ack_send(stack, h, now_ns);
        }
        return;
    }
    if ((r->flags & (TCP_ACK | TCP_RST)) == TCP_ACK && r->ack != h->iss + 1) {
        /* RFC 9293 §3.5.2, group 2; before SEG.SEQ is looked at, as in Linux: a peer with an old connection shall go. */
        NET_COUNT(stack, tcp_rx_drop_bad_ack);
        tcp_reply_reset(stack, r, now_ns);
        return;
    }
    if (h->timestamps_on && r->options.has_timestamps && (r->flags & TCP_RST) == 0
        && seq_lt(r->options.timestamp, h->ts_recent)) {
        NET_COUNT(stack, tcp_rx_drop_paws);
        half_open_challenge(stack, h, r, now_ns);
        return;
    }
    if ((r->flags & TCP_RST) != 0) {    /* RFC 5961 §3.2; a passive open simply goes back to LISTEN */
        if (r->seq == h->irs + 1) {
            NET_COUNT(stack, tcp_rx_resets);
            half_open_free(stack, h);
        } else {
            NET_COUNT(stack, tcp_rx_resets_ignored);
            if (in_window)
                half_open_challenge(stack, h, r, now_ns);
        }
        return;
    }
    bool reaches_in = tcp_received_space(r) != 0 && seq_within(r->seq + tcp_received_space(r) - 1, left, right);
    if (!(in_window || reaches_in) || (r->flags & TCP_SYN) != 0) {
        NET_COUNT(stack, tcp_rx_drop_out_of_window);
        half_open_challenge(stack, h, r, now_ns);
        return;
    }
    if ((r->flags & TCP_ACK) == 0) {
        NET_COUNT(stack, tcp_rx_drop_no_ack);
        return;
    }
    half_open_complete(stack, h, r, now_ns);
}

/* An ACK that finds no half-open connection: if it answers a cookie, there was one. */
static bool cookie_input(struct net_stack *stack, struct tcp_listener *listener, struct tcp_received *r, uint64_t now_ns)
{
    uint32_t what;
    if (now_ns >= stack->tcp.cookies_until_ns || (r->flags & TCP_SYN) != 0 || !cookie_answered(stack, r, now_ns, &what))
        return false;
    if (listener->waiting_count >= listener->backlog) {
        NET_COUNT(stack, tcp_rx_drop_accept_full);      /* whatever the peer sends next may find a place */
        return true;
    }
    NET_COUNT(stack, tcp_rx_cookies);
    struct tcp_half_open *h = half_open_take(stack, tcp_key(r->address, r->peer_port, r->port), now_ns);
    *h = (struct tcp_half_open){
        .listener = (uint8_t)(listener - stack->tcp.listeners),
        .sack_on = (what & COOKIE_SACK) != 0,
        .sent_twice = true,             /* when, nobody knows any more */
        .peer_mss = cookie_mss[what & ~(uint32_t)COOKIE_SACK],
        .our_mss = tcp_mss_offered(stack, &listener->policy),
        .address = stack->interface.address,
        .peer_address = r->address,
        .port = r->port,
        .peer_port = r->peer_port,
        .irs = r->seq - 1,
        .iss = r->ack - 1,
        .window = tcp_receive_buffer_of(stack, &listener->policy),
        .first_sent_ns = now_ns,
        .timer_ns = TCP_NEVER_NS,
    };
    listener->half_open_count++;
    half_open_complete(stack, h, r, now_ns);
    return true;
}

bool tcp_listen_input(struct net_stack *stack, struct tcp_received *r, uint64_t now_ns)
{
    struct tcp_half_open *h = half_open_find(stack, tcp_key(r->address, r->peer_port, r->port));
    if (h != NULL) {
        half_open_input(stack, h, r, now_ns);
        return true;
    }
    struct tcp_listener *listener = tcp_listener_find(stack, r->port);
    if (listener == NULL)
        return false;
    if ((r->flags & TCP_RST) != 0) {
        NET_COUNT(stack, tcp_rx_resets_ignored);        /* first: nothing to reset */
        return true;
    }
    if ((r->flags & TCP_ACK) != 0)      /* second: the caller resets it */
        return cookie_input(stack, listener, r, now_ns);
    if ((r->flags & (TCP_SYN | TCP_FIN)) != TCP_SYN) {
        NET_COUNT(stack, tcp_rx_drop_flags);            /* third and fourth; SYN with FIN is nobody's, as in Linux */
        return true;
    }
    listen_syn(stack, listener, r, now_ns);
    return true;
}

/* ---- Time ---- */

void tcp_listen_tend(struct net_stack *stack, uint64_t now_ns)
{
    struct tcp *tcp = &stack->tcp;
    for (uint32_t i = 0; i < tcp->half_open_used;) {
        struct tcp_half_open *h = &tcp->half_open[i];
        if (h->timer_ns > now_ns) {
            i++;
        } else if (h->resends == SYN_ACK_RESENDS_MAX) {
            NET_COUNT(stack, tcp_half_open_expired);
            half_open_free(stack, h);   /* another takes its place in the table: look there again */
        } else {
            h->resends++;
            h->timeout_ns = h->timeout_ns * 2 < h->timeout_max_ns ? h->timeout_ns * 2 : h->timeout_max_ns;
            h->timer_ns = now_ns + h->timeout_ns;
            NET_COUNT(stack, tcp_tx_resends);
            syn_ack_send(stack, h, now_ns);
            i++;
        }
    }
}

uint64_t tcp_listen_wake_ns(const struct net_stack *stack)
{
    uint64_t wake_ns = TCP_NEVER_NS;
    for (uint32_t i = 0; i < stack->tcp.half_open_used; i++)
        if (stack->tcp.half_open[i].timer_ns < wake_ns)
            wake_ns = stack->tcp.half_open[i].timer_ns;
    return wake_ns;
}

/* Everything half-open on a listener that goes away, or (-1) on all. */
void tcp_listen_forget(struct net_stack *stack, int listener)
{
    struct tcp *tcp = &stack->tcp;
    for (uint32_t i = 0; i < tcp->half_open_used;) {
        if (listener < 0 || tcp->half_open[i].listener == listener)
            half_open_free(stack, &tcp->half_open[i]);
        else
            i++;
    }
}

bool tcp_listen_holds(const struct net_stack *stack, uint64_t key)
{
    return half_open_find((struct net_stack *)stack, key) != NULL;
}
