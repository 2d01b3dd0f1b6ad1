/* Queues of IP packets in both directions. Adds and removes the Ethernet header. */
#include "host/library/netdev_ip.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "net/ip/ethernet_wire.h"

enum {
    HEAD_BYTES = sizeof(struct ethernet_wire),
    BUFFER_HEADROOM_BYTES = 18, /* so that data is 2 past a multiple of 16 */
};

static const uint8_t our_mac[NETDEV_MAC_BYTES] = { 0x02, 0, 0, 0, 0, 1 };
static const uint8_t peer_mac[NETDEV_MAC_BYTES] = { 0x02, 0, 0, 0, 0, 2 };

/* The head of a packet in the queue of bytes; the Ethernet header and the packet follow. bytes 0: the rest up to the
 * end is unused, and the next packet stands at the beginning. */
struct slot {
    uint32_t bytes; /* the frame's length */
    uint32_t released;
};

static uint32_t slot_bytes(uint32_t frame_bytes)
{
    return (uint32_t)((sizeof(struct slot) + frame_bytes + 15) & ~(size_t)15);
}

static struct netdev_ip *self_of(struct netdev *device) { return (struct netdev_ip *)device; }

static struct slot *slot_at(struct netdev_ip *self, uint32_t offset)
{
    return (struct slot *)(self->in_bytes + offset % NETDEV_IP_QUEUE_BYTES);
}

/* Returns the bytes from an offset to the end of the queue. Offsets only grow; a place is an offset modulo the size. */
static uint32_t to_end(uint32_t offset) { return NETDEV_IP_QUEUE_BYTES - offset % NETDEV_IP_QUEUE_BYTES; }

bool netdev_ip_push(struct netdev_ip *self, const void *packet, size_t bytes)
{
    uint32_t frame_bytes = HEAD_BYTES + (uint32_t)bytes, need = slot_bytes(frame_bytes);
    uint32_t skip = to_end(self->in_tail) < need ? to_end(self->in_tail) : 0;
    if (bytes > NETDEV_IP_PACKET_BYTES_MAX || self->in_tail + skip + need - self->in_head > NETDEV_IP_QUEUE_BYTES) {
        self->in_drop_full++;
        return false;
    }
    if (skip != 0)
        *slot_at(self, self->in_tail) = (struct slot){ 0, 1 };
    struct slot *slot = slot_at(self, self->in_tail + skip);
    *slot = (struct slot){ frame_bytes, 0 };
    struct ethernet_wire *ethernet = (struct ethernet_wire *)(slot + 1);
    memcpy(ethernet->destination, our_mac, NETDEV_MAC_BYTES);
    memcpy(ethernet->source, peer_mac, NETDEV_MAC_BYTES);
    store_be16(&ethernet->type, ETHERNET_TYPE_IPV4);
    memcpy(ethernet + 1, packet, bytes);
    self->in_tail += skip + need;
    netdev_ip_check(self);
    return true;
}

static bool ip_rx_borrow(struct netdev *device, struct frame *frame)
{
    struct netdev_ip *self = self_of(device);
    if (self->in_read != self->in_tail && slot_at(self, self->in_read)->bytes == 0)
        self->in_read += to_end(self->in_read);
    if (self->in_read == self->in_tail || self->borrowed_count == NETDEV_RX_BORROWED_MAX)
        return false;
    struct slot *slot = slot_at(self, self->in_read);
    *frame = (struct frame){
        .data = (uint8_t *)(slot + 1),
        .bytes = slot->bytes,
        .cookie = self->in_read,
    };
    ASSERT(slot->bytes >= HEAD_BYTES);
    self->in_read += slot_bytes(slot->bytes);
    self->borrowed_count++;
    netdev_ip_check(self);
    return true;
}

static void ip_rx_release(struct netdev *device, const struct frame *frame)
{
    struct netdev_ip *self = self_of(device);
    ASSERT(self->borrowed_count > 0);
    slot_at(self, frame->cookie)->released = 1;
    self->borrowed_count--;
    while (self->in_head != self->in_read && slot_at(self, self->in_head)->released != 0) {
        struct slot *slot = slot_at(self, self->in_head);
        self->in_head += slot->bytes != 0 ? slot_bytes(slot->bytes) : to_end(self->in_head);
    }
    netdev_ip_check(self);
}

static void buffer_free(struct netdev_ip *self, struct tx_buffer *buffer)
{
    ASSERT(self->free_count < NETDEV_IP_BUFFER_COUNT || buffer->holders != 0);
    if (buffer->holders == 0)
        self->free[self->free_count++] = buffer->index;
}

static struct tx_buffer *ip_tx_acquire(struct netdev *device)
{
    struct netdev_ip *self = self_of(device);
    if (self->free_count == 0) {
        self->out_drop_full++;
        return NULL;
    }
    struct tx_buffer *buffer = &self->buffers[self->free[--self->free_count]];
    ASSERT(buffer->holders == 0);
    buffer->holders = TX_HELD_BY_STACK;
    buffer->data = self->out_memory + (size_t)buffer->index * self->out_stride_bytes + BUFFER_HEADROOM_BYTES;
    return buffer;
}

