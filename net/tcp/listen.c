/* Passive opens. RFC 9293 §3.10.7.2 (LISTEN) and §3.10.7.4 for SYN-RECEIVED.
 *
 * A SYN costs an entry of a small table, not a connection: a flood fills the table and takes nothing from open
 * connections. The connection is made when the handshake is complete. In a full table each entry keeps its place for
 * a millisecond, and then gives way in its turn. A SYN that comes too early for a place is dropped before it costs
 * anything. A peer without an entry can still complete the handshake: the sequence number of a SYN,ACK from a full
 * table is a cookie. */
#include "net/tcp/listen.h"

#include "base/time.h"
#include "net/stack_state.h"
#include "net/tcp/challenge.h"
#include "net/tcp/deadline.h"
#include "net/tcp/ecn.h"
#include "net/tcp/frame.h"
#include "net/tcp/handshake.h"
#include "net/tcp/options.h"
#include "net/tcp/policy.h"
#include "net/tcp/rtt.h"
#include "net/tcp/seq.h"
#include "net/tcp/table.h"
#include "net/tcp/window.h"

enum { SYN_ACK_RESENDS_MAX = 5 }; /* Linux: tcp_synack_retries; with 1 s to begin, given up after 63 s */
/* The least time between two answers to a repeated SYN. Linux: tcp_invalid_ratelimit. */
#define HALF_OPEN_AGAIN_NS UINT64_C(500000000)
/* The time that an entry keeps its place in a full table: some round trips of a data centre. With 64 entries at most
 * 64000 SYNs a second are answered, some 2 % of the processor. A client repeats its SYN after 1, 3 and 7 s. In a
 * flood ten times as fast, one of these SYNs more likely than not gets through. */
#define HALF_OPEN_TURN_NS  NS_PER_MS

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
    ASSERT(tcp->half_open_used != 0);
    ASSERT(tcp->listeners[h->listener].half_open_count != 0);
    uint32_t index = (uint32_t)(h - tcp->half_open), last = --tcp->half_open_used;
    ASSERT(index <= last);
    tcp->listeners[h->listener].half_open_count--;
    tcp->half_open[index] = tcp->half_open[last];
    tcp->half_open_keys[index] = tcp->half_open_keys[last];
    tcp->half_open_keys[last] = 0;
}

/* Returns true if an entry is free, or if one may give way now: each keeps its time, and not all give way at once. */
static bool half_open_has_place(const struct tcp *tcp, uint64_t now_ns)
{
    uint32_t count = tcp->capacity.half_open_count;
    return tcp->half_open_used < count
           || (now_ns >= tcp->half_open_next_ns
               && now_ns - tcp->half_open[tcp->half_open_turn % count].first_sent_ns >= HALF_OPEN_TURN_NS);
}

/* Takes an entry for a SYN. In a full table the entries give way in turn. Under a flood that is the oldest entry; a
 * search would cost as much as the rest of a SYN. */
static struct tcp_half_open *half_open_take(struct net_stack *stack, uint64_t key, uint64_t now_ns)
{
    struct tcp *tcp = &stack->tcp;
    uint32_t index = tcp->half_open_used;
    if (index < tcp->capacity.half_open_count) {
        tcp->half_open_used++;
    } else {
        index = tcp->half_open_turn++ % tcp->capacity.half_open_count;
        uint64_t since_ns = now_ns - HALF_OPEN_TURN_NS; /* at most one table of turns is saved up */
        tcp->half_open_next_ns = (tcp->half_open_next_ns > since_ns ? tcp->half_open_next_ns : since_ns)
                                 + HALF_OPEN_TURN_NS / tcp->capacity.half_open_count;
        tcp->listeners[tcp->half_open[index].listener].half_open_count--;
        NET_COUNT(stack, tcp_half_open_evicted);
    }
    tcp->half_open_keys[index] = key;
    return &tcp->half_open[index];
}

/* ---- Cookies: RFC 4987 §3.6 ---- */

/* A cookie has five bits of time, three of options (one of SACK, two of MSS), and 24 bits of proof. No other option is
 * offered with a cookie. A tick of 2^36 ns takes 69 s. A cookie is good for its tick and the next one. */
#define COOKIE_TICK_SHIFT 36
static const uint16_t cookie_mss[] = { TCP_MSS_DEFAULT, 1300, 1440, 1460 };
enum { COOKIE_SACK = 4 };

