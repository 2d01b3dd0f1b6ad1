/* The driver's twin: receives a frame and sends one on rings that no device knows, as drivers/virtio/net_twin.c. */
#include "base/assert.h"
#include "base/bytes.h"
#include "base/hot_section.h"
#include "base/trace.h"
#include "drivers/gve/gve.h"

/* A ring of DQO that sends keeps entries free. */
enum { ENTRIES = 8, BUFFERS = 2, FRAME_BYTES = 106 };

static struct {
    struct gve net;
    struct gve_bus bus;
    _Alignas(64) struct gve_rx_descriptor rx_ring[ENTRIES];
    uint64_t rx_data[ENTRIES];
    union gve_tx_descriptor tx_ring[ENTRIES];
    uint16_t rx_buffer[ENTRIES], tx_buffer[ENTRIES];
    uint32_t counter;
    _Alignas(64) struct gve_dqo_rx_buffer posts[ENTRIES];
    struct gve_dqo_rx_completion rx_completions[ENTRIES];
    union gve_dqo_tx_descriptor dqo_tx_ring[ENTRIES];
    struct gve_dqo_tx_completion tx_completions[ENTRIES];
    _Alignas(64) uint8_t rx_memory[BUFFERS][GVE_RX_BUFFER_BYTES];
    uint8_t tx_memory[BUFFERS][GVE_TX_BUFFER_BYTES];
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
    *net = *like;
    twin.bus = (struct gve_bus){ .ops = &ops };
    twin.counter = 0;
    net->bus = &twin.bus;
    net->rx_memory = twin.rx_memory[0];
    net->tx_memory = twin.tx_memory[0];
    net->rx = (struct gve_rx_queue){
        .ring = twin.rx_ring, .data = twin.rx_data, .buffer = twin.rx_buffer, .mask = ENTRIES - 1, .seq = 1
    };
    net->tx = (struct gve_tx_queue){
        .ring = twin.tx_ring, .buffer = twin.tx_buffer, .counter = &twin.counter, .mask = ENTRIES - 1
    };
    for (size_t i = 0; i < ENTRIES; i++) {
        store_be16(&twin.rx_ring[i].flags_seq, 0);
        twin.rx_completions[i].bytes = 0;
        twin.tx_completions[i].id_type = 0;
    }
    if (net->is_dqo) {
        net->rx.seq = GVE_DQO_RX_GENERATION >> 8;
        net->dqo.posts = twin.posts;
        net->dqo.rx_completions = twin.rx_completions;
        net->dqo.tx_ring = twin.dqo_tx_ring;
        net->dqo.tx_completions = twin.tx_completions;
    }
    net->rx_posted_max = BUFFERS;
    net->rx_refill_count = 1;
    net->last_rx_taken = UINT32_MAX; /* as if a frame had come: poll reads no state */
    net->device.ops->poll(&net->device);
    ASSERT(net->rx.posted == BUFFERS && net->broken == NULL);
}

/* Fetches the lines that the next frames touch, of the real driver; `poll` fetches those of the rings. */
static void lines_fetch(const struct gve *net)
{
    hot_fetch(net, offsetof(struct gve, rx_memory));
    if (net->tx_free_count == 0)
        return;
    const uint16_t next = net->tx_free[net->tx_free_count - 1];
    hot_fetch(&net->tx_buffer[next], 1);
    hot_fetch(net->tx_memory + (size_t)next * GVE_TX_BUFFER_BYTES, 2 * HOT_LINE_BYTES);
}

/* Writes what a device writes when a frame comes. */
static void frame_write(const struct gve *own)
{
    const uint32_t at = own->rx.taken & own->rx.mask;
    if (own->is_dqo) {
        struct gve_dqo_rx_completion *completion = &twin.rx_completions[at];
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
    struct gve_dqo_tx_completion *completion = &twin.tx_completions[own->dqo.tx_taken & own->tx.mask];
    const bool generation = (own->dqo.tx_taken & ENTRIES) == 0;
    store_be32(&twin.counter, own->tx.sent);
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
    lines_fetch(net);
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
