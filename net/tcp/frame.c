/* One segment onto the wire: headers, options, payload, checksum, neighbour.
 *
 * Decides nothing: output.c and timer.c choose the segment and the time. Two forms: segments of an open connection,
 * whose head stands prepared in the control block, and single replies without a connection. */
#include "net/tcp/frame.h"

#include "net/ip/checksum.h"
#include "net/stack_state.h"
#include "net/tcp/deadline.h"
#include "net/tcp/ranges.h"
#include "net/tcp/route.h"
#include "net/tcp/rtt.h"
#include "net/tcp/window.h"

enum {
    TCP_HEAD_OFFSET = sizeof(struct ethernet_wire) + sizeof(struct ipv4_wire), /* the TCP header's place */
    TCP_CHECKSUM_OFFSET = offsetof(struct tcp_wire, checksum),
};

void tcp_frame_head_prepare(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    struct tcp_head_wire *head = &c->head;
    if (c->state == TCP_SYN_SENT) /* the peer's SYN decides the options of the head */
        return;
    c->ready.on = false;
    const struct ipv4_output output = {
        .source = c->address,
        .destination = c->peer_address,
        .protocol = IPV4_PROTOCOL_TCP,
        .tos = c->ecn.on ? c->policy.tos & (uint8_t)~IPV4_ECN_MASK : c->policy.tos,
        .ttl = c->policy.ttl,
        .flags_offset = tcp_may_be_cut(c) ? 0 : IPV4_DONT_FRAGMENT,
    };
    c->head_bytes = c->timestamps_on ? sizeof *head : offsetof(struct tcp_head_wire, timestamps);
    memcpy(head->ethernet.source, stack->ip.device->mac, NETDEV_MAC_BYTES);
    store_be16(&head->ethernet.type, ETHERNET_TYPE_IPV4);
    ipv4_header_write(&head->ipv4, &output, 0);
    store_be16(&head->tcp.source_port, c->port);
    store_be16(&head->tcp.destination_port, c->peer_port);
    head->tcp.checksum = head->tcp.urgent = 0;
    store_be32(&head->timestamps.nop_nop_kind_bytes, TCP_TIMESTAMPS_ALIGNED_WORD);

    const uint8_t *mac = NULL;
    uint32_t next_hop;
    if (ipv4_next_hop(&stack->ip, c->peer_address, &next_hop)) {
        tcp_next_hop_set(stack, c, next_hop, now_ns);
        mac = arp_lookup(&stack->ip, next_hop, !c->passive, now_ns);
    }
    c->neighbour_known = mac != NULL;
    ASSERT(!c->neighbour_known || tcp_next_hop(stack, c) != 0);
    if (mac != NULL)
        memcpy(head->ethernet.destination, mac, NETDEV_MAC_BYTES);
}

void tcp_frame_sent(struct tcp_connection *c, uint64_t now_ns)
{
    c->last_ack_sent = c->rcv_nxt;
    c->last_sent_ns = now_ns;
    tcp_ack_sent(c);
}

/* Returns the ECN codepoint of a segment. RFC 3168 §6.1.4, §6.1.5: routers may mark new data, and nothing else. */
static uint8_t frame_codepoint(const struct tcp_connection *c, bool new_data)
{
    return c->ecn.on && new_data ? IPV4_ECN_CAPABLE : 0;
}

/* Writes the fields that differ from segment to segment into a copy of the prepared head at `at`. */
static void frame_head_fill(struct net_stack *stack, const struct tcp_connection *c, uint8_t *at,
                            const struct tcp_frame *frame, uint16_t window, uint32_t option_bytes, uint64_t now_ns)
{
    struct tcp_head_wire *head = (struct tcp_head_wire *)at;
    uint32_t tcp_bytes = c->head_bytes - TCP_HEAD_OFFSET + option_bytes;
    ASSERT(tcp_bytes % 4 == 0);
    ASSERT(tcp_bytes <= TCP_HEADER_BYTES_MAX);
    store_be16(&head->ipv4.total_bytes, (uint16_t)(sizeof head->ipv4 + tcp_bytes + frame->bytes));
    head->ipv4.tos |= frame_codepoint(c, frame->bytes != 0 && !frame->again);
    if (tcp_may_be_cut(c))
        store_be16(&head->ipv4.id,
                   stack->ip.ipv4_id++); /* RFC 6864 §4.2: without own IDs fragments of two packets would mix */
    head->ipv4.checksum = 0;
    store_be16(&head->ipv4.checksum, checksum_finish(checksum_sum(0, &head->ipv4, sizeof head->ipv4)));
    store_be32(&head->tcp.seq, frame->seq);
    store_be32(&head->tcp.ack, (frame->flags & TCP_ACK) != 0 ? c->rcv_nxt : 0);
    head->tcp.offset = (uint8_t)(tcp_bytes / 4 << 4);
    head->tcp.flags = frame->flags | (c->ecn.echo ? TCP_ECE : 0);
    store_be16(&head->tcp.window, window);
    if (c->timestamps_on) {
        store_be32(&head->timestamps.value, tcp_timestamp_clock(now_ns, c->timestamp_offset));
        store_be32(&head->timestamps.echo, c->ts_recent);
    }
}

