/* The policy: its default, and the values that follow from it for a connection. */
#include "net/tcp/policy.h"

#include "net/stack_state.h"

void tcp_policy_default(struct tcp_policy *policy)
{
    *policy = (struct tcp_policy){
        .ack = TCP_ACK_QUICK,
        .congestion = TCP_CUBIC,
        .ack_delay_us = 40000, /* Linux: TCP_DELACK_MIN */
        .rto_initial_us = 1000000,
        .rto_min_us = 200000,          /* Linux: TCP_RTO_MIN */
        .rto_max_us = 120000000,       /* Linux: TCP_RTO_MAX */
        .tlp_ack_delay_us = 200000,    /* RFC 8985 §7.2 */
        .initial_window_segments = 10, /* RFC 6928 */
        .slow_start_ack_segments = 0,  /* Linux: peers acknowledge all that their GRO has merged */
        .receive_buffer_bytes = 65535,
        .send_buffer_bytes = 65536,
        .window_scale = TCP_WINDOW_SCALE_AUTO,
        .window_scaling = true,
        .timestamps = true,
        .sack = true,
        .ecn = true,
        .slow_start_after_idle = true,
        .tail_probe = true,
        .path_mtu = true,
        .ttl = IPV4_TTL_DEFAULT,
        .syn_give_up_us = 180000000,               /* MUST-23: 3 min */
        .data_give_up_us = 900000000,              /* SHLD-11 asks 100 s; Linux ends after some 924 s */
        .time_wait_us = 60000000,                  /* Linux: TCP_TIMEWAIT_LEN */
        .fin_wait_2_us = 60000000,                 /* Linux: tcp_fin_timeout */
        .keepalive_idle_us = UINT64_C(7200000000), /* MUST-28, and Linux */
        .keepalive_interval_us = 75000000,
        .keepalive_count = 9,
    };
}

const struct tcp_policy *tcp_policy_get(const struct net_stack *stack) { return &stack->tcp.policy; }

/* RFC 7323 §2.3: Returns the shift with which the field can name the whole buffer. */
uint8_t tcp_window_scale_of(const struct net_stack *stack, const struct tcp_policy *policy)
{
    size_t bytes = min_size(policy->receive_buffer_bytes, stack->tcp.capacity.receive_bytes);
    uint8_t scale = 0;
    if (policy->window_scale != TCP_WINDOW_SCALE_AUTO)
        return policy->window_scale < TCP_WINDOW_SCALE_MAX ? policy->window_scale : TCP_WINDOW_SCALE_MAX;
    while (scale < TCP_WINDOW_SCALE_MAX && bytes > UINT32_C(0xffff) << scale)
        scale++;
    ASSERT(scale <= TCP_WINDOW_SCALE_MAX);
    return scale;
}

/* Returns the part of the ring that a connection may fill. One unit of the window field stays spare, because the
 * right edge may be rounded up by up to one unit. */
uint32_t tcp_receive_buffer_of(const struct net_stack *stack, const struct tcp_policy *policy)
{
    uint32_t ring_bytes = stack->tcp.capacity.receive_bytes, spare_bytes = 0;
    if (policy->window_scaling && tcp_window_scale_of(stack, policy) != 0)
        spare_bytes = UINT32_C(1) << tcp_window_scale_of(stack, policy);
    return min_u32(policy->receive_buffer_bytes, ring_bytes > spare_bytes ? ring_bytes - spare_bytes : 1);
}

/* RFC 9293 §3.7.1: Returns the MSS that we offer, without options: the sender subtracts them (RFC 6691). */
uint16_t tcp_mss_offered(const struct net_stack *stack, const struct tcp_policy *policy)
{
    uint32_t mss = stack->ip.interface.mtu_bytes - (uint32_t)(IPV4_HEADER_BYTES_MIN + TCP_HEADER_BYTES_MIN);
    return (uint16_t)(policy->mss != 0 ? min_size(policy->mss, mss) : mss);
}
