/* Frames of the gVNIC in the GQI formats: receive, transmit, upkeep. Knows no PCI and no admin queue. Every value that
 * the device writes is checked; one that no device writes is a fault, and the device is not used any more. */
#include "drivers/gve/gve.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/cycles.h"
#include "base/hot_section.h"
#include "base/secrets.h"
#include "base/trace.h"
#include "kernel/memory/memory.h"

enum { ETHERNET_BYTES = 14, IPV4_BYTES = 20, RX_FLAGS_UNUSUAL = GVE_RX_ERROR | GVE_RX_CONTINUES };
static_assert((int)GVE_RX_BUFFER_BYTES >= GVE_RX_PAD_BYTES + NETDEV_FRAME_BYTES_MAX + NETDEV_TAGS_BYTES_MAX, "a frame");
static_assert((int)GVE_TX_BUFFER_BYTES >= GVE_TX_FRAME_OFFSET + NETDEV_FRAME_BYTES_MAX, "a frame");
static_assert((GVE_RX_PAD_BYTES + ETHERNET_BYTES) % 16 == 0, "the IP header is aligned to 16");
static_assert(GVE_PAGE_BYTES % GVE_RX_BUFFER_BYTES == 0, "no buffer lies in two pages");

static struct gve *gve_of(struct netdev *device) { return (struct gve *)device; }

static uint8_t *rx_buffer(const struct gve *net, uint16_t index)
{
    return net->rx_memory + (size_t)index * GVE_RX_BUFFER_BYTES;
}

static uint8_t *tx_frame(const struct gve *net, uint16_t index)
{
    return net->tx_memory + (size_t)index * GVE_TX_BUFFER_BYTES + GVE_TX_FRAME_OFFSET;
}

/* ---- receive ---- */

/* Gives the device all the free buffers that it may have, and tells it in one step. */
void gve_rx_refill(struct gve *net)
{
    struct gve_rx_queue *rx = &net->rx;
    const uint32_t before = rx->posted;
    if (net->is_dqo) {
        gve_dqo_rx_refill(net);
        return;
    }
    while (net->rx_free_count > 0 && rx->posted - rx->taken < net->rx_posted_max) {
        const uint16_t index = net->rx_free[--net->rx_free_count];
        const uint32_t at = rx->posted++ & rx->mask;
        ASSERT(net->rx_is_free[index]);
        net->rx_is_free[index] = false;
        rx->buffer[at] = index;
        store_be64(&rx->data[at], (uintptr_t)rx_buffer(net, index) - net->rx_base);
    }
    if (rx->posted == before || net->broken != NULL)
        return;
    net->bus->ops->doorbell(net->bus, rx->doorbell, rx->posted);
    gve_counters.rx_kicks++;
}

static const struct gve_rx_descriptor *rx_next(const struct gve *net)
{
    return &net->rx.ring[net->rx.taken & net->rx.mask];
}

/* Returns the flags and the sequence number of the next descriptor, before anything else of it is read. */
static uint16_t rx_flags(const struct gve *net)
{
    return __builtin_bswap16(__atomic_load_n(&rx_next(net)->flags_seq, __ATOMIC_ACQUIRE));
}

/* Returns the bytes written. One load, as no later one may give what was not checked. */
static uint32_t written_bytes(const struct gve_rx_descriptor *descriptor)
{
    return __builtin_bswap16(__atomic_load_n(&descriptor->bytes, __ATOMIC_RELAXED));
}

static void rx_step(struct gve_rx_queue *rx)
{
    rx->seq = rx->seq == GVE_RX_SEQ_LAST ? 1 : rx->seq + 1;
    rx->taken++;
}

/* Returns true if the device's sum vouches for the L4 checksum of a TCP or UDP datagram over IPv4, whole and without
 * padding. The sum is that of the IP packet; a good IP header adds 0 to it, and the stack checks that header. */
