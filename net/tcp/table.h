/* Control blocks, and the table of listeners. */
#pragma once

#include "net/tcp/connection.h"

/* Returns the memory of all tables and rings. */
size_t tcp_bytes(const struct net_capacity *capacity);
/* Cuts the tables and rings out of `memory`. */
void tcp_init(struct net_stack *stack, const struct net_config *config, uint8_t *memory);
struct tcp_connection *tcp_find(const struct net_stack *stack, uint32_t peer_address, uint16_t peer_port,
                                uint16_t port);
/* Returns the connection that the application has under this index, or NULL. */
struct tcp_connection *tcp_connection_of(const struct net_stack *stack, int connection);
/* Returns a new control block, CLOSED, with the policy's values; NULL: the table is full. */
struct tcp_connection *tcp_connection_take(struct net_stack *stack, uint32_t peer_address, uint16_t peer_port,
                                           uint16_t port, const struct tcp_policy *policy, uint64_t now_ns);
/* Ends a connection: gives its buffers back and stops its timers. Frees the block if nobody will ask for `why`. */
void tcp_connection_end(struct net_stack *stack, struct tcp_connection *c, enum tcp_result why);
void tcp_connection_free(struct net_stack *stack, struct tcp_connection *c);
struct tcp_listener *tcp_listener_find(const struct net_stack *stack, uint16_t port); /* NULL: no listener */
/* Takes a connection out of its listener's queue. */
void tcp_listener_left(struct net_stack *stack, struct tcp_connection *c);
