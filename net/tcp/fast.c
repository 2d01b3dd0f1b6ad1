/* The path of nearly every segment of a game, in and out: header prediction (Van Jacobson, 1990) and a frame prepared
 * beforehand, in the form of seL4's fast path.
 *
 * First every condition is checked and nothing is changed. Any surprise sends the segment to the slow path
 * (net/stack.c, message.c), which finds the state unchanged. After the marker there are only stores, the same as the
 * slow path's for such a segment. tests/unit/tcp_fast_test.c holds both paths to the same state and the same frames.
 *
 * The predicted segment is the next one of a quiet connection: ESTABLISHED, all our data acknowledged, nothing out of
 * order, no timer except keepalive. The segment has payload, the one possible acknowledgement, no flag except
 * PSH, and no option except the agreed timestamps. */
#include "net/tcp/fast.h"

#include "base/hot_section.h"
#include "net/ip/checksum.h"
#include "net/ip/plain_ipv4.h"
#include "net/stack_state.h"
#include "net/tcp/frame.h"
#include "net/tcp/message.h"
#include "net/tcp/receive.h"
#include "net/tcp/rtt.h"
#include "net/tcp/seq.h"
#include "net/tcp/window.h"

/* Offsets from the Ethernet header, after those of net/ip/plain_ipv4.h. */
enum {
    AT_TCP = PLAIN_AT_PORTS,
    AT_OFFSET = 46, /* header length, flags */
    AT_TIMESTAMPS = 54,
};
static_assert(AT_OFFSET == AT_TCP + offsetof(struct tcp_wire, offset), "TCP header");
static_assert(AT_TIMESTAMPS == offsetof(struct tcp_head_wire, timestamps), "TCP header");

/* Returns true for EtherType IPv4, version 4 and 5 words of header. The type of service, in the high byte, may be
 * anything except CE. The bits that must be 0 are shifted and rotated above ECN's two bits, so one comparison tests
 * both. */
static bool is_plain_ipv4(uint32_t type_and_service)
{
    uint32_t rest = (type_and_service - PLAIN_IPV4) << 6;
    return (rest << 2 | rest >> 30) < IPV4_ECN_CONGESTED;
}

/* Takes the predicted segment. Cache lines: the frame's first two; two of the stack, two and the policy's of the
 * connection, the keys'. No copy for a `zero_copy` connection. */
HOT bool tcp_fast_receive(struct net_stack *stack, const struct frame *frame, uint64_t now_ns)
{
    const uint8_t *at = frame->data, *mac = stack->ip.device->mac;
    const struct tcp_head_wire *head = (const struct tcp_head_wire *)at;

    /* The frame must be for us alone, IPv4 without options, in one piece, TCP. */
    if (frame->bytes < AT_TIMESTAMPS || stack->fast_off || load_le32(at) != load_le32(mac)
        || load_le16(at + 4) != load_le16(mac + 4) || !is_plain_ipv4(load_le32(at + PLAIN_AT_TYPE))
        || !plain_is_whole(at, IPV4_PROTOCOL_TCP)
        || load_be32(at + PLAIN_AT_DESTINATION) != stack->ip.interface.address)
        return false;
    uint32_t total_bytes = load_be16(&head->ipv4.total_bytes);
    if (total_bytes > frame->bytes - PLAIN_AT_IPV4 || total_bytes < IPV4_HEADER_BYTES_MIN + TCP_HEADER_BYTES_MIN
        || (!NET_SKIP_CHECKSUMS && !plain_header_sum_is_good(at)))
        return false;
    if (!frame->checksum_good && !NET_SKIP_CHECKSUMS
        && !plain_payload_sum_is_good(at, IPV4_PROTOCOL_TCP, total_bytes - IPV4_HEADER_BYTES_MIN))
        return false;

    /* The segment must belong to a connection; the keys are the fields in memory order. */
    const struct tcp *tcp = &stack->tcp;
    uint64_t key = (uint64_t)load_be32(at + PLAIN_AT_SOURCE) << 32 | load_be32(at + AT_TCP);
    uint32_t index = 0;
    while (index < tcp->connection_end && tcp->keys[index] != key)
        index++;
    if (index == tcp->connection_end)
        return false;

    /* The connection must be quiet. No timer means that nothing is in flight and nothing waits to be sent. */
    struct tcp_connection *c = &tcp->connections[index];
    uint32_t ack = load_be32(&head->tcp.ack);
    if (c->state != TCP_ESTABLISHED || c->busy != 0 || c->snd_una != ack || c->snd_nxt != ack
        || c->congestion.cwnd < c->snd_mss)
        return false;

    /* The segment must be the next one. */
    uint32_t seq = load_be32(&head->tcp.seq), header_bytes = c->head_bytes - (uint32_t)AT_TCP;
    uint32_t bytes = total_bytes - IPV4_HEADER_BYTES_MIN - header_bytes;
    uint16_t window = load_be16(&head->tcp.window);
    if (total_bytes <= IPV4_HEADER_BYTES_MIN + header_bytes || seq != c->rcv_nxt || seq_gt(seq + bytes, c->rcv_adv)
        || (load_le16(at + AT_OFFSET) & ~(TCP_PSH << 8)) != (TCP_ACK << 8 | header_bytes << 2) || window == 0
        || seq_gt(c->snd_wl1, seq))
        return false;
    uint32_t timestamp = 0;
    if (c->timestamps_on) {
        timestamp = load_be32(&head->timestamps.value);
        if (load_be32(at + AT_TIMESTAMPS) != TCP_TIMESTAMPS_ALIGNED_WORD || seq_lt(timestamp, c->ts_recent))
            return false;
    }

    /* ---- Predicted: nothing is refused from here on ---- */

    tcp_window_set(c, (uint32_t)window << c->snd_scale, seq, ack);
    if (c->timestamps_on && seq_le(seq, c->last_ack_sent)) { /* RFC 7323 §4.3 (2) */
        c->ts_recent = timestamp;
        c->ts_recent_ns = now_ns;
    }
    tcp_received_note(c, now_ns);
    stack->fast_received_count++;
    tcp_receive_in_order(stack, c, at + c->head_bytes, bytes, true, now_ns);
    ASSERT(c->rcv_nxt == seq + bytes);
    return true;
}

