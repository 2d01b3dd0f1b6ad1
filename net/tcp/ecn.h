/* Explicit congestion notification: what both ends know of marks and of reduced windows. */
#pragma once

#include "net/tcp/connection.h"
#include "net/tcp/send_queue.h"

/* Notes that both ends have agreed on ECN, or that they have not. */
static inline void tcp_ecn_agree(struct tcp_connection *c, bool on) { c->ecn.on = on; }

/* Returns CWR if new data shall report to the peer that our window has been reduced. RFC 3168 §6.1.2. */
static inline uint8_t tcp_cwr_flag(const struct tcp_connection *c, uint32_t bytes)
{
    return c->ecn.cwr && bytes != 0 ? TCP_CWR : 0;
}

/* Notes that new data of `bytes` has left, with CWR if tcp_cwr_flag has returned the flag. */
static inline void tcp_cwr_sent(struct tcp_connection *c, uint32_t bytes) { c->ecn.cwr = c->ecn.cwr && bytes == 0; }

/* RFC 3168 §6.1.2: Returns true if data in flight from here on has reduced the window already. A mark and a loss in one
 * window of data reduce it once. */
static inline bool tcp_ecn_window_is_reduced(const struct tcp_connection *c)
{
    return c->ecn.on && tcp_edge_in_flight(c, c->ecn.recover);
}

/* Begins with no reduction in the data in flight. */
void tcp_ecn_begin(struct tcp_connection *c);
/* Takes the congestion mark and the CWR of a segment with payload. */
void tcp_ecn_mark_take(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r);
/* Notes that the window has been reduced, for whatever reason. */
void tcp_ecn_reduction_note(struct tcp_connection *c);
/* Takes back a needless reduction; a CWR that was owed before stands. */
void tcp_ecn_reduction_undo(struct tcp_connection *c, bool cwr_before);
/* Checks the invariant of ECN. */
void tcp_ecn_check(const struct tcp_connection *c);
