/* The work of the deadlines. */
#pragma once

#include "net/tcp/connection.h"

/* Does the work of all deadlines that are due. */
void tcp_poll(struct net_stack *stack, uint64_t now_ns);
uint64_t tcp_next_deadline_ns(const struct net_stack *stack);
