/* Calls between the files of TCP; see net/tcp_connection.h for which does what. */
#pragma once

#include "net/stack_state.h"
#include "net/tcp_seq.h"

/* tcp_input.c */
void tcp_input(struct net_stack *stack, const struct ipv4_packet *packet, uint64_t now_ns);
void tcp_connection_input(struct net_stack *stack, struct tcp_connection *c, struct tcp_received *r, uint64_t now_ns);
void tcp_challenge(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r, uint64_t now_ns);
bool tcp_challenge_allowed(struct tcp_challenges *sent, const struct tcp_received *r, uint64_t now_ns);

/* tcp_fast.c: true if the frame was the predicted segment and has been taken; else nothing has changed. */
bool tcp_fast_receive(struct net_stack *stack, const struct frame *frame, uint64_t now_ns);
void tcp_fast_count(struct net_stack *stack);   /* brings the counters up to date */
/* The frame of `bytes` (or more) of the message area's payload `from` on, made as far as it can be. */
void tcp_fast_prepare(struct net_stack *stack, struct tcp_connection *c, uint32_t from, uint32_t bytes);
/* Sends it, or whatever else stands in the area, the long way. False: not now. */
bool tcp_message_send(struct net_stack *stack, struct tcp_connection *c, uint32_t from, uint32_t bytes,
                      uint64_t now_ns);

/* tcp_options.c: false if an option's length is impossible; what stood before it counts. */
bool tcp_options_parse(struct tcp_options *options, const uint8_t *at, uint32_t bytes);
/* The options of a SYN in Linux's order: MSS, SACK permitted, timestamps, NOP, window scale. Returns their bytes. */
struct tcp_syn_options {
    uint16_t mss;
    bool sack, timestamps, scaling;
    uint8_t scale;
    uint32_t timestamp, timestamp_echo;
};
uint32_t tcp_options_write_syn(uint8_t *at, const struct tcp_syn_options *options);

/* tcp_ack.c: false if the segment is to be dropped. */
bool tcp_ack_accept(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r, uint64_t now_ns);
void tcp_rtt_measured(struct tcp_connection *c, uint64_t rtt_ns);
static inline void tcp_window_set(struct tcp_connection *c, uint32_t window, uint32_t seq, uint32_t ack)
{
    c->snd_wnd = window;
    c->snd_wl1 = seq;
    c->snd_wl2 = ack;
    if (window > c->snd_wnd_max)
        c->snd_wnd_max = window;
}
/* RFC 9293 §3.10.7.4: newer segments only, so that an old one does not bring back an old window. */
static inline void tcp_window_take(struct tcp_connection *c, uint32_t window, uint32_t seq, uint32_t ack)
{
    if (seq_lt(c->snd_wl1, seq) || (c->snd_wl1 == seq && seq_le(c->snd_wl2, ack)))
        tcp_window_set(c, window, seq, ack);
}

/* tcp_receive.c */
void tcp_receive_payload(struct net_stack *stack, struct tcp_connection *c, struct tcp_received *r, uint64_t now_ns);
void tcp_receive_duplicate(struct net_stack *stack, struct tcp_connection *c, uint32_t left, uint32_t right);
bool tcp_receive_window_worth_telling(const struct tcp_connection *c);
uint32_t tcp_receive_sack_blocks(const struct tcp_connection *c, struct tcp_range *blocks, uint32_t count_max);
static inline uint32_t tcp_receive_unread(const struct tcp_connection *c)
{
    return c->rcv_nxt - c->rcv_read - (c->fin_received ? 1 : 0);
}
static inline uint32_t tcp_receive_room(const struct tcp_connection *c)
{
    uint32_t unread = tcp_receive_unread(c);
    return unread < c->rcv_buffer_bytes ? c->rcv_buffer_bytes - unread : 0;
}
/* The payload of the peer's full segments: the options that each has to carry are taken off. */
static inline uint32_t tcp_receive_mss(const struct tcp_connection *c)
{
    return c->path_mtu_bytes - IPV4_HEADER_BYTES_MIN - TCP_HEADER_BYTES_MIN
        - (c->timestamps_on ? TCP_TIMESTAMPS_ALIGNED_BYTES : 0);
}
/* What rcv_adv promises beyond rcv_nxt. */
static inline uint32_t tcp_receive_window(const struct tcp_connection *c)
{
    return seq_gt(c->rcv_adv, c->rcv_nxt) ? c->rcv_adv - c->rcv_nxt : 0;
}
static inline bool tcp_receive_window_may_move(const struct tcp_connection *c, uint32_t window)
{
    uint32_t room = tcp_receive_room(c);
    uint32_t step = (uint32_t)min_size((c->rcv_buffer_bytes + 1) / 2, tcp_receive_mss(c));
    return room > window && room - window >= step;
}
/* The window field of a segment that leaves now. Moves rcv_adv right if it should; nearly always the edge stays, and the
 * field can name it. */
