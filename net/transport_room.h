/* The capacity of the stack behind net/transport_own.c, and its static memory. Two files define them: transport_few.c
 * for most programs, transport_many.c for servers. The build links one (tools/make/program.mk). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "net/stack_state.h"
#include "net/tcp/connection.h"

extern const struct net_capacity own_capacity;
extern uint8_t own_memory[];
extern const size_t own_memory_bytes;

/* Defines all of them. The rest of the capacity is the same for every program. Messages leave 32 transmit buffers to
 * ARP, ICMP, UDP and acknowledgements. */
#define TRANSPORT_ROOM(connections, half_opens, segments, receive, send)                                               \
    enum { LISTENERS = TRANSPORT_LISTENER_COUNT_MAX, TIME_WAITS = 256, MESSAGES = NETDEV_TX_BUFFER_COUNT - 32 };       \
    const struct net_capacity own_capacity = { .connection_count = (connections),                                      \
                                               .listener_count = LISTENERS,                                            \
                                               .half_open_count = (half_opens),                                        \
                                               .time_wait_count = TIME_WAITS,                                          \
                                               .segment_count = (segments),                                            \
                                               .receive_bytes = (receive),                                             \
                                               .send_bytes = (send),                                                   \
                                               .message_count = MESSAGES };                                            \
    _Alignas(NET_STACK_ALIGN)                                                                                          \
        uint8_t own_memory[NET_ALIGNED(sizeof(struct net_stack))                                                       \
                           + TCP_BYTES(connections, LISTENERS, half_opens, TIME_WAITS, segments, receive, send)        \
                           + ARP_BYTES(connections)];                                                                  \
    const size_t own_memory_bytes = sizeof own_memory
