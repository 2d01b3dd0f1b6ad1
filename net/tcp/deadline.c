/* The deadlines of a connection: set, stopped and chosen. RFC 6298 §5 (retransmission), RFC 8985 §7.2 (tail probes),
 * RFC 9293 §3.8.6.1 (zero windows), §3.8.3 (giving up). Does not know the work that follows: timer.c.
 *
 * Each deadline is a time; nothing ticks. Four of them exclude each other (enum tcp_timer), as in Linux; the rest are
 * independent. */
#include "net/tcp/deadline.h"

#include "base/assert.h"
#include "base/time.h"
#include "net/tcp/window.h"

void tcp_timer_set(struct net_stack *stack, struct tcp_connection *c, enum tcp_timer timer, uint64_t at_ns)
{
    c->timer = (uint8_t)timer;
    c->timer_ns = at_ns;
    tcp_timer_due_at(stack, at_ns);
}

void tcp_timer_stop(struct tcp_connection *c)
{
    c->timer = TCP_TIMER_NONE;
    c->timer_ns = TCP_NEVER_NS;
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
    return any_answer && c->last_received_ns > c->unanswered_ns ? c->last_received_ns : c->unanswered_ns;
}

/* Notes a stall of our own loop, as in a pause of the machine: a deadline is overdue by a whole time-out. The peer
 * could not answer meanwhile, so R2 does not count the stall. Another time-out at least is left of R2, for an answer to
 * the next copy. */
void tcp_stall_note(struct tcp_connection *c, uint64_t now_ns)
{
    if (c->timer_ns >= now_ns || (now_ns - c->timer_ns <= c->rtt.rto_ns && !time_stood_still(c->timer_ns, now_ns)))
        return;
    uint64_t began_ns = tcp_wait_began_ns(c) + (now_ns - c->timer_ns), least_ns = now_ns + c->rtt.rto_ns;
    uint64_t latest_ns = least_ns > patience_ns(c) ? least_ns - patience_ns(c) : 0;
    c->unanswered_ns = min_ns(now_ns, began_ns > latest_ns ? began_ns : latest_ns);
    c->stall_ended_ns = now_ns;
    c->timer_ns = now_ns; /* due, and no longer overdue */
    if (c->rto_at_ns != 0 && c->rto_at_ns < now_ns)
        c->rto_at_ns = now_ns;
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
    uint64_t give_up_ns = tcp_give_up_at_ns(c, c->backoff);
    c->rto_at_ns = now_ns + c->rtt.rto_ns;
    if (give_up_ns > now_ns && give_up_ns < c->rto_at_ns)
        c->rto_at_ns = give_up_ns;
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
    return min_ns(now_ns + wait_ns, c->rto_at_ns);
}

/* RFC 8985 §7.2: Returns true if a tail probe is allowed: no data is known or believed lost, and no probe is out. A
 * peer without SACK can still acknowledge a lone segment. */
static bool tail_probe_allowed(const struct tcp_connection *c)
{
    bool lone = c->policy.tail_probe_without_sack && c->segment_count == 1 && c->rtt.srtt_ns != 0;
    return c->policy.tail_probe && (c->sack_on || lone) && c->recovery_state == TCP_OPEN && c->sacked_bytes == 0
           && !c->tail_probe_on && c->recovery.duplicate_acks == 0;
}

void tcp_timer_rearm(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    if (c->segment_count == 0) {
        c->rto_at_ns = 0;
        if (!tcp_output_waits_for_window(c)) {
            tcp_timer_stop(c);
            c->probe_count = 0;
        } else if (c->timer != TCP_TIMER_WINDOW_PROBE) {
            if (c->probe_count == 0)
                c->unanswered_ns = now_ns; /* the time-out of this wait begins here */
            uint64_t wait_ns = c->rtt.rto_ns << (c->probe_count < 16 ? c->probe_count : 16);
            uint64_t at_ns = now_ns + min_ns(wait_ns, c->policy.rto_max_us * NS_PER_US);
            if (c->policy.user_timeout)
                at_ns = min_ns(at_ns, c->unanswered_ns + c->policy.data_give_up_us * NS_PER_US);
            tcp_timer_set(stack, c, TCP_TIMER_WINDOW_PROBE, at_ns);
        }
        return;
    }
    ASSERT(c->rto_at_ns != 0);
    if (c->timer == TCP_TIMER_REORDER)
        return; /* earlier than any other, and set again at each ACK */
    if (!tail_probe_allowed(c)) {
        tcp_timer_set(stack, c, TCP_TIMER_RTO, c->rto_at_ns);
    } else if (c->tail_probe_wanted) {
        c->tail_probe_wanted = false;
        tcp_timer_set(stack, c, TCP_TIMER_TAIL_PROBE, tail_probe_at_ns(c, now_ns));
    } else if (c->timer != TCP_TIMER_TAIL_PROBE) {
        tcp_timer_set(stack, c, TCP_TIMER_RTO, c->rto_at_ns);
    }
}

void tcp_keepalive_start(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    c->keepalive_count = 0;
    c->keepalive_ns = now_ns + c->policy.keepalive_idle_us * NS_PER_US;
    tcp_timer_due_at(stack, c->keepalive_ns);
}
