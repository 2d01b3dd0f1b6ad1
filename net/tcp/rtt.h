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