static uint32_t cookie_make(const struct net_stack *stack, const struct tcp_received *r, uint32_t irs, uint64_t tick,
                            uint32_t options)
{
    const struct secret_tuple tuple = { stack->ip.interface.address, r->address, r->port, r->peer_port };
    uint32_t proof = secret_cookie(&stack->ip.secret, &tuple, irs, tick << 3 | options) & 0xffffff;
    return (uint32_t)tick << 27 | options << 24 | proof;
}

/* Builds the SYN cookie for this SYN. */
static uint32_t cookie_for(const struct net_stack *stack, const struct tcp_received *r, bool sack, uint64_t now_ns)
{
    uint32_t mss_index = 0;
    while (mss_index + 1 < ARRAY_COUNT(cookie_mss) && cookie_mss[mss_index + 1] <= r->options.mss)
        mss_index++;
    return cookie_make(stack, r, r->seq, now_ns >> COOKIE_TICK_SHIFT, mss_index | (sack ? COOKIE_SACK : 0));
}

/* Returns true if this ACK answers a cookie of ours, and the SACK and MSS of the cookie in `options`. */
static bool cookie_answered(const struct net_stack *stack, const struct tcp_received *r, uint64_t now_ns,
                            uint32_t *options)
{
    uint32_t cookie = r->ack - 1;
    *options = cookie >> 24 & 7;
    for (uint64_t tick = now_ns >> COOKIE_TICK_SHIFT, age = 0; age < 2; age++)
        if (cookie == cookie_make(stack, r, r->seq - 1, tick - age, *options))
            return true;
    return false;
}

/* ---- Replies ---- */

/* Begins a reply to this half-open connection. */
static struct tcp_reply half_open_reply(const struct net_stack *stack, const struct tcp_half_open *h)
{
    ASSERT(h->listener < stack->tcp.capacity.listener_count);
    ASSERT(stack->tcp.listeners[h->listener].used);
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
        .link_destination = h->mac,
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
    reply.flags = TCP_SYN | TCP_ACK | (h->ecn_on ? TCP_ECE : 0);
    reply.window = (uint16_t)min_size(h->window, 0xffff); /* RFC 7323 §2.2: not scaled */
    reply.option_bytes = tcp_options_write_syn(reply.options, &options);
    ASSERT(reply.option_bytes <= TCP_OPTION_BYTES_MAX);
    h->sent_ns = now_ns;
    tcp_reply_send(stack, &reply, now_ns);
}

/* Sends a plain ACK of the SYN: RFC 9293's answer to segments that do not fit. */
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
    ASSERT(listener->used);
    const struct tcp_policy *policy = &listener->policy;
    const struct tcp_options *o = &r->options;
    if (listener->waiting_count >= listener->backlog) {
        NET_COUNT(stack, tcp_rx_drop_syn_backlog); /* the peer will ask again */
        return;
    }
    if (!half_open_has_place(&stack->tcp, now_ns)) {
        NET_COUNT(stack, tcp_rx_drop_syn_rate); /* likewise */
        return;
    }
    /* An entry of a full table may give way, so the SYN,ACK carries a cookie. A cookie has no smaller MSS than its
     * table, and cannot keep the number that a TIME-WAIT asks for. */
    bool cookie = stack->tcp.half_open_used == stack->tcp.capacity.half_open_count && !r->replaces_time_wait
                  && (!o->has_mss || o->mss >= cookie_mss[0]);
    struct tcp_half_open *h = half_open_take(stack, tcp_key(r->address, r->peer_port, r->port), now_ns);
    const struct secret_tuple tuple = { stack->ip.interface.address, r->address, r->port, r->peer_port };
    uint32_t iss = cookie ? cookie_for(stack, r, policy->sack && o->sack_permitted, now_ns)
                          : secret_isn(&stack->ip.secret, &tuple, now_ns);
    if (cookie) {
        NET_COUNT(stack, tcp_tx_cookies);
        stack->tcp.cookies_until_ns = now_ns + (UINT64_C(2) << COOKIE_TICK_SHIFT);
    }
    if (r->replaces_time_wait && seq_lt(iss, r->isn_least))
        iss = r->isn_least; /* no segment of the old connection may fit the new one */
    *h = (struct tcp_half_open){
        .listener = (uint8_t)(listener - stack->tcp.listeners),
        .timestamps_on = policy->timestamps && o->has_timestamps && !cookie,
        .sack_on = policy->sack && o->sack_permitted,
        .scaling_on = policy->window_scaling && o->has_window_scale && !cookie,
        .ecn_on = policy->ecn && (r->flags & (TCP_ECE | TCP_CWR)) == (TCP_ECE | TCP_CWR) && !cookie,
        .peer_scale = o->window_scale,
        .our_scale = tcp_window_scale_of(stack, policy),
        .peer_mss = o->has_mss ? o->mss : TCP_MSS_DEFAULT,
        .our_mss = tcp_mss_offered(stack, policy),
        .address = stack->ip.interface.address,
        .peer_address = r->address,
        .port = r->port,
        .peer_port = r->peer_port,
        .irs = r->seq,
        .iss = iss,
        .ts_recent = o->timestamp,
        .timestamp_offset = secret_timestamp_offset(&stack->ip.secret, &tuple),
        .window = tcp_receive_buffer_of(stack, policy),
        .first_sent_ns = now_ns,
        .timeout_ns = policy->rto_initial_us * NS_PER_US,
        .timeout_max_ns = policy->rto_max_us * NS_PER_US,
    };
    ASSERT(r->packet->link_source != NULL); /* the frame is still borrowed */
    memcpy(h->mac, r->packet->link_source, sizeof h->mac);
    h->timer_ns = now_ns + h->timeout_ns;
    listener->half_open_count++;
    ASSERT(listener->half_open_count <= stack->tcp.half_open_used);
    tcp_timer_due_at(stack, h->timer_ns);
    syn_ack_send(stack, h, now_ns);
}

