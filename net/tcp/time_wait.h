/* TIME-WAIT. */
#pragma once

#include "net/tcp/connection.h"

/* Ends the connection; an entry of the table of TIME-WAIT answers from now on. */
void tcp_time_wait_enter(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
/* Returns true if the segment was processed. Returns false if no entry has the segment's key, or if the entry has
 * given way to a SYN. */
bool tcp_time_wait_input(struct net_stack *stack, struct tcp_received *r, uint64_t now_ns);
bool tcp_time_wait_holds(const struct net_stack *stack, uint64_t key);
void tcp_time_wait_poll(struct net_stack *stack, uint64_t now_ns);
uint64_t tcp_time_wait_next_deadline_ns(const struct net_stack *stack);
