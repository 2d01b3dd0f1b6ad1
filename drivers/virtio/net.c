/* Frames of the virtio network device: receive, transmit, upkeep. Knows no bus and no protocol above Ethernet. */
#include "drivers/virtio/net.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/cycles.h"
#include "base/hot_section.h"
#include "base/trace.h"
#include "kernel/memory/memory.h"

_Alignas(64) struct virtio_net_counters virtio_net_counters;

enum {
    ETHERNET_BYTES = 14,
    HEADER_BYTES_LEGACY = 10, /* virtio 1.2 §5.1.6.1: without num_buffers */
    FRAME_ROOM_BYTES = VIRTIO_NET_BUFFER_BYTES - VIRTIO_NET_FRAME_OFFSET,
};
static_assert((int)FRAME_ROOM_BYTES >= (int)NETDEV_FRAME_BYTES_MAX + (int)NETDEV_TAGS_BYTES_MAX,
              "virtio 1.2 §5.1.6.3.1: a whole frame fits into one buffer");
static_assert(offsetof(struct virtio_net_hdr, csum_start) == 6, "header_write");
static_assert((VIRTIO_NET_FRAME_OFFSET + ETHERNET_BYTES) % 16 == 0, "the IP header is aligned to 16");

static struct virtio_net *virtio_net_of(struct netdev *device) { return (struct virtio_net *)device; }

static uint8_t *rx_frame(const struct virtio_net *net, uint16_t index)
{
    return net->rx_memory + (size_t)index * VIRTIO_NET_BUFFER_BYTES + VIRTIO_NET_FRAME_OFFSET;
}

/* ---- receive ---- */

bool virtio_net_rx_post(struct virtio_net *net)
{
    struct virtqueue *queue = &net->rx;
    bool any = false;
    while (net->rx_free_count > 0 && virtqueue_in_flight(queue) < net->rx_posted_max && virtqueue_has_slot(queue)) {
        uint16_t index = net->rx_free[--net->rx_free_count];
        ASSERT(net->rx_is_free[index]);
        net->rx_is_free[index] = false;
        virtqueue_place(queue, index, rx_frame(net, index) - net->header_bytes, FRAME_ROOM_BYTES + net->header_bytes);
        any = true;
    }
    return any && virtqueue_expose(queue);
}

static void rx_kick(struct virtio_net *net)
{
    net->bus->ops->kick(net->bus, VIRTIO_NET_RECEIVEQ);
    virtio_net_counters.rx_kicks++;
}

static void rx_refill(struct virtio_net *net)
{
    if (virtio_net_rx_post(net))
        rx_kick(net);
}

static void rx_free_push(struct virtio_net *net, uint32_t index)
{
    ASSERT(index < VIRTIO_NET_RX_BUFFER_COUNT);
    ASSERT(!net->rx_is_free[index]);
    net->rx_is_free[index] = true;
    net->rx_free[net->rx_free_count++] = (uint16_t)index;
}

/* Returns true if a frame has a length that frames have. VLAN tags make it longer. */
static bool length_is_possible(const struct frame *frame)
{
    uint32_t bytes_max = NETDEV_FRAME_BYTES_MAX;
    if (frame->bytes > bytes_max && netdev_frame_is_tagged(frame->data))
        bytes_max += NETDEV_TAGS_BYTES_MAX;
    return frame->bytes >= ETHERNET_BYTES && frame->bytes <= bytes_max;
}

/* Joins a frame that is spread over several buffers, in the first one. Returns false if it does not fit there, or if
 * its length is wrong. All its buffers are taken in any case.
 *
 * By virtio 1.2 §5.1.6.4 the device fills all buffers except the last, and each of ours holds a whole frame: such a
 * frame is too long. Devices older than virtio 1.1 may leave room in a buffer. Their frames are joined. */
