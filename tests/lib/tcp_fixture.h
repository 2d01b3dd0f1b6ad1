/* The common start of test programs that play single segments: cmocka, and one peer (tests/lib/tcp_peer.h), a new one
 * for each test. The test program includes this file once. */
#pragma once

#include "net/stack_state.h"
#include "tests/lib/tcp_peer.h"
#include "tests/lib/test.h"

static struct peer peer;
static struct peer *const p = &peer;

BEFORE_EACH() { peer_begin(p, NULL); }
AFTER_EACH() { peer_end(p); }

static inline void begin_with(struct tcp_policy *policy)
{
    peer_end(p);
    peer_begin(p, policy);
}

/* Begins to open a connection: the SYN leaves. */
static inline void open_sends_syn(void)
{
    p->id = tcp_connect(p->stack, PEER_ADDRESS, PEER_PORT, 0, NULL, p->now_ns);
    peer_step(p);
    EXPECT(p, TCP_SYN, 0, 0, 0);
}

/* Closes a connection on which nothing was sent: the FIN leaves. */
static inline void close_sends_fin(void)
{
    tcp_close(p->stack, p->id, p->now_ns);
    peer_step(p);
    EXPECT(p, FA, 1, 1, 0);
}

/* Shuts a connection on which nothing was sent for writing: the FIN leaves. */
static inline void shutdown_sends_fin(void)
{
    tcp_shutdown(p->stack, p->id, p->now_ns);
    peer_step(p);
    EXPECT(p, FA, 1, 1, 0);
}

/* Aborts the connection, and passes over the segments that wait. */
static inline void abort_connection(void)
{
    tcp_abort(p->stack, p->id, p->now_ns);
    peer_step(p);
    peer_drain(p);
}
