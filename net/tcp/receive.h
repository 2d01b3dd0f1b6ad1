/* Received payload. */
#pragma once

#include "net/stack_state.h"
#include "net/tcp/deadline.h"

/* Takes the text and the FIN of a segment that is acceptable. May end the connection, in TIME-WAIT. */
void tcp_receive_payload(struct net_stack *stack, struct tcp_connection *c, struct tcp_received *r, uint64_t now_ns);

/* ---- Payload in order, of the slow path and of the fast path ---- */

/* Copies payload to its place in the ring. */
void tcp_receive_store(struct tcp_connection *c, uint32_t seq, const uint8_t *data, uint32_t bytes);
/* Takes the ranges that in-order payload of `bytes` has reached. */
void tcp_receive_gap_filled(struct net_stack *stack, struct tcp_connection *c, uint32_t bytes);
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
