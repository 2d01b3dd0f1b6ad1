/* drivers/virtio/pci_modern.c, pci_legacy.c and mmio.c: each operation reads or writes the register that the
 * specification names. The registers are plain memory, so a read returns the last write. */
#include "drivers/virtio/mmio.h"
#include "drivers/virtio/pci.h"
#include "kernel/memory/memory.h"
#include "kernel/time/clock.h"
#include "tests/lib/test.h"

static _Alignas(4096) uint8_t block[4096];
static struct virtio_pci pci;

volatile void *memory_map_device(uint64_t physical, size_t bytes)
{
    (void)bytes;
    return (volatile void *)(uintptr_t)physical;
}

void clock_spin_us(uint32_t us) { (void)us; }

static struct virtqueue rings = { .desc = (void *)(uintptr_t)0x123456000,
                                  .avail = (void *)(uintptr_t)0x123457000,
                                  .used = (void *)(uintptr_t)0x123458000,
                                  .size = 64 };

static struct virtio_bus *pci_make(const struct virtio_bus_ops *ops)
{
    memset(block, 0, sizeof block);
    pci = (struct virtio_pci){
        .bus.ops = ops,
        .common.memory = block,
        .device.memory = block + 1024,
        .notify.memory = block + 2048,
        .notify_bytes = 64,
        .notify_multiplier = 4,
    };
    return &pci.bus;
}

/* Checks for each bus that the status and the configuration use the right registers, the configuration in any width. */
static void common_part(struct virtio_bus *bus, uint32_t status_offset, uint32_t config_offset)
{
    bus->ops->status_write(bus, 0x0f);
    assert_int_equal(block[status_offset], 0x0f);
    assert_int_equal(bus->ops->status_read(bus), 0x0f);
    store_le32(block + config_offset + 4, 0x44332211);
    assert_int_equal(bus->ops->config_read(bus, 4, 1), 0x11);
    assert_int_equal(bus->ops->config_read(bus, 4, 2), 0x2211);
    assert_int_equal(bus->ops->config_read(bus, 4, 4), 0x44332211);
}

TEST(modern_registers_are_those_of_the_common_structure)
{
    struct virtio_bus *bus = pci_make(&virtio_pci_modern_ops);
    common_part(bus, VIRTIO_PCI_COMMON_DEVICE_STATUS, 1024);
    store_le32(block + VIRTIO_PCI_COMMON_DEVICE_FEATURE, 0x80000005);
    assert_true(bus->ops->features_read(bus) == UINT64_C(0x8000000580000005));
    assert_int_equal(load_le32(block + VIRTIO_PCI_COMMON_DEVICE_FEATURE_SELECT), 1);
    bus->ops->features_write(bus, UINT64_C(0x0000000700000003));
    assert_int_equal(load_le32(block + VIRTIO_PCI_COMMON_DRIVER_FEATURE_SELECT), 1);
    assert_int_equal(load_le32(block + VIRTIO_PCI_COMMON_DRIVER_FEATURE), 7);
    store_le16(block + VIRTIO_PCI_COMMON_NUM_QUEUES, 2);
    store_le16(block + VIRTIO_PCI_COMMON_QUEUE_SIZE, 256);
    assert_int_equal(bus->ops->queue_size_max(bus, 1), 256);
    assert_int_equal(load_le16(block + VIRTIO_PCI_COMMON_QUEUE_SELECT), 1);
    assert_int_equal(bus->ops->queue_size_max(bus, 2), 0);
    block[VIRTIO_PCI_COMMON_CONFIG_GENERATION] = 9;
    assert_int_equal(bus->ops->config_generation(bus), 9);
}

