/* Half-open connections. */
#pragma once

#include "net/tcp/connection.h"

/* Takes a segment that belongs to no connection yet. Returns false if it belongs to no listener either. If the segment
 * completes a handshake, the new connection is in `completed`, and the caller gives it the segment; else NULL. */
bool tcp_listen_input(struct net_stack *stack, const struct tcp_received *r, uint64_t now_ns,
                      struct tcp_connection **completed);
/* Frees every half-open connection of a listener that goes away; -1: of all listeners. */
void tcp_listen_forget(struct net_stack *stack, int listener);
/* Returns true if a half-open connection has this key. */
bool tcp_listen_holds(const struct net_stack *stack, uint64_t key);
void tcp_listen_poll(struct net_stack *stack, uint64_t now_ns);
uint64_t tcp_listen_next_deadline_ns(const struct net_stack *stack);
