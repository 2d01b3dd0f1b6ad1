/* Challenge ACKs: RFC 5961 §7. */
#pragma once

#include "net/tcp/connection.h"

/* Sends a challenge ACK within its limits (RFC 5961 §7). */
void tcp_challenge(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r, uint64_t now_ns);
/* Returns true if a challenge ACK to this segment may leave, and counts it as sent. */
bool tcp_challenge_allowed(struct tcp_challenges *sent, const struct tcp_received *r, uint64_t now_ns);