NOT_HOT static bool rx_merge(struct virtio_net *net, struct frame *frame, uint32_t buffer_count)
{
    /* virtio 1.2 §5.1.6.4: a frame has one buffer or more, and all are used together. With any other count the frame's
     * end in the ring is unknown. */
    ASSERT(net->merges);
    if (buffer_count == 0 || buffer_count - 1 > virtqueue_pending(&net->rx)) {
        virtqueue_fault(&net->rx, "received frame claims more buffers than were used");
        return false;
    }
    bool fits = frame->bytes <= FRAME_ROOM_BYTES;
    for (uint32_t i = 1; i < buffer_count; i++) {
        uint32_t bytes;
        uint16_t index = virtqueue_take(&net->rx, &bytes);
        if (index == VIRTQUEUE_SLOT_FREE)
            return false;
        fits = fits && bytes <= FRAME_ROOM_BYTES - frame->bytes;
        if (fits) {
            memcpy(frame->data + frame->bytes, rx_frame(net, index) - net->header_bytes, bytes);
            frame->bytes += bytes;
        }
        rx_free_push(net, index);
    }
    if (!fits || !length_is_possible(frame)) {
        virtio_net_counters.rx_drop_bad_merge++;
        rx_free_push(net, frame->cookie);
        return false;
    }
    virtio_net_counters.rx_merged++;
    virtqueue_check(&net->rx);
    return true;
}

/* Takes a frame that is not whole or not of a usual length. `written` is the length that the device reports. Returns
 * true if `frame` is whole now. */
NOT_HOT static bool rx_unusual(struct virtio_net *net, struct frame *frame, uint32_t written)
{
    const struct virtio_net_hdr *header = (const void *)(frame->data - net->header_bytes);
    if (net->merges && written >= net->header_bytes && header->num_buffers != 1)
        return rx_merge(net, frame, header->num_buffers);
    if (written >= net->header_bytes && length_is_possible(frame))
        return true;

    if (written < net->header_bytes + (uint32_t)ETHERNET_BYTES)
        virtio_net_counters.rx_drop_short++;
    else
        virtio_net_counters.rx_drop_long++;
    rx_free_push(net, frame->cookie);
    virtio_net_check(net);
    return false;
}

static void frame_fill(const struct virtio_net *net, struct frame *frame, uint16_t index, uint32_t bytes)
{
    uint8_t *data = rx_frame(net, index);
    const struct virtio_net_hdr *header = (const void *)(data - net->header_bytes);
    frame->data = data;
    frame->bytes = bytes;
    frame->cookie = index;
    frame->checksum_good = (header->flags & net->checksum_flags) != 0;
}

static bool frame_is_usual(const struct virtio_net *net, uint16_t index, uint32_t bytes)
{
    const struct virtio_net_hdr *header = (const void *)(rx_frame(net, index) - net->header_bytes);
    /* One unsigned comparison for too short (it wraps) and too long. */
    return bytes - ETHERNET_BYTES <= NETDEV_FRAME_BYTES_MAX - ETHERNET_BYTES
           && (!net->merges || header->num_buffers == 1);
}

/* Borrows the next good frame, and drops the bad ones before it. */
__attribute__((noinline)) static bool rx_borrow_long(struct virtio_net *net, struct frame *frame)
{
    while (virtqueue_pending(&net->rx) != 0) {
        uint32_t written;
        uint16_t index = virtqueue_take(&net->rx, &written);
        if (index == VIRTQUEUE_SLOT_FREE)
            return false;
        uint32_t bytes = written - net->header_bytes;
        frame_fill(net, frame, index, bytes);
        if (frame_is_usual(net, index, bytes) || rx_unusual(net, frame, written)) {
            virtio_net_counters.rx_frames++;
            return true;
        }
    }
    return false;
}

/* Borrows the next frame. Cache lines: the queue's state; the used ring's head (shared with the device); the slot's
 * token; the frame's first line, which holds virtio's header, Ethernet, IP and the TCP ports. No copy, no exit. */
HOT static bool rx_borrow(struct netdev *device, struct frame *frame)
{
    struct virtio_net *net = virtio_net_of(device);
    uint16_t claimed = virtqueue_claimed(&net->rx);
    if (claimed == 0)
        return false;
    uint32_t slot, written;
    if (!virtqueue_peek(&net->rx, claimed, &slot, &written))
        return rx_borrow_long(net, frame);
    uint16_t index = net->rx.token[slot];
    uint32_t bytes = written - net->header_bytes;
    if (!frame_is_usual(net, index, bytes))
        return rx_borrow_long(net, frame);

    /* ---- One whole frame in one buffer, as nearly always ---- */

    __builtin_prefetch(rx_frame(net, index) + 64);
    frame_fill(net, frame, index, bytes);
    virtqueue_step(&net->rx, slot);
    virtio_net_counters.rx_frames++;
    return true;
}

