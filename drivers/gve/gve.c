/* Google's virtual NIC as a netdev: all that both queue formats share. gqi.c and dqo.c read and write the rings. Every
 * value that the device writes is checked; after one that no device writes the device is not used any more. */
#include "drivers/gve/gve.h"

#include "base/cycles.h"
#include "base/trace.h"

static_assert((int)GVE_RX_BUFFER_BYTES >= GVE_RX_PAD_BYTES + NETDEV_FRAME_BYTES_MAX + NETDEV_TAGS_BYTES_MAX, "a frame");
static_assert((GVE_RX_PAD_BYTES + GVE_ETHERNET_BYTES) % 16 == 0, "the IP header is aligned to 16");
static_assert(GVE_PAGE_BYTES % GVE_RX_BUFFER_BYTES == 0, "no buffer lies in two pages");

static struct gve *gve_of(struct netdev *device) { return (struct gve *)device; }

/* Rings a doorbell; DQO's are little-endian. */
static void doorbell(struct gve *net, uint32_t index, uint32_t value)
{
    net->bus->ops->doorbell(net->bus, index, net->is_dqo ? __builtin_bswap32(value) : value);
}

/* ---- receive ---- */

/* Gives the device all the free buffers that it may have, and tells it in one step. */
void gve_rx_refill(struct gve *net)
{
    struct gve_rx_queue *rx = &net->rx;
    const uint32_t steps = ~(rx->step - 1u), before = rx->posted & steps;
    while (net->rx_free_count > 0 && rx->posted - rx->taken < net->rx_posted_max) {
        const uint16_t index = net->rx_free[--net->rx_free_count];
        const uint64_t address = (uintptr_t)gve_rx_buffer(net, index) - net->rx_base;
        const uint32_t at = rx->posted++ & rx->mask;
        ASSERT(net->rx_state[index] == GVE_RX_FREE);
        net->rx_state[index] = GVE_RX_POSTED;
        rx->buffer[at] = index;
        if (net->is_dqo) {
            store_le16(&rx->posts[at].id, index);
            store_le64(&rx->posts[at].address, address);
        } else {
            store_be64(&rx->data[at], address);
        }
    }
    if ((rx->posted & steps) == before || net->broken != NULL)
        return;
    doorbell(net, rx->doorbell, rx->posted & steps & (net->is_dqo ? rx->mask : UINT32_MAX));
    gve_counters.rx_kicks++;
}

static void rx_release(struct netdev *device, const struct frame *frame)
{
    struct gve *net = gve_of(device);
    ASSERT(frame->cookie < GVE_RX_BUFFER_COUNT && net->rx_state[frame->cookie] == GVE_RX_BORROWED);
    gve_rx_free_push(net, frame->cookie);
    /* Nearly dry: do not wait for idle time. */
    if (__builtin_expect((net->rx.posted - net->rx.taken) * 4 < net->rx_posted_max, 0))
        gve_rx_refill(net);
}

/* ---- transmit ---- */

/* Ends the device's hold on sent buffers. */
static void tx_reclaim(struct gve *net) { (net->is_dqo ? gve_dqo_tx_reclaim : gve_gqi_tx_reclaim)(net); }

static struct tx_buffer *tx_acquire(struct netdev *device)
{
    struct gve *net = gve_of(device);
    if (__builtin_expect(tx_pool_is_empty(&net->tx_pool), 0))
        tx_reclaim(net);
    return tx_pool_take(&net->tx_pool, &gve_counters.tx_no_buffer);
}

static bool tx_has_room(const struct gve *net) { return net->tx.sent - net->tx.done < net->tx.room; }

NOT_HOT static bool tx_make_room(struct gve *net, const struct tx_buffer *buffer)
{
    tx_reclaim(net);
    gve_check(net);
    return tx_pool_may_publish(buffer, tx_has_room(net), &gve_counters.tx_still_held, &gve_counters.tx_ring_full);
}

static void tx_kick(struct gve *net)
{
    doorbell(net, net->tx.doorbell, net->is_dqo ? net->tx.sent & net->tx.mask : net->tx.sent);
    gve_counters.tx_kicks++;
}

/* Publishes a frame. Cache lines written: the descriptor, GQI's index of the entry's buffer, the buffer's holders. One
 * store to the doorbell. */
HOT static bool tx_publish(struct netdev *device, struct tx_buffer *buffer, uint32_t bytes, uint16_t csum_start,
                           uint16_t csum_offset)
{
    struct gve *net = gve_of(device);
    ASSERT(bytes >= GVE_ETHERNET_BYTES && bytes <= NETDEV_FRAME_BYTES_MAX);
    ASSERT(buffer->holders & TX_HELD_BY_STACK);
    ASSERT((csum_start | csum_offset) % 2 == 0 && csum_start < 512 && csum_offset < 512);
    bool free = (int)tx_has_room(net) & !(buffer->holders & TX_HELD_BY_DEVICE); /* one branch for both */
    if (__builtin_expect(!free, 0) && !tx_make_room(net, buffer))
        return false;
    if (net->is_dqo)
        gve_dqo_tx_write(net, buffer, bytes, csum_start != 0);
    else
        gve_gqi_tx_write(net, buffer, bytes, csum_start, csum_offset);
    net->tx.sent++;
    buffer->holders = TX_HELD_BY_STACK | TX_HELD_BY_DEVICE;
    trace_stamp_fine(TRACE_PUBLISHED); /* before the store that publishes, as drivers/virtio/net.c */
    tx_kick(net);
    trace_stamp(TRACE_KICKED);
    gve_counters.tx_frames++;
    return true;
}

