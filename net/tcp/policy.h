/* The values that follow from the policy. */
#pragma once

#include "net/tcp/connection.h"

/* Returns the part of the receive ring that a connection may fill. */
uint32_t tcp_receive_buffer_of(const struct net_stack *stack, const struct tcp_policy *policy);
/* Returns our shift of the window field. */
uint8_t tcp_window_scale_of(const struct net_stack *stack, const struct tcp_policy *policy);
/* Returns the MSS that we offer. */
uint16_t tcp_mss_offered(const struct net_stack *stack, const struct tcp_policy *policy);
