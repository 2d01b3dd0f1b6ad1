/* The deadlines of a connection: set, stopped and chosen. RFC 6298 §5 (retransmission), RFC 8985 §7.2 (tail probes),
 * RFC 9293 §3.8.6.1 (zero windows), §3.8.3 (giving up). Does not know the work that follows: timer.c.
 *
 * Each deadline is a time; nothing ticks. Four of them exclude each other (enum tcp_timer), as in Linux; the rest are
 * independent. */
#include "net/tcp/deadline.h"

#include "base/assert.h"
#include "base/time.h"
#include "net/tcp/rtt.h"
#include "net/tcp/window.h"

void tcp_timer_set(struct net_stack *stack, struct tcp_connection *c, enum tcp_timer timer, uint64_t at_ns)
{
    c->timer = (uint8_t)timer;
    c->deadline.timer_ns = at_ns;
    tcp_timer_due_at(stack, at_ns);
}

void tcp_timer_stop(struct tcp_connection *c)
{
    c->timer = TCP_TIMER_NONE;
    c->deadline.timer_ns = TCP_NEVER_NS;
}

/* Returns R2: the time without an answer after which the peer is given up. RFC 9293 §3.8.3. */
static uint64_t patience_ns(const struct tcp_connection *c)
{
    return (tcp_is_opening(c) ? c->policy.syn_give_up_us : c->policy.data_give_up_us) * NS_PER_US;
}

/* Returns true if a closed window ends the connection, although the peer answers the probes. RFC 6429 §4. */
static bool answers_do_not_count(const struct tcp_connection *c) { return c->orphan || c->policy.user_timeout; }

/* Returns the time from which R2 counts. While only a closed window keeps data back, any answer restarts the wait. */
uint64_t tcp_wait_began_ns(const struct tcp_connection *c)
{
    bool any_answer = c->segment_count == 0 && !answers_do_not_count(c);
    return any_answer && c->last_received_ns > c->deadline.unanswered_ns ? c->last_received_ns
                                                                         : c->deadline.unanswered_ns;
}

/* Notes a stall of our own loop, as in a pause of the machine: a deadline is overdue by a whole time-out. The peer
 * could not answer meanwhile, so R2 does not count the stall. Another time-out at least is left of R2, for an answer to
 * the next copy. */
void tcp_stall_note(struct tcp_connection *c, uint64_t now_ns)
{
    if (c->deadline.timer_ns >= now_ns
        || (now_ns - c->deadline.timer_ns <= c->rtt.rto_ns && !time_stood_still(c->deadline.timer_ns, now_ns)))
        return;
    uint64_t began_ns = tcp_wait_began_ns(c) + (now_ns - c->deadline.timer_ns), least_ns = now_ns + c->rtt.rto_ns;
    uint64_t latest_ns = least_ns > patience_ns(c) ? least_ns - patience_ns(c) : 0;
    c->deadline.unanswered_ns = min_ns(now_ns, began_ns > latest_ns ? began_ns : latest_ns);
    c->deadline.stall_ended_ns = now_ns;
    c->deadline.timer_ns = now_ns; /* due, and no longer overdue */
    if (c->deadline.rto_at_ns != 0 && c->deadline.rto_at_ns < now_ns)
        c->deadline.rto_at_ns = now_ns;
}

/* Returns the time at which the peer is given up if no answer comes. RFC 9293 SHLD-10: not before three copies of data
 * have left, unless the application has chosen the time. */
uint64_t tcp_give_up_at_ns(const struct tcp_connection *c, uint32_t copies)
{
    bool enough = tcp_is_opening(c) || c->policy.user_timeout || copies >= TCP_R1_RETRANSMITS;
    return enough ? tcp_wait_began_ns(c) + patience_ns(c) : TCP_NEVER_NS;
}

