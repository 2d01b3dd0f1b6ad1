/* Opening connections: the active open, and the listener's side. RFC 9293 §3.10.1. */
#include "net/tcp/sockets.h"

#include "net/stack_state.h"
#include "net/tcp/check.h"
#include "net/tcp/deadline.h"
#include "net/tcp/frame.h"
#include "net/tcp/handshake.h"
#include "net/tcp/listen.h"
#include "net/tcp/route.h"
#include "net/tcp/send_queue.h"
#include "net/tcp/seq.h"
#include "net/tcp/table.h"
#include "net/tcp/time_wait.h"

/* ---- Active open ---- */

static bool tuple_taken(const struct net_stack *stack, uint32_t address, uint16_t port, uint16_t from_port)
{
    uint64_t key = tcp_key(address, port, from_port);
    return tcp_find(stack, address, port, from_port) != NULL || tcp_time_wait_holds(stack, key)
           || tcp_listen_holds(stack, key);
}

/* RFC 6056: Returns a free port; 0 if all are taken. */
static uint16_t port_choose(struct net_stack *stack, uint32_t address, uint16_t port)
{
    for (uint32_t tries = 0; tries < SECRET_PORT_COUNT; tries++) {
        uint16_t number = stack->tcp.port_number++;
        uint16_t from_port = (uint16_t)(TCP_PORT_FIRST
                                        + secret_port(&stack->ip.secret, stack->ip.interface.address, address, port,
                                                      number));
        if (tcp_listener_find(stack, from_port) == NULL && !tuple_taken(stack, address, port, from_port))
            return from_port;
    }
    return 0;
}

int tcp_connect(struct net_stack *stack, uint32_t address, uint16_t port, uint16_t from_port,
                const struct tcp_policy *policy, uint64_t now_ns)
{
    uint32_t next_hop;
    if (port == 0)
        return TCP_INVALID;
    if (!ipv4_address_is_unicast(address) || ipv4_is_broadcast(&stack->ip, address)
        || address == stack->ip.interface.address || !ipv4_next_hop(&stack->ip, address, &next_hop)) /* MUST-46 */
        return TCP_NO_ROUTE;
    if (from_port == 0)
        from_port = port_choose(stack, address, port);
    else if (tuple_taken(stack, address, port, from_port))
        return TCP_IN_USE;
    if (from_port == 0)
        return TCP_NO_ROOM;
    struct tcp_connection *c = tcp_connection_take(stack, address, port, from_port,
                                                   policy != NULL ? policy : &stack->tcp.policy, now_ns);
    if (c == NULL)
        return TCP_NO_ROOM;

    const struct secret_tuple tuple = { c->address, address, from_port, port };
    c->state = TCP_SYN_SENT;
    tcp_next_hop_set(stack, c, next_hop, now_ns);
    tcp_iss_set(c, secret_isn(&stack->ip.secret, &tuple, now_ns));
    tcp_sendqueue_push(c, c->iss, 0, TCP_SYN, now_ns)->sent_ns = TCP_NEVER_NS; /* until tcp_syn_send sends it */
    tcp_rto_start(c, now_ns);
    tcp_timer_set(stack, c, TCP_TIMER_RTO, c->deadline.rto_at_ns);
    tcp_syn_send(stack, c, now_ns);
    NET_COUNT(stack, tcp_connects);
    tcp_connection_check(c);
    return c->index;
}

/* ---- Passive open ---- */

static uint16_t backlog_of(uint32_t backlog) { return (uint16_t)max_size(1, min_size(backlog, UINT16_MAX)); }

int tcp_listen(struct net_stack *stack, uint16_t port, uint32_t backlog, const struct tcp_policy *policy)
{
    if (port == 0)
        return TCP_INVALID;
    if (tcp_listener_find(stack, port) != NULL)
        return TCP_IN_USE;
    for (uint32_t i = 0; i < stack->tcp.capacity.listener_count; i++) {
        struct tcp_listener *listener = &stack->tcp.listeners[i];
        if (listener->used)
            continue;
        *listener = (struct tcp_listener){
            .used = true,
            .port = port,
            .backlog = backlog_of(backlog),
            .policy = policy != NULL ? *policy : stack->tcp.policy,
        };
        return (int)i;
    }
    return TCP_NO_ROOM;
}

bool tcp_port_in_use(const struct net_stack *stack, uint16_t port)
{
    const struct tcp *tcp = &stack->tcp;
    for (uint32_t i = 0; i < tcp->connection_end; i++)
        if (tcp->keys[i] != 0 && tcp->connections[i].port == port)
            return true;
    for (uint32_t i = 0; i < tcp->time_wait_used; i++)
        if (tcp->time_wait[i].port == port)
            return true;
    return false;
}

static struct tcp_listener *listener_of(const struct net_stack *stack, int listener)
{
    if (listener < 0 || (uint32_t)listener >= stack->tcp.capacity.listener_count)
        return NULL;
    return stack->tcp.listeners[listener].used ? &stack->tcp.listeners[listener] : NULL;
}

void tcp_listen_change(struct net_stack *stack, int listener, uint32_t backlog, const struct tcp_policy *policy)
{
    struct tcp_listener *l = listener_of(stack, listener);
    if (l == NULL)
        return;
    l->backlog = backlog_of(backlog);
    l->policy = *policy;
}

void tcp_unlisten(struct net_stack *stack, int listener, uint64_t now_ns)
{
    struct tcp_listener *l = listener_of(stack, listener);
    if (l == NULL)
        return;
    tcp_listen_forget(stack, listener);
    for (uint32_t i = stack->tcp.connection_end; i-- > 0;) {
        struct tcp_connection *c = &stack->tcp.connections[i];
        if (c->used && c->listener == listener) {
            tcp_reset_send(stack, c, now_ns);
            tcp_connection_end(stack, c, TCP_ABORTED);
        }
    }
    ASSERT(l->waiting_count == 0);
    ASSERT(l->half_open_count == 0);
    l->used = false;
}

int tcp_accept(struct net_stack *stack, int listener)
{
    struct tcp_connection *oldest = NULL;
    if (listener_of(stack, listener) == NULL)
        return TCP_INVALID;
    for (uint32_t i = 0; i < stack->tcp.connection_end; i++) {
        struct tcp_connection *c = &stack->tcp.connections[i];
        if (c->used && c->listener == listener && (oldest == NULL || seq_lt(c->accept_stamp, oldest->accept_stamp)))
            oldest = c;
    }
    if (oldest == NULL)
        return TCP_AGAIN;
    ASSERT(oldest->passive);
    tcp_listener_left(stack, oldest);
    return oldest->index;
}

uint32_t tcp_listener_poll_bits(const struct net_stack *stack, int listener)
{
    const struct tcp_listener *l = listener_of(stack, listener);
    return l != NULL && l->waiting_count != 0 ? TCP_POLL_READ : 0;
}
