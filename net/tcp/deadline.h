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
/* Chooses the timer that excludes the others, by the segments in flight. */
void tcp_timer_rearm(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
/* Asks for a tail probe after new data; tcp_timer_rearm must follow. */
static inline void tcp_tail_probe_want(struct tcp_connection *c) { c->deadline.tail_probe_wanted = true; }
/* Counts a window probe. */
void tcp_window_probe_count(struct tcp_connection *c);
/* Stops every deadline of a connection that ends. */
void tcp_deadline_end(struct tcp_connection *c);
/* Checks the invariant of the deadlines. */
void tcp_deadline_check(const struct tcp_connection *c);

/* ---- The retransmission time-out. After each, tcp_timer_set or tcp_timer_rearm must follow ---- */

/* Starts the time-out, and the wait for an answer, with the first segment in flight. */
void tcp_rto_start(struct tcp_connection *c, uint64_t now_ns);
/* Sets rto_at_ns, a full time-out from now. */
void tcp_rto_restart(struct tcp_connection *c, uint64_t now_ns);
/* Takes the acknowledgement of new data: the count of copies ends, and the time-out stops or restarts. */
void tcp_rto_acked(struct tcp_connection *c, uint64_t now_ns);
/* Counts a time-out, and restarts the time-out with the RTO doubled. */
void tcp_rto_expired(struct tcp_connection *c, uint64_t now_ns);

/* ---- The wait for an answer, and keepalive ---- */

/* Notes the end of a stall of our own loop. Comes before any change of the timer. */
void tcp_stall_note(struct tcp_connection *c, uint64_t now_ns);
/* Counts the wait for an answer from now. */
static inline void tcp_wait_restart(struct tcp_connection *c, uint64_t now_ns) { c->deadline.unanswered_ns = now_ns; }
/* Returns the time from which the wait for an answer counts, and the time at which the peer is given up after this
 * number of copies. RFC 9293 §3.8.3: R2. */
uint64_t tcp_wait_began_ns(const struct tcp_connection *c);
uint64_t tcp_give_up_at_ns(const struct tcp_connection *c, uint32_t copies);
/* Begins the limit of an orphan's FIN-WAIT-2. */
void tcp_fin_wait_2_limit(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);

/* Notes a segment of the peer, which answers every keepalive. */
static inline void tcp_received_note(struct tcp_connection *c, uint64_t now_ns)
{
    c->last_received_ns = now_ns;
    c->keepalive_count = 0;
}
/* Sets the next keepalive; TCP_NEVER_NS: none. */
void tcp_keepalive_set(struct net_stack *stack, struct tcp_connection *c, uint64_t at_ns);
/* Begins the wait for the first keepalive, an idle time after `from_ns`. */
void tcp_keepalive_start(struct net_stack *stack, struct tcp_connection *c, uint64_t from_ns);
/* Counts a keepalive. */
void tcp_keepalive_count(struct tcp_connection *c);

/* ---- The ACK of received data ---- */

/* Makes an ACK due at once: at the next net_idle at the latest. */
static inline void tcp_ack_owe(struct net_stack *stack, struct tcp_connection *c)
{
    c->ack.now = true;
    tcp_timer_due_at(stack, 0);
}

/* Notes that an ACK of all received data has left. */
static inline void tcp_ack_sent(struct tcp_connection *c)
{
    c->ack.now = false;
    c->ack.unsent_bytes = 0;
    c->ack.timer_ns = TCP_NEVER_NS;
}

/* Acknowledges the next data at once, or with delay, by the policy TCP_ACK_ADAPTIVE. */
static inline void tcp_ack_quicken(struct tcp_connection *c)
{
    if (c->ack.adaptive) {
        c->policy.ack = TCP_ACK_QUICK;
        c->ack.quick_left = TCP_ACK_QUICK_COUNT;
    }
}

static inline void tcp_ack_slow_down(struct tcp_connection *c)
{
    if (c->ack.adaptive)
        c->policy.ack = TCP_ACK_DELAYED;
}

/* Schedules the ACK of received data. RFC 9293 §3.8.6.3: an ACK for every second full-sized segment, and for the rest
 * after a delay. */
static inline void tcp_ack_schedule(struct net_stack *stack, struct tcp_connection *c, uint32_t bytes, uint64_t now_ns)
{
    if (bytes > c->rcv_mss)
        c->rcv_mss = (uint16_t)min_size(bytes, UINT16_MAX);
    c->ack.unsent_bytes += bytes;
    if (__builtin_expect(c->policy.ack == TCP_ACK_QUICK, 1) || c->ack.unsent_bytes >= 2u * c->rcv_mss) {
        tcp_ack_owe(stack, c);
    } else if (c->ack.timer_ns == TCP_NEVER_NS) {
        c->ack.timer_ns = now_ns + c->policy.ack_delay_us * NS_PER_US;
        tcp_timer_due_at(stack, c->ack.timer_ns);
    }
}

/* Takes policy.ack, which has been set. */
static inline void tcp_ack_policy_take(struct tcp_connection *c)
{
    c->ack.adaptive = c->policy.ack == TCP_ACK_ADAPTIVE;
    tcp_ack_quicken(c);
}

/* Counts a pure ACK of data towards the end of the quick ones. */
void tcp_ack_of_data_count(struct tcp_connection *c, uint64_t now_ns);
