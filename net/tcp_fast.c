/* The way of nearly every segment of a game, in and out: header prediction (Van Jacobson, 1990) and a frame prepared
 * beforehand, in the form of seL4's fast path.
 *
 * First everything is checked and nothing changed; any surprise sends the segment the long way (net/stack.c,
 * tcp_message.c) and finds the state as it was. After the marker there are only stores, and they are those of the long
 * way for such a segment: tests/unit/tcp_fast_test.c holds both to the same state and the same frames.
 *
 * Predicted is the next segment of a connection on which nothing else is going on: ESTABLISHED, all we sent acknowledged,
 * nothing out of order, no timer but the keepalive's. It has payload, the one acknowledgement possible, no flag but PSH,
 * no option but the timestamps agreed on. */
#include "kernel/base/hot.h"
#include "net/checksum.h"
#include "net/tcp_internal.h"

/* Fields as they lie in memory, several at a time. Offsets from the Ethernet header. */
enum {
    AT_TYPE = 12,                       /* EtherType, version and header length, type of service */
    AT_IPV4 = 14,
    AT_FRAGMENT = 20,                   /* flags and offset, time to live, protocol */
    AT_SOURCE = 26,
    AT_DESTINATION = 30,
    AT_TCP = 34,                        /* both ports */
    AT_OFFSET = 46,                     /* header length, flags */
    AT_TIMESTAMPS = 54,
};
static_assert(AT_OFFSET == AT_TCP + offsetof(struct tcp_wire, offset), "TCP header");
static_assert(AT_TIMESTAMPS == offsetof(struct tcp_head_wire, timestamps), "TCP header");

/* A one's complement sum of what contains its checksum is all ones if that is right. Then it is a multiple of 0xffff, as
 * 2^16 leaves 1 behind; none of the sums below is 0. */
static bool all_ones(uint64_t sum) { return sum % 0xffff == 0; }

static bool header_sum_is_good(const uint8_t *header)
{
    return all_ones((uint64_t)load_le32(header) + load_le32(header + 4) + load_le32(header + 8) + load_le32(header + 12)
                    + load_le32(header + 16));
}

static bool payload_sum_is_good(const uint8_t *at, uint32_t tcp_bytes)
{
    uint64_t pseudo = (uint64_t)load_le32(at + AT_SOURCE) + load_le32(at + AT_DESTINATION)
        + (IPV4_PROTOCOL_TCP << 8) + __builtin_bswap16((uint16_t)tcp_bytes);    /* words as they lie */
    return all_ones(checksum_sum_wide(pseudo, at + AT_TCP, tcp_bytes));
}

/* Cache lines: the frame's first two; two of the stack, two and the policy's of the connection, the keys'. No copy for a
 * `direct` connection. */
HOT bool tcp_fast_receive(struct net_stack *stack, const struct frame *frame, uint64_t now_ns)
{
    const uint8_t *at = frame->data, *mac = stack->device->mac;
    const struct tcp_head_wire *head = (const struct tcp_head_wire *)at;

    /* To us alone, IPv4 without options, in one piece, TCP. */
    if (frame->bytes < AT_TIMESTAMPS || stack->fast_off
        || load_le32(at) != load_le32(mac) || load_le16(at + 4) != load_le16(mac + 4)
        || (load_le32(at + AT_TYPE) & 0x00ffffff) != 0x00450008
        || (load_le32(at + AT_FRAGMENT) & 0xff00ff3f) != 0x06000000
        || load_be32(at + AT_DESTINATION) != stack->interface.address)
        return false;
    uint32_t total_bytes = load_be16(&head->ipv4.total_bytes);
    if (total_bytes > frame->bytes - AT_IPV4 || total_bytes < IPV4_HEADER_BYTES_MIN + TCP_HEADER_BYTES_MIN
        || (!NET_SKIP_CHECKSUMS && !header_sum_is_good(at + AT_IPV4)))
        return false;
    if (!frame->checksum_good && !NET_SKIP_CHECKSUMS && !payload_sum_is_good(at, total_bytes - IPV4_HEADER_BYTES_MIN))
        return false;

    /* Of a connection; its keys are the fields as they stand. */
    const struct tcp *tcp = &stack->tcp;
    uint64_t key = (uint64_t)load_be32(at + AT_SOURCE) << 32 | load_be32(at + AT_TCP);
    uint32_t index = 0;
    while (index < tcp->connection_end && tcp->keys[index] != key)
        index++;
    if (index == tcp->connection_end)
        return false;

    /* On which nothing else is going on (no timer: so nothing is in flight, and nothing waits to be sent), */
    struct tcp_connection *c = &tcp->connections[index];
    uint32_t ack = load_be32(&head->tcp.ack);
    if (c->state != TCP_ESTABLISHED || c->unrest != 0
        || c->snd_una != ack || c->snd_nxt != ack || c->congestion.cwnd < c->snd_mss)
        return false;

    /* the segment that comes next. */
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
    if (c->timestamps_on && seq_le(seq, c->last_ack_sent)) {    /* RFC 7323 §4.3 (2) */
        c->ts_recent = timestamp;
        c->ts_recent_ns = now_ns;
    }
    c->last_received_ns = now_ns;
    c->keepalive_count = 0;
    stack->fast_received_count++;
    tcp_receive_in_order(stack, c, at + c->head_bytes, bytes, now_ns);
    return true;
}

