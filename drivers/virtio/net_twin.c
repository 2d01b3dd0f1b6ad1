/* The driver's twin: receives a frame and sends one on rings that no device knows (netdev.h, rehearse). The code is the
 * driver's own, so it is in the caches when a real frame comes. Rings, buffers and indices are the twin's. */
#include "base/assert.h"
#include "base/bytes.h"
#include "base/hot_section.h"
#include "base/trace.h"
#include "drivers/virtio/net.h"

enum { BUFFERS = 2, RING_BYTES = 512, FRAME_BYTES = 106 };

static struct {
    struct virtio_net net;
    _Alignas(64) uint8_t rings[2][RING_BYTES];
    uint16_t tokens[2][2 * BUFFERS];
    _Alignas(64) uint8_t buffers[2][BUFFERS][VIRTIO_NET_BUFFER_BYTES];
} twin;

/* Makes small rings like the ones that stand here. Their flags ask for no notification: the bus is never kicked. */
static void queue_init(struct virtqueue *queue, size_t index)
{
    const struct virtqueue_config config = {
        .size = (uint16_t)(BUFFERS * queue->chain_count),
        .used_align_bytes = 64,
        .chain_count = queue->chain_count,
        .head_bytes = queue->head_bytes,
        .device_writes = index == VIRTIO_NET_RECEIVEQ,
    };
    ASSERT(virtqueue_bytes(&config) <= RING_BYTES);
    virtqueue_init(queue, &config, twin.rings[index], twin.tokens[index]);
    queue->used->flags = VIRTQ_USED_F_NO_NOTIFY;
}

/* Makes the twin. The free buffers are stacks, of which only the upper ones are used: the first. */
void virtio_net_twin_init(const struct virtio_net *like)
{
    struct virtio_net *net = &twin.net;
    *net = *like;
    net->announces = net->filters = net->reads_always = false;
    net->rx_memory = twin.buffers[VIRTIO_NET_RECEIVEQ][0];
    net->tx_pool.frames = twin.buffers[VIRTIO_NET_TRANSMITQ][0] + VIRTIO_NET_FRAME_OFFSET;
    net->rx_posted_max = BUFFERS;
    net->rx_refill_count = 1;
    queue_init(&net->rx, VIRTIO_NET_RECEIVEQ);
    queue_init(&net->tx, VIRTIO_NET_TRANSMITQ);
    for (size_t i = 0; i < BUFFERS; i++) {
        uint8_t *header = twin.buffers[VIRTIO_NET_RECEIVEQ][i] + VIRTIO_NET_FRAME_OFFSET - net->header_bytes;
        ((struct virtio_net_hdr *)header)->num_buffers = 1;
    }
    net->last_rx_idx = 1; /* as if a frame had come: poll reads no state */
    net->device.ops->poll(&net->device);
    ASSERT(virtqueue_in_flight(&net->rx) == BUFFERS);
}

/* Plays the device: uses the slot that was shown first. */
static void device_uses(struct virtqueue *queue, uint32_t bytes)
{
    struct virtq_used *used = queue->used;
    const uint16_t at = used->idx & (queue->size - 1);
    used->ring[at] = (struct virtq_used_elem){ queue->avail->ring[at], bytes };
    used->idx++;
}

void virtio_net_twin_play(const struct virtio_net *net)
{
    const struct trace stamps = trace;
    struct netdev *own = &twin.net.device;
    struct frame frame;
    hot_fetch(net, offsetof(struct virtio_net, control)); /* `poll` fetches the lines of the rings */
    tx_pool_fetch(&net->tx_pool);
    device_uses(&twin.net.rx, twin.net.header_bytes + (uint32_t)FRAME_BYTES);
    own->ops->rx_borrow(own, &frame);
    struct tx_buffer *buffer = own->ops->tx_acquire(own);
    ASSERT(frame.cookie < BUFFERS && buffer->index < BUFFERS);
    own->ops->tx_publish(own, buffer, FRAME_BYTES, 0, 0);
    own->ops->tx_release(own, buffer);
    own->ops->rx_release(own, &frame);
    device_uses(&twin.net.tx, 0);
    own->ops->poll(own); /* reads no state, as a frame has come */
    trace = stamps;
}