/* ---- The prepared message ---- */

void tcp_fast_prepare(struct net_stack *stack, struct tcp_connection *c, uint32_t from, uint32_t bytes)
{
    ASSERT(c->message != NULL);
    c->ready.on = c->neighbour_known && !tcp_may_be_cut(c) && !c->ecn.echo
                  && !c->ecn.cwr; /* a packet that may be fragmented has its own ID */
    if (!c->ready.on)
        return;
    ASSERT(c->head_bytes != 0);
    uint8_t *at = c->message->data + TCP_MESSAGE_OFFSET + from - c->head_bytes;
    struct tcp_head_wire *head = (struct tcp_head_wire *)at;
    uint32_t tcp_bytes = c->head_bytes - (uint32_t)AT_TCP;
    memcpy(at, &c->head, c->head_bytes);
    head->ipv4.tos |= c->ecn.on ? IPV4_ECN_CAPABLE : 0;
    head->ipv4.total_bytes = head->ipv4.checksum = 0;
    head->tcp.seq = head->tcp.ack = 0;
    head->tcp.offset = (uint8_t)(tcp_bytes / 4 << 4);
    head->tcp.flags = TCP_ACK | TCP_PSH;
    head->tcp.window = head->tcp.checksum = 0;
    if (c->timestamps_on)
        head->timestamps.value = head->timestamps.echo = 0;

    bytes &= ~UINT32_C(1); /* each part of a sum, except the last, has even length */
    c->ready.from = (uint16_t)from;
    c->ready.bytes = (uint16_t)bytes;
    c->ready.ipv4_sum = checksum_sum(0, &head->ipv4, sizeof head->ipv4);
    c->ready.tcp_sum = checksum_pseudo_ipv4(c->address, c->peer_address, IPV4_PROTOCOL_TCP, 0);
    if (!stack->ip.device->tx_checksum)
        c->ready.tcp_sum = checksum_sum(c->ready.tcp_sum, &head->tcp, tcp_bytes + bytes);
}

/* Returns true if the prepared message can leave at once, as one segment. The bytes that are SACKed or lost count as
 * in flight here, so the slow path may send a message that this function refuses. */
static bool message_is_ready(const struct net_stack *stack, const struct tcp_connection *c, uint32_t from,
                             uint32_t bytes)
{
    uint32_t out = c->snd_nxt - c->snd_una + c->queue.resent_bytes + bytes;
    return c->ready.on && from == c->ready.from && bytes >= c->ready.bytes && bytes <= c->snd_mss
           && c->state == TCP_ESTABLISHED && !c->fin_wanted && c->snd_nxt == c->snd_end && out <= c->snd_wnd
           && out <= c->congestion.cwnd && c->segment_count <= c->segment_mask && !stack->fast_off;
}