static bool sum_is_good(const struct gve_rx_descriptor *descriptor, uint16_t flags, const uint8_t *data, uint32_t bytes)
{
    const uint8_t *ip = data + ETHERNET_BYTES;
    if ((flags & (GVE_RX_IPV4 | GVE_RX_FRAGMENT)) != GVE_RX_IPV4 || !(flags & (GVE_RX_TCP | GVE_RX_UDP))
        || descriptor->checksum == 0 || bytes < ETHERNET_BYTES + IPV4_BYTES || load_be16(data + 12) != 0x0800
        || ip[0] != 0x45 || load_be16(ip + 2) != bytes - ETHERNET_BYTES)
        return false;
    uint64_t sum = (uint64_t)load_le32(ip + 12) + load_le32(ip + 16) + load_le16(&descriptor->checksum)
                   + __builtin_bswap16((uint16_t)(bytes - ETHERNET_BYTES - IPV4_BYTES))
                   + __builtin_bswap16(ip[9]); /* the pseudo-header; no order of bytes matters to its sum */
    sum = (sum & UINT32_MAX) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (sum & 0xffff) + (sum >> 16) == 0xffff;
}

static void frame_fill(struct frame *frame, const struct gve_rx_descriptor *descriptor, uint16_t flags, uint8_t *data,
                       uint32_t bytes, uint16_t index)
{
    frame->data = data;
    frame->bytes = bytes;
    frame->cookie = index;
    frame->checksum_good = sum_is_good(descriptor, flags, data, bytes);
}

static bool is_usual(uint16_t flags, uint32_t bytes)
{
    /* One unsigned comparison for too short (it wraps) and too long. */
    return !(flags & RX_FLAGS_UNUSUAL) && bytes - ETHERNET_BYTES <= NETDEV_FRAME_BYTES_MAX - ETHERNET_BYTES;
}

/* Counts a frame that is dropped. VLAN tags make a good one longer: returns true for such a frame. */
static bool unusual_is_good(const struct gve *net, uint16_t flags, const uint8_t *data, uint32_t written)
{
    const uint32_t bytes = written - GVE_RX_PAD_BYTES;
    const bool end = !(flags & GVE_RX_CONTINUES);
    if (net->rx.dropping || !end) /* counted at its end */
        gve_counters.rx_drop_long += end;
    else if (flags & GVE_RX_ERROR)
        gve_counters.rx_drop_error++;
    else if (written < GVE_RX_PAD_BYTES + ETHERNET_BYTES)
        gve_counters.rx_drop_short++;
    else if (bytes <= NETDEV_FRAME_BYTES_MAX
             || (bytes <= NETDEV_FRAME_BYTES_MAX + NETDEV_TAGS_BYTES_MAX && netdev_frame_is_tagged(data)))
        return true;
    else
        gve_counters.rx_drop_long++;
    return false;
}

/* Borrows the next good frame, and drops the bad ones before it. */
__attribute__((noinline)) static bool rx_borrow_long(struct gve *net, struct frame *frame)
{
    struct gve_rx_queue *rx = &net->rx;
    for (uint16_t flags; ((flags = rx_flags(net)) & GVE_RX_SEQ) == rx->seq;) {
        const struct gve_rx_descriptor *descriptor = rx_next(net);
        const uint32_t written = written_bytes(descriptor);
        if (rx->taken == rx->posted)
            return gve_fault(net, "a received frame is in a buffer that the device does not have"), false;
        if (written > GVE_RX_BUFFER_BYTES)
            return gve_fault(net, "a received frame is longer than its buffer"), false;
        const uint16_t index = rx->buffer[rx->taken & rx->mask];
        uint8_t *data = rx_buffer(net, index) + GVE_RX_PAD_BYTES;
        const bool good = unusual_is_good(net, flags, data, written);
        rx->dropping = (flags & GVE_RX_CONTINUES) != 0;
        rx_step(rx);
        if (good) {
            frame_fill(frame, descriptor, flags, data, written - GVE_RX_PAD_BYTES, index);
            gve_counters.rx_frames++;
            return true;
        }
        gve_rx_free_push(net, index);
    }
    gve_check(net);
    return false;
}

