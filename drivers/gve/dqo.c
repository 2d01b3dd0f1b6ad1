/* Frames of the gVNIC in the format DQO with raw addressing: receive, transmit, upkeep. gve.c acquires and
 * releases buffers in both formats.
 *
 * A posted buffer and a published frame carry an id, the buffer's index, which comes back in a completion; the device
 * may complete in any order. A completion is new if its generation bit is that of the round. Each frame is one
 * descriptor, and the device fetches descriptors in order: a completed frame frees one. */
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/hot_section.h"
#include "base/trace.h"
#include "drivers/gve/gve.h"

enum {
    ETHERNET_BYTES = 14,
    /* The buffer ring's doorbell takes multiples of this. Linux's driver says that 8 is the least. */
    RX_DOORBELL_STEP = 16,
    /* Entries that stay free between the newest and the oldest, as in Linux: no cache line holds both. */
    TX_GAP = 4,
};
/* gve.c refills when a quarter is left, of which the device may not know the last entries. */
static_assert(GVE_DQO_RING_ENTRIES_MIN / 2 / 4 > RX_DOORBELL_STEP, "the device never runs dry");

static struct gve *gve_of(struct netdev *device) { return (struct gve *)device; }

/* Rings a doorbell, whose value is little-endian in this format. */
static void doorbell(struct gve *net, uint32_t index, uint32_t value)
{
    net->bus->ops->doorbell(net->bus, index, __builtin_bswap32(value));
}

/* ---- receive ---- */

void gve_dqo_rx_refill(struct gve *net)
{
    struct gve_rx_queue *rx = &net->rx;
    const uint32_t before = rx->posted / RX_DOORBELL_STEP;
    while (net->rx_free_count > 0 && rx->posted - rx->taken < net->rx_posted_max) {
        const uint16_t index = net->rx_free[--net->rx_free_count];
        struct gve_dqo_rx_buffer *entry = &net->dqo.posts[rx->posted++ & rx->mask];
        ASSERT(net->rx_is_free[index] && !net->dqo.is_posted[index]);
        net->rx_is_free[index] = false;
        net->dqo.is_posted[index] = true;
        store_le16(&entry->id, index);
        store_le64(&entry->address, (uintptr_t)net->rx_memory + (size_t)index * GVE_RX_BUFFER_BYTES);
    }
    if (rx->posted / RX_DOORBELL_STEP == before || net->broken != NULL)
        return;
    doorbell(net, rx->doorbell, rx->posted / RX_DOORBELL_STEP * RX_DOORBELL_STEP & rx->mask);
    gve_counters.rx_kicks++;
}

/* Returns length and generation of the next completion, before anything else of it is read. */
static uint16_t rx_word(const struct gve *net)
{
    return __atomic_load_n(&net->dqo.rx_completions[net->rx.taken & net->rx.mask].bytes, __ATOMIC_ACQUIRE);
}

/* Returns true if a completion is new. `rx.seq` is the upper byte of the generation's bit, or GVE_SEQ_BROKEN, which no
 * completion has. */
static bool rx_is_new(const struct gve *net, uint16_t word)
{
    return (word & GVE_DQO_RX_GENERATION) >> 8 == net->rx.seq;
}

bool gve_dqo_frame_waits(const struct gve *net) { return rx_is_new(net, rx_word(net)); }

/* Returns true if the frame is whole and good; counts the others. VLAN tags make a good one longer. */
static bool is_good(struct gve *net, const struct gve_dqo_rx_completion *completion, const uint8_t *data,
                    uint32_t bytes)
{
    const bool end = (completion->status & GVE_DQO_RX_END) != 0, whole = end && !net->rx.dropping;
    net->rx.dropping = !end;
    if (!whole) /* counted at its end */
        gve_counters.rx_drop_long += end;
    else if (completion->flags & GVE_DQO_RX_ERROR)
        gve_counters.rx_drop_error++;
    else if (bytes < ETHERNET_BYTES)
        gve_counters.rx_drop_short++;
    else if (bytes <= NETDEV_FRAME_BYTES_MAX
             || (bytes <= NETDEV_FRAME_BYTES_MAX + NETDEV_TAGS_BYTES_MAX && netdev_frame_is_tagged(data)))
        return true;
    else
        gve_counters.rx_drop_long++;
    return false;
}

