/* Calls between the files of TCP; see net/tcp/connection.h for which does what.
 *
 * A call that takes input, runs a timer or ends a connection may free the control block: tcp_connection_end does so if
 * the application has given the connection back. The caller then tests c->used before it touches the connection again.
 * The block itself stays in the table until another connection takes it. */
#pragma once

#include "base/time.h"
#include "net/stack_state.h"
#include "net/tcp/seq.h"

/* ---- input.c ---- */

void tcp_input(struct net_stack *stack, const struct ipv4_packet *packet, uint64_t now_ns);
/* Takes a segment of a connection, and may change the segment's fields. May end the connection. */
void tcp_connection_input(struct net_stack *stack, struct tcp_connection *c, struct tcp_received *r, uint64_t now_ns);
/* Returns the time of the latest segment with payload. The fast path, whose segments all have payload, stores
 * last_received_ns alone. */
static inline uint64_t tcp_data_received_ns(const struct tcp_connection *c)
{
    return c->last_received_ns != c->bare_received_ns ? c->last_received_ns : c->data_received_ns;
}
/* Sends a challenge ACK within its limits (RFC 5961 §7). */
void tcp_challenge(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r, uint64_t now_ns);
bool tcp_challenge_allowed(struct tcp_challenges *sent, const struct tcp_received *r, uint64_t now_ns);

/* ---- fast.c ---- */

/* Takes the predicted segment. Returns true if the frame was that segment and has been taken; else nothing has
 * changed. */
bool tcp_fast_receive(struct net_stack *stack, const struct frame *frame, uint64_t now_ns);
void tcp_fast_count(struct net_stack *stack); /* brings the counters up to date */
/* Prepares the frame of the next message as far as possible: `bytes` or more of the message area's payload, from
 * `from` on. */
void tcp_fast_prepare(struct net_stack *stack, struct tcp_connection *c, uint32_t from, uint32_t bytes);
/* Sends the prepared message, or on the slow path another message in the area. Returns false if not now. */
bool tcp_message_send(struct net_stack *stack, struct tcp_connection *c, uint32_t from, uint32_t bytes,
                      uint64_t now_ns);

/* ---- options.c ---- */

/* Reads the options of a segment. Returns false if an option's length is impossible; the options before it count. */
bool tcp_options_parse(struct tcp_options *options, const uint8_t *field, uint32_t bytes);
/* The options of a SYN in Linux's order: MSS, SACK permitted, timestamps, NOP, window scale. */
struct tcp_syn_options {
    uint16_t mss;
    bool sack, timestamps, scaling;
    uint8_t scale;
    uint32_t timestamp, timestamp_echo;
};
/* Writes the options of a SYN. Returns their bytes. */
uint32_t tcp_options_write_syn(uint8_t *at, const struct tcp_syn_options *options);

/* ---- ack.c ---- */

/* Processes the acknowledgement of a segment. Returns false if the segment is to be dropped. */
bool tcp_ack_accept(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r, uint64_t now_ns);
void tcp_rtt_measured(struct tcp_connection *c, uint64_t rtt_ns);
void tcp_rtt_sample(struct tcp_connection *c, const struct tcp_received *r, bool resent, uint64_t sent_ns,
                    uint64_t now_ns);
void tcp_rtt_min_take(struct tcp_connection *c, uint64_t rtt_ns, uint64_t now_ns);
/* Returns true if `edge`, an earlier snd_nxt, has not been acknowledged. A comparison with snd_una alone would be wrong
 * once 2^31 bytes have followed the edge. */
static inline bool tcp_edge_in_flight(const struct tcp_connection *c, uint32_t edge)
{
    return seq_within(edge - 1, c->snd_una, c->snd_nxt);
}
static inline void tcp_window_set(struct tcp_connection *c, uint32_t window, uint32_t seq, uint32_t ack)
{
    c->snd_wnd = window;
    c->snd_wl1 = seq;
    c->snd_wl2 = ack;
    if (window > c->snd_wnd_max)
        c->snd_wnd_max = window;
}
/* RFC 9293 §3.10.7.4: Takes the window of a newer segment; an old segment must not bring back an old window. */
static inline void tcp_window_take(struct tcp_connection *c, uint32_t window, uint32_t seq, uint32_t ack)
{
    if (seq_lt(c->snd_wl1, seq) || (c->snd_wl1 == seq && seq_le(c->snd_wl2, ack)))
        tcp_window_set(c, window, seq, ack);
}

