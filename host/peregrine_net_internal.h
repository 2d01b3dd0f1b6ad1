/* What the files of libperegrine-net.so share: the stack behind a handle, and its sockets.
 *
 *   peregrine_net.c          stacks: made, given packets and time
 *   peregrine_net_words.c    the policy words
 *   peregrine_net_sockets.c  sockets: making, naming, ending, data
 *   peregrine_net_options.c  options, TCP_INFO, what lies in the queues */
#pragma once

#include "host/peregrine_net.h"
#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"
#include "net/netdev_ip.h"
#include "net/stack.h"
#include "net/stack_state.h"

enum socket_kind { SOCKET_FREE, SOCKET_FRESH, SOCKET_LISTENER, SOCKET_CONNECTION };

struct socket {
    enum socket_kind kind;
    int id;                         /* listener or connection */
    bool connecting;                /* the outcome of pnet_connect has not been told by pnet_connect yet */
    bool read_shut, write_shut, linger, reuse_address;
    int linger_s, linger2_s;        /* linger2_s 0: the default */
    int user_timeout_ms;            /* 0: the default */
    int error;                      /* a fresh one's, whose connecting was given up: told once */
    uint16_t port;                  /* bound to; 0: none */
    uint32_t backlog;               /* a listener's */
    struct tcp_policy policy;
};

struct pnet {
    uint64_t now_ns;
    struct net_stack *stack;
    void *memory, *buffers;         /* the stack's; packets on their way out */
    struct socket sockets[PNET_SOCKET_COUNT_MAX];
    struct netdev_ip device;
};

/* The socket of that number; NULL: there is none, or no stack. */
struct socket *pnet_socket_of(struct pnet *net, int number);
static inline int pnet_error_take(struct socket *s)
{
    int error = s->error;
    s->error = 0;
    return error;
}
/* The errno of an enum tcp_result. */
int pnet_errno_of(int64_t result);