static void rx_release(struct netdev *device, const struct frame *frame)
{
    struct virtio_net *net = virtio_net_of(device);
    rx_free_push(net, frame->cookie);
    /* Nearly dry: do not wait for idle time. */
    if (__builtin_expect(virtqueue_in_flight(&net->rx) * 4u < net->rx_posted_max, 0))
        rx_refill(net);
}

/* ---- transmit ---- */

static void tx_kick(struct virtio_net *net)
{
    net->bus->ops->kick(net->bus, VIRTIO_NET_TRANSMITQ);
    virtio_net_counters.tx_kicks++;
}

/* Ends the device's hold on sent buffers. virtio 1.2 §5.1.6.1: the used length of transmit queues is ignored. */
static void tx_reclaim(struct virtio_net *net)
{
    for (uint16_t pending = virtqueue_pending(&net->tx); pending > 0; pending--) {
        uint32_t written;
        uint16_t index = virtqueue_take(&net->tx, &written);
        if (index == VIRTQUEUE_SLOT_FREE)
            return;
        ASSERT(index < NETDEV_TX_BUFFER_COUNT);
        tx_pool_release(&net->tx_pool, &net->tx_pool.buffer[index], TX_HELD_BY_DEVICE);
    }
}

static struct tx_buffer *tx_acquire(struct netdev *device)
{
    struct virtio_net *net = virtio_net_of(device);
    if (__builtin_expect(tx_pool_is_empty(&net->tx_pool), 0))
        tx_reclaim(net);
    return tx_pool_take(&net->tx_pool, &virtio_net_counters.tx_no_buffer);
}

NOT_HOT static bool tx_make_room(struct virtio_net *net, const struct tx_buffer *buffer)
{
    tx_reclaim(net);
    virtio_net_check(net);
    return tx_pool_may_publish(buffer, virtqueue_has_slot(&net->tx), &virtio_net_counters.tx_still_held,
                               &virtio_net_counters.tx_ring_full);
}

/* virtio 1.2 §5.1.6.2: Writes the whole header, since other bytes stood here if `data` has been moved. Writes words:
 * bytes that are put together in memory and copied as words would have to reach the cache in between, 1 to 2 ns. */
static void header_write(uint8_t *at, uint32_t header_bytes, uint16_t csum_start, uint16_t csum_offset)
{
    uint64_t flags = csum_start != 0 ? VIRTIO_NET_HDR_F_NEEDS_CSUM : 0;
    store_le64(at, flags | (uint64_t)csum_start << 48);
    store_le16(at + offsetof(struct virtio_net_hdr, csum_offset), csum_offset);
    if (header_bytes != HEADER_BYTES_LEGACY)
        store_le16(at + offsetof(struct virtio_net_hdr, num_buffers), 0);
}

/* Publishes a frame. Cache lines written: the buffer's first (virtio's header shares it with Ethernet and IP, which
 * the stack has just written), the descriptor, the token, the buffer's holders, the available index. Read: the
 * device's wish to be notified. At most one exit. */
HOT static bool tx_publish(struct netdev *device, struct tx_buffer *buffer, uint32_t bytes, uint16_t csum_start,
                           uint16_t csum_offset)
{
    struct virtio_net *net = virtio_net_of(device);
    ASSERT(bytes >= ETHERNET_BYTES && bytes <= NETDEV_FRAME_BYTES_MAX);
    ASSERT(buffer->holders & TX_HELD_BY_STACK);
    ASSERT((csum_start == 0) | device->tx_checksum);
    bool free = (int)virtqueue_has_slot(&net->tx) & !(buffer->holders & TX_HELD_BY_DEVICE); /* one branch for both */
    if (__builtin_expect(!free, 0) && !tx_make_room(net, buffer))
        return false;

    uint8_t *at = buffer->data - net->header_bytes;
    header_write(at, net->header_bytes, csum_start, csum_offset);

    buffer->holders = TX_HELD_BY_STACK | TX_HELD_BY_DEVICE;
    virtqueue_place(&net->tx, buffer->index, at, bytes + net->header_bytes);
    /* Stamped before the store that publishes: after the store, RDTSC would wait for the XCHG. The stamp is 7 ns early
     * and tx_publish 10 ns shorter (134 cycles against 158, Xeon at 2.5 GHz, hosted against tests/lib/). */
    trace_stamp_fine(TRACE_PUBLISHED);
    if (virtqueue_expose(&net->tx))
        tx_kick(net);
    trace_stamp(TRACE_KICKED);
    virtio_net_counters.tx_frames++;
    return true;
}

