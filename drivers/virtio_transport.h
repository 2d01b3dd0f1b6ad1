/* A virtio device's registers, whatever carries them: PCI legacy, PCI modern, MMIO, or a model in a test.
 * The functions are set once, when the transport is opened. Every call is register accesses, so VM exits. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "drivers/virtqueue.h"

struct virtio_transport;

struct virtio_transport_ops {
    uint8_t (*status_read)(struct virtio_transport *transport);
    void (*status_write)(struct virtio_transport *transport, uint8_t status);
    uint64_t (*features_read)(struct virtio_transport *transport);
    void (*features_write)(struct virtio_transport *transport, uint64_t features);

    /* The largest size the device allows, or the size it dictates (queue_size_fixed). 0: it has no such queue. */
    uint16_t (*queue_size_max)(struct virtio_transport *transport, uint16_t queue);

    /* Tells the device the size and the place of the rings and enables the queue. False: the place cannot be told. */
    bool (*queue_enable)(struct virtio_transport *transport, uint16_t queue, const struct virtqueue *rings);

    /* The available buffer notification. Sets what `kick` needs by queue_enable. */
    void (*kick)(struct virtio_transport *transport, uint16_t queue);

    /* A field of the device configuration, of 1, 2 or 4 bytes, in one access of that width (§4.1.3.1, §4.2.2.2). */
    uint32_t (*config_read)(struct virtio_transport *transport, uint16_t offset, uint8_t bytes);
    /* §2.5.1: a different value before and after says that what was read between may be torn. Legacy: always 0. */
    uint32_t (*config_generation)(struct virtio_transport *transport);
};

/* Where a device's message-signalled interrupt is to be written, and what. */
struct virtio_message {
    uint64_t address;
    uint32_t data;
};

struct virtio_transport {
    const struct virtio_transport_ops *ops;
    const char *name;               /* "legacy", "modern", "mmio v2", ... for the report */
    char place[40];                 /* "pci 00:03.0 1af4:1000", "mmio 0xfeb02e00", for the report */
    bool legacy;                    /* features of 32 bits, no FEATURES_OK, rings laid out by §2.7.2 */
    bool queue_size_fixed;          /* legacy PCI: the driver cannot reduce it */
    bool interrupts;                /* the receive queue's interrupt arrives somewhere */
};