/* Borrows the next frame. Cache lines: the queue's state; the descriptor (written by the device); the entry's buffer
 * index; the frame's first line. No copy, no exit. */
HOT static bool rx_borrow(struct netdev *device, struct frame *frame)
{
    struct gve *net = gve_of(device);
    struct gve_rx_queue *rx = &net->rx;
    const uint16_t flags = rx_flags(net);
    if ((flags & GVE_RX_SEQ) != rx->seq)
        return false;
    const struct gve_rx_descriptor *descriptor = rx_next(net);
    const uint32_t bytes = written_bytes(descriptor) - (uint32_t)GVE_RX_PAD_BYTES;
    if (__builtin_expect(!is_usual(flags, bytes) || rx->dropping || rx->taken == rx->posted, 0))
        return rx_borrow_long(net, frame);

    /* ---- One whole frame in one buffer, as nearly always ---- */

    const uint16_t index = rx->buffer[rx->taken & rx->mask];
    uint8_t *data = rx_buffer(net, index) + GVE_RX_PAD_BYTES;
    __builtin_prefetch(data + 64);
    frame_fill(frame, descriptor, flags, data, bytes, index);
    rx_step(rx);
    gve_counters.rx_frames++;
    return true;
}

static void rx_release(struct netdev *device, const struct frame *frame)
{
    struct gve *net = gve_of(device);
    gve_rx_free_push(net, frame->cookie);
    /* Nearly dry: do not wait for idle time. */
    if (__builtin_expect((net->rx.posted - net->rx.taken) * 4 < net->rx_posted_max, 0))
        gve_rx_refill(net);
}

/* ---- transmit ---- */

static uint32_t tx_pending(const struct gve *net)
{
    return __builtin_bswap32(__atomic_load_n(net->tx.counter, __ATOMIC_ACQUIRE)) - net->tx.done;
}

/* Ends the device's hold on sent buffers. */
static void tx_reclaim(struct gve *net)
{
    struct gve_tx_queue *tx = &net->tx;
    if (net->is_dqo) {
        gve_dqo_tx_reclaim(net);
        return;
    }
    uint32_t pending = tx_pending(net);
    if (net->broken != NULL)
        return;
    if (pending > tx->sent - tx->done) {
        gve_fault(net, "more frames are reported as sent than were given to the device");
        return;
    }
    for (; pending > 0; pending--) {
        struct tx_buffer *buffer = &net->tx_buffer[tx->buffer[tx->done++ & tx->mask]];
        ASSERT(buffer->holders & TX_HELD_BY_DEVICE);
        buffer->holders &= (uint8_t)~TX_HELD_BY_DEVICE;
        if (buffer->holders == 0)
            gve_tx_free_push(net, buffer);
    }
}

static struct tx_buffer *tx_acquire(struct netdev *device)
{
    struct gve *net = gve_of(device);
    if (__builtin_expect(net->tx_free_count == 0, 0)) {
        tx_reclaim(net);
        if (net->tx_free_count == 0) {
            gve_counters.tx_no_buffer++;
            return NULL;
        }
    }
    struct tx_buffer *buffer = &net->tx_buffer[net->tx_free[--net->tx_free_count]];
    ASSERT(buffer->holders == 0);
    buffer->holders = TX_HELD_BY_STACK;
    buffer->data = tx_frame(net, buffer->index);
    return buffer;
}

static bool tx_has_room(const struct gve *net) { return net->tx.sent - net->tx.done <= net->tx.mask; }

NOT_HOT static bool tx_make_room(struct gve *net, const struct tx_buffer *buffer)
{
    tx_reclaim(net);
    gve_check(net);
    if (buffer->holders & TX_HELD_BY_DEVICE) {
        gve_counters.tx_still_held++;
        return false;
    }
    if (!tx_has_room(net)) {
        gve_counters.tx_ring_full++;
        return false;
    }
    return true;
}

/* Publishes a frame. Cache lines written: the descriptor, the entry's buffer index, the buffer's holders. One store to
 * the doorbell. */
