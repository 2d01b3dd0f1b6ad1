/* Reports of the network about our segments: ICMP errors, the path MTU, neighbours. RFC 9293 §3.9.2.2, RFC 5927
 * (validation), RFC 1191 (the path MTU). */
#include "net/tcp/path.h"

#include "net/ip/icmp_wire.h"
#include "net/stack_state.h"
#include "net/tcp/check.h"
#include "net/tcp/frame.h"
#include "net/tcp/listen.h"
#include "net/tcp/output.h"
#include "net/tcp/recovery.h"
#include "net/tcp/route.h"
#include "net/tcp/send_queue.h"
#include "net/tcp/seq.h"
#include "net/tcp/table.h"
#include "net/tcp/window.h"

/* RFC 1191 §7, table 7-1: Returns the next smaller MTU of common networks, for routers that name none. */
static uint16_t plateau_below(uint32_t bytes)
{
    static const uint16_t plateaus[] = { 32000, 17914, 8166, 4352, 2002, 1492, 1006, 508, 296, 68 };
    for (size_t i = 0; i < ARRAY_COUNT(plateaus); i++)
        if (plateaus[i] < bytes)
            return plateaus[i];
    return 68;
}

/* Lowers the path MTU: makes segments smaller, and resends at once those that were too large. That loss does not
 * count as congestion (RFC 1191 §6.5). */
static void path_mtu_lower(struct net_stack *stack, struct tcp_connection *c, uint32_t mtu_bytes, uint64_t now_ns)
{
    ASSERT(c->state != TCP_SYN_SENT);
    enum { MTU_BYTES_LEAST = 68 }; /* RFC 791: every link takes 68 bytes */
    if (mtu_bytes < MTU_BYTES_LEAST)
        mtu_bytes = MTU_BYTES_LEAST;
    bool cut = mtu_bytes < TCP_PATH_MTU_MIN && !c->fragment_ok;
    /* A claim below TCP_PATH_MTU_MIN may be an attack. Routers may then fragment, and the connection stays useful. */
    if (mtu_bytes < TCP_PATH_MTU_MIN)
        mtu_bytes = TCP_PATH_MTU_MIN;
    if (mtu_bytes >= c->path_mtu_bytes && !cut)
        return;
    c->fragment_ok = c->fragment_ok || cut;
    NET_COUNT(stack, tcp_path_mtu_lowered);
    c->path_mtu_bytes = (uint16_t)min_size(mtu_bytes, c->path_mtu_bytes);
    tcp_path_remember(stack, c, now_ns);
    tcp_send_mss_update(c);
    tcp_frame_head_prepare(stack, c, now_ns);
    for (uint32_t i = 0; i < c->segment_count; i++) {
        struct tcp_segment *s = tcp_sendqueue_at(c, i);
        if (s->bytes > c->snd_mss && (s->marks & TCP_MARK_SACKED) == 0)
            tcp_sendqueue_mark(c, s, TCP_MARK_LOST, TCP_MARK_RESENT);
    }
    if (c->queue.lost_bytes != 0)
        tcp_recovery_repair(c);
    tcp_output(stack, c, now_ns);
}

/* RFC 9293 §3.9.2.2, RFC 5461 §2: Takes an ICMP error. The error ends a connection only while it opens, and only if
 * the peer's host itself sent it or a filter forbids the connection. MUST-56 does not name the latter; Linux and
 * FreeBSD end the connection, too. Every other error is soft, unless the policy asks for hard ones. */
static void path_error(struct net_stack *stack, struct tcp_connection *c, uint8_t type, uint8_t code)
{
    bool unreachable = type == ICMP_UNREACHABLE; /* else time exceeded, or parameter problem */
    bool by_host = unreachable && (code == ICMP_CODE_PORT_UNREACHABLE || code == ICMP_CODE_PROTOCOL_UNREACHABLE);
    bool forbidden = unreachable
                     && (code == ICMP_CODE_NET_PROHIBITED || code == ICMP_CODE_HOST_PROHIBITED
                         || code == ICMP_CODE_FILTERED);
    bool no_net = unreachable && (code == ICMP_CODE_NET_UNREACHABLE || code == ICMP_CODE_NET_PROHIBITED);
    enum tcp_result error = by_host ? TCP_REFUSED : no_net ? TCP_NO_ROUTE : TCP_UNREACHABLE;
    if (tcp_is_opening(c) && (by_host || forbidden || c->policy.syn_soft_errors)) {
        NET_COUNT(stack, tcp_connects_failed);
        tcp_connection_end(stack, c, error);
        return;
    }
    NET_COUNT(stack, tcp_icmp_soft_errors);
    c->soft_error = error;
    stack->tcp.changed = true;
}

