/* Queries of a connection, and changes of its options while it is open. */
#include "net/tcp/sockets.h"

#include "base/time.h"
#include "net/stack_state.h"
#include "net/tcp/check.h"
#include "net/tcp/deadline.h"
#include "net/tcp/frame.h"
#include "net/tcp/output.h"
#include "net/tcp/policy.h"
#include "net/tcp/send_queue.h"
#include "net/tcp/seq.h"
#include "net/tcp/table.h"
#include "net/tcp/time_wait.h"
#include "net/tcp/window.h"

uint32_t tcp_poll_bits(const struct net_stack *stack, int connection)
{
    const struct tcp_connection *c = tcp_connection_of(stack, connection);
    if (c == NULL)
        return TCP_POLL_ERROR | TCP_POLL_HUNG_UP;
    bool over = tcp_is_over(c), opening = tcp_is_opening(c);
    uint32_t kept = c->snd_end - c->snd_una;
    uint32_t bits = 0;
    if (tcp_receive_unread(c) != 0 || c->fin_received || over)
        bits |= TCP_POLL_READ;
    if (over || c->fin_wanted || (!opening && kept < c->snd_buffer_bytes))
        bits |= TCP_POLL_WRITE;
    if (c->fin_received || over)
        bits |= TCP_POLL_ENDED;
    if (over || (c->fin_received && c->fin_wanted))
        bits |= TCP_POLL_HUNG_UP;
    if (c->error != TCP_OK && !c->error_taken)
        bits |= TCP_POLL_ERROR;
    return bits;
}

enum tcp_result tcp_take_error(struct net_stack *stack, int connection)
{
    struct tcp_connection *c = tcp_connection_of(stack, connection);
    if (c == NULL)
        return TCP_INVALID;
    if (c->error_taken)
        return TCP_OK;
    c->error_taken = c->error != TCP_OK;
    return c->error;
}

enum tcp_result tcp_take_soft_error(struct net_stack *stack, int connection)
{
    struct tcp_connection *c = tcp_connection_of(stack, connection);
    if (c == NULL || c->state == TCP_CLOSED)
        return TCP_OK;
    enum tcp_result error = c->soft_error;
    c->soft_error = TCP_OK;
    return error;
}

/* Returns the state. The table of TIME-WAIT decides the end of TIME-WAIT; the connection itself only keeps unread
 * data. */
static enum tcp_state state_of(const struct net_stack *stack, const struct tcp_connection *c)
{
    bool over = c->state == TCP_TIME_WAIT
                && !tcp_time_wait_holds(stack, tcp_key(c->peer_address, c->peer_port, c->port));
    return over ? TCP_CLOSED : (enum tcp_state)c->state;
}

enum tcp_state tcp_state(const struct net_stack *stack, int connection)
{
    const struct tcp_connection *c = tcp_connection_of(stack, connection);
    return c != NULL ? state_of(stack, c) : TCP_CLOSED;
}

const char *tcp_state_name(enum tcp_state state)
{
    static const char *const names[] = {
        [TCP_CLOSED] = "CLOSED",           [TCP_LISTEN] = "LISTEN",
        [TCP_SYN_SENT] = "SYN-SENT",       [TCP_SYN_RECEIVED] = "SYN-RECEIVED",
        [TCP_ESTABLISHED] = "ESTABLISHED", [TCP_FIN_WAIT_1] = "FIN-WAIT-1",
        [TCP_FIN_WAIT_2] = "FIN-WAIT-2",   [TCP_CLOSE_WAIT] = "CLOSE-WAIT",
        [TCP_CLOSING] = "CLOSING",         [TCP_LAST_ACK] = "LAST-ACK",
        [TCP_TIME_WAIT] = "TIME-WAIT",
    };
    return (size_t)state < ARRAY_COUNT(names) ? names[state] : "?";
}

