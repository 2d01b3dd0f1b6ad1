/* The fast paths inward. */
#pragma once

#include "net/ip/plain_ipv4.h"
#include "net/stack_state.h"
#include "net/tcp/fast.h"

/* Takes the predicted segment of a connection, or a usual datagram (net/ip/udp.h). Returns false if the frame is
 * neither; nothing has changed then, and net_input_frame_long takes it. */
static inline bool net_fast_receive(struct net_stack *stack, const struct frame *frame, uint64_t now_ns)
{
    bool may_be_datagram = frame->bytes > PLAIN_AT_PROTOCOL && frame->data[PLAIN_AT_PROTOCOL] == IPV4_PROTOCOL_UDP;
    if (__builtin_expect(!may_be_datagram, 1))
        return tcp_fast_receive(stack, frame, now_ns);
    bool datagram = udp_fast_receive(&stack->ip, frame, now_ns, &stack->datagram);
    stack->datagram_ready |= datagram;
    return datagram;
}