uint32_t tcp_receive_window_move(struct tcp_connection *c);
static inline uint32_t tcp_receive_window_update(struct tcp_connection *c)
{
    uint32_t window = tcp_receive_window(c);
    return c->rcv_scale == 0 && !tcp_receive_window_may_move(c, window) ? window : tcp_receive_window_move(c);
}

/* tcp_output.c */
void tcp_output(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
bool tcp_resend(struct net_stack *stack, struct tcp_connection *c, struct tcp_segment *s, uint64_t now_ns);
void tcp_output_sent(struct net_stack *stack, struct tcp_connection *c, uint32_t bytes, uint64_t now_ns);
void tcp_output_tail(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
bool tcp_output_waits_for_window(const struct tcp_connection *c);
void tcp_ack_send_now(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
uint32_t tcp_send_mss(const struct tcp_connection *c);
void tcp_probe_send(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);

/* tcp_frame.c */
struct tcp_frame {
    uint32_t seq;
    uint8_t flags;
    const struct tcp_segment *segment;      /* where the payload is; NULL: none */
    uint32_t skip, bytes;                   /* which part of it */
};
bool tcp_frame_send(struct net_stack *stack, struct tcp_connection *c, const struct tcp_frame *frame, uint64_t now_ns);
/* Sends the payload that lies in `buffer` at `payload`, its head written before it. The stack keeps its hold. */
bool tcp_frame_send_held(struct net_stack *stack, struct tcp_connection *c, struct tx_buffer *buffer, uint8_t *payload,
                         uint32_t bytes, uint32_t seq, uint8_t flags, uint64_t now_ns);
void tcp_frame_head_prepare(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
void tcp_frame_sent(struct tcp_connection *c, uint64_t now_ns);     /* an ACK of rcv_nxt has left */
/* A segment that belongs to no connection's window: RST, and ACKs of TIME-WAIT and of half-open connections. */
struct tcp_reply {
    uint32_t address, peer_address;
    uint16_t port, peer_port;
    uint32_t seq, ack;
    uint8_t flags;
    uint8_t ttl, tos;               /* ttl 0: the default */
    uint16_t window;
    uint32_t option_bytes;
    uint8_t options[TCP_OPTION_BYTES_MAX];
};
bool tcp_reply_send(struct net_stack *stack, const struct tcp_reply *reply, uint64_t now_ns);
void tcp_reply_reset(struct net_stack *stack, const struct tcp_received *r, uint64_t now_ns);
/* Whether its packets leave without "don't fragment". */
static inline bool tcp_may_be_cut(const struct tcp_connection *c) { return !c->policy.path_mtu || c->fragment_ok; }
/* A tick each millisecond, as Linux's: RFC 7323 §5.4 asks for 1 ms to 1 s. */
static inline uint32_t tcp_timestamp_clock(uint64_t now_ns, uint32_t offset)
{
    return (uint32_t)(now_ns / 1000000) + offset;
}
void tcp_reply_add_timestamps(struct tcp_reply *reply, uint32_t value, uint32_t echo);

/* tcp_sendqueue.c */
static inline struct tcp_segment *tcp_sendqueue_at(const struct tcp_connection *c, uint32_t index)
{
    return &c->segments[(c->segment_head + index) & c->segment_mask];
}
static inline bool tcp_sendqueue_full(const struct tcp_connection *c) { return c->segment_count > c->segment_mask; }
struct tcp_segment *tcp_sendqueue_push(struct tcp_connection *c, uint32_t seq, uint16_t bytes, uint8_t flags,
                                       uint64_t now_ns);
void tcp_sendqueue_pop(struct net_stack *stack, struct tcp_connection *c);
void tcp_sendqueue_trim(struct tcp_connection *c, uint32_t ack);    /* the front is acknowledged up to there */
bool tcp_sendqueue_split(struct tcp_connection *c, uint32_t index, uint32_t bytes);
void tcp_sendqueue_mark(struct tcp_connection *c, struct tcp_segment *s, uint8_t set, uint8_t clear);
void tcp_sendqueue_clear(struct net_stack *stack, struct tcp_connection *c);
uint32_t tcp_in_flight(const struct tcp_connection *c);

/* tcp_recovery.c */
struct tcp_delivery {               /* what one ACK told */
    uint32_t acked_bytes;           /* cumulatively */
    uint32_t delivered_bytes;       /* and newly SACKed */
    uint32_t lost_bytes;            /* newly believed lost */
    uint32_t dsack_end;
    bool dsack;
    bool sacked;
    bool advanced;
    bool duplicate;                 /* by the rules of RFC 5681 §2 */
    bool limited;                   /* the congestion window was what held us back before it */
};
void tcp_rack_delivered(struct tcp_connection *c, const struct tcp_segment *s, const struct tcp_received *r,
                        uint64_t now_ns);
void tcp_sack_accept(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r,
                     struct tcp_delivery *d, uint64_t now_ns);
void tcp_recovery_after_ack(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r,
                            struct tcp_delivery *d, uint64_t now_ns);
void tcp_recovery_timeout(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
void tcp_recovery_reorder_timeout(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
void tcp_tail_probe_send(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
void tcp_recovery_sent(struct tcp_connection *c, uint32_t bytes);

/* tcp_timer.c */
void tcp_rto_restart(struct tcp_connection *c, uint64_t now_ns);
void tcp_timer_set(struct net_stack *stack, struct tcp_connection *c, enum tcp_timer timer, uint64_t at_ns);
void tcp_timer_stop(struct tcp_connection *c);
void tcp_keepalive_start(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
void tcp_timer_rearm(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
static inline void tcp_timer_due_at(struct net_stack *stack, uint64_t at_ns)
{
    if (at_ns < stack->tcp.due_ns)
        stack->tcp.due_ns = at_ns;
}
void tcp_tend(struct net_stack *stack, uint64_t now_ns);
uint64_t tcp_wake_ns(const struct net_stack *stack);

/* tcp_table.c */
size_t tcp_bytes(const struct net_capacity *capacity);
void tcp_init(struct net_stack *stack, const struct net_config *config, uint8_t *memory);
struct tcp_connection *tcp_find(const struct net_stack *stack, uint32_t peer_address, uint16_t peer_port,
                                uint16_t port);
struct tcp_connection *tcp_connection_of(const struct net_stack *stack, int connection);    /* NULL: no such one */
struct tcp_connection *tcp_connection_take(struct net_stack *stack, uint32_t peer_address, uint16_t peer_port,
                                           uint16_t port, const struct tcp_policy *policy, uint64_t now_ns);
void tcp_connection_end(struct net_stack *stack, struct tcp_connection *c, enum tcp_result why);
void tcp_connection_free(struct net_stack *stack, struct tcp_connection *c);
void tcp_listener_left(struct net_stack *stack, struct tcp_connection *c);
void tcp_address_lost(struct net_stack *stack);

/* tcp_policy.c */
uint32_t tcp_receive_buffer_of(const struct net_stack *stack, const struct tcp_policy *policy);
uint8_t tcp_window_scale_of(const struct net_stack *stack, const struct tcp_policy *policy);
uint16_t tcp_mss_offered(const struct net_stack *stack, const struct tcp_policy *policy);

/* tcp_open.c */
void tcp_options_agree(struct net_stack *stack, struct tcp_connection *c, const struct tcp_options *o,
                       uint64_t now_ns);
void tcp_established(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
void tcp_syn_send(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);

/* tcp_message.c: net/transport.h's messages. NULL, false: not now. The area begins behind the longest head; its last bytes
 * still fit the buffer. */
enum { TCP_MESSAGE_OFFSET = sizeof(struct tcp_head_wire) };
uint8_t *tcp_message(struct net_stack *stack, struct tcp_connection *c);
/* What tcp_message_send cannot send as it stands. */
bool tcp_message_send_long(struct net_stack *stack, struct tcp_connection *c, uint32_t from, uint32_t bytes,
                           uint64_t now_ns);
void tcp_message_sent(struct net_stack *stack, struct tcp_connection *c, uint32_t bytes, uint64_t now_ns);

/* Payload in order, of the long way and of the fast path (tcp_receive.c). RFC 9293 §3.8.6.3: an ACK for every second
 * full-sized segment, for the rest after a delay. */
void tcp_receive_store(struct tcp_connection *c, uint32_t seq, const uint8_t *data, uint32_t bytes);
void tcp_receive_gap_filled(struct net_stack *stack, struct tcp_connection *c, uint32_t bytes);
static inline void tcp_ack_quicken(struct tcp_connection *c)
{
    if (c->ack_adaptive) {
        c->policy.ack = TCP_ACK_QUICK;
        c->ack_quick_left = TCP_ACK_QUICK_COUNT;
    }
}
static inline void tcp_ack_slow_down(struct tcp_connection *c)
{
    if (c->ack_adaptive)
        c->policy.ack = TCP_ACK_DELAYED;
}
static inline void tcp_ack_schedule(struct net_stack *stack, struct tcp_connection *c, uint32_t bytes, uint64_t now_ns)
{
    if (bytes > c->rcv_mss)
        c->rcv_mss = (uint16_t)min_size(bytes, UINT16_MAX);
    c->ack_unsent_bytes += bytes;
    if (__builtin_expect(c->policy.ack == TCP_ACK_QUICK, 1) || c->ack_unsent_bytes >= 2u * c->rcv_mss) {
        c->ack_now = true;
        tcp_timer_due_at(stack, 0);
    } else if (c->ack_timer_ns == TCP_NEVER_NS) {
        c->ack_timer_ns = now_ns + c->policy.ack_delay_us * UINT64_C(1000);
        tcp_timer_due_at(stack, c->ack_timer_ns);
    }
}
static inline void tcp_receive_in_order(struct net_stack *stack, struct tcp_connection *c, const uint8_t *data,
                                        uint32_t bytes, uint64_t now_ns)
{
    bool lends = c->direct & (stack->lent.connection < 0) & (c->rcv_read == c->rcv_nxt);
    if (__builtin_expect(lends, 1)) {
        stack->lent = (struct net_lent){ c->index, data, bytes };
        c->rcv_read += bytes;
    } else {
        tcp_receive_store(c, c->rcv_nxt, data, bytes);
        stack->tcp.changed = true;
    }
    c->rcv_nxt += bytes;
    c->bytes_received += bytes;
    if (c->range_count != 0)            /* RFC 5681 §4.2: at once when it fills a gap */
        tcp_receive_gap_filled(stack, c, bytes);
    tcp_ack_schedule(stack, c, bytes, now_ns);
}

/* tcp_stream.c */
uint32_t tcp_ring_write(struct net_stack *stack, struct tcp_connection *c, const void *data, size_t bytes,
                        uint64_t now_ns);
void tcp_reset_send(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);

/* tcp_listen.c */
struct tcp_listener *tcp_listener_find(const struct net_stack *stack, uint16_t port);   /* NULL: nobody listens */
bool tcp_listen_input(struct net_stack *stack, struct tcp_received *r, uint64_t now_ns);
void tcp_listen_forget(struct net_stack *stack, int listener);     /* -1: of all listeners */
bool tcp_listen_holds(const struct net_stack *stack, uint64_t key);
void tcp_listen_tend(struct net_stack *stack, uint64_t now_ns);
uint64_t tcp_listen_wake_ns(const struct net_stack *stack);

/* tcp_time_wait.c */
void tcp_time_wait_enter(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
/* True: the segment was dealt with. False: there is no such connection, or it has given way to a SYN. */
bool tcp_time_wait_input(struct net_stack *stack, struct tcp_received *r, uint64_t now_ns);
bool tcp_time_wait_holds(const struct net_stack *stack, uint64_t key);
void tcp_time_wait_tend(struct net_stack *stack, uint64_t now_ns);
uint64_t tcp_time_wait_wake_ns(const struct net_stack *stack);

/* tcp_path.c: what earlier connections have found out of the path, for one that is made. */
void tcp_path_recall(const struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
/* An ICMP error quotes one of our segments. */
void tcp_icmp_error(struct net_stack *stack, uint8_t type, uint8_t code, uint16_t next_hop_mtu,
                    const struct ipv4_wire *quoted, const uint8_t *quoted_transport, uint64_t now_ns);
/* A neighbour's address is known, has changed, or cannot be had. */
void tcp_neighbour_changed(struct net_stack *stack, uint32_t next_hop, const uint8_t mac[NETDEV_MAC_BYTES]);
bool tcp_neighbour_in_use(const struct net_stack *stack, uint32_t next_hop);
void tcp_neighbour_failed(struct net_stack *stack, uint32_t next_hop, uint64_t now_ns);
