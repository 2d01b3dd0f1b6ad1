/* The messages of net/transport.h. */
#pragma once

#include "net/tcp/connection.h"

/* The message area begins after the longest head; its last bytes still fit the buffer. */
enum { TCP_MESSAGE_OFFSET = sizeof(struct tcp_head_wire) };

/* Returns the message area, which is taken if the connection has none. NULL: not now. */
uint8_t *tcp_message(struct net_stack *stack, struct tcp_connection *c);
/* Sends a message that tcp_message_send cannot send as it stands. Returns false if not now. */
bool tcp_message_send_long(struct net_stack *stack, struct tcp_connection *c, uint32_t from, uint32_t bytes,
                           uint64_t now_ns);
/* Updates the accounts after a message has left as one segment. */
void tcp_message_sent(struct net_stack *stack, struct tcp_connection *c, uint32_t bytes, uint64_t now_ns);
