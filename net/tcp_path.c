/* What the network says about our segments: ICMP errors, the path MTU, neighbours. RFC 9293 §3.9.2.2, RFC 5927 (what
 * to believe), RFC 1191 (the path MTU). */
#include "net/icmp_wire.h"
#include "net/tcp_internal.h"

/* RFC 1191 §7, table 7-1: MTUs of networks, for routers that name none. */
static uint16_t plateau_below(uint32_t bytes)
{
    static const uint16_t plateaus[] = { 32000, 17914, 8166, 4352, 2002, 1492, 1006, 508, 296, 68 };
    for (size_t i = 0; i < ARRAY_COUNT(plateaus); i++)
        if (plateaus[i] < bytes)
            return plateaus[i];
    return 68;
}

/* RFC 1191 §6.3: what one connection has found out holds for the next ones to the same host, for as long as in Linux
 * (ip_rt_mtu_expires). */
#define PATH_KEPT_NS UINT64_C(600000000000)

static void path_remember(struct net_stack *stack, const struct tcp_connection *c, uint64_t now_ns)
{
    struct tcp_path *paths = stack->tcp.paths, *path = &paths[0];
    for (size_t i = 0; i < TCP_PATH_COUNT && path->peer_address != c->peer_address; i++)
        if (paths[i].peer_address == c->peer_address || paths[i].until_ns < path->until_ns)
            path = &paths[i];           /* its own, or the one that is forgotten first */
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

/* The path takes less: smaller segments, and what was too large goes again, at once and without blame for congestion
 * (RFC 1191 §6.5; Linux: tcp_simple_retransmit). */
static void path_mtu_lower(struct net_stack *stack, struct tcp_connection *c, uint32_t mtu_bytes, uint64_t now_ns)
{
    enum { MTU_BYTES_LEAST = 68 };      /* RFC 791: every link takes this much */
    if (mtu_bytes < MTU_BYTES_LEAST)
        mtu_bytes = MTU_BYTES_LEAST;
    bool cut = mtu_bytes < TCP_PATH_MTU_MIN && !c->fragment_ok;
    if (mtu_bytes < TCP_PATH_MTU_MIN)   /* whoever claims so may be an attacker: let routers cut, and stay useful */
        mtu_bytes = TCP_PATH_MTU_MIN;
    if (mtu_bytes >= c->path_mtu_bytes && !cut)
        return;
    c->fragment_ok = c->fragment_ok || cut;
    NET_COUNT(stack, tcp_path_mtu_lowered);
    c->path_mtu_bytes = (uint16_t)min_size(mtu_bytes, c->path_mtu_bytes);
    path_remember(stack, c, now_ns);
    c->snd_mss = (uint16_t)tcp_send_mss(c);
    tcp_frame_head_prepare(stack, c, now_ns);
    for (uint32_t i = 0; i < c->segment_count; i++) {
        struct tcp_segment *s = tcp_sendqueue_at(c, i);
        if (s->bytes > c->snd_mss && (s->marks & TCP_MARK_SACKED) == 0)
            tcp_sendqueue_mark(c, s, TCP_MARK_LOST, TCP_MARK_RESENT);
    }
    tcp_output(stack, c, now_ns);
}

/* RFC 9293 §3.9.2.2, RFC 5461 §2: hard in SYN-SENT only where the peer's host itself said so, or a filter that it is
 * forbidden, of which MUST-56 does not speak (Linux and FreeBSD end it, too); else never, unless that was asked for. */
static void path_error(struct net_stack *stack, struct tcp_connection *c, uint8_t type, uint8_t code)
{
    bool unreachable = type == ICMP_UNREACHABLE;        /* or time exceeded, parameter problem */
    bool by_host = unreachable && (code == ICMP_CODE_PORT_UNREACHABLE || code == ICMP_CODE_PROTOCOL_UNREACHABLE);
    bool forbidden = unreachable && (code == ICMP_CODE_NET_PROHIBITED || code == ICMP_CODE_HOST_PROHIBITED
                                     || code == ICMP_CODE_FILTERED);
    bool no_net = unreachable && (code == ICMP_CODE_NET_UNREACHABLE || code == ICMP_CODE_NET_PROHIBITED);
    enum tcp_result error = by_host ? TCP_REFUSED : no_net ? TCP_NO_ROUTE : TCP_UNREACHABLE;
    bool opening = c->state == TCP_SYN_SENT || c->state == TCP_SYN_RECEIVED;
    if (opening && (by_host || forbidden || c->policy.syn_soft_errors)) {
        NET_COUNT(stack, tcp_connects_failed);
        tcp_connection_end(stack, c, error);
        return;
    }
    NET_COUNT(stack, tcp_icmp_soft_errors);
    c->soft_error = error;
    stack->tcp.changed = true;
}

void tcp_icmp_error(struct net_stack *stack, uint8_t type, uint8_t code, uint16_t next_hop_mtu,
                    const struct ipv4_wire *quoted, const uint8_t *quoted_transport, uint64_t now_ns)
{
    /* Only 8 bytes of the transport's header are sure to be there: ports and sequence number. */
    uint16_t port = load_be16(quoted_transport), peer_port = load_be16(quoted_transport + 2);
    uint32_t seq = load_be32(quoted_transport + 4);
    struct tcp_connection *c = tcp_find(stack, load_be32(&quoted->destination), peer_port, port);

    /* RFC 5927 §4.1: it must quote something in flight; a blind attacker does not know what is. */
    if (c == NULL || c->segment_count == 0 || !seq_within(seq, c->snd_una, c->snd_nxt)) {
        NET_COUNT(stack, tcp_icmp_ignored);
        return;
    }
    if (type == ICMP_UNREACHABLE && code == ICMP_CODE_FRAGMENTATION_NEEDED) {
        uint32_t mtu_bytes = next_hop_mtu != 0 ? next_hop_mtu : plateau_below(load_be16(&quoted->total_bytes));
        if (c->policy.path_mtu && c->state != TCP_SYN_SENT)
            path_mtu_lower(stack, c, mtu_bytes, now_ns);
        else
            NET_COUNT(stack, tcp_icmp_ignored);
    } else {
        path_error(stack, c, type, code);
    }
}

/* ---- Neighbours ---- */

void tcp_neighbour_changed(struct net_stack *stack, uint32_t next_hop, const uint8_t mac[NETDEV_MAC_BYTES])
{
    for (uint32_t i = 0; i < stack->tcp.connection_end; i++) {
        struct tcp_connection *c = &stack->tcp.connections[i];
        if (!c->used || c->next_hop != next_hop)
            continue;
        c->neighbour_known = true;
        c->ready.on = false;
        memcpy(c->head.ethernet.destination, mac, NETDEV_MAC_BYTES);
    }
}

bool tcp_neighbour_in_use(const struct net_stack *stack, uint32_t next_hop)
{
    for (uint32_t i = 0; i < stack->tcp.connection_end; i++)
        if (stack->tcp.connections[i].used && stack->tcp.connections[i].next_hop == next_hop)
            return true;
    return false;
}

/* Nobody answers for the next hop. A connection that is just opening ends now; an open one has its own patience. */
void tcp_neighbour_failed(struct net_stack *stack, uint32_t next_hop, uint64_t now_ns)
{
    (void)now_ns;
    for (uint32_t i = 0; i < stack->tcp.connection_end; i++) {
        struct tcp_connection *c = &stack->tcp.connections[i];
        if (!c->used || c->next_hop != next_hop)
            continue;
        c->soft_error = TCP_UNREACHABLE;
        if (c->state == TCP_SYN_SENT) {
            NET_COUNT(stack, tcp_connects_failed);
            tcp_connection_end(stack, c, TCP_UNREACHABLE);
        }
    }
}
