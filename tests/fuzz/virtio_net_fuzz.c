/* Fuzzes drivers/virtio/net.c and the virtqueue with a hostile device, which writes any word of the rings and of the
 * receive buffers at any time. The input is a list of steps, [what][where, big endian][value, big endian]. Some are
 * the device's, some the driver's. No frame may reach outside its buffer, and the driver's own state stays valid. */
#include "drivers/virtio/net.h"
#include "tests/fuzz/card.h"
#include "tests/lib/device_memory.h"
#include "tests/lib/virtio_model.h"

static struct virtio_net net;
static struct virtio_model model;

static void rings_write(const struct virtqueue *queue, uint16_t where, uint16_t value)
{
    uint8_t *begin = (uint8_t *)queue->desc, *end = (uint8_t *)&queue->used->ring[queue->size] + sizeof(uint16_t);
    store_le16(begin + (size_t)where * 2 % (size_t)(end - begin), value);
}

/* Writes to a receive buffer's virtio header: the checksum flags, the count of buffers. */
static void header_write(uint16_t where, uint16_t value)
{
    uint32_t index = where / 8u % VIRTIO_NET_RX_BUFFER_COUNT;
    uint8_t *frame = net.rx_memory + (size_t)index * VIRTIO_NET_BUFFER_BYTES + VIRTIO_NET_FRAME_OFFSET;
    store_le16(frame - net.header_bytes + 2 * (where % (net.header_bytes / 2u)), value);
}

static void step(uint8_t what, uint16_t where, uint16_t value)
{
    const struct virtqueue *queue = what & 1 ? &net.tx : &net.rx;
    uint16_t number = what & 1 ? VIRTIO_NET_TRANSMITQ : VIRTIO_NET_RECEIVEQ;
    switch (what / 2 % 9) {
    case 0:
        virtio_model_used_push(&model, number, where, value);
        break;
    case 1: /* an entry that the device owns */
        virtio_model_used_push(&model, number, (uint32_t)(queue->used_idx + where % 4) % queue->size, value);
        break;
    case 2:
        virtio_model_used_jump(&model, number, where % 8);
        break;
    case 3:
        rings_write(queue, where, value);
        break;
    case 4:
        header_write(where, value);
        break;
    case 5:
        borrow(&net.device, net.rx_memory, VIRTIO_NET_BUFFER_BYTES, VIRTIO_NET_FRAME_OFFSET, NETDEV_FRAME_BYTES_MAX);
        break;
    case 6:
        release(&net.device);
        break;
    case 7:
        send(&net.device, value);
        break;
    case 8:
        net.device.ops->poll(&net.device);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < STEP_BYTES)
        return 0;
    virtio_model_init(&model, data[0] % 3u);
    model.offered &= ~(uint64_t)load_be16(data + 1) << 14; /* MRG_RXBUF, STATUS, ANY_LAYOUT, EVENT_IDX among them */
    model.queue[0].size_max = (uint16_t)(2u << data[3] % 9u);
    model.queue[1].size_max = (uint16_t)(2u << data[4] % 9u);
    rx_held_count = tx_held_count = 0;
    if (virtio_net_init(&net, &model.bus) == VIRTIO_NET_OK) {
        for (size_t at = STEP_BYTES; at + STEP_BYTES <= size; at += STEP_BYTES) {
            step(data[at], load_be16(data + at + 1), load_be16(data + at + 3));
            virtio_net_check(&net);
        }
    }
    model_memory_free_all();
    return 0;
}