static void tx_release(struct netdev *device, struct tx_buffer *buffer)
{
    tx_pool_release(&virtio_net_of(device)->tx_pool, buffer, TX_HELD_BY_STACK);
}

/* ---- upkeep ---- */

/* The silence after which the device's state is read, and the time between two readings: one to two seconds. A
 * reading costs an exit, some of them 10 us long. While frames come in, device and link are alive. Only a device that
 * may ask for an announcement, or has yet to get its table of groups, is read then, too. */
static const uint64_t STATE_READ_CYCLES = BIT(32);

/* The time after which the device is kicked again if it asked for a kick and got none: 26 us at 2.5 GHz. By virtio
 * 1.2 §2.7.13 it looks once more by itself after asking, so no kick is missed. But QEMU before 8.1 leaves the
 * barriers out of the code of a single CPU under TCG. Now and then its device, a thread of its own, does not see the
 * new index while the driver does not see that it asks for a kick (docs/subtle.md). */
static const uint64_t REKICK_CYCLES = BIT(16);

/* Returns true, once, when a queue has stalled for that time. */
static bool must_rekick(struct virtqueue *queue, struct virtio_net_stall *since, uint64_t now_cycles)
{
    if (!virtqueue_missed_kick(queue) || queue->used_idx != since->used_idx) {
        *since = (struct virtio_net_stall){ .begin_cycles = now_cycles, .used_idx = queue->used_idx };
        return false;
    }
    if (now_cycles - since->begin_cycles < REKICK_CYCLES)
        return false;
    ASSERT(queue->notified_idx != queue->exposed_idx);
    queue->notified_idx = queue->exposed_idx;
    return true;
}

static void rekick(struct virtio_net *net, uint64_t now_cycles)
{
    if (__builtin_expect(must_rekick(&net->tx, &net->tx_stall, now_cycles), 0)) {
        tx_kick(net);
        virtio_net_counters.tx_rekicks++;
    }
    if (__builtin_expect(must_rekick(&net->rx, &net->rx_stall, now_cycles), 0)) {
        rx_kick(net);
        virtio_net_counters.rx_rekicks++;
    }
}

/* Returns true if a command may be sent. One that is still under way is kicked again, and not sent twice. */
NOT_HOT static bool control_is_free(struct virtio_net *net)
{
    struct virtqueue *queue = &net->control;
    uint32_t written;
    ASSERT(net->announces || net->filters);
    if (virtqueue_pending(queue) != 0)
        virtqueue_take(queue, &written);
    if (queue->fault)
        net->broken = queue->fault;
    else if (virtqueue_in_flight(queue) == 0)
        return true;
    net->bus->ops->kick(net->bus, VIRTIO_NET_CONTROLQ);
    virtio_net_counters.state_exits++;
    return false;
}

/* Sends a command, whose data stand after its head already. */
NOT_HOT static void control_send(struct virtio_net *net, uint8_t class, uint8_t command, uint32_t data_bytes)
{
    struct virtqueue *queue = &net->control;
    uint32_t bytes = VIRTIO_NET_CTRL_HEAD_BYTES + data_bytes;
    ASSERT(bytes + VIRTIO_NET_CTRL_ACK_BYTES <= sizeof net->command);
    net->command[0] = class;
    net->command[1] = command;
    net->command[bytes] = VIRTIO_NET_ERR;
    queue->head_bytes = (uint8_t)bytes;
    virtqueue_place(queue, 0, net->command, bytes + VIRTIO_NET_CTRL_ACK_BYTES);
    virtqueue_expose_fenced(queue);
    net->bus->ops->kick(net->bus, VIRTIO_NET_CONTROLQ);
    virtio_net_counters.state_exits++;
}

/* virtio 1.2 §5.1.6.5.4: Has the stack announce our address, and acknowledges the request. The device shows its request
 * until it has seen that. */
