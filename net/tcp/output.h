/* The choice of the data to send now. */
#pragma once

#include "net/tcp/connection.h"
#include "net/tcp/seq.h"

/* Begins the time in which written data is not acknowledged, if there is such data: struct tcp_info. */
static inline void tcp_busy_begin(struct tcp_connection *c, uint64_t now_ns)
{
    if (c->output.busy_since_ns == 0 && seq_lt(c->snd_una, c->snd_end))
        c->output.busy_since_ns = now_ns;
}

/* Ends that time if all written data is acknowledged. */
static inline void tcp_busy_end(struct tcp_connection *c, uint64_t now_ns)
{
    if (c->output.busy_since_ns != 0 && seq_ge(c->snd_una, c->snd_end)) {
        c->output.busy_ns += now_ns - c->output.busy_since_ns;
        c->output.busy_since_ns = 0;
    }
}

/* Sends all that may be sent now: lost segments, then new data and FIN. Sets the timer that follows. */
void tcp_output(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
/* Sends the first `bytes` of a segment again. Returns false if no buffer is free; tcp_output then tries again at the
 * next net_idle. */
bool tcp_resend(struct net_stack *stack, struct tcp_connection *c, struct tcp_segment *s, uint32_t bytes,
                uint64_t now_ns);
/* Notes that a message of `bytes` has left as one segment, which is in the queue already. */
void tcp_output_sent(struct net_stack *stack, struct tcp_connection *c, uint32_t bytes, uint64_t now_ns);
/* Sends one segment of new data, whatever the congestion window is; nothing if there is none. */
void tcp_output_tail(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
/* Sends a pure ACK. Without a buffer the ACK is due at the next net_idle. */
void tcp_ack_send_now(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
/* Probes a window that is closed, or too small for the data that waits. */
void tcp_probe_send(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
