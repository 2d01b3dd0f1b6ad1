/* The segments in flight. */
#pragma once

#include "net/tcp/connection.h"
#include "net/tcp/seq.h"

static inline struct tcp_segment *tcp_sendqueue_at(const struct tcp_connection *c, uint32_t index)
{
    return &c->segments[(c->queue.head + index) & c->segment_mask];
}

static inline bool tcp_sendqueue_full(const struct tcp_connection *c) { return c->segment_count > c->segment_mask; }
/* Returns true if `edge`, an earlier snd_nxt, has not been acknowledged. A comparison with snd_una alone would be wrong
 * once 2^31 bytes have followed the edge. */
static inline bool tcp_edge_in_flight(const struct tcp_connection *c, uint32_t edge)
{
    return seq_within(edge - 1, c->snd_una, c->snd_nxt);
}

struct tcp_segment *tcp_sendqueue_push(struct tcp_connection *c, uint32_t seq, uint16_t bytes, uint8_t flags,
                                       uint64_t now_ns);
/* Takes back the segment that was pushed last and could not be sent. */
static inline void tcp_sendqueue_unpush(struct tcp_connection *c) { c->segment_count--; }
void tcp_sendqueue_pop(struct net_stack *stack, struct tcp_connection *c);
void tcp_sendqueue_trim(struct tcp_connection *c, uint32_t ack); /* the front is acknowledged up to `ack` */
bool tcp_sendqueue_split(struct tcp_connection *c, uint32_t index, uint32_t bytes);
void tcp_sendqueue_mark(struct tcp_connection *c, struct tcp_segment *s, uint8_t set, uint8_t clear);
void tcp_sendqueue_clear(struct net_stack *stack, struct tcp_connection *c);
/* Returns the bytes believed to be in the network: RFC 6675 §4, pipe. */
uint32_t tcp_in_flight(const struct tcp_connection *c);
/* Gives a message's buffer back to the device. */
void tcp_message_release(struct net_stack *stack, struct tx_buffer *buffer);
/* Checks the invariant of the segments and of their sums. */
void tcp_sendqueue_check(const struct tcp_connection *c);
