/* The send ring. */
#pragma once

#include "net/tcp/connection.h"

/* Puts bytes into the send ring, as many as fit, and sends. Returns their count. */
uint32_t tcp_ring_write(struct net_stack *stack, struct tcp_connection *c, const void *data, size_t bytes,
                        uint64_t now_ns);
