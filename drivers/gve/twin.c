/* The driver's twin: receives a frame and sends one on rings that no device knows, as drivers/virtio/net_twin.c. */
#include <string.h>

#include "base/bytes.h"
#include "base/trace.h"
#include "drivers/gve/gve.h"

enum { ENTRIES = 8, BUFFERS = 2, FRAME_BYTES = 106 };

static struct {
    struct gve net;
    struct gve_bus bus;
    _Alignas(64) struct gve_rx_descriptor rx_ring[ENTRIES];
    struct gve_dqo_rx_buffer posts[ENTRIES]; /* GQI's data ring has less */
    struct gve_tx_packet tx_ring[ENTRIES];
    struct gve_dqo_tx_completion completions[ENTRIES]; /* the first word of GQI's is the counter */
    uint16_t rx_buffer[ENTRIES], tx_buffer[ENTRIES];
    _Alignas(64) uint8_t rx_memory[BUFFERS][GVE_RX_BUFFER_BYTES];
    uint8_t tx_memory[BUFFERS][TX_BUFFER_BYTES];
} twin;

static void no_doorbell(struct gve_bus *bus, uint32_t index, uint32_t value)
{
    (void)bus;
    (void)index;
    (void)value;
}

static const struct gve_bus_ops ops = { .doorbell = no_doorbell };

/* Makes the twin. The free buffers are stacks, of which only the upper ones are used: the first. */
void gve_twin_init(const struct gve *like)
{
    struct gve *net = &twin.net;
    memset(&twin, 0, sizeof twin);
    *net = *like;
    twin.bus.ops = &ops;
    net->bus = &twin.bus;
    net->rx_memory = twin.rx_memory[0];
    net->tx_pool.frames = twin.tx_memory[0] + GVE_TX_FRAME_OFFSET;
    net->rx.ring = twin.rx_ring;
    net->rx.posts = twin.posts;
    net->rx.buffer = twin.rx_buffer;
    net->rx.step = 1;
    net->tx.ring = twin.tx_ring;
    net->tx.completions = twin.completions;
    net->tx.buffer = twin.tx_buffer;
    net->rx.mask = net->tx.mask = ENTRIES - 1;
    net->tx.room = BUFFERS;
    net->rx_posted_max = BUFFERS;
    net->rx_refill_count = 1;
    net->last_rx_taken = UINT32_MAX; /* as if a frame had come: poll reads no state */
    net->device.ops->poll(&net->device);
    ASSERT(net->rx.posted == BUFFERS && net->broken == NULL);
}

/* Writes what a device writes when a frame comes. */
static void frame_write(const struct gve *own)
{
    const uint32_t at = own->rx.taken & own->rx.mask;
    if (own->is_dqo) {
        struct gve_dqo_rx_completion *completion = (void *)twin.rx_ring;
        completion += at;
        store_le16(&completion->buffer_id, load_le16(&twin.posts[at].id));
        completion->status = GVE_DQO_RX_DONE | GVE_DQO_RX_END | GVE_DQO_RX_HEADERS_CHECKED;
        store_le16(&completion->bytes, (uint16_t)(FRAME_BYTES | own->rx.seq << 8));
    } else {
        store_be16(&twin.rx_ring[at].bytes, GVE_RX_PAD_BYTES + FRAME_BYTES);
        store_be16(&twin.rx_ring[at].flags_seq, own->rx.seq);
    }
}

/* Writes what a device writes when the frame in a buffer is sent. */
static void sent_write(const struct gve *own, uint16_t index)
{
    struct gve_dqo_tx_completion *completion = &twin.completions[own->tx.completed & own->tx.mask];
    const bool generation = (own->tx.completed & ENTRIES) == 0;
    if (!own->is_dqo) {
        store_be32(twin.completions, own->tx.sent);
        return;
    }
    store_le16(&completion->value, index);
    store_le16(&completion->id_type, (uint16_t)(GVE_DQO_COMPLETION_PACKET << GVE_DQO_COMPLETION_TYPE_SHIFT
                                                | (generation ? GVE_DQO_COMPLETION_GENERATION : 0)));
}

void gve_twin_play(const struct gve *net)
{
    const struct trace stamps = trace;
    struct gve *own = &twin.net;
    struct netdev *device = &own->device;
    struct frame frame;
    hot_fetch(net, offsetof(struct gve, rx_base)); /* `poll` fetches the lines of the rings */
    tx_pool_fetch(&net->tx_pool);
    frame_write(own);
    device->ops->rx_borrow(device, &frame);
    struct tx_buffer *buffer = device->ops->tx_acquire(device);
    ASSERT(frame.cookie < BUFFERS && buffer->index < BUFFERS);
    device->ops->tx_publish(device, buffer, FRAME_BYTES, 0, 0);
    device->ops->tx_release(device, buffer);
    device->ops->rx_release(device, &frame);
    sent_write(own, buffer->index);
    device->ops->poll(device); /* reads no state, as a frame has come */
    trace = stamps;
}
