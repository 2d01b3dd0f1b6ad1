/* Control blocks: their memory, and how one is taken, found and ended. */
#include "net/tcp/table.h"

#include "base/time.h"
#include "net/stack_state.h"
#include "net/tcp/check.h"
#include "net/tcp/deadline.h"
#include "net/tcp/policy.h"
#include "net/tcp/ranges.h"
#include "net/tcp/route.h"
#include "net/tcp/send_queue.h"
#include "net/tcp/window.h"

/* ---- Memory ---- */

size_t tcp_bytes(const struct net_capacity *n)
{
    return TCP_BYTES(n->connection_count, n->listener_count, n->half_open_count, n->time_wait_count, n->segment_count,
                     n->receive_bytes, n->send_bytes);
}

static void *cut(uint8_t **memory, size_t bytes)
{
    void *piece = *memory;
    *memory += NET_ALIGNED(bytes);
    return piece;
}

void tcp_init(struct net_stack *stack, const struct net_config *config, uint8_t *memory)
{
    struct tcp *tcp = &stack->tcp;
    const struct net_capacity *n = &config->capacity;
    tcp->policy = config->policy;
    tcp->capacity = *n;
    tcp->due_ns = TCP_NEVER_NS;
    tcp->port_number = (uint16_t)secret_random(&stack->ip.secret);

    tcp->keys = cut(&memory, n->connection_count * sizeof(uint64_t));
    tcp->next_hops = cut(&memory, n->connection_count * sizeof(uint32_t));
    tcp->half_open_keys = cut(&memory, n->half_open_count * sizeof(uint64_t));
    tcp->time_wait_keys = cut(&memory, n->time_wait_count * sizeof(uint64_t));
    tcp->connections = cut(&memory, n->connection_count * sizeof(struct tcp_connection));
    tcp->half_open = cut(&memory, n->half_open_count * sizeof(struct tcp_half_open));
    tcp->time_wait = cut(&memory, n->time_wait_count * sizeof(struct tcp_time_wait));
    tcp->listeners = cut(&memory, n->listener_count * sizeof(struct tcp_listener));
    memset(tcp->keys, 0, n->connection_count * sizeof(uint64_t));
    memset(tcp->next_hops, 0, n->connection_count * sizeof(uint32_t));
    memset(tcp->listeners, 0, n->listener_count * sizeof(struct tcp_listener));
    for (uint32_t i = 0; i < n->connection_count; i++) {
        struct tcp_connection *c = &tcp->connections[i];
        c->used = false;
        c->segments = cut(&memory, n->segment_count * sizeof(struct tcp_segment));
        c->rcv_ring = cut(&memory, n->receive_bytes);
        c->snd_ring = cut(&memory, n->send_bytes);
    }
    ASSERT((uintptr_t)tcp->connections % NET_STACK_ALIGN == 0);
}

/* ---- The table ---- */

struct tcp_connection *tcp_find(const struct net_stack *stack, uint32_t peer_address, uint16_t peer_port, uint16_t port)
{
    const struct tcp *tcp = &stack->tcp;
    uint64_t key = tcp_key(peer_address, peer_port, port);
    for (uint32_t i = 0; i < tcp->connection_end; i++)
        if (tcp->keys[i] == key)
            return &tcp->connections[i];
    return NULL;
}

/* Returns the connection with this index; NULL if the application has none. */
struct tcp_connection *tcp_connection_of(const struct net_stack *stack, int connection)
{
    const struct tcp *tcp = &stack->tcp;
    if (connection < 0 || (uint32_t)connection >= tcp->connection_end)
        return NULL;
    struct tcp_connection *c = &tcp->connections[connection];
    return c->used && !c->orphan && c->listener < 0 ? c : NULL;
}