HOT static bool tx_publish(struct netdev *device, struct tx_buffer *buffer, uint32_t bytes, uint16_t csum_start,
                           uint16_t csum_offset)
{
    struct gve *net = gve_of(device);
    struct gve_tx_queue *tx = &net->tx;
    ASSERT(bytes >= ETHERNET_BYTES && bytes <= NETDEV_FRAME_BYTES_MAX);
    ASSERT(buffer->holders & TX_HELD_BY_STACK);
    ASSERT((csum_start | csum_offset) % 2 == 0 && csum_start < 512 && csum_offset < 512);
    bool free = (int)tx_has_room(net) & !(buffer->holders & TX_HELD_BY_DEVICE); /* one branch for both */
    if (__builtin_expect(!free, 0) && !tx_make_room(net, buffer))
        return false;

    /* Two words: bytes that are put together in memory would have to reach the cache first. */
    const uint32_t at = tx->sent++ & tx->mask;
    const uint64_t swapped = __builtin_bswap16((uint16_t)bytes);
    uint64_t head = GVE_TX_STD | 1u << 24 | swapped << 32 | swapped << 48; /* one descriptor */
    if (csum_start != 0)
        head |= GVE_TX_L4_CHECKSUM | (uint64_t)(csum_offset / 2) << 8 | (uint64_t)(csum_start / 2) << 16;
    store_le64(&tx->ring[at].packet, head);
    store_be64(&tx->ring[at].packet.address, (uintptr_t)buffer->data - net->tx_base);
    tx->buffer[at] = buffer->index;
    buffer->holders = TX_HELD_BY_STACK | TX_HELD_BY_DEVICE;
    trace_stamp_fine(TRACE_PUBLISHED); /* before the store that publishes, as drivers/virtio/net.c */
    net->bus->ops->doorbell(net->bus, tx->doorbell, tx->sent);
    gve_counters.tx_kicks++;
    trace_stamp(TRACE_KICKED);
    gve_counters.tx_frames++;
    return true;
}

static void tx_release(struct netdev *device, struct tx_buffer *buffer)
{
    struct gve *net = gve_of(device);
    ASSERT(buffer->holders & TX_HELD_BY_STACK);
    buffer->holders &= (uint8_t)~TX_HELD_BY_STACK;
    if (buffer->holders == 0)
        gve_tx_free_push(net, buffer);
}

/* ---- upkeep ---- */

/* Returns true if the next descriptor is new or as old as it can be. */
static bool seq_is_possible(const struct gve *net)
{
    const struct gve_rx_queue *rx = &net->rx;
    const unsigned seq = rx_flags(net) & GVE_RX_SEQ;
    const unsigned round = rx->mask + 1;
    const unsigned before = rx->lapped || rx->taken > rx->mask
                                ? (rx->seq - 1u + GVE_RX_SEQ_LAST - round % GVE_RX_SEQ_LAST) % GVE_RX_SEQ_LAST + 1
                                : 0;
    return seq == rx->seq || seq == before;
}

static void poll(struct netdev *device)
{
    struct gve *net = gve_of(device);
    struct gve_rx_queue *rx = &net->rx;
    if (__builtin_expect(net->broken != NULL, 0))
        return;
    rx->lapped |= rx->taken > rx->mask;
    if (!seq_is_possible(net)) {
        gve_fault(net, "a receive descriptor has an impossible sequence number");
        return;
    }
    if (net->rx_posted_max - (rx->posted - rx->taken) >= net->rx_refill_count)
        gve_rx_refill(net);
    if (tx_pending(net) != 0)
        tx_reclaim(net);
    if (net->broken != NULL)
        return;
    /* Only the next frame touches these lines: the first of them if it comes in, the others if it goes out. */
    __builtin_prefetch(&rx->buffer[rx->taken & rx->mask]);
    __builtin_prefetch(&net->tx.ring[net->tx.sent & net->tx.mask], 1);
    __builtin_prefetch(&net->tx.buffer[net->tx.sent & net->tx.mask], 1);
    __builtin_prefetch(&net->bus->ops->doorbell);
    hot_fetch(net->bus, sizeof *net->bus);
    gve_state_watch(net);
}