/* Returns true if the device has found the L4 checksum right. */
static bool sum_is_good(const struct gve *net, const struct gve_dqo_rx_completion *completion)
{
    const uint8_t seen = GVE_DQO_RX_HEADERS_CHECKED | GVE_DQO_RX_BAD_IP_CHECKSUM | GVE_DQO_RX_BAD_L4_CHECKSUM;
    const uint32_t type = load_le16(&completion->packet_type) & GVE_DQO_RX_PACKET_TYPE;
    return (completion->status & seen) == GVE_DQO_RX_HEADERS_CHECKED && (net->dqo.summed[type / 8] >> type % 8 & 1);
}

/* Borrows the next good frame, and drops the bad ones before it. Cache lines: the queue's state; the completion
 * (written by the device); the buffer's state; the frame's first line. No copy, no exit. */
HOT bool gve_dqo_rx_borrow(struct netdev *device, struct frame *frame)
{
    struct gve *net = gve_of(device);
    struct gve_rx_queue *rx = &net->rx;
    for (uint16_t word; rx_is_new(net, word = rx_word(net));) {
        const struct gve_dqo_rx_completion *completion = &net->dqo.rx_completions[rx->taken & rx->mask];
        const uint16_t index = __atomic_load_n(&completion->buffer_id, __ATOMIC_RELAXED);
        const uint32_t bytes = word & GVE_DQO_RX_BYTES;
        if (index >= GVE_RX_BUFFER_COUNT || !net->dqo.is_posted[index])
            return gve_fault(net, "a received frame is in a buffer that the device does not have"), false;
        if (bytes > GVE_RX_BUFFER_BYTES)
            return gve_fault(net, "a received frame is longer than its buffer"), false;
        uint8_t *data = net->rx_memory + (size_t)index * GVE_RX_BUFFER_BYTES;
        net->dqo.is_posted[index] = false;
        if ((++rx->taken & rx->mask) == 0)
            rx->seq ^= GVE_DQO_RX_GENERATION >> 8;
        if (is_good(net, completion, data, bytes)) {
            *frame = (struct frame){ data, bytes, index, sum_is_good(net, completion) };
            gve_counters.rx_frames++;
            return true;
        }
        gve_rx_free_push(net, index);
    }
    return false;
}

/* ---- transmit ---- */

/* Ends the device's hold on sent buffers. One round of the ring at most: a device that writes on waits. */
void gve_dqo_tx_reclaim(struct gve *net)
{
    struct gve_tx_queue *tx = &net->tx;
    for (uint32_t n = 0; n <= tx->mask && net->broken == NULL; n++) {
        const struct gve_dqo_tx_completion *completion = &net->dqo.tx_completions[net->dqo.tx_taken & tx->mask];
        const uint16_t word = __atomic_load_n(&completion->id_type, __ATOMIC_ACQUIRE);
        const bool generation = (net->dqo.tx_taken & (tx->mask + 1)) == 0;
        if (((word & GVE_DQO_COMPLETION_GENERATION) != 0) != generation)
            return;
        const uint16_t tag = __atomic_load_n(&completion->value, __ATOMIC_RELAXED);
        net->dqo.tx_taken++;
        switch (word >> GVE_DQO_COMPLETION_TYPE_SHIFT & 7) {
        case GVE_DQO_COMPLETION_MISS: /* the frame takes a slower way; a reinjection follows */
        case GVE_DQO_COMPLETION_DESCRIPTORS:
            continue;
        case GVE_DQO_COMPLETION_PACKET:
        case GVE_DQO_COMPLETION_REINJECTION:
            if (tag < NETDEV_TX_BUFFER_COUNT && (net->tx_buffer[tag].holders & TX_HELD_BY_DEVICE))
                break;
            gve_fault(net, "a frame is reported as sent that the device does not have");
            return;
        default:
            gve_fault(net, "a transmit completion has no known type");
            return;
        }
        tx->done++;
        net->tx_buffer[tag].holders &= (uint8_t)~TX_HELD_BY_DEVICE;
        if (net->tx_buffer[tag].holders == 0)
            gve_tx_free_push(net, &net->tx_buffer[tag]);
    }
}

