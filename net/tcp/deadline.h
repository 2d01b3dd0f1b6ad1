/* The deadlines of a connection: set, stopped, chosen. A delayed ACK is one of them. */
#pragma once

#include "base/time.h"
#include "net/stack_state.h"

/* Makes tcp_poll look at the deadlines at this time at the latest. */
static inline void tcp_timer_due_at(struct net_stack *stack, uint64_t at_ns)
{
    if (at_ns < stack->tcp.due_ns)
        stack->tcp.due_ns = at_ns;
}

/* Sets one of the deadlines that exclude each other, in place of the one that is set. */
void tcp_timer_set(struct net_stack *stack, struct tcp_connection *c, enum tcp_timer timer, uint64_t at_ns);
void tcp_timer_stop(struct tcp_connection *c);
/* Sets rto_at_ns, a full time-out from now. tcp_timer_set or tcp_timer_rearm must follow. */
void tcp_rto_restart(struct tcp_connection *c, uint64_t now_ns);
/* Chooses the timer that excludes the others, by the segments in flight. */
void tcp_timer_rearm(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
/* Notes the end of a stall of our own loop. Comes before any change of the timer. */
void tcp_stall_note(struct tcp_connection *c, uint64_t now_ns);
/* Returns the time from which the wait for an answer counts, and the time at which the peer is given up after this
 * number of copies. RFC 9293 §3.8.3: R2. */
uint64_t tcp_wait_began_ns(const struct tcp_connection *c);
uint64_t tcp_give_up_at_ns(const struct tcp_connection *c, uint32_t copies);
/* Begins the wait for the first keepalive. */
void tcp_keepalive_start(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);

/* ---- The ACK of received data ---- */

/* Acknowledges the next data at once, or with delay, by the policy TCP_ACK_ADAPTIVE. */
static inline void tcp_ack_quicken(struct tcp_connection *c)
{
    if (c->ack_adaptive) {
        c->policy.ack = TCP_ACK_QUICK;
        c->ack_quick_left = TCP_ACK_QUICK_COUNT;
    }
}

static inline void tcp_ack_slow_down(struct tcp_connection *c)
{
    if (c->ack_adaptive)
        c->policy.ack = TCP_ACK_DELAYED;
}

/* Schedules the ACK of received data. RFC 9293 §3.8.6.3: an ACK for every second full-sized segment, and for the rest
 * after a delay. */
static inline void tcp_ack_schedule(struct net_stack *stack, struct tcp_connection *c, uint32_t bytes, uint64_t now_ns)
{
    if (bytes > c->rcv_mss)
        c->rcv_mss = (uint16_t)min_size(bytes, UINT16_MAX);
    c->ack_unsent_bytes += bytes;
    if (__builtin_expect(c->policy.ack == TCP_ACK_QUICK, 1) || c->ack_unsent_bytes >= 2u * c->rcv_mss) {
        c->ack_now = true;
        tcp_timer_due_at(stack, 0);
    } else if (c->ack_timer_ns == TCP_NEVER_NS) {
        c->ack_timer_ns = now_ns + c->policy.ack_delay_us * NS_PER_US;
        tcp_timer_due_at(stack, c->ack_timer_ns);
    }
}