NOT_HOT static void announce(struct virtio_net *net)
{
    ASSERT(net->announces);
    if (!control_is_free(net))
        return;
    net->device.announce = true;
    virtio_net_counters.announcements++;
    control_send(net, VIRTIO_NET_CTRL_ANNOUNCE, VIRTIO_NET_CTRL_ANNOUNCE_ACK, 0);
}

/* virtio 1.2 §5.1.6.5.2: Gives the device the table of groups; if another command is under way, at the next reading of
 * the state. The device's mode stays as it is: one without a filter passes everything on, and the stack checks. */
NOT_HOT static void groups_send(struct virtio_net *net)
{
    uint8_t *data = net->command + VIRTIO_NET_CTRL_HEAD_BYTES;
    ASSERT(net->filters && net->groups_due);
    if (!control_is_free(net))
        return;
    uint32_t bytes = net->group_count * (uint32_t)NETDEV_MAC_BYTES;
    store_le32(data, 0);
    store_le32(data + 4, net->group_count);
    memcpy(data + 8, net->groups, bytes);
    net->groups_due = false;
    net->reads_always = net->announces;
    virtio_net_counters.group_tables++;
    control_send(net, VIRTIO_NET_CTRL_MAC, VIRTIO_NET_CTRL_MAC_TABLE_SET, 8 + bytes);
}

NOT_HOT static void groups_set(struct netdev *device, const uint8_t (*groups)[NETDEV_MAC_BYTES], uint32_t count)
{
    struct virtio_net *net = virtio_net_of(device);
    ASSERT(count <= NETDEV_GROUP_COUNT_MAX);
    if (!net->filters || net->broken)
        return;
    memcpy(net->groups, groups, count * sizeof *groups);
    net->group_count = (uint8_t)count;
    net->groups_due = net->reads_always = true;
    groups_send(net);
}

NOT_HOT static void state_read(struct virtio_net *net)
{
    uint8_t status = net->bus->ops->status_read(net->bus);
    virtio_net_counters.state_exits++;
    if (status == VIRTIO_STATUS_GONE || (status & VIRTIO_STATUS_NEEDS_RESET) || !(status & VIRTIO_STATUS_DRIVER_OK)) {
        net->broken = "the device is gone or asks for a reset";
        net->device.link_up = false;
        return;
    }
    if (net->reads_status) {
        virtio_net_counters.state_exits++;
        uint32_t state = net->bus->ops->config_read(net->bus, VIRTIO_NET_CONFIG_STATUS, 2);
        net->device.link_up = (state & VIRTIO_NET_S_LINK_UP) != 0;
        if (net->announces && (state & VIRTIO_NET_S_ANNOUNCE))
            announce(net);
    }
    if (net->groups_due)
        groups_send(net);
}

static void poll(struct netdev *device)
{
    struct virtio_net *net = virtio_net_of(device);
    if (__builtin_expect(net->rx.fault || net->tx.fault || net->broken, 0)) {
        if (!net->broken)
            net->broken = net->rx.fault ? net->rx.fault : net->tx.fault;
        return;
    }
    if (net->rx_posted_max - virtqueue_in_flight(&net->rx) >= net->rx_refill_count) {
        rx_refill(net);
        virtqueue_quiet(&net->rx);
    }
    if (virtqueue_pending(&net->tx) != 0) {
        tx_reclaim(net);
        virtqueue_quiet(&net->tx);
    }
    /* Only the next frame touches these lines: the first of them if it comes in, the others if it goes out. */
    __builtin_prefetch(&net->rx.token[net->rx.used_idx & (net->rx.slot_count - 1)], 1);
    __builtin_prefetch(&net->tx.desc[net->tx.avail_idx & (net->tx.size - 1)], 1);
    __builtin_prefetch(&net->tx.token[net->tx.avail_idx & (net->tx.slot_count - 1)], 1);
    __builtin_prefetch(net->tx.avail);
    __builtin_prefetch(net->tx.avail_event);
    __builtin_prefetch(&net->bus->ops->kick);
    hot_fetch(net->bus, VIRTIO_BUS_HOT_BYTES);
    uint64_t now_cycles = cycles_now();
    rekick(net, now_cycles);
    if (net->rx.used_idx != net->last_rx_idx && !net->reads_always) {
        net->last_rx_idx = net->rx.used_idx;
        net->last_rx_cycles = now_cycles;
    } else if (now_cycles - net->last_rx_cycles >= STATE_READ_CYCLES) {
        net->last_rx_cycles = now_cycles;
        state_read(net);
    }
}

