/* drivers/virtio/pci.c: the choice of registers by capabilities. The configuration space and the memory BAR are arrays
 * here. Port BARs are recognised, and never accessed. */
#include "drivers/pci/spec.h"
#include "drivers/virtio/pci.h"
#include "kernel/memory/memory.h"
#include "kernel/time/clock.h"
#include "tests/lib/test.h"

static uint32_t config[64], writable[64];
static _Alignas(16384) uint8_t bar_memory[16384];
static uint32_t spun_us;

void clock_spin_us(uint32_t us) { spun_us += us; }

volatile void *memory_map_device(uint64_t physical, size_t bytes)
{
    assert_true(physical >= (uintptr_t)bar_memory && physical + bytes <= (uintptr_t)bar_memory + sizeof bar_memory);
    return (volatile void *)(uintptr_t)physical;
}

static uint32_t config_read(void *context, struct pci_address address, uint16_t offset)
{
    (void)context;
    (void)address;
    return config[offset / 4];
}

static void config_write(void *context, struct pci_address address, uint16_t offset, uint32_t value)
{
    (void)context;
    (void)address;
    config[offset / 4] = (config[offset / 4] & ~writable[offset / 4]) | (value & writable[offset / 4]);
}

static const struct pci_access access = { .read = config_read, .write = config_write, .bus_last = 255, .name = "fake" };
static const struct pci_function function = {
    .address = { 0, 3, 0 }, .vendor = 0x1af4, .device = 0x1000, .subsystem = 1
};
static struct virtio_pci pci;
static uint8_t capability_at;

/* Sets up a port BAR 0 of 32 ports, and a 64-bit memory BAR 4 of 16 KiB; no capabilities yet. */
BEFORE_EACH()
{
    memset(config, 0, sizeof config);
    memset(writable, 0, sizeof writable);
    memset(bar_memory, 0, sizeof bar_memory);
    config[PCI_COMMAND_STATUS / 4] = PCI_STATUS_CAPABILITIES << 16;
    writable[PCI_COMMAND_STATUS / 4] = 0xffff;
    config[PCI_BAR0 / 4] = 0xc041;
    writable[PCI_BAR0 / 4] = 0xffffffe0;
    config[PCI_BAR0 / 4 + 4] = (uint32_t)(uintptr_t)bar_memory | 0xc;
    writable[PCI_BAR0 / 4 + 4] = 0xffffc000;
    config[PCI_BAR0 / 4 + 5] = (uint32_t)((uintptr_t)bar_memory >> 32);
    writable[PCI_BAR0 / 4 + 5] = UINT32_MAX;
    capability_at = 0;
}

static void add_capability(uint8_t type, uint8_t bar, uint32_t offset, uint32_t bytes)
{
    uint8_t at = capability_at ? capability_at + 20 : 0x40;
    if (capability_at)
        config[capability_at / 4] |= (uint32_t)at << 8;
    else
        config[PCI_CAPABILITY_POINTER / 4] = at;
    config[at / 4] = PCI_CAPABILITY_VENDOR | 20u << 16 | (uint32_t)type << 24;
    config[at / 4 + 1] = bar;
    config[at / 4 + 2] = offset;
    config[at / 4 + 3] = bytes;
    config[at / 4 + 4] = 4; /* notify_off_multiplier, where it is one */
    capability_at = at;
}

static void add_modern(void)
{
    add_capability(VIRTIO_PCI_CAP_COMMON_CFG, 4, 0x0000, 0x1000);
    add_capability(VIRTIO_PCI_CAP_ISR_CFG, 4, 0x1000, 0x1000);
    add_capability(VIRTIO_PCI_CAP_DEVICE_CFG, 4, 0x2000, 0x1000);
    add_capability(VIRTIO_PCI_CAP_NOTIFY_CFG, 4, 0x3000, 0x1000);
}

TEST(both_ids_are_network_devices_and_others_are_not)
{
    struct pci_function f = { .vendor = 0x1af4, .device = 0x1041 };
    assert_true(virtio_pci_is_net(&f));
    f.device = 0x1000;
    assert_false(virtio_pci_is_net(&f)); /* the subsystem id is the type */
    f.subsystem = 1;
    assert_true(virtio_pci_is_net(&f));
    f.device = 0x1001;
    assert_false(virtio_pci_is_net(&f));
    f.device = 0x1041;
    f.vendor = 0x1b36;
    assert_false(virtio_pci_is_net(&f));
}