bool tcp_endpoints(const struct net_stack *stack, int connection, struct tcp_endpoints *endpoints)
{
    const struct tcp_connection *c = tcp_connection_of(stack, connection);
    if (c == NULL)
        return false;
    *endpoints = (struct tcp_endpoints){
        .address = c->address,
        .peer_address = c->peer_address,
        .port = c->port,
        .peer_port = c->peer_port,
    };
    return true;
}

/* ---- Options ---- */

void tcp_set_nodelay(struct net_stack *stack, int connection, bool nodelay, uint64_t now_ns)
{
    struct tcp_connection *c = tcp_connection_of(stack, connection);
    if (c == NULL)
        return;
    bool cork = c->policy.cork;
    c->policy.nodelay = nodelay;
    /* TCP_NODELAY releases the data that Nagle's algorithm or a cork holds back. As in Linux, the cork then holds later
     * data. */
    c->policy.cork = cork && !nodelay;
    tcp_output(stack, c, now_ns);
    c->policy.cork = cork;
}

void tcp_set_cork(struct net_stack *stack, int connection, bool cork, uint64_t now_ns)
{
    struct tcp_connection *c = tcp_connection_of(stack, connection);
    if (c == NULL)
        return;
    c->policy.cork = cork;
    tcp_output(stack, c, now_ns);
}

void tcp_set_ack_policy(struct net_stack *stack, int connection, enum tcp_ack_policy policy, uint32_t delay_us)
{
    struct tcp_connection *c = tcp_connection_of(stack, connection);
    if (c == NULL)
        return;
    c->policy.ack = policy;
    c->policy.ack_delay_us = delay_us;
    tcp_ack_policy_take(c);
}

void tcp_set_receive_buffer(struct net_stack *stack, int connection, uint32_t bytes)
{
    struct tcp_connection *c = tcp_connection_of(stack, connection);
    if (c == NULL)
        return;
    c->policy.receive_buffer_bytes = bytes;
    c->rcv_buffer_bytes = tcp_receive_buffer_of(stack, &c->policy);
}

void tcp_set_send_buffer(struct net_stack *stack, int connection, uint32_t bytes)
{
    struct tcp_connection *c = tcp_connection_of(stack, connection);
    if (c == NULL)
        return;
    c->policy.send_buffer_bytes = bytes;
    c->snd_buffer_bytes = min_u32(bytes, stack->tcp.capacity.send_bytes);
    stack->tcp.changed = true;
}

void tcp_set_keepalive(struct net_stack *stack, int connection, bool on, uint64_t now_ns)
{
    struct tcp_connection *c = tcp_connection_of(stack, connection);
    if (c == NULL)
        return;
    c->policy.keepalive = on;
    tcp_keepalive_set(stack, c, TCP_NEVER_NS);
    if (on && c->state >= TCP_ESTABLISHED && c->state != TCP_TIME_WAIT)
        tcp_keepalive_start(stack, c, now_ns);
}

void tcp_set_keepalive_times(struct net_stack *stack, int connection, const struct tcp_policy *policy, uint64_t now_ns)
{
    struct tcp_connection *c = tcp_connection_of(stack, connection);
    if (c == NULL)
        return;
    bool idle_changed = c->policy.keepalive_idle_us != policy->keepalive_idle_us;
    c->policy.keepalive_idle_us = policy->keepalive_idle_us;
    c->policy.keepalive_interval_us = policy->keepalive_interval_us;
    c->policy.keepalive_count = policy->keepalive_count;
    if (idle_changed && c->deadline.keepalive_ns != TCP_NEVER_NS) /* the wait counts from the last received segment */
        tcp_keepalive_set(stack, c, max_size(now_ns, c->last_received_ns + c->policy.keepalive_idle_us * NS_PER_US));
}