bool gve_can_wake(const struct netdev *device) { return ((const struct gve *)device)->bus->interrupts; }

static void irq_ask(struct gve *net, bool wanted)
{
    const uint32_t value = wanted ? GVE_IRQ_ACK | GVE_IRQ_EVENT : GVE_IRQ_MASK;
    if (net->is_dqo)
        gve_dqo_irq_write(net, wanted);
    else
        net->bus->ops->doorbell(net->bus, net->irq_doorbell[GVE_NOTIFY_RX], value);
    net->armed = wanted;
    gve_counters.state_exits++;
}

bool gve_wake(struct netdev *device)
{
    irq_ask(gve_of(device), true);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return !gve_frame_waits(device);
}

void gve_quiet(struct netdev *device)
{
    if (gve_of(device)->armed)
        irq_ask(gve_of(device), false);
}

bool gve_frame_waits(const struct netdev *device)
{
    const struct gve *net = (const struct gve *)device;
    return net->is_dqo ? gve_dqo_frame_waits(net) : (rx_flags(net) & GVE_RX_SEQ) == net->rx.seq;
}

void gve_notify(struct netdev *device)
{
    struct gve *net = gve_of(device);
    if (net->is_dqo) {
        gve_dqo_tx_doorbell(net);
        return;
    }
    net->bus->ops->doorbell(net->bus, net->tx.doorbell, net->tx.sent);
    gve_counters.tx_kicks++;
}

const char *gve_broken(const struct netdev *device) { return ((const struct gve *)device)->broken; }

/* Counts nothing of the twin's frames. */
NOT_HOT static void rehearse(struct netdev *device)
{
    const struct gve_counters before = gve_counters;
    gve_twin_play(gve_of(device));
    gve_counters = before;
}

/* The device has no filter of groups: Google's network carries none. */
const struct netdev_ops gve_ops = {
    .rx_borrow = rx_borrow,
    .rx_release = rx_release,
    .tx_acquire = tx_acquire,
    .tx_publish = tx_publish,
    .tx_release = tx_release,
    .poll = poll,
    .rehearse = rehearse,
};

const struct netdev_ops gve_dqo_ops = {
    .rx_borrow = gve_dqo_rx_borrow,
    .rx_release = rx_release,
    .tx_acquire = tx_acquire,
    .tx_publish = gve_dqo_tx_publish,
    .tx_release = tx_release,
    .poll = gve_dqo_poll,
    .rehearse = rehearse,
};

NOT_HOT void gve_buffers_init(struct gve *net)
{
    ASSERT(net->rx_memory != NULL && net->tx_memory != NULL);
    net->rx_refill_count = (uint16_t)max_size(1, net->rx_posted_max / 8);
    for (uint16_t i = net->rx_posted_max + NETDEV_RX_BORROWED_MAX; i-- > 0;)
        gve_rx_free_push(net, i);
    for (uint16_t i = NETDEV_TX_BUFFER_COUNT; i-- > 0;) {
        net->tx_buffer[i] = (struct tx_buffer){ .data = tx_frame(net, i), .index = i };
        gve_tx_free_push(net, &net->tx_buffer[i]);
    }
    gve_check(net);
}

void gve_levels(struct netdev *device)
{
    struct gve *net = gve_of(device);
    const uint32_t done = net->tx.done + (net->is_dqo ? 0 : tx_pending(net));
    const bool stalls = done != net->tx.sent && done == net->level_done;
    net->level_done = done;
    gve_counters.tx_stalled_seconds = stalls ? gve_counters.tx_stalled_seconds + 1 : 0;
    gve_counters.rx_buffers_free = net->rx_free_count;
    gve_counters.tx_buffers_free = net->tx_free_count;
}

const struct counter_group gve_counter_group = COUNTER_GROUP("gve.", "Network device", GVE_COUNTERS, gve_counters);
