/* A capture over a device that is none: the test hands in the frames, which are received and given back at once. */
#pragma once

#include "base/assert.h"
#include "net/capture/capture.h"

enum { FAKE_CAPTURE_FRAMES = 32 };

static struct frame fake_capture_next;

static bool fake_capture_borrow(struct netdev *device, struct frame *frame)
{
    ASSERT(device != NULL);
    *frame = fake_capture_next;
    return true;
}

static void fake_capture_release(struct netdev *device, const struct frame *frame)
{
    ASSERT(device != NULL && frame->data == fake_capture_next.data);
}

static struct netdev fake_capture_device;
static uint64_t fake_capture_now_ns;
static uint64_t fake_capture_clock_ns(void) { return fake_capture_now_ns += 10; }

/* Begins a capture of FAKE_CAPTURE_FRAMES frames; 0 bytes: none. */
static void fake_capture_begin(uint32_t bytes)
{
    static const struct netdev_ops ops = { .rx_borrow = fake_capture_borrow, .rx_release = fake_capture_release };
    static _Alignas(8) uint8_t memory[FAKE_CAPTURE_FRAMES * (CAPTURE_BYTES_MAX + 64)];
    memset(memory, 0, sizeof memory);
    fake_capture_now_ns = 0;
    fake_capture_device = (struct netdev){ .ops = &ops };
    capture_init(&(struct capture_config){ bytes, FAKE_CAPTURE_FRAMES, memory, fake_capture_clock_ns, NULL, false });
    capture_attach(&fake_capture_device);
}

/* Receives a frame and gives it back. */
static void fake_capture_frame(uint8_t *data, uint32_t bytes)
{
    struct frame frame;
    fake_capture_next = (struct frame){ data, bytes, 0, true };
    ASSERT(fake_capture_device.ops->rx_borrow(&fake_capture_device, &frame));
    fake_capture_device.ops->rx_release(&fake_capture_device, &frame);
}