/* ---- receive.c ---- */

/* Takes the text and the FIN of a segment that is acceptable. May end the connection, in TIME-WAIT. */
void tcp_receive_payload(struct net_stack *stack, struct tcp_connection *c, struct tcp_received *r, uint64_t now_ns);
void tcp_receive_duplicate(struct net_stack *stack, struct tcp_connection *c, uint32_t left, uint32_t right);
bool tcp_receive_window_worth_reporting(const struct tcp_connection *c);
struct tcp_range tcp_ranges_repeated(const struct tcp_connection *c, struct tcp_range added);
bool tcp_ranges_add(struct tcp_connection *c, struct tcp_range added);
void tcp_ranges_absorb(struct tcp_connection *c);
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

/* Returns the bytes of the options that each segment of the connection carries. */
static inline uint32_t tcp_options_bytes_each(const struct tcp_connection *c)
{
    return c->timestamps_on ? (uint32_t)TCP_TIMESTAMPS_ALIGNED_BYTES : 0;
}

/* Returns the payload of the peer's full segments, without the options that each segment carries. */
static inline uint32_t tcp_receive_mss(const struct tcp_connection *c)
{
    return (uint32_t)c->path_mtu_bytes - IPV4_HEADER_BYTES_MIN - TCP_HEADER_BYTES_MIN - tcp_options_bytes_each(c);
}
/* Returns the bytes that rcv_adv promises beyond rcv_nxt. */
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
/* Returns the window field of a segment that leaves now. Moves rcv_adv right if it should move; nearly always the
 * edge stays. */
uint32_t tcp_receive_window_move(struct tcp_connection *c);
static inline uint32_t tcp_receive_window_update(struct tcp_connection *c)
{
    uint32_t window = tcp_receive_window(c);
    return c->rcv_scale == 0 && !tcp_receive_window_may_move(c, window) ? window : tcp_receive_window_move(c);
}

/* ---- output.c ---- */