/* Writes the TCP checksum of the frame at `at`, or the pseudo-header's sum for a device that does the rest. */
static void frame_checksum(const struct tcp_connection *c, uint8_t *at, uint32_t frame_bytes, bool by_device)
{
    ASSERT(frame_bytes >= TCP_HEAD_OFFSET + TCP_HEADER_BYTES_MIN);
    struct tcp_wire *tcp = (struct tcp_wire *)(at + TCP_HEAD_OFFSET);
    uint16_t tcp_bytes = (uint16_t)(frame_bytes - TCP_HEAD_OFFSET);
    uint32_t sum = checksum_pseudo_ipv4(c->address, c->peer_address, IPV4_PROTOCOL_TCP, tcp_bytes);
    tcp->checksum = 0;
    store_be16(&tcp->checksum, by_device ? checksum_fold(sum) : checksum_finish(checksum_sum(sum, tcp, tcp_bytes)));
}

/* Writes SACK blocks if there are any and they fit. Returns their bytes. */
static uint32_t frame_sack_write(struct tcp_connection *c, uint8_t *at, uint32_t payload_bytes)
{
    struct tcp_range blocks[TCP_SACK_BLOCK_COUNT_MAX];
    if (!c->sack_on || (c->range_count == 0 && !c->ranges.dsack_pending))
        return 0;
    uint32_t count = tcp_receive_sack_blocks(c, blocks, c->timestamps_on ? 3 : 4);
    ASSERT(count != 0);
    ASSERT(count <= TCP_SACK_BLOCK_COUNT_MAX);
    uint32_t bytes = 4 + count * TCP_OPTION_SACK_BLOCK_BYTES;
    if (c->head_bytes - sizeof(struct ethernet_wire) + bytes + payload_bytes > c->path_mtu_bytes)
        return 0;
    at[0] = at[1] = TCP_OPTION_NOP;
    at[2] = TCP_OPTION_SACK;
    at[3] = (uint8_t)(2 + count * TCP_OPTION_SACK_BLOCK_BYTES);
    for (uint32_t i = 0; i < count; i++) {
        store_be32(at + 4 + i * TCP_OPTION_SACK_BLOCK_BYTES, blocks[i].left);
        store_be32(at + 8 + i * TCP_OPTION_SACK_BLOCK_BYTES, blocks[i].right);
    }
    tcp_dsack_sent(c);
    return bytes;
}

/* Copies payload from its segment's buffer or from the send ring. */
static void frame_payload_copy(const struct tcp_connection *c, uint8_t *at, const struct tcp_frame *frame)
{
    if (frame->bytes == 0)
        return;
    ASSERT(frame->segment != NULL);
    if (frame->segment->buffer != NULL) {
        memcpy(at, frame->segment->buffer->data + frame->segment->offset + frame->skip, frame->bytes);
        return;
    }
    uint32_t begin = (frame->segment->seq + frame->skip) & c->snd_mask;
    ASSERT(frame->bytes <= c->snd_mask + 1);
    uint32_t first = min_u32(frame->bytes, c->snd_mask + 1 - begin);
    memcpy(at, c->snd_ring + begin, first);
    memcpy(at + first, c->snd_ring, frame->bytes - first);
}