/* RFC 6298 (5.1), (5.3): Restarts the retransmission time-out. The time to give up may come first. */
void tcp_rto_restart(struct tcp_connection *c, uint64_t now_ns)
{
    uint64_t give_up_ns = tcp_give_up_at_ns(c, c->deadline.backoff);
    c->deadline.rto_at_ns = now_ns + c->rtt.rto_ns;
    if (give_up_ns > now_ns && give_up_ns < c->deadline.rto_at_ns)
        c->deadline.rto_at_ns = give_up_ns;
}

void tcp_rto_start(struct tcp_connection *c, uint64_t now_ns)
{
    tcp_wait_restart(c, now_ns);
    tcp_rto_restart(c, now_ns);
}

/* RFC 6298 (5.2), (5.3). The window had opened, so a later wait for the window counts its probes from 0. */
void tcp_rto_acked(struct tcp_connection *c, uint64_t now_ns)
{
    c->deadline.backoff = c->probe_count = 0;
    c->deadline.tail_probe_wanted = true;
    tcp_wait_restart(c, now_ns);
    if (c->segment_count == 0) { /* no output follows the ACK of our FIN */
        c->deadline.rto_at_ns = 0;
        tcp_timer_stop(c);
    } else {
        tcp_rto_restart(c, now_ns);
    }
}

/* RFC 6298 (5.5), (5.6) */
void tcp_rto_expired(struct tcp_connection *c, uint64_t now_ns)
{
    if (c->deadline.backoff < UINT8_MAX)
        c->deadline.backoff++;
    tcp_rto_back_off(c);
    tcp_rto_restart(c, now_ns);
}

/* RFC 8985 §7.2, TLP_calc_PTO: Returns the time of the tail probe. */
static uint64_t tail_probe_at_ns(const struct tcp_connection *c, uint64_t now_ns)
{
    uint64_t wait_ns = NS_PER_S;
    if (c->rtt.srtt_ns != 0) {
        wait_ns = 2 * c->rtt.srtt_ns;
        if (c->segment_count == 1)
            wait_ns += c->policy.tlp_ack_delay_us * NS_PER_US;
    }
    return min_ns(now_ns + wait_ns, c->deadline.rto_at_ns);
}

/* RFC 8985 §7.2: Returns true if a tail probe is allowed: no data is known or believed lost, and no probe is out. A
 * peer without SACK can still acknowledge a lone segment. */
static bool tail_probe_allowed(const struct tcp_connection *c)
{
    bool lone = c->policy.tail_probe_without_sack && c->segment_count == 1 && c->rtt.srtt_ns != 0;
    return c->policy.tail_probe && (c->sack_on || lone) && c->recovery_state == TCP_OPEN && c->queue.sacked_bytes == 0
           && !c->tail_probe_on && c->recovery.duplicate_acks == 0;
}

void tcp_timer_rearm(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    if (c->segment_count == 0) {
        c->deadline.rto_at_ns = 0;
        if (!tcp_output_waits_for_window(c)) {
            tcp_timer_stop(c);
            c->probe_count = 0;
        } else if (c->timer != TCP_TIMER_WINDOW_PROBE) {
            if (c->probe_count == 0)
                c->deadline.unanswered_ns = now_ns; /* the time-out of this wait begins here */
            uint64_t wait_ns = c->rtt.rto_ns << (c->probe_count < 16 ? c->probe_count : 16);
            uint64_t at_ns = now_ns + min_ns(wait_ns, c->policy.rto_max_us * NS_PER_US);
            if (c->policy.user_timeout)
                at_ns = min_ns(at_ns, c->deadline.unanswered_ns + c->policy.data_give_up_us * NS_PER_US);
            tcp_timer_set(stack, c, TCP_TIMER_WINDOW_PROBE, at_ns);
        }
        return;
    }
    ASSERT(c->deadline.rto_at_ns != 0);
    if (c->timer == TCP_TIMER_REORDER)
        return; /* earlier than any other, and set again at each ACK */
    if (!tail_probe_allowed(c)) {
        tcp_timer_set(stack, c, TCP_TIMER_RTO, c->deadline.rto_at_ns);
    } else if (c->deadline.tail_probe_wanted) {
        c->deadline.tail_probe_wanted = false;
        tcp_timer_set(stack, c, TCP_TIMER_TAIL_PROBE, tail_probe_at_ns(c, now_ns));
    } else if (c->timer != TCP_TIMER_TAIL_PROBE) {
        tcp_timer_set(stack, c, TCP_TIMER_RTO, c->deadline.rto_at_ns);
    }
}

