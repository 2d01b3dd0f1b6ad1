/* The rings of the gVNIC in the GQI formats. An entry of the rx ring describes the buffer of the same entry of the data
 * ring; sent frames are counted. Both go in order. */
#include "base/bytes.h"
#include "drivers/gve/gve.h"

enum { IPV4_BYTES = 20 };

/* Returns the flags and the sequence number of the next descriptor, before anything else of it is read. */
static uint16_t rx_flags(const struct gve *net)
{
    return __builtin_bswap16(__atomic_load_n(&net->rx.ring[net->rx.taken & net->rx.mask].flags_seq, __ATOMIC_ACQUIRE));
}

bool gve_gqi_frame_waits(const struct gve *net) { return (rx_flags(net) & GVE_RX_SEQ) == net->rx.seq; }

/* Breaks the device if the next descriptor is neither new nor as old as it can be. */
void gve_gqi_rx_check(struct gve *net)
{
    struct gve_rx_queue *rx = &net->rx;
    const unsigned seq = rx_flags(net) & GVE_RX_SEQ, round = rx->mask + 1;
    rx->lapped |= rx->taken > rx->mask;
    const unsigned before = rx->lapped
                                ? (rx->seq - 1u + GVE_RX_SEQ_LAST - round % GVE_RX_SEQ_LAST) % GVE_RX_SEQ_LAST + 1
                                : 0;
    if (seq != rx->seq && seq != before)
        gve_fault(net, "a receive descriptor has an impossible sequence number", seq);
}

/* Returns true if the device's sum vouches for the L4 checksum of a TCP or UDP datagram over IPv4, whole and without
 * padding. The sum is that of the IP packet; a good IP header adds 0 to it, and the stack checks that header. */
static bool sum_is_good(const struct gve_rx_descriptor *descriptor, uint16_t flags, const uint8_t *data, uint32_t bytes)
{
    const uint8_t *ip = data + GVE_ETHERNET_BYTES;
    if ((flags & (GVE_RX_IPV4 | GVE_RX_FRAGMENT)) != GVE_RX_IPV4 || !(flags & (GVE_RX_TCP | GVE_RX_UDP))
        || descriptor->checksum == 0 || bytes < GVE_ETHERNET_BYTES + IPV4_BYTES || load_be16(data + 12) != 0x0800
        || ip[0] != 0x45 || load_be16(ip + 2) != bytes - GVE_ETHERNET_BYTES)
        return false;
    uint64_t sum = (uint64_t)load_le32(ip + 12) + load_le32(ip + 16) + load_le16(&descriptor->checksum)
                   + __builtin_bswap16((uint16_t)(bytes - GVE_ETHERNET_BYTES - IPV4_BYTES))
                   + __builtin_bswap16(ip[9]); /* the pseudo-header; no order of bytes matters to its sum */
    sum = (sum & UINT32_MAX) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (sum & 0xffff) + (sum >> 16) == 0xffff;
}

/* Borrows the next good frame, and drops the bad ones before it. Cache lines: the queue's state; the descriptor
 * (written by the device); the entry's buffer index; the buffer's state; the frame's first line. No copy, no exit. */
HOT bool gve_gqi_rx_borrow(struct netdev *device, struct frame *frame)
{
    struct gve *net = (struct gve *)device;
    struct gve_rx_queue *rx = &net->rx;
    for (uint16_t flags; ((flags = rx_flags(net)) & GVE_RX_SEQ) == rx->seq;) {
        const struct gve_rx_descriptor *descriptor = &rx->ring[rx->taken & rx->mask];
        /* One load, as no later one may give what was not checked. */
        const uint32_t written = __builtin_bswap16(__atomic_load_n(&descriptor->bytes, __ATOMIC_RELAXED));
        const uint32_t bytes = written - (uint32_t)GVE_RX_PAD_BYTES;
        if (rx->taken == rx->posted)
            return gve_fault(net, "frames are received in more buffers than the device has", rx->taken + 1);
        if (written > GVE_RX_BUFFER_BYTES)
            return gve_fault(net, "a received frame is longer than its buffer", written);
        const uint16_t index = rx->buffer[rx->taken & rx->mask];
        uint8_t *data = gve_rx_buffer(net, index) + GVE_RX_PAD_BYTES;
        __builtin_prefetch(data + 64);
        rx->seq = rx->seq == GVE_RX_SEQ_LAST ? 1 : rx->seq + 1;
        rx->taken++;
        if (gve_rx_is_good(net, index, data, bytes, !(flags & GVE_RX_CONTINUES), flags & GVE_RX_ERROR)) {
            *frame = (struct frame){ data, bytes, index, sum_is_good(descriptor, flags, data, bytes) };
            return true;
        }
    }
    return false;
}

void gve_gqi_tx_reclaim(struct gve *net)
{
    struct gve_tx_queue *tx = &net->tx;
    const uint32_t counter = __builtin_bswap32(__atomic_load_n(tx->counter, __ATOMIC_ACQUIRE));
    if (__builtin_expect(counter - tx->done > tx->sent - tx->done && net->broken == NULL, 0))
        gve_fault(net, "the gVNIC counts frames that it was not given", counter);
    while (net->broken == NULL && tx->done != counter)
        tx_pool_release(&net->tx_pool, &net->tx_pool.buffer[tx->buffer[tx->done++ & tx->mask]], TX_HELD_BY_DEVICE);
}

HOT void gve_gqi_tx_write(struct gve *net, const struct tx_buffer *buffer, uint32_t bytes, uint32_t csum_start,
                          uint32_t csum_offset)
{
    /* Two words: bytes that are put together in memory would have to reach the cache first. */
    const uint32_t at = net->tx.sent & net->tx.mask;
    const uint64_t swapped = __builtin_bswap16((uint16_t)bytes);
    uint64_t head = GVE_TX_STD | 1u << 24 | swapped << 32 | swapped << 48; /* one descriptor */
    if (csum_start != 0)
        head |= GVE_TX_L4_CHECKSUM | (uint64_t)(csum_offset / 2) << 8 | (uint64_t)(csum_start / 2) << 16;
    store_le64(&net->tx.ring[at], head);
    store_be64(&net->tx.ring[at].address, (uintptr_t)buffer->data - net->tx_base);
    net->tx.buffer[at] = buffer->index;
}