bool tcp_frame_send(struct net_stack *stack, struct tcp_connection *c, const struct tcp_frame *frame, uint64_t now_ns)
{
    struct tx_buffer *buffer = ethernet_send_begin(&stack->ip);
    if (buffer == NULL)
        return false;
    /* ARP may know the neighbour without a report to us, for example after a change of the gateway. */
    if (!c->neighbour_known)
        tcp_frame_head_prepare(stack, c, now_ns);
    ASSERT(c->head_bytes != 0);

    uint8_t *at = buffer->data;
    memcpy(at, &c->head, sizeof c->head);
    uint32_t option_bytes = frame_sack_write(c, at + c->head_bytes, frame->bytes);
    uint16_t window = (uint16_t)tcp_receive_window_update(c);
    frame_head_fill(stack, c, at, frame, window, option_bytes, now_ns);
    frame_payload_copy(c, at + c->head_bytes + option_bytes, frame);

    uint32_t frame_bytes = c->head_bytes + option_bytes + frame->bytes;
    bool by_device = stack->ip.device->tx_checksum && c->neighbour_known;
    frame_checksum(c, at, frame_bytes, by_device);
    bool sent = true;
    if (c->neighbour_known) {
        sent = ethernet_send(&stack->ip, buffer, frame_bytes, by_device ? TCP_HEAD_OFFSET : 0,
                             by_device ? TCP_CHECKSUM_OFFSET : 0);
    } else if (tcp_next_hop(stack, c) != 0) {
        sent = arp_send(&stack->ip, buffer, frame_bytes, tcp_next_hop(stack, c), !c->passive, now_ns);
    } else {
        /* The route went during the handshake. The segment is lost on the way, and sent again when there may be one. */
        NET_COUNT(stack, ipv4_tx_drop_no_route);
        stack->ip.device->ops->tx_release(stack->ip.device, buffer);
    }
    if (!sent)
        return false;
    NET_COUNT(stack, tcp_tx_segments);
    NET_COUNT(stack, ipv4_tx_datagrams);
    if ((frame->flags & TCP_ACK) != 0)
        tcp_frame_sent(c, now_ns);
    return true;
}

bool tcp_frame_send_held(struct net_stack *stack, struct tcp_connection *c, struct tx_buffer *buffer, uint8_t *payload,
                         uint32_t bytes, uint32_t seq, uint8_t flags, bool again, uint64_t now_ns)
{
    struct netdev *device = stack->ip.device;
    if (!c->neighbour_known || (buffer->holders & TX_HELD_BY_DEVICE) != 0)
        return false;
    ASSERT((buffer->holders & TX_HELD_BY_STACK) != 0);
    ASSERT(c->head_bytes != 0);
    uint8_t *at = payload - c->head_bytes;
    memcpy(at, &c->head, c->head_bytes);
    uint16_t window = (uint16_t)tcp_receive_window_update(c);
    const struct tcp_frame frame = { .seq = seq, .flags = flags, .bytes = bytes, .again = again };
    frame_head_fill(stack, c, at, &frame, window, 0, now_ns);
    uint32_t frame_bytes = c->head_bytes + bytes;
    frame_checksum(c, at, frame_bytes, device->tx_checksum);

    uint8_t *data_before = buffer->data;
    buffer->data = at;
    if (!device->ops->tx_publish(device, buffer, frame_bytes, device->tx_checksum ? TCP_HEAD_OFFSET : 0,
                                 device->tx_checksum ? TCP_CHECKSUM_OFFSET : 0)) {
        buffer->data = data_before;
        NET_COUNT(stack, ethernet_tx_ring_full);
        return false;
    }
    NET_COUNT(stack, ethernet_tx_frames);
    NET_COUNT(stack, ipv4_tx_datagrams);
    NET_COUNT(stack, tcp_tx_segments);
    tcp_frame_sent(c, now_ns);
    return true;
}

void tcp_frame_check(const struct tcp_connection *c)
{
    const uint32_t plain_bytes = offsetof(struct tcp_head_wire, timestamps), all_bytes = sizeof(struct tcp_head_wire);
    /* A head has room for the options agreed on, and for no other. */
    ASSERT(c->head_bytes == 0 || c->head_bytes == (c->timestamps_on ? all_bytes : plain_bytes));
    /* A segment to a known neighbour leaves without another test of the head. */
    ASSERT(!c->neighbour_known || c->head_bytes != 0);
    /* The options are agreed by the peer's SYN. */
    ASSERT(c->state != TCP_SYN_SENT || c->head_bytes == 0);
    /* The fast path reads head_bytes without a test. */
    ASSERT(tcp_is_opening(c) || c->state == TCP_CLOSED || c->head_bytes != 0);
}

