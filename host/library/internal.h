/* The state that the files of libperegrine-net.so share: the stack of a handle, and its sockets.
 *
 *   peregrine_net.c   stacks: creation, packets, time
 *   words.c           the policy words
 *   sockets.c         sockets: creation, names, ends, data
 *   options.c         options, TCP_INFO, bytes in the queues
 *   netdev_ip.c       the device that carries IP packets */
#pragma once

#include "base/assert.h"
#include "base/bytes.h"
#include "host/library/netdev_ip.h"
#include "host/library/peregrine_net.h"
#include "net/stack.h"
#include "net/stack_state.h"
#include "net/tcp/sockets.h"

enum socket_kind { SOCKET_FREE, SOCKET_FRESH, SOCKET_LISTENER, SOCKET_CONNECTION };

struct socket {
    enum socket_kind kind;
    int id;          /* listener or connection */
    bool connecting; /* pnet_connect has not reported the outcome yet */
    bool read_shut, write_shut, linger, reuse_address;
    int linger_s, linger2_s; /* linger2_s 0: the default */
    int user_timeout_ms;     /* 0: the default */
    int error;               /* a fresh socket's, whose connection attempt was given up: reported once */
    uint16_t port;           /* bound to; 0: none */
    uint32_t backlog;        /* a listener's */
    struct tcp_policy policy;
};

struct pnet {
    uint64_t now_ns;
    struct net_stack *stack;
    void *memory, *buffers; /* the stack's memory; buffers of packets on their way out */
    struct socket sockets[PNET_SOCKET_COUNT_MAX];
    struct netdev_ip device;
};

/* Returns the socket of a number; NULL: there is no socket of this number, or no stack. */
struct socket *pnet_socket_of(struct pnet *net, int number);

/* Checks the state of one socket in use. */
void pnet_socket_check(const struct socket *s);

/* Returns a socket's pending error and clears the error. */
static inline int pnet_error_take(struct socket *s)
{
    int error = s->error;
    s->error = 0;
    return error;
}

/* Returns the errno of an enum tcp_result. */
int pnet_errno_of(int64_t result);
