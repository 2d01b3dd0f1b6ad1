/* The acknowledgement in a segment. */
#pragma once

#include "net/tcp/connection.h"

/* Processes the acknowledgement of a segment. Returns false if the segment is to be dropped. */
bool tcp_ack_accept(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r, uint64_t now_ns);