void tcp_window_probe_count(struct tcp_connection *c)
{
    if (c->probe_count < UINT8_MAX)
        c->probe_count++;
}

void tcp_keepalive_set(struct net_stack *stack, struct tcp_connection *c, uint64_t at_ns)
{
    c->deadline.keepalive_ns = at_ns;
    tcp_timer_due_at(stack, at_ns);
}

void tcp_keepalive_start(struct net_stack *stack, struct tcp_connection *c, uint64_t from_ns)
{
    c->keepalive_count = 0;
    tcp_keepalive_set(stack, c, from_ns + c->policy.keepalive_idle_us * NS_PER_US);
}

void tcp_keepalive_count(struct tcp_connection *c)
{
    if (c->keepalive_count < UINT8_MAX)
        c->keepalive_count++;
}

void tcp_fin_wait_2_limit(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    ASSERT(c->orphan && c->state == TCP_FIN_WAIT_2);
    c->deadline.fin_wait_2_ends_ns = now_ns + c->policy.fin_wait_2_us * NS_PER_US;
    tcp_timer_due_at(stack, c->deadline.fin_wait_2_ends_ns);
}

void tcp_ack_of_data_count(struct tcp_connection *c, uint64_t now_ns)
{
    c->deadline.ack_data_ns = now_ns;
    if (c->ack.quick_left != 0 && --c->ack.quick_left == 0)
        tcp_ack_slow_down(c);
}

void tcp_deadline_end(struct tcp_connection *c)
{
    tcp_timer_stop(c);
    tcp_ack_sent(c); /* no ACK will leave */
    c->deadline.rto_at_ns = 0;
    c->deadline.keepalive_ns = c->deadline.fin_wait_2_ends_ns = TCP_NEVER_NS;
}

void tcp_deadline_check(const struct tcp_connection *c)
{
    bool resends = c->timer == TCP_TIMER_RTO || c->timer == TCP_TIMER_TAIL_PROBE || c->timer == TCP_TIMER_REORDER;
    ASSERT((c->timer == TCP_TIMER_NONE) == (c->deadline.timer_ns == TCP_NEVER_NS));
    /* The oldest segment in flight has exactly one deadline. */
    ASSERT((c->segment_count != 0) == (c->deadline.rto_at_ns != 0));
    /* Data in flight is resent if no answer comes. The fast path takes "no timer" for "nothing in flight". */
    ASSERT((c->segment_count != 0) == resends);
    /* A closed window is probed: the peer's update may be lost. */
    ASSERT(!tcp_output_waits_for_window(c) || c->timer == TCP_TIMER_WINDOW_PROBE);
    if (tcp_is_over(c)) {
        /* A timer that fired now would send for a connection that is no more. */
        ASSERT(c->timer == TCP_TIMER_NONE && !c->ack.now && c->ack.timer_ns == TCP_NEVER_NS);
        ASSERT(c->deadline.keepalive_ns == TCP_NEVER_NS && c->deadline.fin_wait_2_ends_ns == TCP_NEVER_NS);
        return;
    }
    /* An ACK owed is due at some time. */
    ASSERT(c->ack.unsent_bytes == 0 || c->ack.now || c->ack.timer_ns != TCP_NEVER_NS);
    /* RFC 6429: FIN-WAIT-2 of an orphan ends. */
    ASSERT(!(c->orphan && c->state == TCP_FIN_WAIT_2) || c->deadline.fin_wait_2_ends_ns != TCP_NEVER_NS);
}