void tcp_icmp_error(struct net_stack *stack, const struct icmp_error *error, uint64_t now_ns)
{
    /* Only 8 bytes of the transport's header are certain: ports and sequence number. */
    uint16_t port = load_be16(error->transport), peer_port = load_be16(error->transport + 2);
    uint32_t seq = load_be32(error->transport + 4);
    struct tcp_connection *c = tcp_find(stack, error->destination, peer_port, port);

    /* RFC 5927 §4.1: the error must quote a segment in flight; a blind attacker knows none. */
    if (c == NULL || c->segment_count == 0 || !seq_within(seq, c->snd_una, c->snd_nxt)) {
        NET_COUNT(stack, tcp_icmp_ignored);
        return;
    }
    if (error->type == ICMP_UNREACHABLE && error->code == ICMP_CODE_FRAGMENTATION_NEEDED) {
        uint32_t mtu_bytes = error->next_hop_mtu_bytes != 0 ? error->next_hop_mtu_bytes
                                                            : plateau_below(error->total_bytes);
        if (c->policy.path_mtu && c->state != TCP_SYN_SENT)
            path_mtu_lower(stack, c, mtu_bytes, now_ns);
        else
            NET_COUNT(stack, tcp_icmp_ignored);
    } else {
        path_error(stack, c, error->type, error->code);
    }
    if (c->used)
        tcp_connection_check(c);
}

/* ---- Neighbours ---- */

/* Takes the connection's route, and ARP's knowledge of its next hop. Without an answer an opening connection ends now;
 * an open one waits for its own time-out. */
static void next_hop_update(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    uint32_t before = tcp_next_hop(stack, c), next_hop;
    if (!ipv4_next_hop(&stack->ip, c->peer_address, &next_hop))
        next_hop = before; /* no route any more: the neighbour may still forward */
    tcp_next_hop_set(stack, c, next_hop, now_ns);
    const uint8_t *mac = arp_known(&stack->ip, next_hop);
    bool same = c->neighbour_known && mac != NULL && memcmp(c->head.ethernet.destination, mac, NETDEV_MAC_BYTES) == 0;
    if (next_hop != before || (mac != NULL && !same))
        tcp_frame_head_prepare(stack, c, now_ns);
    if (arp_has_failed(&stack->ip, next_hop)) {
        c->soft_error = TCP_UNREACHABLE;
        if (c->state == TCP_SYN_SENT) {
            NET_COUNT(stack, tcp_connects_failed);
            tcp_connection_end(stack, c, TCP_UNREACHABLE);
            return;
        }
    }
    tcp_connection_check(c);
}

/* Takes the link's MTU if it is below that of the path. In SYN-SENT there is no text whose segments might be too
 * large. */
static void link_mtu_update(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    uint16_t mtu_bytes = stack->ip.interface.mtu_bytes;
    if (mtu_bytes >= c->path_mtu_bytes)
        return;
    if (c->state == TCP_SYN_SENT)
        c->path_mtu_bytes = mtu_bytes;
    else
        path_mtu_lower(stack, c, mtu_bytes, now_ns);
    ASSERT(c->path_mtu_bytes == mtu_bytes || mtu_bytes < TCP_PATH_MTU_MIN);
}

void tcp_next_hops_changed(struct net_stack *stack, uint64_t now_ns)
{
    for (uint32_t i = stack->tcp.connection_end; i-- > 0;) {
        struct tcp_connection *c = &stack->tcp.connections[i];
        if (c->used && tcp_next_hop(stack, c) != 0)
            next_hop_update(stack, c, now_ns);
        if (c->used && !tcp_is_over(c))
            link_mtu_update(stack, c, now_ns);
    }
}

void tcp_address_lost(struct net_stack *stack)
{
    for (uint32_t i = stack->tcp.connection_end; i-- > 0;) {
        struct tcp_connection *c = &stack->tcp.connections[i];
        if (c->used && !tcp_is_over(c)) /* TIME-WAIT has closed in order */
            tcp_connection_end(stack, c, TCP_UNREACHABLE);
    }
    tcp_listen_forget(stack, -1);
    stack->tcp.time_wait_used = 0;
}
