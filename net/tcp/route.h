/* The way to a peer. */
#pragma once

#include "net/stack_state.h"

/* Keeps the path MTU of a connection for later ones to the same host. */
void tcp_path_remember(struct net_stack *stack, const struct tcp_connection *c, uint64_t now_ns);
/* Takes the path MTU that earlier connections have found into a new connection. */
void tcp_path_recall(const struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
/* Sets the neighbour under a connection, at whose ARP entry the connection is counted; 0: none. */
void tcp_next_hop_set(struct net_stack *stack, struct tcp_connection *c, uint32_t next_hop, uint64_t now_ns);
/* Returns the neighbour under a connection; 0 if not resolved yet, or if the connection is over. */
static inline uint32_t tcp_next_hop(const struct net_stack *stack, const struct tcp_connection *c)
{
    return stack->tcp.next_hops[c->index];
}
