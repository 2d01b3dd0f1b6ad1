/* Modern registers, virtio 1.2 §4.1.4: the common configuration structure, the notify area, the device
 * configuration. */
#include "base/assert.h"
#include "base/hot_section.h"
#include "drivers/virtio/pci.h"

static uint8_t status_read(struct virtio_bus *bus)
{
    return registers_read8(virtio_pci_of(bus)->common, VIRTIO_PCI_COMMON_DEVICE_STATUS);
}

static void status_write(struct virtio_bus *bus, uint8_t status)
{
    registers_write8(virtio_pci_of(bus)->common, VIRTIO_PCI_COMMON_DEVICE_STATUS, status);
}

static uint64_t features_read(struct virtio_bus *bus)
{
    struct registers common = virtio_pci_of(bus)->common;
    registers_write32(common, VIRTIO_PCI_COMMON_DEVICE_FEATURE_SELECT, 0);
    uint64_t features = registers_read32(common, VIRTIO_PCI_COMMON_DEVICE_FEATURE);
    registers_write32(common, VIRTIO_PCI_COMMON_DEVICE_FEATURE_SELECT, 1);
    return features | (uint64_t)registers_read32(common, VIRTIO_PCI_COMMON_DEVICE_FEATURE) << 32;
}

static void features_write(struct virtio_bus *bus, uint64_t features)
{
    struct registers common = virtio_pci_of(bus)->common;
    registers_write32(common, VIRTIO_PCI_COMMON_DRIVER_FEATURE_SELECT, 0);
    registers_write32(common, VIRTIO_PCI_COMMON_DRIVER_FEATURE, (uint32_t)features);
    registers_write32(common, VIRTIO_PCI_COMMON_DRIVER_FEATURE_SELECT, 1);
    registers_write32(common, VIRTIO_PCI_COMMON_DRIVER_FEATURE, (uint32_t)(features >> 32));
}

static uint16_t queue_size_max(struct virtio_bus *bus, uint16_t queue)
{
    struct registers common = virtio_pci_of(bus)->common;
    if (queue >= registers_read16(common, VIRTIO_PCI_COMMON_NUM_QUEUES))
        return 0;
    registers_write16(common, VIRTIO_PCI_COMMON_QUEUE_SELECT, queue);
    return registers_read16(common, VIRTIO_PCI_COMMON_QUEUE_SIZE);
}

/* virtio 1.2 §4.1.3.1: Writes a 64-bit field as two halves. */
static void address_write(struct registers common, uint32_t offset, uint64_t address)
{
    registers_write32(common, offset, (uint32_t)address);
    registers_write32(common, offset + 4, (uint32_t)(address >> 32));
}

static bool queue_enable(struct virtio_bus *bus, uint16_t queue, const struct virtqueue *rings)
{
    struct virtio_pci *pci = virtio_pci_of(bus);
    ASSERT(queue < VIRTIO_NET_QUEUE_COUNT);
    ASSERT(rings->size != 0);
    registers_write16(pci->common, VIRTIO_PCI_COMMON_QUEUE_SELECT, queue);
    registers_write16(pci->common, VIRTIO_PCI_COMMON_QUEUE_SIZE, rings->size);
    address_write(pci->common, VIRTIO_PCI_COMMON_QUEUE_DESC, virtqueue_desc_address(rings));
    address_write(pci->common, VIRTIO_PCI_COMMON_QUEUE_DRIVER, virtqueue_avail_address(rings));
    address_write(pci->common, VIRTIO_PCI_COMMON_QUEUE_DEVICE, virtqueue_used_address(rings));
    /* virtio 1.2 §4.1.4.4; the capability's length holds every doorbell. */
    uint64_t offset = (uint64_t)registers_read16(pci->common, VIRTIO_PCI_COMMON_QUEUE_NOTIFY_OFF)
                      * pci->notify_multiplier;
    if (offset + 2 > pci->notify_bytes)
        return false;
    pci->doorbell[queue] = registers_at(pci->notify, (uint32_t)offset);
    /* virtio 1.2 §4.1.5.1.2.2: the vector is read back; a device short of resources answers NO_VECTOR. */
    if (bus->interrupts && queue == VIRTIO_NET_RECEIVEQ) {
        registers_write16(pci->common, VIRTIO_PCI_COMMON_QUEUE_MSIX_VECTOR, 0);
        bus->interrupts = registers_read16(pci->common, VIRTIO_PCI_COMMON_QUEUE_MSIX_VECTOR) == 0;
    }
    registers_write16(pci->common, VIRTIO_PCI_COMMON_QUEUE_ENABLE, 1);
    return true;
}

/* virtio 1.2 §4.1.5.2: Notifies the device by its doorbell. */
HOT static void kick(struct virtio_bus *bus, uint16_t queue)
{
    registers_write16(virtio_pci_of(bus)->doorbell[queue], 0, queue);
}

static uint32_t config_generation(struct virtio_bus *bus)
{
    return registers_read8(virtio_pci_of(bus)->common, VIRTIO_PCI_COMMON_CONFIG_GENERATION);
}

const struct virtio_bus_ops virtio_pci_modern_ops = {
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
