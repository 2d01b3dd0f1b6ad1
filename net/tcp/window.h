/* The two windows of a connection, and the size of its segments. */
#pragma once

#include "base/bytes.h"
#include "net/tcp/connection.h"
#include "net/tcp/seq.h"

/* Returns the bytes of the options that each segment of the connection carries. */
static inline uint32_t tcp_options_bytes_each(const struct tcp_connection *c)
{
    return c->timestamps_on ? (uint32_t)TCP_TIMESTAMPS_ALIGNED_BYTES : 0;
}

/* Returns the payload of a full segment of ours. */
uint32_t tcp_send_mss(const struct tcp_connection *c);

static inline void tcp_send_mss_update(struct tcp_connection *c) { c->snd_mss = (uint16_t)tcp_send_mss(c); }

/* ---- The window that we promise ---- */

static inline uint32_t tcp_receive_unread(const struct tcp_connection *c)
{
    return c->rcv_nxt - c->rcv_read - (c->fin_received ? 1 : 0);
}

static inline uint32_t tcp_receive_room(const struct tcp_connection *c)
{
    uint32_t unread = tcp_receive_unread(c);
    return unread < c->rcv_buffer_bytes ? c->rcv_buffer_bytes - unread : 0;
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
    uint32_t step = min_u32((c->rcv_buffer_bytes + 1) / 2, tcp_receive_mss(c));
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

/* Returns true if reading has opened the window far enough to report at once. */
bool tcp_receive_window_worth_reporting(const struct tcp_connection *c);

/* ---- The window that the peer promises ---- */

static inline void tcp_window_set(struct tcp_connection *c, uint32_t window, uint32_t seq, uint32_t ack)
{
    c->snd_wnd = window;
    c->snd_wl1 = seq;
    c->snd_wl2 = ack;
    if (window > c->snd_wnd_max)
        c->snd_wnd_max = window;
}

/* Begins with `window`, and lets the segment at `seq` bring another. */
static inline void tcp_window_begin(struct tcp_connection *c, uint32_t window, uint32_t seq)
{
    c->snd_wnd = window;
    c->snd_wl1 = seq - 1;
}

/* RFC 9293 §3.10.7.4: Takes the window of a newer segment; an old segment must not bring back an old window. */
static inline void tcp_window_take(struct tcp_connection *c, uint32_t window, uint32_t seq, uint32_t ack)
{
    if (seq_lt(c->snd_wl1, seq) || (c->snd_wl1 == seq && seq_le(c->snd_wl2, ack)))
        tcp_window_set(c, window, seq, ack);
}

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
/* Checks the invariant of the window that we promise. */
void tcp_window_check(const struct tcp_connection *c);