/* ---- SYN-RECEIVED ---- */

/* Makes the connection of a half-open one whose SYN,ACK `r` acknowledges. NULL: not now, or no room. */
static struct tcp_connection *half_open_complete(struct net_stack *stack, struct tcp_half_open *h,
                                                 const struct tcp_received *r, uint64_t now_ns)
{
    struct tcp_listener *listener = &stack->tcp.listeners[h->listener];
    ASSERT(listener->half_open_count != 0);
    if (listener->waiting_count >= listener->backlog) {
        /* The ACK is forgotten, and the SYN,ACK sent again later, as Linux does. An RST would tell a client that nobody
         * listens, while the application is only slow to accept. */
        NET_COUNT(stack, tcp_rx_drop_accept_full);
        return NULL;
    }
    /* The offers of the SYN,ACK hold, even if the listener's policy has changed since. */
    struct tcp_policy policy = listener->policy;
    policy.timestamps = h->timestamps_on;
    policy.sack = h->sack_on;
    policy.window_scaling = h->scaling_on;
    policy.window_scale = h->our_scale;
    struct tcp_connection *c = tcp_connection_take(stack, h->peer_address, h->peer_port, h->port, &policy, now_ns);
    if (c == NULL) {
        NET_COUNT(stack, tcp_rx_drop_table_full); /* nothing to wait for: report by RST */
        half_open_free(stack, h);
        tcp_reply_reset(stack, r, now_ns);
        return NULL;
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
    tcp_iss_set(c, h->iss);
    c->snd_una = c->snd_nxt; /* r acknowledges the SYN */
    tcp_irs_set(c, h->irs, h->window);
    c->last_ack_sent = c->rcv_nxt;
    tcp_window_begin(c, 0, r->seq); /* the window of `r` is yet to be taken */
    c->syn_resent = h->resends != 0;
    tcp_options_agree(stack, c, &agreed, now_ns);
    tcp_ecn_agree(c, h->ecn_on);
    /* Karn: an ACK of a SYN,ACK sent twice may be of either copy. An overdue timer: a stall of our own loop. */
    if (h->resends == 0 && !h->sent_twice && h->timer_ns > now_ns)
        tcp_rtt_measured(c, now_ns - h->sent_ns);
    /* The SYN's MAC address makes a request needless: many clients may come at once, and few segments can wait for
     * ARP. */
    uint32_t next_hop;
    if (ipv4_next_hop(&stack->ip, h->peer_address, &next_hop) && next_hop == h->peer_address)
        arp_answered(&stack->ip, next_hop, h->mac, now_ns);
    listener->waiting_count++;
    ASSERT(listener->waiting_count <= listener->backlog);
    half_open_free(stack, h);
    tcp_established(stack, c, now_ns);
    NET_COUNT(stack, tcp_accepts);
    return c;
}

/* Takes a segment of a half-open connection. Returns the connection that the segment completes, or NULL. */
static struct tcp_connection *half_open_input(struct net_stack *stack, struct tcp_half_open *h,
                                              const struct tcp_received *r, uint64_t now_ns)
{
    const uint32_t left = h->irs + 1, right = left + min_u32(h->window, 0xffff);
    bool in_window = seq_within(r->seq, left, right);

    if ((r->flags & (TCP_SYN | TCP_ACK | TCP_RST)) == TCP_SYN && r->seq == h->irs) {
        /* The SYN came again: our SYN,ACK was lost, or is on its way. RFC 7323 §4.3 (2): the answer echoes the latest
         * time, as in FreeBSD, or the peer measures the wait for the lost SYN,ACK as its first round trip. */
        if (r->options.has_timestamps && seq_gt(r->options.timestamp, h->ts_recent))
            h->ts_recent = r->options.timestamp;
        if (now_ns >= h->again_ns) {
            h->again_ns = now_ns + HALF_OPEN_AGAIN_NS;
            h->timer_ns = now_ns + h->timeout_ns;
            h->sent_twice = true;
            syn_ack_send(stack, h, now_ns);
        }
        return NULL;
    }
    if ((r->flags & (TCP_ACK | TCP_RST)) == TCP_ACK && r->ack != h->iss + 1) {
        /* RFC 9293 §3.5.2, group 2. Tested before SEG.SEQ, as in Linux: a peer with an old connection shall be
         * reset. */
        NET_COUNT(stack, tcp_rx_drop_bad_ack);
        tcp_reply_reset(stack, r, now_ns);
        return NULL;
    }
    if (h->timestamps_on && r->options.has_timestamps && (r->flags & TCP_RST) == 0
        && seq_lt(r->options.timestamp, h->ts_recent)) {
        NET_COUNT(stack, tcp_rx_drop_paws);
        half_open_challenge(stack, h, r, now_ns);
        return NULL;
    }
    if ((r->flags & TCP_RST) != 0) { /* RFC 5961 §3.2; a passive open simply goes back to LISTEN */
        if (r->seq == h->irs + 1) {
            NET_COUNT(stack, tcp_rx_resets);
            half_open_free(stack, h);
        } else {
            NET_COUNT(stack, tcp_rx_resets_ignored);
            if (in_window)
                half_open_challenge(stack, h, r, now_ns);
        }
        return NULL;
    }
    bool reaches_in = tcp_received_space(r) != 0 && seq_within(r->seq + tcp_received_space(r) - 1, left, right);
    if (!(in_window || reaches_in) || (r->flags & TCP_SYN) != 0) {
        NET_COUNT(stack, tcp_rx_drop_out_of_window);
        half_open_challenge(stack, h, r, now_ns);
        return NULL;
    }
    if ((r->flags & TCP_ACK) == 0) {
        NET_COUNT(stack, tcp_rx_drop_no_ack);
        return NULL;
    }
    return half_open_complete(stack, h, r, now_ns);
}

/* Takes an ACK that finds no half-open connection. If the ACK answers a cookie, there was one, and the connection is in
 * `completed`. Returns false if not. */
static bool cookie_input(struct net_stack *stack, struct tcp_listener *listener, const struct tcp_received *r,
                         uint64_t now_ns, struct tcp_connection **completed)
{
    uint32_t options;
    if (now_ns >= stack->tcp.cookies_until_ns || (r->flags & TCP_SYN) != 0
        || !cookie_answered(stack, r, now_ns, &options))
        return false;
    if (listener->waiting_count >= listener->backlog) {
        NET_COUNT(stack, tcp_rx_drop_accept_full); /* a later segment of the peer may find a place */
        return true;
    }
    NET_COUNT(stack, tcp_rx_cookies);
    ASSERT((options & ~(uint32_t)COOKIE_SACK) < ARRAY_COUNT(cookie_mss));
    struct tcp_half_open *h = half_open_take(stack, tcp_key(r->address, r->peer_port, r->port), now_ns);
    *h = (struct tcp_half_open){
        .listener = (uint8_t)(listener - stack->tcp.listeners),
        .sack_on = (options & COOKIE_SACK) != 0,
        .sent_twice = true, /* the time of the SYN,ACK is not known any more */
        .peer_mss = cookie_mss[options & ~(uint32_t)COOKIE_SACK],
        .our_mss = tcp_mss_offered(stack, &listener->policy),
        .address = stack->ip.interface.address,
        .peer_address = r->address,
        .port = r->port,
        .peer_port = r->peer_port,
        .irs = r->seq - 1,
        .iss = r->ack - 1,
        .window = tcp_receive_buffer_of(stack, &listener->policy),
        .first_sent_ns = now_ns,
        .timer_ns = TCP_NEVER_NS,
    };
    memcpy(h->mac, r->packet->link_source, sizeof h->mac);
    listener->half_open_count++;
    *completed = half_open_complete(stack, h, r, now_ns);
    return true;
}

bool tcp_listen_input(struct net_stack *stack, const struct tcp_received *r, uint64_t now_ns,
                      struct tcp_connection **completed)
{
    ASSERT(r->port != 0);
    *completed = NULL;
    struct tcp_half_open *h = half_open_find(stack, tcp_key(r->address, r->peer_port, r->port));
    if (h != NULL) {
        *completed = half_open_input(stack, h, r, now_ns);
        return true;
    }
    struct tcp_listener *listener = tcp_listener_find(stack, r->port);
    if (listener == NULL)
        return false;
    if ((r->flags & TCP_RST) != 0) {
        NET_COUNT(stack, tcp_rx_resets_ignored); /* first: nothing to reset */
        return true;
    }
    if ((r->flags & TCP_ACK) != 0) /* second: the caller resets it */
        return cookie_input(stack, listener, r, now_ns, completed);
    /* Third and fourth. SYN with FIN is dropped, as Linux does: no host sends it, but scanners do to pass filters. */
    if ((r->flags & (TCP_SYN | TCP_FIN)) != TCP_SYN) {
        NET_COUNT(stack, tcp_rx_drop_flags);
        return true;
    }
    listen_syn(stack, listener, r, now_ns);
    return true;
}

/* ---- Time ---- */

void tcp_listen_poll(struct net_stack *stack, uint64_t now_ns)
{
    struct tcp *tcp = &stack->tcp;
    for (uint32_t i = 0; i < tcp->half_open_used;) {
        struct tcp_half_open *h = &tcp->half_open[i];
        ASSERT(h->resends <= SYN_ACK_RESENDS_MAX);
        if (h->timer_ns > now_ns) {
            i++;
        } else if (h->resends == SYN_ACK_RESENDS_MAX && !time_stood_still(h->timer_ns, now_ns)) {
            NET_COUNT(stack, tcp_half_open_expired);
            half_open_free(stack, h); /* another entry takes this index: test the index again */
        } else {
            if (h->resends < SYN_ACK_RESENDS_MAX)
                h->resends++;
            h->timeout_ns = h->timeout_ns * 2 < h->timeout_max_ns ? h->timeout_ns * 2 : h->timeout_max_ns;
            h->timer_ns = now_ns + h->timeout_ns;
            NET_COUNT(stack, tcp_tx_resends);
            syn_ack_send(stack, h, now_ns);
            i++;
        }
    }
}

uint64_t tcp_listen_next_deadline_ns(const struct net_stack *stack)
{
    uint64_t deadline_ns = TCP_NEVER_NS;
    for (uint32_t i = 0; i < stack->tcp.half_open_used; i++)
        if (stack->tcp.half_open[i].timer_ns < deadline_ns)
            deadline_ns = stack->tcp.half_open[i].timer_ns;
    return deadline_ns;
}

/* Frees every half-open connection of a listener that goes away, or of all listeners (-1). */
void tcp_listen_forget(struct net_stack *stack, int listener)
{
    struct tcp *tcp = &stack->tcp;
    for (uint32_t i = 0; i < tcp->half_open_used;) {
        if (listener < 0 || tcp->half_open[i].listener == listener)
            half_open_free(stack, &tcp->half_open[i]);
        else
            i++;
    }
    ASSERT(listener >= 0 || tcp->half_open_used == 0);
}

bool tcp_listen_holds(const struct net_stack *stack, uint64_t key)
{
    const struct tcp *tcp = &stack->tcp;
    for (uint32_t i = 0; i < tcp->half_open_used; i++)
        if (tcp->half_open_keys[i] == key)
            return true;
    return false;
}
