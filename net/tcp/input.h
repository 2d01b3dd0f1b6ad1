/* The input of segments. */
#pragma once

#include "net/tcp/connection.h"

/* Takes a datagram for TCP. */
void tcp_input(struct net_stack *stack, const struct ipv4_packet *packet, uint64_t now_ns);
/* Takes a segment of a connection, and may change the segment's fields. May end the connection. */
void tcp_connection_input(struct net_stack *stack, struct tcp_connection *c, struct tcp_received *r, uint64_t now_ns);
