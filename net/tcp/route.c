/* The way to a peer: the next hop of each connection, and path MTUs that later connections use. RFC 1191. */
#include "net/tcp/route.h"

#include "net/stack_state.h"

/* RFC 1191 §6.3: time for which new connections to a host use a path MTU that was found, as long as in Linux
 * (ip_rt_mtu_expires). */
#define PATH_KEPT_NS UINT64_C(600000000000)

void tcp_path_remember(struct net_stack *stack, const struct tcp_connection *c, uint64_t now_ns)
{
    ASSERT(c->path_mtu_bytes >= IPV4_MTU_BYTES_MIN);
    struct tcp_path *paths = stack->tcp.paths, *path = &paths[0];
    for (size_t i = 0; i < TCP_PATH_COUNT && path->peer_address != c->peer_address; i++)
        if (paths[i].peer_address == c->peer_address || paths[i].until_ns < path->until_ns)
            path = &paths[i]; /* the entry of this peer, or the one that expires first */
    *path = (struct tcp_path){
        .peer_address = c->peer_address,
        .mtu_bytes = c->path_mtu_bytes,
        .fragment_ok = c->fragment_ok,
        .until_ns = now_ns + PATH_KEPT_NS,
    };
}

void tcp_path_recall(const struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    for (size_t i = 0; i < TCP_PATH_COUNT; i++) {
        const struct tcp_path *path = &stack->tcp.paths[i];
        if (path->peer_address == c->peer_address && path->until_ns > now_ns && c->policy.path_mtu) {
            c->path_mtu_bytes = (uint16_t)min_size(c->path_mtu_bytes, path->mtu_bytes);
            c->fragment_ok = path->fragment_ok;
        }
    }
}

void tcp_next_hop_set(struct net_stack *stack, struct tcp_connection *c, uint32_t next_hop, uint64_t now_ns)
{
    uint32_t *known = &stack->tcp.next_hops[c->index];
    ASSERT(c->used);
    if (*known == next_hop)
        return;
    if (*known != 0)
        arp_connection_remove(&stack->ip, *known);
    if (next_hop != 0)
        arp_connection_add(&stack->ip, next_hop, now_ns);
    *known = next_hop;
}
