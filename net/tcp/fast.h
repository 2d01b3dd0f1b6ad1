/* The predicted segment, and the prepared message. */
#pragma once

#include "net/netdev.h"
#include "net/tcp/connection.h"

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