TEST(modern_queue_has_its_own_doorbell_within_the_area)
{
    struct virtio_bus *bus = pci_make(&virtio_pci_modern_ops);
    store_le16(block + VIRTIO_PCI_COMMON_QUEUE_NOTIFY_OFF, 3);
    assert_true(bus->ops->queue_enable(bus, 1, &rings));
    assert_int_equal(load_le16(block + VIRTIO_PCI_COMMON_QUEUE_ENABLE), 1);
    assert_int_equal(load_le32(block + VIRTIO_PCI_COMMON_QUEUE_DESC), 0x23456000);
    assert_int_equal(load_le32(block + VIRTIO_PCI_COMMON_QUEUE_DESC + 4), 1);
    bus->ops->kick(bus, 1);
    assert_int_equal(load_le16(block + 2048 + 12), 1);
    store_le16(block + VIRTIO_PCI_COMMON_QUEUE_NOTIFY_OFF, 16); /* 64: past the area */
    assert_false(bus->ops->queue_enable(bus, 0, &rings));
}

TEST(legacy_registers_are_those_of_the_block)
{
    struct virtio_bus *bus = pci_make(&virtio_pci_legacy_ops);
    common_part(bus, VIRTIO_PCI_LEGACY_DEVICE_STATUS, 1024);
    store_le32(block + VIRTIO_PCI_LEGACY_DEVICE_FEATURES, 0x10020);
    assert_true(bus->ops->features_read(bus) == 0x10020);
    bus->ops->features_write(bus, 0x20);
    assert_int_equal(load_le32(block + VIRTIO_PCI_LEGACY_DRIVER_FEATURES), 0x20);
    store_le16(block + VIRTIO_PCI_LEGACY_QUEUE_SIZE, 128);
    assert_int_equal(bus->ops->queue_size_max(bus, 1), 128);
    assert_int_equal(load_le16(block + VIRTIO_PCI_LEGACY_QUEUE_SELECT), 1);
    assert_true(bus->ops->queue_enable(bus, 0, &rings));
    assert_int_equal(load_le32(block + VIRTIO_PCI_LEGACY_QUEUE_ADDRESS), 0x123456);
    bus->ops->kick(bus, 1);
    assert_int_equal(load_le16(block + VIRTIO_PCI_LEGACY_QUEUE_NOTIFY), 1);
    assert_int_equal(bus->ops->config_generation(bus), 0);
}

TEST(mmio_registers_are_those_of_version_2)
{
    struct virtio_mmio mmio;
    struct virtio_mmio_word word = { .address = (uintptr_t)block, .bytes = 512 };
    memset(block, 0, sizeof block);
    store_le32(block + VIRTIO_MMIO_MAGIC_VALUE, VIRTIO_MMIO_MAGIC);
    store_le32(block + VIRTIO_MMIO_VERSION, 2);
    store_le32(block + VIRTIO_MMIO_DEVICE_ID, VIRTIO_DEVICE_NET);
    assert_true(virtio_mmio_open(&mmio, &word, VIRTIO_DEVICE_NET));
    struct virtio_bus *bus = &mmio.bus;
    common_part(bus, VIRTIO_MMIO_STATUS, VIRTIO_MMIO_CONFIG);
    store_le32(block + VIRTIO_MMIO_DEVICE_FEATURES, 0x21);
    assert_true(bus->ops->features_read(bus) == UINT64_C(0x2100000021));
    bus->ops->features_write(bus, UINT64_C(0x100000020));
    assert_int_equal(load_le32(block + VIRTIO_MMIO_DRIVER_FEATURES_SEL), 0);
    assert_int_equal(load_le32(block + VIRTIO_MMIO_DRIVER_FEATURES), 0x20);
    store_le32(block + VIRTIO_MMIO_QUEUE_NUM_MAX, 0x10000); /* more than a ring can have */
    assert_int_equal(bus->ops->queue_size_max(bus, 1), VIRTQ_SIZE_MAX);
    assert_int_equal(load_le32(block + VIRTIO_MMIO_QUEUE_SEL), 1);
    bus->ops->kick(bus, 1);
    assert_int_equal(load_le32(block + VIRTIO_MMIO_QUEUE_NOTIFY), 1);
    store_le32(block + VIRTIO_MMIO_CONFIG_GENERATION, 5);
    assert_int_equal(bus->ops->config_generation(bus), 5);
}
