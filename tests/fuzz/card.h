/* The steps of a driver's user, who holds some frames and buffers, for the fuzzers of the network cards. The includer's
 * steps are the device's. */
#pragma once

#include "net/netdev.h"
#include "tests/fuzz/fuzz.h"

enum { STEP_BYTES = 5, HELD_MAX = 8, ETHERNET_BYTES = 14 };

static struct frame rx_held[HELD_MAX];
static struct tx_buffer *tx_held[HELD_MAX];
static size_t rx_held_count, tx_held_count;
static uint32_t sum; /* the sum of all bytes, so that each byte is read */

/* Borrows a frame of at most `bytes_max`, which lies at `offset` of one of the buffers in `memory`. */
static void borrow(struct netdev *device, const uint8_t *memory, size_t buffer_bytes, size_t offset, uint32_t bytes_max)
{
    struct frame *frame = &rx_held[rx_held_count];
    if (rx_held_count == HELD_MAX || !device->ops->rx_borrow(device, frame))
        return;
    ASSERT(frame->bytes >= ETHERNET_BYTES && frame->bytes <= bytes_max);
    size_t at = (size_t)(frame->data - memory) % buffer_bytes;
    ASSERT(at == offset && at + frame->bytes <= buffer_bytes);
    for (uint32_t i = 0; i < frame->bytes; i++)
        sum += frame->data[i];
    rx_held_count++;
}

static void release(struct netdev *device)
{
    if (rx_held_count > 0)
        device->ops->rx_release(device, &rx_held[--rx_held_count]);
    if (tx_held_count > 0)
        device->ops->tx_release(device, tx_held[--tx_held_count]);
}

static void send(struct netdev *device, uint16_t bytes)
{
    struct tx_buffer *buffer = device->ops->tx_acquire(device);
    if (buffer == NULL)
        return;
    uint32_t frame_bytes = ETHERNET_BYTES + bytes % (NETDEV_FRAME_BYTES_MAX - ETHERNET_BYTES + 1u);
    memset(buffer->data, 0x55, frame_bytes);
    device->ops->tx_publish(device, buffer, frame_bytes, 0, 0);
    if (bytes % 2 == 0 || tx_held_count == HELD_MAX)
        device->ops->tx_release(device, buffer);
    else
        tx_held[tx_held_count++] = buffer;
}
