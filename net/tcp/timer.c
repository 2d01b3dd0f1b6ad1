/* The work of the deadlines that are due. RFC 6298 (retransmission), RFC 8985 §7 (tail probes), RFC 9293 §3.8.6.1 (zero
 * windows), §3.8.4 (keepalive), §3.8.6.3 (delayed ACKs).
 *
 * tcp.due_ns is never later than the earliest deadline, so an idle turn costs one comparison. */
#include "net/tcp/timer.h"

#include "base/time.h"
#include "net/stack_state.h"
#include "net/tcp/check.h"
#include "net/tcp/deadline.h"
#include "net/tcp/frame.h"
#include "net/tcp/handshake.h"
#include "net/tcp/listen.h"
#include "net/tcp/output.h"
#include "net/tcp/recovery.h"
#include "net/tcp/route.h"
#include "net/tcp/send_queue.h"
#include "net/tcp/table.h"
#include "net/tcp/time_wait.h"

static void connection_gave_up(struct net_stack *stack, struct tcp_connection *c)
{
    NET_COUNT(stack, tcp_timed_out);
    bool has_cause = c->soft_error != TCP_OK; /* RFC 9293 §3.9.2.2: a soft error is the better reason */
    tcp_connection_end(stack, c, has_cause ? c->soft_error : TCP_TIMED_OUT);
}

static void rto_due(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    ASSERT(c->segment_count != 0);
    bool opening = tcp_is_opening(c);
    if (now_ns >= tcp_give_up_at_ns(c, c->deadline.backoff)) {
        connection_gave_up(stack, c);
        return;
    }
    if (opening)
        c->syn_resent = true;
    else
        tcp_recovery_timeout(stack, c, now_ns);
    tcp_rto_expired(c, now_ns);
    if ((opening || c->deadline.backoff == TCP_R1_RETRANSMITS) && tcp_next_hop(stack, c) != 0)
        arp_doubt(&stack->ip, tcp_next_hop(stack, c), now_ns);
    if (opening) {
        tcp_syn_send(stack, c, now_ns);
        tcp_timer_set(stack, c, TCP_TIMER_RTO, c->deadline.rto_at_ns);
    } else {
        tcp_output(stack, c, now_ns);
    }
}

/* RFC 9293 MUST-36: Probes a closed window. As long as the peer answers, a closed window does not end the connection,
 * even if the next probe is later than the time-out. There are two exceptions. An orphan ends (RFC 6429 §4; Linux:
 * tcp_orphan_retries), or peers that never open the window could hold all connections. A connection with the
 * application's own time-out ends, too. */
static void window_probe_due(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    ASSERT(c->segment_count == 0);
    if (c->last_sent_ns > tcp_wait_began_ns(c) && now_ns >= tcp_give_up_at_ns(c, c->probe_count)) {
        connection_gave_up(stack, c);
        return;
    }
    tcp_window_probe_count(c);
    tcp_probe_send(stack, c, now_ns);
    tcp_timer_rearm(stack, c, now_ns);
}

/* RFC 8985 §7.3: Sends new data if there is any and the peer takes it, else the last segment again. */
static void tail_probe_send(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    ASSERT(c->segment_count != 0);
    NET_COUNT(stack, tcp_tx_tail_probes);
    uint32_t nxt_before = c->snd_nxt;
    tcp_output_tail(stack, c, now_ns);
    bool resend = c->snd_nxt == nxt_before;
    struct tcp_segment *last = tcp_sendqueue_at(c, c->segment_count - 1);
    if (!resend || tcp_resend(stack, c, last, last->bytes, now_ns))
        tcp_recovery_tail_probed(c, resend);
}

static void timer_due(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    enum tcp_timer timer = c->timer;
    ASSERT(timer != TCP_TIMER_NONE);
    tcp_stall_note(c, now_ns);
    tcp_timer_stop(c);
    switch (timer) {
    case TCP_TIMER_RTO:
        rto_due(stack, c, now_ns);
        break;
    case TCP_TIMER_TAIL_PROBE:
        tail_probe_send(stack, c, now_ns);
        tcp_rto_restart(c, now_ns); /* RFC 8985 §7.3, end */
        tcp_timer_rearm(stack, c, now_ns);
        break;
    case TCP_TIMER_REORDER:
        tcp_recovery_reorder_timeout(stack, c, now_ns);
        tcp_output(stack, c, now_ns);
        break;
    case TCP_TIMER_WINDOW_PROBE:
        window_probe_due(stack, c, now_ns);
        break;
    case TCP_TIMER_NONE:
        break;
    }
}

