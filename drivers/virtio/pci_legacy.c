/* Legacy registers, virtio 1.2 §4.1.4.10: one block of ports. The device dictates the size of its queues. */
#include "base/assert.h"
#include "base/hot_section.h"
#include "drivers/virtio/pci.h"

static uint8_t status_read(struct virtio_bus *bus)
{
    return registers_read8(virtio_pci_of(bus)->common, VIRTIO_PCI_LEGACY_DEVICE_STATUS);
}

static void status_write(struct virtio_bus *bus, uint8_t status)
{
    registers_write8(virtio_pci_of(bus)->common, VIRTIO_PCI_LEGACY_DEVICE_STATUS, status);
}

static uint64_t features_read(struct virtio_bus *bus)
{
    return registers_read32(virtio_pci_of(bus)->common, VIRTIO_PCI_LEGACY_DEVICE_FEATURES);
}

static void features_write(struct virtio_bus *bus, uint64_t features)
{
    registers_write32(virtio_pci_of(bus)->common, VIRTIO_PCI_LEGACY_DRIVER_FEATURES, (uint32_t)features);
}

static uint16_t queue_size_max(struct virtio_bus *bus, uint16_t queue)
{
    struct registers block = virtio_pci_of(bus)->common;
    registers_write16(block, VIRTIO_PCI_LEGACY_QUEUE_SELECT, queue);
    return registers_read16(block, VIRTIO_PCI_LEGACY_QUEUE_SIZE);
}

/* virtio 1.2 §4.1.5.1.3.1: Writes the page number of the rings, 32 bits of it; virtio 1.2 §2.7.2 has the layout. */
static bool queue_enable(struct virtio_bus *bus, uint16_t queue, const struct virtqueue *rings)
{
    ASSERT(queue < VIRTIO_NET_QUEUE_COUNT);
    ASSERT(virtqueue_desc_address(rings) % VIRTQ_LEGACY_ALIGN_BYTES == 0);
    struct registers block = virtio_pci_of(bus)->common;
    uint64_t page = virtqueue_desc_address(rings) / VIRTQ_LEGACY_ALIGN_BYTES;
    if (page > UINT32_MAX)
        return false;
    registers_write16(block, VIRTIO_PCI_LEGACY_QUEUE_SELECT, queue);
    registers_write32(block, VIRTIO_PCI_LEGACY_QUEUE_ADDRESS, (uint32_t)page);
    if (bus->interrupts && queue == VIRTIO_NET_RECEIVEQ) {
        registers_write16(block, VIRTIO_PCI_LEGACY_QUEUE_MSIX_VECTOR, 0);
        bus->interrupts = registers_read16(block, VIRTIO_PCI_LEGACY_QUEUE_MSIX_VECTOR) == 0;
    }
    return true;
}

HOT static void kick(struct virtio_bus *bus, uint16_t queue)
{
    registers_write16(virtio_pci_of(bus)->common, VIRTIO_PCI_LEGACY_QUEUE_NOTIFY, queue);
}

/* virtio 1.2 §2.5.4: Returns 0, since legacy devices have none. The fields that are read do not change, or are a
 * single bit (the link). */
static uint32_t config_generation(struct virtio_bus *bus)
{
    (void)bus;
    return 0;
}

const struct virtio_bus_ops virtio_pci_legacy_ops = {
    .status_read = status_read,
    .status_write = status_write,
    .features_read = features_read,
    .features_write = features_write,
    .queue_size_max = queue_size_max,
    .queue_enable = queue_enable,
    .kick = kick,
    .config_read = virtio_pci_config_read,
    .config_generation = config_generation,
};