bool virtio_net_can_wake(const struct netdev *device) { return ((const struct virtio_net *)device)->bus->interrupts; }

bool virtio_net_wake(struct netdev *device) { return virtqueue_wake(&virtio_net_of(device)->rx); }

void virtio_net_quiet(struct netdev *device) { virtqueue_quiet(&virtio_net_of(device)->rx); }

bool virtio_net_frame_waits(const struct netdev *device)
{
    return virtqueue_claimed(&((const struct virtio_net *)device)->rx) != 0;
}

void virtio_net_notify(struct netdev *device) { tx_kick(virtio_net_of(device)); }

const char *virtio_net_broken(const struct netdev *device)
{
    const struct virtio_net *net = (const struct virtio_net *)device;
    return net->broken ? net->broken : net->rx.fault ? net->rx.fault : net->tx.fault;
}

/* Counts nothing of the twin's frames. */
NOT_HOT static void rehearse(struct netdev *device)
{
    const struct virtio_net_counters before = virtio_net_counters;
    virtio_net_twin_play(virtio_net_of(device));
    virtio_net_counters = before;
}

const struct netdev_ops virtio_net_ops = {
    .rx_borrow = rx_borrow,
    .rx_release = rx_release,
    .tx_acquire = tx_acquire,
    .tx_publish = tx_publish,
    .tx_release = tx_release,
    .poll = poll,
    .groups_set = groups_set,
    .rehearse = rehearse,
};

NOT_HOT void virtio_net_check(const struct virtio_net *net)
{
    virtqueue_check(&net->rx);
    virtqueue_check(&net->tx);
    if (net->announces || net->filters)
        virtqueue_check(&net->control);
    uint32_t rx_free = 0;
    for (uint32_t i = 0; i < VIRTIO_NET_RX_BUFFER_COUNT; i++)
        rx_free += net->rx_is_free[i];
    ASSERT(rx_free == net->rx_free_count);
    ASSERT(rx_free + virtqueue_in_flight(&net->rx) <= VIRTIO_NET_RX_BUFFER_COUNT);
    tx_pool_check(&net->tx_pool, virtqueue_in_flight(&net->tx));
}

NOT_HOT void virtio_net_buffers_init(struct virtio_net *net)
{
    ASSERT(net->rx_memory == NULL);
    net->rx_memory = memory_take((size_t)VIRTIO_NET_RX_BUFFER_COUNT * VIRTIO_NET_BUFFER_BYTES, 4096, "receive buffers");
    tx_pool_init(&net->tx_pool, VIRTIO_NET_FRAME_OFFSET);
    net->rx_posted_max = (uint16_t)min_size(net->rx.slot_count, VIRTIO_NET_RX_SLOT_COUNT_MAX);
    net->rx_refill_count = (uint16_t)max_size(1, net->rx_posted_max / 8);
    for (uint16_t i = VIRTIO_NET_RX_BUFFER_COUNT; i-- > 0;)
        rx_free_push(net, i);
    virtio_net_check(net);
}

void virtio_net_levels(struct netdev *device, struct buffer_levels *levels)
{
    struct virtio_net *net = virtio_net_of(device);
    const uint16_t used = (uint16_t)(net->tx.used_idx + virtqueue_pending(&net->tx));
    bool stalls = used != net->tx.avail_idx && used == net->tx_level_idx;
    net->tx_level_idx = used;
    virtio_net_counters.tx_stalled_seconds = stalls ? virtio_net_counters.tx_stalled_seconds + 1 : 0;
    levels->rx_buffers_free = net->rx_free_count;
    levels->tx_buffers_free = NETDEV_TX_BUFFER_COUNT - (uint64_t)net->tx_pool.taken_count;
}

const struct counter_group virtio_net_counter_group = COUNTER_GROUP("virtio_net.", "Network device",
                                                                    VIRTIO_NET_COUNTERS, virtio_net_counters);
