/* Passes frames on unchanged, in the buffers of the device below, and writes each to the file.
 * Format: draft-ietf-opsawg-pcap, "PCAP Capture File Format"; the variant with nanoseconds. */
#include "tests/lib/netdev_pcap.h"

enum { PCAP_MAGIC_NANOSECONDS = 0xa1b23c4d, PCAP_LINKTYPE_ETHERNET = 1 };

static struct netdev_pcap *of(struct netdev *device) { return (struct netdev_pcap *)device; }

static void frame_write(struct netdev_pcap *self, const uint8_t *data, uint32_t bytes)
{
    uint64_t now_ns = self->clock_ns();
    uint32_t head[4] = { (uint32_t)(now_ns / 1000000000), (uint32_t)(now_ns % 1000000000), bytes, bytes };
    fwrite(head, sizeof head, 1, self->file);
    fwrite(data, bytes, 1, self->file);
    fflush(self->file); /* so that the file is complete after a crash */
}

static bool pcap_rx_borrow(struct netdev *device, struct frame *frame)
{
    struct netdev_pcap *self = of(device);
    if (!self->below->ops->rx_borrow(self->below, frame))
        return false;
    frame_write(self, frame->data, frame->bytes);
    return true;
}

static void pcap_rx_release(struct netdev *device, const struct frame *frame)
{
    struct netdev *below = of(device)->below;
    below->ops->rx_release(below, frame);
}

static struct tx_buffer *pcap_tx_acquire(struct netdev *device)
{
    struct netdev *below = of(device)->below;
    return below->ops->tx_acquire(below);
}

static bool pcap_tx_publish(struct netdev *device, struct tx_buffer *buffer, uint32_t bytes, uint16_t csum_start,
                            uint16_t csum_offset)
{
    struct netdev_pcap *self = of(device);
    if (!self->below->ops->tx_publish(self->below, buffer, bytes, csum_start, csum_offset))
        return false;
    frame_write(self, buffer->data, bytes);
    return true;
}

static void pcap_tx_release(struct netdev *device, struct tx_buffer *buffer)
{
    struct netdev *below = of(device)->below;
    below->ops->tx_release(below, buffer);
}

static void pcap_poll(struct netdev *device)
{
    struct netdev_pcap *self = of(device);
    self->below->ops->poll(self->below);
    self->device.link_up = self->below->link_up;
}

static const struct netdev_ops pcap_ops = {
    .rx_borrow = pcap_rx_borrow,
    .rx_release = pcap_rx_release,
    .tx_acquire = pcap_tx_acquire,
    .tx_publish = pcap_tx_publish,
    .tx_release = pcap_tx_release,
    .poll = pcap_poll,
};

void netdev_pcap_init(struct netdev_pcap *self, struct netdev *below, FILE *file, uint64_t (*clock_ns)(void))
{
    *self = (struct netdev_pcap){ .device = *below, .below = below, .file = file, .clock_ns = clock_ns };
    self->device.ops = &pcap_ops;
    const uint32_t header[6] = { PCAP_MAGIC_NANOSECONDS, 4 << 16 | 2 /* version 2.4 */, 0, 0,
                                 NETDEV_FRAME_BYTES_MAX, PCAP_LINKTYPE_ETHERNET };
    fwrite(header, sizeof header, 1, file);
}