/* RFC 9293 §3.8.4: Sends a keepalive: a segment without payload, one before the number that the peer expects. The
 * peer must answer. */
static void keepalive_due(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    ASSERT(c->deadline.keepalive_ns != TCP_NEVER_NS);
    uint64_t quiet_ns = now_ns - c->last_received_ns;
    uint64_t idle_ns = c->policy.keepalive_idle_us * NS_PER_US;
    bool outstanding = c->segment_count != 0; /* the retransmission timer probes the peer already */
    bool stalled = time_stood_still(c->deadline.keepalive_ns, now_ns);
    /* RFC 5482: a user's time-out replaces the count of probes. */
    bool dead = c->policy.user_timeout ? c->keepalive_count != 0 && quiet_ns >= c->policy.data_give_up_us * NS_PER_US
                                       : c->keepalive_count >= c->policy.keepalive_count;
    if (outstanding || quiet_ns < idle_ns) {
        tcp_keepalive_start(stack, c, outstanding ? now_ns : c->last_received_ns);
    } else if (dead && !stalled) {        /* while the loop stood still nobody could answer: another probe */
        tcp_reset_send(stack, c, now_ns); /* a peer that is alive after all shall know */
        connection_gave_up(stack, c);
        return;
    } else {
        const struct tcp_frame frame = { .seq = c->snd_nxt - 1, .flags = TCP_ACK };
        if (tcp_frame_send(stack, c, &frame, now_ns)) { /* without a buffer: at the next interval */
            NET_COUNT(stack, tcp_tx_keepalives);
            tcp_keepalive_count(c);
        }
        tcp_keepalive_set(stack, c, now_ns + c->policy.keepalive_interval_us * NS_PER_US);
    }
}

static void deadlines_poll(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    if (tcp_is_opening(c) && c->blocked)
        tcp_syn_send(stack, c, now_ns);
    else if (c->blocked)
        tcp_output(stack, c, now_ns);
    if (c->deadline.timer_ns <= now_ns)
        timer_due(stack, c, now_ns);
    if (c->used && c->deadline.keepalive_ns <= now_ns)
        keepalive_due(stack, c, now_ns);
    if (c->used)
        tcp_connection_check(c);
}

/* Polls a connection's deadlines. A lone ACK, which each burst brings, does not cause the whole check. */
static void connection_poll(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    ASSERT(c->used);
    if (c->blocked || c->deadline.timer_ns <= now_ns || c->deadline.keepalive_ns <= now_ns)
        deadlines_poll(stack, c, now_ns);
    if (c->used && c->ack.timer_ns <= now_ns && c->ack.adaptive && c->ack.quick_left != 0)
        c->policy.ack = TCP_ACK_QUICK; /* the application's answer has not come: Linux, tcp_delack_timer_handler */
    if (c->used && (c->ack.now || c->ack.timer_ns <= now_ns))
        tcp_ack_send_now(stack, c, now_ns);
    if (c->used && c->deadline.fin_wait_2_ends_ns <= now_ns)
        tcp_connection_end(stack, c, TCP_TIMED_OUT);
}

static uint64_t connection_next_deadline_ns(const struct tcp_connection *c)
{
    if (!c->used)
        return TCP_NEVER_NS;
    if (c->blocked || c->ack.now)
        return 0;
    return min_ns(min_ns(c->deadline.timer_ns, c->ack.timer_ns),
                  min_ns(c->deadline.keepalive_ns, c->deadline.fin_wait_2_ends_ns));
}

uint64_t tcp_next_deadline_ns(const struct net_stack *stack)
{
    const struct tcp *tcp = &stack->tcp;
    uint64_t deadline_ns = min_ns(tcp_listen_next_deadline_ns(stack), tcp_time_wait_next_deadline_ns(stack));
    for (uint32_t i = 0; i < tcp->connection_end; i++)
        deadline_ns = min_ns(deadline_ns, connection_next_deadline_ns(&tcp->connections[i]));
    return deadline_ns;
}

void tcp_poll(struct net_stack *stack, uint64_t now_ns)
{
    struct tcp *tcp = &stack->tcp;
    if (now_ns < tcp->due_ns)
        return;
    tcp->due_ns = TCP_NEVER_NS;
    for (uint32_t i = 0; i < tcp->connection_end; i++)
        if (connection_next_deadline_ns(&tcp->connections[i]) <= now_ns)
            connection_poll(stack, &tcp->connections[i], now_ns);
    tcp_listen_poll(stack, now_ns);
    tcp_time_wait_poll(stack, now_ns);
    tcp_timer_due_at(stack, tcp_next_deadline_ns(stack));
}