static void tx_release(struct netdev *device, struct tx_buffer *buffer)
{
    tx_pool_release(&gve_of(device)->tx_pool, buffer, TX_HELD_BY_STACK);
}

/* ---- upkeep ---- */

void gve_state_set(struct gve *net, uint32_t status)
{
    net->device.link_up = (status & GVE_DEVICE_STATUS_LINK_UP) != 0;
    if (status == UINT32_MAX || (status & GVE_DEVICE_STATUS_RESET))
        gve_fault(net, "the gVNIC is gone or asks for a reset, its status", status);
}

/* Reads the state after a silence, as drivers/virtio/net.c: of one to two seconds, then between two readings. */
static void state_watch(struct gve *net)
{
    static const uint64_t STATE_READ_CYCLES = BIT(32);
    uint64_t now_cycles = cycles_now();
    if (net->rx.taken != net->last_rx_taken) {
        net->last_rx_taken = net->rx.taken;
        net->last_rx_cycles = now_cycles;
    } else if (now_cycles - net->last_rx_cycles >= STATE_READ_CYCLES) {
        net->last_rx_cycles = now_cycles;
        gve_counters.state_exits++;
        gve_state_set(net, net->bus->ops->read(net->bus, offsetof(struct gve_registers, device_status)));
    }
}

static void poll(struct netdev *device)
{
    struct gve *net = gve_of(device);
    if (__builtin_expect(net->broken != NULL, 0))
        return;
    if (!net->is_dqo)
        gve_gqi_rx_check(net);
    if (net->rx_posted_max - (net->rx.posted - net->rx.taken) >= net->rx_refill_count)
        gve_rx_refill(net);
    tx_reclaim(net);
    if (net->broken != NULL)
        return;
    /* Only the next frame touches these lines: the first of them if it comes in, the others if it goes out. */
    __builtin_prefetch(&net->rx.buffer[net->rx.taken & net->rx.mask]);
    __builtin_prefetch(&net->tx.ring[net->tx.sent & net->tx.mask], 1);
    __builtin_prefetch(&net->tx.buffer[net->tx.sent & net->tx.mask], 1);
    __builtin_prefetch(&net->bus->ops->doorbell);
    hot_fetch(net->bus, sizeof *net->bus);
    state_watch(net);
}

bool gve_can_wake(const struct netdev *device) { return ((const struct gve *)device)->bus->interrupts; }

/* Asks for one interrupt at once with the next frame, or for none. */
static void irq_ask(struct gve *net, bool wanted)
{
    doorbell(net, net->irq_doorbell[GVE_NOTIFY_RX],
             net->is_dqo ? (wanted ? GVE_DQO_IRQ_ENABLE : 0)
             : wanted    ? GVE_IRQ_ACK | GVE_IRQ_EVENT
                         : GVE_IRQ_MASK);
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
    return (net->is_dqo ? gve_dqo_frame_waits : gve_gqi_frame_waits)(net);
}

void gve_notify(struct netdev *device) { tx_kick(gve_of(device)); }

const char *gve_broken(const struct netdev *device) { return ((const struct gve *)device)->broken; }

void gve_levels(struct netdev *device, struct buffer_levels *levels)
{
    struct gve *net = gve_of(device);
    tx_reclaim(net);
    const bool stalls = net->tx.done != net->tx.sent && net->tx.done == net->level_done;
    net->level_done = net->tx.done;
    gve_counters.tx_stalled_seconds = stalls ? gve_counters.tx_stalled_seconds + 1 : 0;
    levels->rx_buffers_free = net->rx_free_count;
    levels->tx_buffers_free = NETDEV_TX_BUFFER_COUNT - (uint64_t)net->tx_pool.taken_count;
}

/* Counts nothing of the twin's frames. */
NOT_HOT static void rehearse(struct netdev *device)
{
    const struct gve_counters before = gve_counters;
    gve_twin_play(gve_of(device));
    gve_counters = before;
}

/* The device has no filter of groups: Google's network carries none. */
#define OPS(borrow)                                                                                                    \
    {                                                                                                                  \
        .rx_borrow = borrow, .rx_release = rx_release, .tx_acquire = tx_acquire, .tx_publish = tx_publish,             \
        .tx_release = tx_release, .poll = poll, .rehearse = rehearse,                                                  \
    }
const struct netdev_ops gve_gqi_ops = OPS(gve_gqi_rx_borrow), gve_dqo_ops = OPS(gve_dqo_rx_borrow);

NOT_HOT void gve_buffers_init(struct gve *net)
{
    net->rx_refill_count = (uint16_t)max_size(1, net->rx_posted_max / 8);
    for (uint16_t i = net->rx_posted_max + NETDEV_RX_BORROWED_MAX; i-- > 0;)
        net->rx_free[net->rx_free_count++] = i;
    gve_check(net);
}

const struct counter_group gve_counter_group = COUNTER_GROUP("gve.", "Network device", GVE_COUNTERS, gve_counters);
