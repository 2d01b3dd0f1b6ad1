/* A virtio device's registers on any bus: PCI legacy, PCI modern, MMIO, or a model in a test.
 * The functions are set once, when the bus is opened. Every call is register accesses, so VM exits. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "drivers/virtio/virtqueue.h"

struct virtio_bus;

struct virtio_bus_ops {
    uint8_t (*status_read)(struct virtio_bus *bus);
    void (*status_write)(struct virtio_bus *bus, uint8_t status);
    uint64_t (*features_read)(struct virtio_bus *bus);
    void (*features_write)(struct virtio_bus *bus, uint64_t features);

    /* The largest size the device allows, or the size it dictates (queue_size_fixed). 0: the device lacks this
     * queue. */
    uint16_t (*queue_size_max)(struct virtio_bus *bus, uint16_t queue);

    /* Writes the size and the addresses of the rings to the device and enables the queue. Returns false if the
     * device has no register wide enough for an address. */
    bool (*queue_enable)(struct virtio_bus *bus, uint16_t queue, const struct virtqueue *rings);

    /* Sends the available buffer notification. After queue_enable. */
    void (*kick)(struct virtio_bus *bus, uint16_t queue);

    /* A field of the device configuration, of 1, 2 or 4 bytes, in one access of that width (virtio 1.2 §4.1.3.1,
     * §4.2.2.2). */
    uint32_t (*config_read)(struct virtio_bus *bus, uint16_t offset, uint8_t bytes);
    /* virtio 1.2 §2.5.1: a different value before and after says that the readings between may be torn. Legacy:
     * always 0. */
    uint32_t (*config_generation)(struct virtio_bus *bus);
};

/* The first member of each bus. The registers of a kick follow within VIRTIO_BUS_HOT_BYTES, which idle time fetches. */
enum { VIRTIO_BUS_HOT_BYTES = 128 };
struct virtio_bus {
    const struct virtio_bus_ops *ops;
    const char *name;      /* "legacy", "modern", "mmio v2", ... for the report */
    char place[40];        /* "pci 00:03.0 1af4:1000", "mmio 0xfeb02e00", for the report */
    uint64_t config_bytes; /* the end of the device configuration, for config_read */
    const char *behind;    /* "DMAR", "SEV", ...: stands between it and memory; NULL: nothing does */
    bool legacy;           /* 32 feature bits, no FEATURES_OK, rings by virtio 1.2 §2.7.2 */
    bool queue_size_fixed; /* legacy PCI: the driver cannot reduce it */
    bool interrupts;       /* the receive queue's interrupt ends a sleep */
};
