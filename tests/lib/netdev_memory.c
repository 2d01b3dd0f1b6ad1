/* A network device in memory. Sent frames are copied when published, as if the device were done at once. */
#include "tests/lib/netdev_memory.h"

#include <string.h>

#include "base/assert.h"
#include "net/ip/checksum.h"

static struct netdev_memory *of(struct netdev *device) { return (struct netdev_memory *)device; }

static bool memory_rx_borrow(struct netdev *device, struct frame *frame)
{
    struct netdev_memory *m = of(device);
    if (m->fed_count == 0)
        return false;
    *frame = m->fed[m->fed_first];
    m->fed_first = (m->fed_first + 1) % FRAME_POOL_RX_COUNT;
    m->fed_count--;
    frame_pool_rx_lend(&m->pool, frame, frame->bytes);
    return true;
}

static void memory_rx_release(struct netdev *device, const struct frame *frame)
{
    frame_pool_rx_release(&of(device)->pool, frame);
}

static struct tx_buffer *memory_tx_acquire(struct netdev *device) { return frame_pool_tx_acquire(&of(device)->pool); }

static void checksum_complete(uint8_t *frame, uint32_t bytes, uint16_t start, uint16_t offset)
{
    ASSERT(start + offset + 2u <= bytes);
    uint16_t checksum = checksum_finish(checksum_sum(0, frame + start, bytes - start));
    store_be16(frame + start + offset, checksum != 0 ? checksum : 0xffff);
}

static bool memory_tx_publish(struct netdev *device, struct tx_buffer *buffer, uint32_t bytes, uint16_t csum_start,
                              uint16_t csum_offset)
{
    struct netdev_memory *m = of(device);
    frame_pool_tx_check(&m->pool, buffer, bytes);
    ASSERT(csum_start == 0 || device->tx_checksum);
    if (m->sent_count >= m->sent_max)
        return false;
    uint32_t last = (m->sent_first + m->sent_count++) % FRAME_POOL_TX_COUNT;
    m->sent[last].bytes = bytes;
    memcpy(m->sent[last].data, buffer->data, bytes);
    if (csum_start != 0)
        checksum_complete(m->sent[last].data, bytes, csum_start, csum_offset);
    return true;
}

static void memory_tx_release(struct netdev *device, struct tx_buffer *buffer)
{
    frame_pool_tx_release(&of(device)->pool, buffer);
}

static void memory_poll(struct netdev *device) { (void)device; }

static const struct netdev_ops memory_ops = {
    .rx_borrow = memory_rx_borrow,
    .rx_release = memory_rx_release,
    .tx_acquire = memory_tx_acquire,
    .tx_publish = memory_tx_publish,
    .tx_release = memory_tx_release,
    .poll = memory_poll,
};

void netdev_memory_init(struct netdev_memory *memory, const uint8_t mac[NETDEV_MAC_BYTES], bool checksum)
{
    frame_pool_init(&memory->pool);
    memory->pool.rx_stays = true;
    memory->device = (struct netdev){ .ops = &memory_ops, .mtu_bytes = 1500, .tx_checksum = checksum, .link_up = true };
    memcpy(memory->device.mac, mac, sizeof memory->device.mac);
    memory->fed_first = memory->fed_count = memory->sent_first = memory->sent_count = 0;
    memory->sent_max = FRAME_POOL_TX_COUNT;
}

bool netdev_memory_feed(struct netdev_memory *memory, const void *data, uint32_t bytes, bool checksum_good)
{
    struct frame frame;
    ASSERT(bytes <= NETDEV_FRAME_BYTES_MAX + NETDEV_TAGS_BYTES_MAX);
    if (!frame_pool_rx_take(&memory->pool, &frame))
        return false;
    memcpy(frame.data, data, bytes);
    frame.bytes = bytes;
    frame.checksum_good = checksum_good;
    memory->fed[(memory->fed_first + memory->fed_count++) % FRAME_POOL_RX_COUNT] = frame;
    return true;
}

uint32_t netdev_memory_take(struct netdev_memory *memory, uint8_t *out)
{
    if (memory->sent_count == 0)
        return 0;
    uint32_t first = memory->sent_first, bytes = memory->sent[first].bytes;
    memcpy(out, memory->sent[first].data, bytes);
    memory->sent_first = (first + 1) % FRAME_POOL_TX_COUNT;
    memory->sent_count--;
    return bytes;
}

uint32_t netdev_memory_exchange(struct netdev_memory *a, struct netdev_memory *b)
{
    uint8_t frame[NETDEV_FRAME_BYTES_MAX];
    uint32_t bytes, count = 0;
    for (; (bytes = netdev_memory_take(a, frame)) != 0; count++)
        netdev_memory_feed(b, frame, bytes, false);
    for (; (bytes = netdev_memory_take(b, frame)) != 0; count++)
        netdev_memory_feed(a, frame, bytes, false);
    return count;
}