/* ---- Replies without a connection ---- */

bool tcp_reply_send(struct net_stack *stack, const struct tcp_reply *reply, uint64_t now_ns)
{
    ASSERT(reply->option_bytes <= TCP_OPTION_BYTES_MAX);
    struct tx_buffer *buffer = ethernet_send_begin(&stack->ip);
    if (buffer == NULL)
        return false;
    struct tcp_wire *tcp = (struct tcp_wire *)(buffer->data + IPV4_PAYLOAD_OFFSET);
    uint16_t tcp_bytes = (uint16_t)(sizeof *tcp + reply->option_bytes);
    store_be16(&tcp->source_port, reply->port);
    store_be16(&tcp->destination_port, reply->peer_port);
    store_be32(&tcp->seq, reply->seq);
    store_be32(&tcp->ack, reply->ack);
    tcp->offset = (uint8_t)(tcp_bytes / 4 << 4);
    tcp->flags = reply->flags;
    store_be16(&tcp->window, reply->window);
    tcp->checksum = tcp->urgent = 0;
    memcpy(tcp + 1, reply->options, reply->option_bytes);
    uint32_t sum = checksum_pseudo_ipv4(reply->address, reply->peer_address, IPV4_PROTOCOL_TCP, tcp_bytes);
    store_be16(&tcp->checksum, checksum_finish(checksum_sum(sum, tcp, tcp_bytes)));
    const struct ipv4_output output = {
        .source = reply->address,
        .destination = reply->peer_address,
        .protocol = IPV4_PROTOCOL_TCP,
        .tos = reply->tos,
        .ttl = reply->ttl,
        .flags_offset = IPV4_DONT_FRAGMENT,
        .initiated = reply->initiated,
        .link_destination = reply->link_destination,
    };
    NET_COUNT(stack, tcp_tx_segments);
    return ipv4_output_send(&stack->ip, buffer, &output, tcp_bytes, now_ns);
}

void tcp_reply_add_timestamps(struct tcp_reply *reply, uint32_t value, uint32_t echo)
{
    struct tcp_timestamps_wire *option = (struct tcp_timestamps_wire *)(reply->options + reply->option_bytes);
    store_be32(&option->nop_nop_kind_bytes, TCP_TIMESTAMPS_ALIGNED_WORD);
    store_be32(&option->value, value);
    store_be32(&option->echo, echo);
    reply->option_bytes += sizeof *option;
    ASSERT(reply->option_bytes <= TCP_OPTION_BYTES_MAX);
}

/* RFC 9293 §3.10.7.1: Answers a segment that finds no connection with RST. Never answers an RST. */
void tcp_reply_reset(struct net_stack *stack, const struct tcp_received *r, uint64_t now_ns)
{
    if ((r->flags & TCP_RST) != 0)
        return;
    bool has_ack = (r->flags & TCP_ACK) != 0;
    const struct tcp_reply reply = {
        .address = stack->ip.interface.address,
        .peer_address = r->address,
        .port = r->port,
        .peer_port = r->peer_port,
        .seq = has_ack ? r->ack : 0,
        .ack = has_ack ? 0 : r->seq + tcp_received_space(r),
        .flags = has_ack ? TCP_RST : TCP_RST | TCP_ACK,
        .link_destination = r->packet->link_source,
    };
    NET_COUNT(stack, tcp_tx_resets);
    tcp_reply_send(stack, &reply, now_ns);
}

void tcp_reset_send(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    ASSERT(c->used);
    struct tcp_reply reply = {
        .address = c->address,
        .peer_address = c->peer_address,
        .port = c->port,
        .peer_port = c->peer_port,
        .seq = c->snd_nxt,
        .ack = c->rcv_nxt,
        .flags = TCP_RST | TCP_ACK,
        .ttl = c->policy.ttl,
        .tos = c->policy.tos,
        .initiated = !c->passive,
    };
    if (c->timestamps_on) /* RFC 7323 §3.2: SHOULD */
        tcp_reply_add_timestamps(&reply, tcp_timestamp_clock(now_ns, c->timestamp_offset), c->ts_recent);
    NET_COUNT(stack, tcp_tx_resets);
    tcp_reply_send(stack, &reply, now_ns);
}
