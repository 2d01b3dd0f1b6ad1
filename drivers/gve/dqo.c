/* The rings of the gVNIC in the format DQO with raw addressing. A posted buffer and a published frame carry an id, the
 * buffer's index, which comes back in a completion; the device may complete in any order. A completion is new if its
 * generation bit is that of the round. Each frame is one descriptor, and the device fetches descriptors in order: a
 * completed frame frees one. */
#include "base/bytes.h"
#include "drivers/gve/gve.h"

/* Returns length and generation of the next completion, before anything else of it is read. */
static uint16_t rx_word(const struct gve *net)
{
    return __atomic_load_n(&net->rx.completions[net->rx.taken & net->rx.mask].bytes, __ATOMIC_ACQUIRE);
}

/* Returns true if a completion is new; none is new to a device that is broken (GVE_SEQ_BROKEN). */
static bool rx_is_new(const struct gve *net, uint16_t word)
{
    return (word & GVE_DQO_RX_GENERATION) >> 8 == net->rx.seq;
}

bool gve_dqo_frame_waits(const struct gve *net) { return rx_is_new(net, rx_word(net)); }

/* Returns true if the device has found the L4 checksum right. */
static bool sum_is_good(const struct gve *net, const struct gve_dqo_rx_completion *completion)
{
    const uint8_t seen = GVE_DQO_RX_HEADERS_CHECKED | GVE_DQO_RX_BAD_IP_CHECKSUM | GVE_DQO_RX_BAD_L4_CHECKSUM;
    const uint32_t type = load_le16(&completion->packet_type) & GVE_DQO_RX_PACKET_TYPE;
    return (completion->status & seen) == GVE_DQO_RX_HEADERS_CHECKED && (net->summed[type / 8] >> type % 8 & 1);
}

/* Borrows the next good frame, and drops the bad ones before it. Cache lines: the queue's state; the completion
 * (written by the device); the buffer's state; the frame's first line. No copy, no exit. */
HOT bool gve_dqo_rx_borrow(struct netdev *device, struct frame *frame)
{
    struct gve *net = (struct gve *)device;
    struct gve_rx_queue *rx = &net->rx;
    for (uint16_t word; rx_is_new(net, word = rx_word(net));) {
        const struct gve_dqo_rx_completion *completion = &rx->completions[rx->taken & rx->mask];
        const uint16_t index = __atomic_load_n(&completion->buffer_id, __ATOMIC_RELAXED);
        const uint32_t bytes = word & GVE_DQO_RX_BYTES;
        if (index >= GVE_RX_BUFFER_COUNT || net->rx_state[index] != GVE_RX_POSTED)
            return gve_fault(net, "a received frame is in a buffer that the device does not have", index);
        if (bytes > GVE_RX_BUFFER_BYTES)
            return gve_fault(net, "a received frame is longer than its buffer", bytes);
        uint8_t *data = gve_rx_buffer(net, index);
        if ((++rx->taken & rx->mask) == 0)
            rx->seq ^= GVE_DQO_RX_GENERATION >> 8;
        if (gve_rx_is_good(net, index, data, bytes, completion->status & GVE_DQO_RX_END,
                           completion->flags & GVE_DQO_RX_ERROR)) {
            *frame = (struct frame){ data, bytes, index, sum_is_good(net, completion) };
            return true;
        }
    }
    return false;
}

/* Takes one round of the ring at most: a device that writes on waits. */
void gve_dqo_tx_reclaim(struct gve *net)
{
    struct gve_tx_queue *tx = &net->tx;
    for (uint32_t n = 0; n <= tx->mask && net->broken == NULL; n++) {
        const struct gve_dqo_tx_completion *completion = &tx->completions[tx->completed & tx->mask];
        const uint16_t word = __atomic_load_n(&completion->id_type, __ATOMIC_ACQUIRE);
        const bool generation = (tx->completed & (tx->mask + 1)) == 0;
        if (((word & GVE_DQO_COMPLETION_GENERATION) != 0) != generation)
            return;
        const uint16_t tag = __atomic_load_n(&completion->value, __ATOMIC_RELAXED);
        const unsigned type = word >> GVE_DQO_COMPLETION_TYPE_SHIFT & 7;
        tx->completed++;
        if (type == GVE_DQO_COMPLETION_MISS || type == GVE_DQO_COMPLETION_DESCRIPTORS)
            continue; /* the frame takes a slower way: a reinjection follows */
        if (type != GVE_DQO_COMPLETION_PACKET && type != GVE_DQO_COMPLETION_REINJECTION) {
            gve_fault(net, "a transmit completion has no known type", type);
        } else if (tag >= NETDEV_TX_BUFFER_COUNT || !(net->tx_pool.buffer[tag].holders & TX_HELD_BY_DEVICE)) {
            gve_fault(net, "a frame is reported as sent that the device does not have", tag);
        } else {
            tx->done++;
            tx_pool_release(&net->tx_pool, &net->tx_pool.buffer[tag], TX_HELD_BY_DEVICE);
        }
    }
}

/* Writes a descriptor. The device finds the headers by itself. */
HOT void gve_dqo_tx_write(struct gve *net, const struct tx_buffer *buffer, uint32_t bytes, bool sum)
{
    struct gve_dqo_tx_packet *packet = &net->tx.dqo_ring[net->tx.sent & net->tx.mask];
    const uint64_t flags = GVE_DQO_TX_PACKET | GVE_DQO_TX_END | (sum ? GVE_DQO_TX_CHECKSUM : 0u);
    store_le64(&packet->address, (uintptr_t)buffer->data);
    store_le64(&packet->type_flags, flags | (uint64_t)buffer->index << 32 | (uint64_t)bytes << 48);
}