TEST(capabilities_decide_for_modern)
{
    add_modern();
    assert_true(virtio_pci_open(&pci, &access, &function, NULL));
    assert_false(pci.bus.legacy);
    assert_ptr_equal(pci.common.memory, bar_memory);
    assert_ptr_equal(pci.device.memory, bar_memory + 0x2000);
    assert_int_equal(pci.bus.config_bytes, 0x1000);
    assert_ptr_equal(pci.notify.memory, bar_memory + 0x3000);
    assert_string_equal(pci.bus.place, "pci 00:03.0 1af4:1000");
    assert_int_equal(config[PCI_COMMAND_STATUS / 4] & 0x407, 0x407);

    /* §4.1.4.4: the doorbell of a queue; §4.1.5.2: the value written is the queue's number. */
    bar_memory[VIRTIO_PCI_COMMON_QUEUE_NOTIFY_OFF] = 3;
    struct virtqueue rings = { .size = 16 };
    assert_true(pci.bus.ops->queue_enable(&pci.bus, 1, &rings));
    pci.bus.ops->kick(&pci.bus, 1);
    assert_int_equal(load_le16(bar_memory + 0x3000 + 12), 1);
    assert_int_equal(load_le16(bar_memory + VIRTIO_PCI_COMMON_QUEUE_ENABLE), 1);
    store_le16(bar_memory + VIRTIO_PCI_COMMON_QUEUE_NOTIFY_OFF, 0x400); /* 4 * 0x400: past the area */
    assert_false(pci.bus.ops->queue_enable(&pci.bus, 1, &rings));
}

TEST(no_capabilities_means_legacy)
{
    assert_true(virtio_pci_open(&pci, &access, &function, NULL));
    assert_true(pci.bus.legacy && pci.bus.queue_size_fixed);
    assert_null(pci.common.memory);
    assert_int_equal(pci.common.port, 0xc040);
    assert_int_equal(pci.device.port, 0xc040 + 20);
    assert_int_equal(pci.bus.config_bytes, 12);
}

TEST(first_of_two_capabilities_counts_and_reserved_ones_do_not)
{
    add_capability(VIRTIO_PCI_CAP_COMMON_CFG, 6, 0, 0x1000); /* a reserved BAR */
    add_capability(9, 4, 0, 0x1000);                         /* an unknown type */
    add_modern();
    add_capability(VIRTIO_PCI_CAP_DEVICE_CFG, 4, 0x1800, 0x100); /* a second one */
    assert_true(virtio_pci_open(&pci, &access, &function, NULL));
    assert_false(pci.bus.legacy);
    assert_ptr_equal(pci.common.memory, bar_memory);
    assert_ptr_equal(pci.device.memory, bar_memory + 0x2000);
}

TEST(registers_outside_their_bar_are_not_taken)
{
    static const struct {
        uint32_t offset, bytes;
    } bad[] = {
        { 0x4000, 0x100 }, { 0x3fff, 0x100 }, { 0xfffffff0, 0x100 }, { 0, 0x4001 }, { 0, UINT32_MAX }, { 0, 55 }
    };
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        test_before_each();
        add_capability(VIRTIO_PCI_CAP_COMMON_CFG, 4, bad[i].offset, bad[i].bytes);
        add_capability(VIRTIO_PCI_CAP_DEVICE_CFG, 4, 0x2000, 0x1000);
        add_capability(VIRTIO_PCI_CAP_NOTIFY_CFG, 4, 0x3000, 0x1000);
        assert_true(virtio_pci_open(&pci, &access, &function, NULL)); /* by its ports */
        assert_true(pci.bus.legacy);
        config[PCI_BAR0 / 4] = 0; /* without those the device cannot be driven */
        writable[PCI_BAR0 / 4] = 0;
        assert_false(virtio_pci_open(&pci, &access, &function, NULL));
    }
}

TEST(bar_without_an_address_is_not_used)
{
    add_modern();
    config[PCI_BAR0 / 4 + 4] = 0xc;
    config[PCI_BAR0 / 4 + 5] = 0;
    assert_true(virtio_pci_open(&pci, &access, &function, NULL));
    assert_true(pci.bus.legacy);
    config[PCI_BAR0 / 4] = 0x1;
    assert_false(virtio_pci_open(&pci, &access, &function, NULL));
}

