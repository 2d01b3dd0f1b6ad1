/* The round trip, and the clock of timestamps. */
#pragma once

#include "base/time.h"
#include "net/tcp/connection.h"

/* Returns the timestamp clock. A tick each millisecond, as Linux's: RFC 7323 §5.4 asks for 1 ms to 1 s. */
static inline uint32_t tcp_timestamp_clock(uint64_t now_ns, uint32_t offset)
{
    return (uint32_t)(now_ns / NS_PER_MS) + offset;
}

/* Takes one round trip into the estimate and the RTO. */
void tcp_rtt_measured(struct tcp_connection *c, uint64_t rtt_ns);
/* Measures one round trip from an ACK. `sent_ns`: the time of the oldest segment that the ACK newly acknowledges. */
void tcp_rtt_sample(struct tcp_connection *c, const struct tcp_received *r, bool resent, uint64_t sent_ns,
                    uint64_t now_ns);
/* Takes one round trip into the least one. */
void tcp_rtt_min_take(struct tcp_connection *c, uint64_t rtt_ns, uint64_t now_ns);
/* Sets the RTO after a handshake that gave no round trip. RFC 6298 (2.1), (5.7): 3 s at least if a SYN was lost. */
void tcp_rto_begin(struct tcp_connection *c);
/* Doubles the RTO after a time-out. RFC 6298 (5.5). */
void tcp_rto_back_off(struct tcp_connection *c);
/* Checks the invariant of the estimates. */
void tcp_rtt_check(const struct tcp_connection *c);