/* ---- The prepared message ---- */

void tcp_fast_prepare(struct net_stack *stack, struct tcp_connection *c, uint32_t from, uint32_t bytes)
{
    c->ready.on = c->neighbour_known && !tcp_may_be_cut(c);     /* what may be cut has an ID of its own */
    if (!c->ready.on)
        return;
    uint8_t *at = c->message->data + TCP_MESSAGE_OFFSET + from - c->head_bytes;
    struct tcp_head_wire *head = (struct tcp_head_wire *)at;
    uint32_t tcp_bytes = c->head_bytes - (uint32_t)AT_TCP;
    memcpy(at, &c->head, c->head_bytes);
    head->ipv4.total_bytes = head->ipv4.checksum = 0;
    head->tcp.seq = head->tcp.ack = 0;
    head->tcp.offset = (uint8_t)(tcp_bytes / 4 << 4);
    head->tcp.flags = TCP_ACK | TCP_PSH;
    head->tcp.window = head->tcp.checksum = 0;
    if (c->timestamps_on)
        head->timestamps.value = head->timestamps.echo = 0;

    bytes &= ~UINT32_C(1);              /* a part of a sum, but the last, has an even number of bytes */
    c->ready.from = (uint16_t)from;
    c->ready.bytes = (uint16_t)bytes;
    c->ready.ipv4_sum = checksum_sum(0, &head->ipv4, sizeof head->ipv4);
    c->ready.tcp_sum = checksum_pseudo_ipv4(c->address, c->peer_address, IPV4_PROTOCOL_TCP, 0);
    if (!stack->device->tx_checksum)
        c->ready.tcp_sum = checksum_sum(c->ready.tcp_sum, &head->tcp, tcp_bytes + bytes);
}

/* Whether the message can leave as it stands, as one segment, at once. Less in flight than this counts (what is SACKed
 * or lost) may let the long way send it. */
static bool message_is_ready(const struct net_stack *stack, const struct tcp_connection *c, uint32_t from,
                             uint32_t bytes)
{
    uint32_t out = c->snd_nxt - c->snd_una + c->resent_bytes + bytes;
    return c->ready.on && from == c->ready.from && bytes >= c->ready.bytes && bytes <= c->snd_mss
        && c->state == TCP_ESTABLISHED && !c->fin_wanted && c->snd_nxt == c->snd_end
        && out <= c->snd_wnd && out <= c->congestion.cwnd && c->segment_count <= c->segment_mask && !stack->fast_off;
}

/* Words added to a partial sum as they lie in memory: RFC 1624's way with fields that were 0. */
static uint64_t sum_be16(uint16_t value) { return __builtin_bswap16(value); }
static uint64_t sum_be32(uint32_t value) { return __builtin_bswap32(value); }

/* Cache lines: the frame's first two, or three to its end if the device does not sum; of the connection those of a
 * segment received and one more; the driver's (tx_publish). One kick at most. What the segment does to the accounts and
 * timers comes after it has left. */
HOT bool tcp_message_send(struct net_stack *stack, struct tcp_connection *c, uint32_t from, uint32_t bytes,
                      uint64_t now_ns)
{
    if (!message_is_ready(stack, c, from, bytes))
        return tcp_message_send_long(stack, c, from, bytes, now_ns);

    /* ---- Ready: only a full ring can refuse it now, and it would refuse the long way as well ---- */

    struct netdev *device = stack->device;
    struct tx_buffer *buffer = c->message;
    uint8_t *data_before = buffer->data, *at = data_before + TCP_MESSAGE_OFFSET + from - c->head_bytes;
    struct tcp_head_wire *head = (struct tcp_head_wire *)at;
    uint16_t total_bytes = (uint16_t)(c->head_bytes - AT_IPV4 + bytes);
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
        store_be16(&head->tcp.checksum,
                   checksum_finish(checksum_sum((uint32_t)sum, at + c->head_bytes + c->ready.bytes,
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
    return true;
}

void tcp_fast_count(struct net_stack *stack)
{
    uint32_t count = stack->fast_received_count;
    stack->counters.ethernet_rx_frames += count;
    stack->counters.ipv4_rx_datagrams += count;
    stack->counters.tcp_rx_segments += count;
    stack->counters.tcp_rx_fast += count;
    stack->fast_received_count = 0;
}