static void add_msix(uint32_t bar, uint32_t offset)
{
    config[capability_at / 4] |= 0xc0 << 8;
    config[0xc0 / 4] = PCI_CAPABILITY_MSIX | 2u << 16 | 1u << 30; /* three entries, the function masked */
    writable[0xc0 / 4] = 3u << 30;
    config[0xc0 / 4 + 1] = offset | bar;
}

static const struct pci_message message = { UINT64_C(0xfee01000), 0x40 };

TEST(interrupts_go_to_the_given_address)
{
    add_modern();
    add_msix(4, 0x1800);
    assert_true(virtio_pci_open(&pci, &access, &function, &message));
    assert_true(pci.bus.interrupts);
    assert_int_equal(config[0xc0 / 4] >> 30, 2); /* on, not masked */
    assert_int_equal(load_le64(bar_memory + 0x1800), 0xfee01000);
    assert_int_equal(load_le32(bar_memory + 0x1808), 0x40);
    assert_int_equal(load_le32(bar_memory + 0x180c), 0);
    struct virtqueue rings = { .size = 16 };
    store_le16(bar_memory + VIRTIO_PCI_COMMON_QUEUE_MSIX_VECTOR, VIRTIO_MSI_NO_VECTOR);
    assert_true(pci.bus.ops->queue_enable(&pci.bus, VIRTIO_NET_TRANSMITQ, &rings));
    assert_int_equal(load_le16(bar_memory + VIRTIO_PCI_COMMON_QUEUE_MSIX_VECTOR), VIRTIO_MSI_NO_VECTOR);
    assert_true(pci.bus.ops->queue_enable(&pci.bus, VIRTIO_NET_RECEIVEQ, &rings));
    assert_int_equal(load_le16(bar_memory + VIRTIO_PCI_COMMON_QUEUE_MSIX_VECTOR), 0);
    assert_true(pci.bus.interrupts);
}

TEST(legacy_configuration_moves_behind_the_vectors)
{
    config[PCI_CAPABILITY_POINTER / 4] = capability_at = 0x40;
    config[0x40 / 4] = 0x05; /* some capability in front */
    add_msix(4, 0);
    assert_true(virtio_pci_open(&pci, &access, &function, &message));
    assert_true(pci.bus.legacy && pci.bus.interrupts);
    assert_int_equal(pci.device.port, 0xc040 + 24);
}

TEST(without_a_reachable_table_there_are_no_interrupts)
{
    static const uint32_t bars[] = { 0, 1, 6, 7 }; /* ports, nothing, reserved */
    for (size_t i = 0; i <= ARRAY_COUNT(bars); i++) {
        test_before_each();
        add_modern();
        if (i < ARRAY_COUNT(bars))
            add_msix(bars[i], 0);
        else
            add_msix(4, 0x3ff8); /* half outside */
        assert_true(virtio_pci_open(&pci, &access, &function, &message));
        assert_false(pci.bus.interrupts);
        assert_int_equal(config[0xc0 / 4] >> 30, 0);
    }
    test_before_each();
    add_modern();
    add_msix(4, 0);
    config[0xc0 / 4] |= 1u << 31;
    assert_true(virtio_pci_open(&pci, &access, &function, NULL)); /* without a message no interrupts are set up */
    assert_int_equal(config[0xc0 / 4] >> 30, 0);
}

TEST(notify_area_may_be_ports)
{
    add_capability(VIRTIO_PCI_CAP_COMMON_CFG, 4, 0x0000, 0x1000);
    add_capability(VIRTIO_PCI_CAP_DEVICE_CFG, 4, 0x2000, 0x1000);
    add_capability(VIRTIO_PCI_CAP_NOTIFY_CFG, 0, 16, 4);
    assert_true(virtio_pci_open(&pci, &access, &function, NULL));
    assert_null(pci.notify.memory);
    assert_int_equal(pci.notify.port, 0xc050);
}

TEST(sleeping_device_is_given_time_to_wake)
{
    add_modern();
    config[capability_at / 4] |= 0xa0 << 8;
    config[0xa0 / 4] = PCI_CAPABILITY_POWER;
    config[0xa4 / 4] = 3;
    writable[0xa4 / 4] = 3;
    spun_us = 0;
    assert_true(virtio_pci_open(&pci, &access, &function, NULL));
    assert_true(spun_us >= 10000);
}