void tcp_set_patience(struct net_stack *stack, int connection, const struct tcp_policy *policy)
{
    struct tcp_connection *c = tcp_connection_of(stack, connection);
    if (c == NULL)
        return;
    c->policy.data_give_up_us = policy->data_give_up_us;
    c->policy.user_timeout = policy->user_timeout;
    c->policy.fin_wait_2_us = policy->fin_wait_2_us;
}

void tcp_set_packets(struct net_stack *stack, int connection, const struct tcp_policy *policy, uint64_t now_ns)
{
    struct tcp_connection *c = tcp_connection_of(stack, connection);
    if (c == NULL || tcp_is_over(c))
        return;
    c->policy.ttl = policy->ttl;
    c->policy.tos = policy->tos;
    c->policy.path_mtu = policy->path_mtu;
    tcp_frame_head_prepare(stack, c, now_ns);
    tcp_connection_check(c);
}

void tcp_set_mss(struct net_stack *stack, int connection, uint16_t mss)
{
    struct tcp_connection *c = tcp_connection_of(stack, connection);
    if (c == NULL)
        return;
    c->policy.mss = mss;
    tcp_send_mss_update(c);
}

bool tcp_info(const struct net_stack *stack, int connection, struct tcp_info *info)
{
    const struct tcp_connection *c = tcp_connection_of(stack, connection);
    if (c == NULL)
        return false;
    *info = (struct tcp_info){
        .state = state_of(stack, c),
        .timestamps = c->timestamps_on,
        .sack = c->sack_on,
        .window_scaling = c->scaling_on,
        .ecn = c->ecn.on,
        .ecn_seen = c->ecn.seen,
        .snd_scale = c->snd_scale,
        .rcv_scale = c->rcv_scale,
        .rto_us = (uint32_t)(c->rtt.rto_ns / NS_PER_US),
        .srtt_us = (uint32_t)(c->rtt.srtt_ns / NS_PER_US),
        .rttvar_us = (uint32_t)(c->rtt.rttvar_ns / NS_PER_US),
        .rtt_min_us = (uint32_t)(c->rtt.min_ns / NS_PER_US),
        .snd_mss = c->snd_mss,
        .rcv_mss = c->rcv_mss,
        .path_mtu_bytes = c->path_mtu_bytes,
        .cwnd_bytes = c->congestion.cwnd,
        .ssthresh_bytes = c->congestion.ssthresh,
        .snd_wnd = c->snd_wnd,
        .rcv_wnd = tcp_receive_window(c),
        .unsent_bytes = seq_lt(c->snd_nxt, c->snd_end) ? c->snd_end - c->snd_nxt : 0,
        .unacked_bytes = c->snd_nxt - c->snd_una,
        .in_flight_bytes = tcp_in_flight(c),
        .sacked_bytes = c->queue.sacked_bytes,
        .lost_bytes = c->queue.lost_bytes,
        .resent_bytes = c->queue.resent_bytes,
        .unacked_segments = c->segment_count,
        .retransmits = c->deadline.backoff,
        .window_probes = c->probe_count,
        .mss_offered = tcp_mss_offered(stack, &c->policy),
        .reordering_segments = c->recovery.rack.reordering_segments,
        .reordering_count = c->recovery.rack.reordering_count,
        .busy_ns = c->output.busy_ns,
        .busy_since_ns = c->output.busy_since_ns,
        .last_data_received_ns = tcp_data_received_ns(c),
        .window_limited_ns = c->output.window_limited_ns,
        .window_limited_since_ns = c->output.window_limited_since_ns,
        .unread_bytes = tcp_receive_unread(c),
        .retransmits_total = c->retransmits_total,
        .bytes_acked = c->bytes_acked,
        .bytes_received = c->bytes_received,
        .in_recovery = c->recovery_state != TCP_OPEN,
        .in_loss = c->recovery_state == TCP_LOSS,
        .in_disorder = c->recovery_state == TCP_OPEN && (c->queue.sacked_bytes != 0 || c->recovery.duplicate_acks != 0),
    };
    return true;
}