static bool ip_tx_publish(struct netdev *device, struct tx_buffer *buffer, uint32_t bytes, uint16_t csum_start,
                          uint16_t csum_offset)
{
    struct netdev_ip *self = self_of(device);
    (void)csum_offset;
    ASSERT(csum_start == 0);
    ASSERT(bytes > HEAD_BYTES);
    ASSERT((buffer->holders & TX_HELD_BY_STACK) != 0);
    if ((buffer->holders & TX_HELD_BY_DEVICE) != 0 || self->out_tail - self->out_head == NETDEV_IP_BUFFER_COUNT) {
        self->out_drop_full++;
        return false;
    }
    buffer->holders |= TX_HELD_BY_DEVICE;
    uint32_t place = self->out_tail++ % NETDEV_IP_BUFFER_COUNT;
    self->out[place].buffer = buffer->index;
    self->out[place].data = buffer->data + HEAD_BYTES;
    self->out[place].bytes = (uint16_t)(bytes - HEAD_BYTES);
    return true;
}

static void ip_tx_release(struct netdev *device, struct tx_buffer *buffer)
{
    ASSERT((buffer->holders & TX_HELD_BY_STACK) != 0);
    buffer->holders &= (uint8_t)~TX_HELD_BY_STACK;
    buffer_free(self_of(device), buffer);
}

void netdev_ip_release(struct netdev_ip *self)
{
    if (self->popped != NULL) {
        self->popped->holders &= (uint8_t)~TX_HELD_BY_DEVICE;
        buffer_free(self, self->popped);
        self->popped = NULL;
    }
}

size_t netdev_ip_pop(struct netdev_ip *self, const uint8_t **packet)
{
    netdev_ip_release(self);
    ASSERT(self->popped == NULL);
    if (self->out_head == self->out_tail)
        return 0;
    uint32_t place = self->out_head++ % NETDEV_IP_BUFFER_COUNT;
    self->popped = &self->buffers[self->out[place].buffer];
    ASSERT((self->popped->holders & TX_HELD_BY_DEVICE) != 0);
    *packet = self->out[place].data;
    return self->out[place].bytes;
}

static void ip_poll(struct netdev *device) { (void)device; }

void netdev_ip_check(const struct netdev_ip *self)
{
    ASSERT(self->in_tail - self->in_head <= NETDEV_IP_QUEUE_BYTES);
    ASSERT(self->in_read - self->in_head <= self->in_tail - self->in_head);
    ASSERT(self->borrowed_count <= NETDEV_RX_BORROWED_MAX);
    ASSERT(self->out_tail - self->out_head <= NETDEV_IP_BUFFER_COUNT);
    ASSERT(self->free_count <= NETDEV_IP_BUFFER_COUNT);
}

static uint32_t stride_bytes(uint16_t mtu_bytes)
{
    return (BUFFER_HEADROOM_BYTES + HEAD_BYTES + mtu_bytes + 63u) & ~63u;
}

size_t netdev_ip_jumbo_bytes(uint16_t mtu_bytes) { return (size_t)NETDEV_IP_BUFFER_COUNT * stride_bytes(mtu_bytes); }

void netdev_ip_init(struct netdev_ip *self, uint16_t mtu_bytes)
{
    static const struct netdev_ops ops = {
        .rx_borrow = ip_rx_borrow,
        .rx_release = ip_rx_release,
        .tx_acquire = ip_tx_acquire,
        .tx_publish = ip_tx_publish,
        .tx_release = ip_tx_release,
        .poll = ip_poll,
    };
    ASSERT(mtu_bytes <= NETDEV_FRAME_BYTES_MAX - HEAD_BYTES);
    memset(self, 0, offsetof(struct netdev_ip, in_bytes));
    self->device.ops = &ops;
    memcpy(self->device.mac, our_mac, NETDEV_MAC_BYTES);
    self->device.mtu_bytes = mtu_bytes;
    self->device.point_to_point = true;
    self->device.link_up = true;
    self->out_memory = self->out_bytes;
    self->out_stride_bytes = NETDEV_IP_BUFFER_BYTES;
    for (uint16_t i = 0; i < NETDEV_IP_BUFFER_COUNT; i++) {
        self->buffers[i].index = i;
        self->free[self->free_count++] = i;
    }
    netdev_ip_check(self);
}

void netdev_ip_init_jumbo(struct netdev_ip *self, uint16_t mtu_bytes, void *memory)
{
    netdev_ip_init(self, NETDEV_FRAME_BYTES_MAX - HEAD_BYTES);
    self->device.mtu_bytes = mtu_bytes;
    self->out_memory = memory;
    self->out_stride_bytes = stride_bytes(mtu_bytes);
}
