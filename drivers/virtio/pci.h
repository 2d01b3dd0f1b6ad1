/* virtio over PCI, virtio 1.2 §4.1: modern by its capabilities, else legacy by the I/O space of BAR 0. The device id
 * decides nothing: transitional devices (0x1000) have both, and some clouds offer one without the other. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

#include "drivers/pci/pci.h"
#include "drivers/registers.h"
#include "drivers/virtio/bus.h"
#include "drivers/virtio/spec.h"

struct virtio_pci {
    struct virtio_bus bus;   /* first: virtio_pci_of casts it back */
    struct registers common; /* modern: the common configuration; legacy: everything */
    struct registers doorbell[VIRTIO_NET_QUEUE_COUNT];
    struct registers device; /* the device configuration */
    struct registers notify;
    uint32_t notify_bytes, notify_multiplier;
};
static_assert(offsetof(struct virtio_pci, doorbell[VIRTIO_NET_CONTROLQ]) <= VIRTIO_BUS_HOT_BYTES, "struct virtio_bus");

/* Returns true for a virtio network device, virtio 1.2 §4.1.2. */
bool virtio_pci_is_net(const struct pci_function *function);

/* Enables the function and fills in `pci->bus`. The receive queue's interrupts go to `message`, or nowhere if it is
 * NULL. Returns false if neither kind of registers can be reached. */
bool virtio_pci_open(struct virtio_pci *pci, const struct pci_access *access, const struct pci_function *function,
                     const struct pci_message *message);

/* The two kinds of registers, for virtio_pci_open, and the parts that both use. */
extern const struct virtio_bus_ops virtio_pci_modern_ops; /* drivers/virtio/pci_modern.c */
extern const struct virtio_bus_ops virtio_pci_legacy_ops; /* drivers/virtio/pci_legacy.c */
static inline struct virtio_pci *virtio_pci_of(struct virtio_bus *bus) { return (struct virtio_pci *)bus; }
static inline uint32_t virtio_pci_config_read(struct virtio_bus *bus, uint16_t offset, uint8_t bytes)
{
    return registers_read(virtio_pci_of(bus)->device, offset, bytes);
}