static bool tx_has_room(const struct gve *net) { return net->tx.sent - net->tx.done < net->tx.mask - TX_GAP; }

NOT_HOT static bool tx_make_room(struct gve *net, const struct tx_buffer *buffer)
{
    gve_dqo_tx_reclaim(net);
    gve_check(net);
    if (buffer->holders & TX_HELD_BY_DEVICE) {
        gve_counters.tx_still_held++;
        return false;
    }
    gve_counters.tx_ring_full += !tx_has_room(net);
    return tx_has_room(net);
}

/* Publishes a frame. Cache lines written: the descriptor, the buffer's holders. One store to the doorbell. The device
 * finds the headers by itself. */
HOT bool gve_dqo_tx_publish(struct netdev *device, struct tx_buffer *buffer, uint32_t bytes, uint16_t csum_start,
                            uint16_t csum_offset)
{
    struct gve *net = gve_of(device);
    struct gve_tx_queue *tx = &net->tx;
    (void)csum_offset;
    ASSERT(bytes >= ETHERNET_BYTES && bytes <= NETDEV_FRAME_BYTES_MAX);
    ASSERT(buffer->holders & TX_HELD_BY_STACK);
    bool free = (int)tx_has_room(net) & !(buffer->holders & TX_HELD_BY_DEVICE); /* one branch for both */
    if (__builtin_expect(!free, 0) && !tx_make_room(net, buffer))
        return false;

    struct gve_dqo_tx_packet *packet = &net->dqo.tx_ring[tx->sent++ & tx->mask].packet;
    const uint64_t flags = GVE_DQO_TX_PACKET | GVE_DQO_TX_END | (csum_start != 0 ? GVE_DQO_TX_CHECKSUM : 0u);
    store_le64(&packet->address, (uintptr_t)buffer->data);
    store_le64(&packet->type_flags, flags | (uint64_t)buffer->index << 32 | (uint64_t)bytes << 48);
    buffer->holders = TX_HELD_BY_STACK | TX_HELD_BY_DEVICE;
    trace_stamp_fine(TRACE_PUBLISHED);
    gve_dqo_tx_doorbell(net);
    trace_stamp(TRACE_KICKED);
    gve_counters.tx_frames++;
    return true;
}

void gve_dqo_tx_doorbell(struct gve *net)
{
    doorbell(net, net->tx.doorbell, net->tx.sent & net->tx.mask);
    gve_counters.tx_kicks++;
}

/* ---- upkeep ---- */

void gve_dqo_poll(struct netdev *device)
{
    struct gve *net = gve_of(device);
    if (__builtin_expect(net->broken != NULL, 0))
        return;
    if (net->rx_posted_max - (net->rx.posted - net->rx.taken) >= net->rx_refill_count)
        gve_dqo_rx_refill(net);
    gve_dqo_tx_reclaim(net);
    if (net->broken != NULL)
        return;
    __builtin_prefetch(&net->dqo.tx_ring[net->tx.sent & net->tx.mask], 1); /* as gve.c */
    __builtin_prefetch(&net->bus->ops->doorbell);
    hot_fetch(net->bus, sizeof *net->bus);
    gve_state_watch(net);
}

/* Asks for one interrupt at once with the next frame, or for none. */
void gve_dqo_irq_write(struct gve *net, bool wanted)
{
    doorbell(net, net->irq_doorbell[GVE_NOTIFY_RX], wanted ? GVE_DQO_IRQ_ENABLE : 0);
}
