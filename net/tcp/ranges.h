/* The received data beyond rcv_nxt. */
#pragma once

#include "net/tcp/connection.h"

/* Returns the first part of `added` that has come before; an empty range if none has. */
struct tcp_range tcp_ranges_repeated(const struct tcp_connection *c, struct tcp_range added);
/* Notes a range as received. Returns false if there are too many holes; nothing was noted. */
bool tcp_ranges_add(struct tcp_connection *c, struct tcp_range added);
/* Moves rcv_nxt over ranges that it has reached. */
void tcp_ranges_absorb(struct tcp_connection *c);
/* Forgets all ranges, and the DSACK that waits: no data is missing, or none will come. */
void tcp_ranges_clear(struct tcp_connection *c);
/* Notes that the DSACK has left. */
static inline void tcp_dsack_sent(struct tcp_connection *c) { c->ranges.dsack_pending = false; }
/* Writes at most count_max blocks for the SACK option. Returns their count. */
uint32_t tcp_receive_sack_blocks(const struct tcp_connection *c, struct tcp_range *blocks, uint32_t count_max);
/* Notes bytes that have come before, for a DSACK report. */
void tcp_receive_duplicate(struct net_stack *stack, struct tcp_connection *c, uint32_t left, uint32_t right);
/* Checks the invariant of the ranges. */
void tcp_ranges_check(const struct tcp_connection *c);