struct tcp_connection *tcp_connection_take(struct net_stack *stack, uint32_t peer_address, uint16_t peer_port,
                                           uint16_t port, const struct tcp_policy *policy, uint64_t now_ns)
{
    struct tcp *tcp = &stack->tcp;
    uint32_t index = 0;
    while (index < tcp->connection_end && tcp->connections[index].used)
        index++;
    if (index == tcp->capacity.connection_count)
        return NULL;
    if (index == tcp->connection_end)
        tcp->connection_end++;

    const struct secret_tuple tuple = { stack->ip.interface.address, peer_address, port, peer_port };
    struct tcp_connection *c = &tcp->connections[index];
    *c = (struct tcp_connection){
        .used = true,
        .state = TCP_CLOSED,
        .listener = -1,
        .index = (uint16_t)index,
        .address = stack->ip.interface.address,
        .peer_address = peer_address,
        .port = port,
        .peer_port = peer_port,
        .policy = *policy,
        .rcv_ring = c->rcv_ring,
        .rcv_mask = tcp->capacity.receive_bytes - 1,
        .rcv_buffer_bytes = tcp_receive_buffer_of(stack, policy),
        .rcv_mss = TCP_MSS_DEFAULT,
        .snd_ring = c->snd_ring,
        .snd_mask = tcp->capacity.send_bytes - 1,
        .snd_buffer_bytes = min_u32(policy->send_buffer_bytes, tcp->capacity.send_bytes),
        .segments = c->segments,
        .segment_mask = tcp->capacity.segment_count - 1,
        .peer_mss = TCP_MSS_DEFAULT,
        .path_mtu_bytes = stack->ip.interface.mtu_bytes,
        .timestamp_offset = secret_timestamp_offset(&stack->ip.secret, &tuple),
        .rtt.rto_ns = policy->rto_initial_us * NS_PER_US,
        .ack.timer_ns = TCP_NEVER_NS,
        .deadline.timer_ns = TCP_NEVER_NS,
        .deadline.keepalive_ns = TCP_NEVER_NS,
        .deadline.fin_wait_2_ends_ns = TCP_NEVER_NS,
        .last_received_ns = now_ns,
        .recovery.rack.window_multiplier = 1,
        .recovery.rack.reordering_segments = TCP_REORDERING_LEAST,
    };
    c->policy.window_scale = tcp_window_scale_of(stack, policy); /* our SYN's; no later buffer changes it */
    tcp_ack_policy_take(c);
    tcp_path_recall(stack, c, now_ns);
    tcp_send_mss_update(c);
    tcp->keys[index] = tcp_key(peer_address, peer_port, port);
    ASSERT(c->snd_mss != 0);
    ASSERT(tcp->connection_end <= tcp->capacity.connection_count);
    return c;
}

struct tcp_listener *tcp_listener_find(const struct net_stack *stack, uint16_t port)
{
    for (uint32_t i = 0; i < stack->tcp.capacity.listener_count; i++)
        if (stack->tcp.listeners[i].used && stack->tcp.listeners[i].port == port)
            return &stack->tcp.listeners[i];
    return NULL;
}

void tcp_listener_left(struct net_stack *stack, struct tcp_connection *c)
{
    if (c->listener >= 0)
        stack->tcp.listeners[c->listener].waiting_count--;
    c->listener = -1;
}

void tcp_connection_free(struct net_stack *stack, struct tcp_connection *c)
{
    struct tcp *tcp = &stack->tcp;
    ASSERT(c->used && c->segment_count == 0 && c->message == NULL);
    ASSERT(tcp_is_over(c) && tcp->keys[c->index] == 0);
    c->used = false;
    while (tcp->connection_end > 0 && !tcp->connections[tcp->connection_end - 1].used)
        tcp->connection_end--;
}

/* Ends a connection: nothing more is sent or received. Data that came in order can still be read, and `why` can be
 * asked for. */
void tcp_connection_end(struct net_stack *stack, struct tcp_connection *c, enum tcp_result why)
{
    ASSERT(c->used);
    tcp_sendqueue_clear(stack, c);
    if (c->message != NULL) {
        tcp_message_release(stack, c->message);
        c->message = NULL;
        c->ready.on = false;
    }
    stack->tcp.keys[c->index] = 0;
    tcp_next_hop_set(stack, c, 0, 0);
    stack->tcp.changed = true;
    c->state = TCP_CLOSED;
    c->error = why;
    tcp_ranges_clear(c);
    c->blocked = false;
    tcp_deadline_end(c);
    /* A connection that waits for tcp_accept has not been reported to the application, and need not be. */
    if (c->listener >= 0) {
        tcp_listener_left(stack, c);
        c->orphan = true;
    }
    if (c->orphan)
        tcp_connection_free(stack, c);
    else
        tcp_connection_check(c);
}
