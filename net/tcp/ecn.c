/* Explicit congestion notification: marks that come in are echoed, reductions of our window are reported. RFC 3168. */
#include "net/tcp/ecn.h"

#include "net/stack_state.h"
#include "net/tcp/deadline.h"

void tcp_ecn_begin(struct tcp_connection *c) { c->ecn.recover = c->iss; }

/* RFC 3168 §6.1.3: Echoes a congestion mark until the peer reports that it has reduced its window. Acknowledges a new
 * mark at once. */
void tcp_ecn_mark_take(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r)
{
    ASSERT(c->ecn.on);
    bool echo_before = c->ecn.echo;
    if ((r->flags & TCP_CWR) != 0)
        c->ecn.echo = false;
    if (r->congested) {
        NET_COUNT(stack, tcp_rx_marked);
        c->ecn.echo = c->ecn.seen = true;
        if (!echo_before)
            tcp_ack_owe(stack, c);
    }
    c->ready.on = c->ready.on && !c->ecn.echo;
}

/* Notes that the window has been reduced, for whatever reason. CWR reports the reduction to the peer, once for this
 * window. */
void tcp_ecn_reduction_note(struct tcp_connection *c)
{
    c->ecn.recover = c->snd_nxt;
    c->ecn.cwr = c->ecn.on;
    c->ready.on = c->ready.on && !c->ecn.cwr;
}

void tcp_ecn_reduction_undo(struct tcp_connection *c, bool cwr_before) { c->ecn.cwr = c->ecn.cwr && cwr_before; }

void tcp_ecn_check(const struct tcp_connection *c)
{
    /* ECN flags that were not agreed on mean nothing. */
    ASSERT(c->ecn.on || !(c->ecn.echo || c->ecn.cwr));
}
