/* The invariants of one connection, and of all. */
#pragma once

#include "net/tcp/connection.h"

/* Checks the whole invariant of a connection, at the end of each slow path. */
void tcp_connection_check(const struct tcp_connection *c);
/* Checks the invariant of all connections and their keys. For tests, which call it between any two steps. */
void tcp_check(const struct net_stack *stack);
