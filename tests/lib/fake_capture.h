/* A capture over a device that is none: the test hands in the frames, which are sent at once. */
#pragma once

#include "base/assert.h"
#include "net/capture/capture.h"

enum { FAKE_CAPTURE_FRAMES = 32 };

static bool fake_capture_publish(struct netdev *device, struct tx_buffer *buffer, uint32_t bytes, uint16_t csum_start,
                                 uint16_t csum_offset)
{
    ASSERT(device != NULL && buffer != NULL && bytes <= NETDEV_FRAME_BYTES_MAX && csum_start == csum_offset);
    return true;
}

static struct netdev fake_capture_device;
static uint64_t fake_capture_now_ns;
static uint64_t fake_capture_clock_ns(void) { return fake_capture_now_ns += 10; }

/* Begins a capture of FAKE_CAPTURE_FRAMES frames; 0 bytes: none. */
static void fake_capture_begin(uint32_t bytes)
{
    static const struct netdev_ops ops = { .tx_publish = fake_capture_publish };
    static _Alignas(8) uint8_t memory[FAKE_CAPTURE_FRAMES * (CAPTURE_BYTES_MAX + 64)];
    memset(memory, 0, sizeof memory);
    fake_capture_now_ns = 0;
    fake_capture_device = (struct netdev){ .ops = &ops };
    capture_init(&(struct capture_config){ bytes, FAKE_CAPTURE_FRAMES, memory, fake_capture_clock_ns, NULL, false });
    capture_attach(&fake_capture_device);
}

/* Sends a frame, unless a reader has muted the capture. */
static void fake_capture_frame(uint8_t *data, uint32_t bytes)
{
    struct tx_buffer buffer = { .data = data };
    bool sent = fake_capture_device.ops->tx_publish(&fake_capture_device, &buffer, bytes, 0, 0);
    ASSERT(sent);
    capture_flush();
}