/* Returns a value in memory order, to be added to a partial sum: RFC 1624's method with fields that were 0. */
static uint64_t sum_be16(uint16_t value) { return __builtin_bswap16(value); }
static uint64_t sum_be32(uint32_t value) { return __builtin_bswap32(value); }

/* Sends the prepared message. It owns the cache lines of the frame, two, or three to its end if the device does not
 * sum. Then the connection's as for a received segment, and one more, and the driver's. One kick at most. Accounts and
 * timers are updated after the segment has left. */
HOT bool tcp_message_send(struct net_stack *stack, struct tcp_connection *c, uint32_t from, uint32_t bytes,
                          uint64_t now_ns)
{
    if (!message_is_ready(stack, c, from, bytes))
        return tcp_message_send_long(stack, c, from, bytes, now_ns);

    /* ---- Ready: only a full ring can refuse the message now, and would refuse it on the slow path as well ---- */

    struct netdev *device = stack->ip.device;
    struct tx_buffer *buffer = c->message;
    uint8_t *data_before = buffer->data, *at = data_before + TCP_MESSAGE_OFFSET + from - c->head_bytes;
    struct tcp_head_wire *head = (struct tcp_head_wire *)at;
    uint16_t total_bytes = (uint16_t)(c->head_bytes - PLAIN_AT_IPV4 + bytes);
    uint16_t tcp_bytes = (uint16_t)(total_bytes - IPV4_HEADER_BYTES_MIN);
    uint16_t window = (uint16_t)tcp_receive_window_update(c);
    bool by_device = device->tx_checksum;
    uint64_t sum = c->ready.tcp_sum + sum_be16(tcp_bytes);

    store_be16(&head->ipv4.total_bytes, total_bytes);
    store_be16(&head->ipv4.checksum, checksum_finish(c->ready.ipv4_sum + (uint32_t)sum_be16(total_bytes)));
    store_be32(&head->tcp.seq, c->snd_nxt);
    store_be32(&head->tcp.ack, c->rcv_nxt);
    store_be16(&head->tcp.window, window);
    if (c->timestamps_on) {
        uint32_t value = tcp_timestamp_clock(now_ns, c->timestamp_offset);
        store_be32(&head->timestamps.value, value);
        store_be32(&head->timestamps.echo, c->ts_recent);
        sum += by_device ? 0 : sum_be32(value) + sum_be32(c->ts_recent);
    }
    if (__builtin_expect(by_device, 1)) {
        store_be16(&head->tcp.checksum, checksum_fold((uint32_t)sum));
    } else {
        sum += sum_be32(c->snd_nxt) + sum_be32(c->rcv_nxt) + sum_be16(window);
        sum = (sum >> 32) + (uint32_t)sum;
        sum = (sum >> 16) + (sum & 0xffff);
        store_be16(&head->tcp.checksum, checksum_finish(checksum_sum((uint32_t)sum, at + c->head_bytes + c->ready.bytes,
                                                                     bytes - c->ready.bytes)));
    }

    buffer->data = at;
    bool published = device->ops->tx_publish(device, buffer, c->head_bytes + bytes, by_device ? AT_TCP : 0,
                                             by_device ? offsetof(struct tcp_wire, checksum) : 0);
    if (__builtin_expect(!published, 0)) {
        buffer->data = data_before;
        NET_COUNT(stack, ethernet_tx_ring_full);
        return false;
    }
    NET_COUNT(stack, ethernet_tx_frames);
    NET_COUNT(stack, ipv4_tx_datagrams);
    NET_COUNT(stack, tcp_tx_segments);
    NET_COUNT(stack, tcp_tx_fast);
    tcp_frame_sent(c, now_ns);
    tcp_message_sent(stack, c, bytes, now_ns);
    ASSERT(c->snd_nxt - c->snd_una <= c->snd_wnd);
    return true;
}

void tcp_fast_count(struct net_stack *stack)
{
    uint32_t count = stack->fast_received_count;
    stack->ip.counters.ethernet_rx_frames += count;
    stack->ip.counters.ipv4_rx_datagrams += count;
    stack->ip.counters.tcp_rx_segments += count;
    stack->ip.counters.tcp_rx_fast += count;
    stack->fast_received_count = 0;
}