/* Returns CWR if new data shall report to the peer that our window has been reduced. RFC 3168 §6.1.2. */
static inline uint8_t tcp_cwr_flag(const struct tcp_connection *c, uint32_t bytes)
{
    return c->ecn_cwr && bytes != 0 ? TCP_CWR : 0;
}
/* Begins the time in which written data is not acknowledged, if there is such data: struct tcp_info. */
static inline void tcp_busy_begin(struct tcp_connection *c, uint64_t now_ns)
{
    if (c->busy_since_ns == 0 && seq_lt(c->snd_una, c->snd_end))
        c->busy_since_ns = now_ns;
}
/* Sends all that may be sent now: lost segments, then new data and FIN. Sets the timer that follows. */
void tcp_output(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
/* Sends the first `bytes` of a segment again. Returns false if no buffer is free; tcp_output then tries again at the
 * next net_idle. */
bool tcp_resend(struct net_stack *stack, struct tcp_connection *c, struct tcp_segment *s, uint32_t bytes,
                uint64_t now_ns);
/* Notes that a message of `bytes` has left as one segment, which is in the queue already. */
void tcp_output_sent(struct net_stack *stack, struct tcp_connection *c, uint32_t bytes, uint64_t now_ns);
/* Sends one segment of new data, whatever the congestion window is; nothing if there is none. */
void tcp_output_tail(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
/* Returns the bytes that the peer's window still takes beyond `seq`. */
static inline uint32_t tcp_window_beyond(const struct tcp_connection *c, uint32_t seq)
{
    uint32_t edge = c->snd_una + c->snd_wnd;
    return seq_lt(seq, edge) ? edge - seq : 0;
}
static inline bool tcp_can_send_data(const struct tcp_connection *c)
{
    return c->state == TCP_ESTABLISHED || c->state == TCP_CLOSE_WAIT || c->state == TCP_FIN_WAIT_1
           || c->state == TCP_CLOSING || c->state == TCP_LAST_ACK;
}
static inline uint32_t tcp_unsent_bytes(const struct tcp_connection *c)
{
    return seq_lt(c->snd_nxt, c->snd_end) ? c->snd_end - c->snd_nxt : 0;
}
static inline bool tcp_fin_unsent(const struct tcp_connection *c)
{
    return c->fin_wanted && seq_le(c->snd_nxt, c->snd_end);
}
/* Returns true if data or a FIN waits while nothing is in flight: for the peer's window, or for the end of a cork. */
bool tcp_output_waits_for_window(const struct tcp_connection *c);
/* Sends a pure ACK. Without a buffer the ACK is due at the next net_idle. */
void tcp_ack_send_now(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
uint32_t tcp_send_mss(const struct tcp_connection *c);
void tcp_probe_send(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);

/* ---- frame.c ---- */

struct tcp_frame {
    uint32_t seq;
    uint8_t flags;
    const struct tcp_segment *segment; /* the segment that holds the payload; NULL: none */
    uint32_t skip, bytes;              /* the part of the segment's payload */
    bool again;                        /* sent before: routers must not mark the packet (RFC 3168 §6.1.5) */
};
/* Sends a segment in a buffer of its own, or leaves it to ARP. Returns false if there was no buffer, or no room in the
 * ring: the segment has not left. */
bool tcp_frame_send(struct net_stack *stack, struct tcp_connection *c, const struct tcp_frame *frame, uint64_t now_ns);
/* Sends the payload that lies in `buffer` at `payload`, and writes its head before it. The stack keeps its hold.
 * Returns false if the neighbour is not known, the device holds the buffer, or the ring is full. */
bool tcp_frame_send_held(struct net_stack *stack, struct tcp_connection *c, struct tx_buffer *buffer, uint8_t *payload,
                         uint32_t bytes, uint32_t seq, uint8_t flags, bool again, uint64_t now_ns);
/* Makes the head and looks up the neighbour. No other function does either, so a known neighbour implies a head.
 * Makes neither in SYN-SENT. */
void tcp_frame_head_prepare(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
void tcp_frame_sent(struct tcp_connection *c, uint64_t now_ns); /* an ACK of rcv_nxt has left */
/* A segment outside any connection's window: RST, and ACKs of TIME-WAIT and of half-open connections. */
struct tcp_reply {
    uint32_t address, peer_address;
    uint16_t port, peer_port;
    uint32_t seq, ack;
    uint8_t flags;
    uint8_t ttl, tos; /* ttl 0: the default */
    bool initiated;   /* see struct ipv4_output */
    const uint8_t *link_destination;
    uint16_t window;
    uint32_t option_bytes;
    uint8_t options[TCP_OPTION_BYTES_MAX];
};
/* Returns false if the reply was dropped: no buffer, no route, or no room. */
bool tcp_reply_send(struct net_stack *stack, const struct tcp_reply *reply, uint64_t now_ns);
void tcp_reply_reset(struct net_stack *stack, const struct tcp_received *r, uint64_t now_ns);
/* Returns true if the connection's packets leave without "don't fragment". */
static inline bool tcp_may_be_cut(const struct tcp_connection *c) { return !c->policy.path_mtu || c->fragment_ok; }
/* Returns the timestamp clock. A tick each millisecond, as Linux's: RFC 7323 §5.4 asks for 1 ms to 1 s. */
static inline uint32_t tcp_timestamp_clock(uint64_t now_ns, uint32_t offset)
{
    return (uint32_t)(now_ns / NS_PER_MS) + offset;
}
void tcp_reply_add_timestamps(struct tcp_reply *reply, uint32_t value, uint32_t echo);

/* ---- send_queue.c ---- */

static inline struct tcp_segment *tcp_sendqueue_at(const struct tcp_connection *c, uint32_t index)
{
    return &c->segments[(c->segment_head + index) & c->segment_mask];
}
static inline bool tcp_sendqueue_full(const struct tcp_connection *c) { return c->segment_count > c->segment_mask; }
struct tcp_segment *tcp_sendqueue_push(struct tcp_connection *c, uint32_t seq, uint16_t bytes, uint8_t flags,
                                       uint64_t now_ns);
void tcp_sendqueue_pop(struct net_stack *stack, struct tcp_connection *c);
void tcp_sendqueue_trim(struct tcp_connection *c, uint32_t ack); /* the front is acknowledged up to `ack` */
bool tcp_sendqueue_split(struct tcp_connection *c, uint32_t index, uint32_t bytes);
void tcp_sendqueue_mark(struct tcp_connection *c, struct tcp_segment *s, uint8_t set, uint8_t clear);
void tcp_sendqueue_clear(struct net_stack *stack, struct tcp_connection *c);
uint32_t tcp_in_flight(const struct tcp_connection *c);

/* ---- recovery.c ---- */

/* The report of one ACK. */
struct tcp_delivery {
    uint32_t acked_bytes;     /* acknowledged cumulatively */
    uint32_t delivered_bytes; /* acknowledged, or newly SACKed */
    uint32_t lost_bytes;      /* newly believed lost */
    uint32_t dsack_end;
    bool dsack;
    bool sacked;
    bool advanced;
    bool duplicate; /* a duplicate ACK by the rules of RFC 5681 §2 */
    bool limited;   /* before the ACK the congestion window held us back */
};
void tcp_rack_delivered(struct tcp_connection *c, const struct tcp_segment *s, const struct tcp_received *r,
                        uint64_t now_ns);
void tcp_sack_accept(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r,
                     struct tcp_delivery *d, uint64_t now_ns);
void tcp_recovery_after_ack(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r,
                            struct tcp_delivery *d, uint64_t now_ns);
void tcp_recovery_repair(struct tcp_connection *c);
void tcp_recovery_timeout(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
void tcp_recovery_reorder_timeout(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
void tcp_recovery_sent(struct tcp_connection *c, uint32_t bytes);

/* ---- timer.c ---- */

/* Sets rto_at_ns, a full time-out from now. tcp_timer_set or tcp_timer_rearm must follow. */
void tcp_rto_restart(struct tcp_connection *c, uint64_t now_ns);
void tcp_timer_set(struct net_stack *stack, struct tcp_connection *c, enum tcp_timer timer, uint64_t at_ns);
void tcp_timer_stop(struct tcp_connection *c);
uint64_t tcp_wait_began_ns(const struct tcp_connection *c);
uint64_t tcp_give_up_at_ns(const struct tcp_connection *c, uint32_t copies);
/* Notes the end of a stall of our own loop. Comes before any change of the timer. */
void tcp_stall_note(struct tcp_connection *c, uint64_t now_ns);
void tcp_keepalive_start(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
/* Chooses the timer that excludes the others, from what is in flight. */
void tcp_timer_rearm(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
static inline void tcp_timer_due_at(struct net_stack *stack, uint64_t at_ns)
{
    if (at_ns < stack->tcp.due_ns)
        stack->tcp.due_ns = at_ns;
}
void tcp_poll(struct net_stack *stack, uint64_t now_ns);
uint64_t tcp_next_deadline_ns(const struct net_stack *stack);

/* ---- table.c ---- */

size_t tcp_bytes(const struct net_capacity *capacity);
void tcp_init(struct net_stack *stack, const struct net_config *config, uint8_t *memory);
struct tcp_connection *tcp_find(const struct net_stack *stack, uint32_t peer_address, uint16_t peer_port,
                                uint16_t port);
struct tcp_connection *tcp_connection_of(const struct net_stack *stack, int connection); /* NULL: no such one */
/* Returns a new control block, CLOSED, with the policy's values; NULL: the table is full. */
struct tcp_connection *tcp_connection_take(struct net_stack *stack, uint32_t peer_address, uint16_t peer_port,
                                           uint16_t port, const struct tcp_policy *policy, uint64_t now_ns);
/* Ends a connection: gives its buffers back and stops its timers. Frees the block if nobody will ask for `why`. */
void tcp_connection_end(struct net_stack *stack, struct tcp_connection *c, enum tcp_result why);
void tcp_connection_free(struct net_stack *stack, struct tcp_connection *c);
void tcp_listener_left(struct net_stack *stack, struct tcp_connection *c);
void tcp_address_lost(struct net_stack *stack);

/* ---- check.c ---- */

/* Checks the whole invariant of a connection, at the end of each slow path. */
void tcp_connection_check(const struct tcp_connection *c);
/* Checks the invariant of all connections and their keys. For tests, which call it between any two steps. */
void tcp_check(const struct net_stack *stack);

/* ---- policy.c ---- */

uint32_t tcp_receive_buffer_of(const struct net_stack *stack, const struct tcp_policy *policy);
uint8_t tcp_window_scale_of(const struct net_stack *stack, const struct tcp_policy *policy);
uint16_t tcp_mss_offered(const struct net_stack *stack, const struct tcp_policy *policy);

/* ---- open.c ---- */

/* Sets the numbers of a connection that begins with our SYN, not acknowledged yet. */
static inline void tcp_iss_set(struct tcp_connection *c, uint32_t iss)
{
    c->iss = c->snd_una = c->recover = c->rack.fack = iss;
    c->snd_nxt = c->snd_end = c->snd_small_end = iss + 1;
}
/* Sets the numbers after the peer's SYN. Our SYN offered `window` bytes, as far as its unscaled field can. */
static inline void tcp_irs_set(struct tcp_connection *c, uint32_t irs, uint32_t window)
{
    c->irs = irs;
    c->rcv_nxt = c->rcv_read = irs + 1;
    c->rcv_adv = c->rcv_nxt + (uint32_t)min_size(window, UINT16_MAX);
}
void tcp_options_agree(struct net_stack *stack, struct tcp_connection *c, const struct tcp_options *o, uint64_t now_ns);
void tcp_established(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
void tcp_syn_send(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);

/* ---- message.c ---- */

/* The messages of net/transport.h. NULL, false: not now. The area begins behind the longest head; its last bytes
 * still fit the buffer. */
enum { TCP_MESSAGE_OFFSET = sizeof(struct tcp_head_wire) };
uint8_t *tcp_message(struct net_stack *stack, struct tcp_connection *c);
/* Sends a message that tcp_message_send cannot send as it stands. */
bool tcp_message_send_long(struct net_stack *stack, struct tcp_connection *c, uint32_t from, uint32_t bytes,
                           uint64_t now_ns);
void tcp_message_sent(struct net_stack *stack, struct tcp_connection *c, uint32_t bytes, uint64_t now_ns);

/* Gives a message's buffer back to the device. */
void tcp_message_release(struct net_stack *stack, struct tx_buffer *buffer);

/* ---- receive.c: payload in order, of the slow path and of the fast path ---- */

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
/* Schedules the ACK of received data. RFC 9293 §3.8.6.3: an ACK for every second full-sized segment, and for the rest
 * after a delay. */
static inline void tcp_ack_schedule(struct net_stack *stack, struct tcp_connection *c, uint32_t bytes, uint64_t now_ns)
{
    if (bytes > c->rcv_mss)
        c->rcv_mss = (uint16_t)min_size(bytes, UINT16_MAX);
    c->ack_unsent_bytes += bytes;
    if (__builtin_expect(c->policy.ack == TCP_ACK_QUICK, 1) || c->ack_unsent_bytes >= 2u * c->rcv_mss) {
        c->ack_now = true;
        tcp_timer_due_at(stack, 0);
    } else if (c->ack_timer_ns == TCP_NEVER_NS) {
        c->ack_timer_ns = now_ns + c->policy.ack_delay_us * NS_PER_US;
        tcp_timer_due_at(stack, c->ack_timer_ns);
    }
}
/* Takes the next bytes of the stream. `short_enough`: they are at most NET_BORROWED_BYTES_MAX. */
static inline void tcp_receive_in_order(struct net_stack *stack, struct tcp_connection *c, const uint8_t *data,
                                        uint32_t bytes, bool short_enough, uint64_t now_ns)
{
    bool in_place = short_enough & c->zero_copy & (stack->borrowed.connection < 0) & (c->rcv_read == c->rcv_nxt);
    if (__builtin_expect(in_place, 1)) {
        stack->borrowed = (struct net_borrowed){ c->index, { data, bytes } };
        c->rcv_read += bytes;
    } else {
        tcp_receive_store(c, c->rcv_nxt, data, bytes);
        stack->tcp.changed = true;
    }
    c->rcv_nxt += bytes;
    c->bytes_received += bytes;
    if (c->range_count != 0) /* RFC 5681 §4.2: an ACK at once if data fills a gap */
        tcp_receive_gap_filled(stack, c, bytes);
    tcp_ack_schedule(stack, c, bytes, now_ns);
}

/* ---- stream.c ---- */

uint32_t tcp_ring_write(struct net_stack *stack, struct tcp_connection *c, const void *data, size_t bytes,
                        uint64_t now_ns);
void tcp_reset_send(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);

/* ---- listen.c ---- */

struct tcp_listener *tcp_listener_find(const struct net_stack *stack, uint16_t port); /* NULL: no listener */
/* Takes a segment that belongs to no connection yet. Returns false if it belongs to no listener either. If the segment
 * completes a handshake, the new connection is in `completed`, and the caller gives it the segment; else NULL. */
bool tcp_listen_input(struct net_stack *stack, const struct tcp_received *r, uint64_t now_ns,
                      struct tcp_connection **completed);
void tcp_listen_forget(struct net_stack *stack, int listener); /* -1: all listeners */
bool tcp_listen_holds(const struct net_stack *stack, uint64_t key);
void tcp_listen_poll(struct net_stack *stack, uint64_t now_ns);
uint64_t tcp_listen_next_deadline_ns(const struct net_stack *stack);

/* ---- time_wait.c ---- */

/* Ends the connection; an entry of the table of TIME-WAIT answers from now on. */
void tcp_time_wait_enter(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
/* Returns true if the segment was processed. Returns false if there is no such connection, or if it has given way to
 * a SYN. */
bool tcp_time_wait_input(struct net_stack *stack, struct tcp_received *r, uint64_t now_ns);
bool tcp_time_wait_holds(const struct net_stack *stack, uint64_t key);
void tcp_time_wait_poll(struct net_stack *stack, uint64_t now_ns);
uint64_t tcp_time_wait_next_deadline_ns(const struct net_stack *stack);

/* ---- path.c ---- */

void tcp_path_remember(struct net_stack *stack, const struct tcp_connection *c, uint64_t now_ns);
/* Takes the path MTU that earlier connections have found into a new connection. */
void tcp_path_recall(const struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
/* Takes an ICMP error that quotes one of our segments. */
void tcp_icmp_error(struct net_stack *stack, const struct icmp_error *error, uint64_t now_ns);
/* Takes the link's MTU and the routes of all connections, and ARP's knowledge of the neighbours: addresses known,
 * changed, or not to be had. */
void tcp_next_hops_changed(struct net_stack *stack, uint64_t now_ns);
/* Sets the neighbour under a connection, at whose ARP entry the connection is counted; 0: none. */
void tcp_next_hop_set(struct net_stack *stack, struct tcp_connection *c, uint32_t next_hop, uint64_t now_ns);
/* Returns the neighbour under a connection; 0 if not resolved yet, or if the connection is over. */
static inline uint32_t tcp_next_hop(const struct net_stack *stack, const struct tcp_connection *c)
{
    return stack->tcp.next_hops[c->index];
}
