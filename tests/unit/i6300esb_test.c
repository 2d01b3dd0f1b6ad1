/* drivers/watchdog/i6300esb.c against a configuration space of one function and a page of registers. */
#include "drivers/pci/spec.h"
#include "tests/lib/fake_ports.h"

/* The state of the one watchdog starts again with each test. */
#include "drivers/watchdog/i6300esb.c"
#include "tests/lib/test.h"

enum { DEVICE = 5, SECOND_NS = 1000000000 };

static uint32_t config[64];
static _Alignas(16) uint8_t block[REGISTER_BYTES];
static bool no_pci, lock_ignored;
static uint16_t type_written; /* the register WDT_CONFIGURATION */
static uint8_t lock;          /* the register WDT_LOCK */

static uint32_t config_read(void *context, struct pci_address address, uint16_t offset)
{
    (void)context;
    bool here = address.bus == 0 && address.device == DEVICE && address.function == 0;
    return here ? config[offset / 4] : UINT32_MAX;
}

static void config_write(void *context, struct pci_address address, uint16_t offset, uint32_t value)
{
    (void)context;
    assert_int_equal(address.device, DEVICE);
    if (offset == PCI_BAR0)
        value &= ~UINT32_C(15); /* 16 bytes */
    config[offset / 4] = value;
}

const struct pci_access *pci_access_find(void)
{
    static const struct pci_access access = {
        .read = config_read, .write = config_write, .bus_last = 255, .name = "fake"
    };
    return no_pci ? NULL : &access;
}

volatile void *memory_map_device(uint64_t physical, size_t bytes)
{
    assert_int_equal(physical, 0xfebf0000);
    assert_int_equal(bytes, sizeof block);
    return block;
}

void clock_spin_us(uint32_t us) { (void)us; }

static uint32_t watchdog_read(uint16_t port, uint32_t bytes, uint32_t kept)
{
    assert_int_equal(bytes, 1);
    assert_int_equal(load_le32(fake_ports + PCI_PORT_ADDRESS), 0x80000000 | DEVICE << 11 | WDT_LOCK);
    return port == PCI_PORT_DATA ? lock : kept;
}

static void watchdog_written(uint16_t port, uint32_t bytes, uint32_t value)
{
    if (port == PCI_PORT_ADDRESS)
        return;
    uint32_t select = load_le32(fake_ports + PCI_PORT_ADDRESS);
    assert_int_equal(port, PCI_PORT_DATA);
    if (select == (0x80000000 | DEVICE << 11 | WDT_CONFIGURATION)) {
        assert_int_equal(bytes, 2);
        type_written = (uint16_t)value;
        return;
    }
    assert_int_equal(select, 0x80000000 | DEVICE << 11 | WDT_LOCK);
    assert_int_equal(bytes, 1);
    if (!lock_ignored)
        lock = (uint8_t)value;
}

BEFORE_EACH()
{
    registers = NULL;
    memset(&functions, 0, sizeof functions);
    memset(config, 0, sizeof config);
    memset(block, 0, sizeof block);
    config[PCI_VENDOR_DEVICE / 4] = 0x25ab8086;
    config[PCI_CLASS_REVISION / 4] = 0x08800000;
    config[PCI_BAR0 / 4] = 0xfebf0000;
    no_pci = lock_ignored = false;
    type_written = 0;
    lock = 0xff;
    fake_ports_reset(0);
    fake_ports_read = watchdog_read;
    fake_ports_written = watchdog_written;
}

TEST(machine_without_the_watchdog_starts_none)
{
    config[PCI_VENDOR_DEVICE / 4] = 0x10008086;
    assert_false(i6300esb_start(SECOND_NS));
    no_pci = true;
    assert_false(i6300esb_start(SECOND_NS));
    i6300esb_reload();
    assert_int_equal(load_le16(block + RELOAD), 0);
}

TEST(watchdog_without_an_address_is_left_alone)
{
    config[PCI_BAR0 / 4] = 0;
    assert_false(i6300esb_start(SECOND_NS));
    assert_int_equal(lock, 0xff);
}

TEST(watchdog_that_does_not_start_is_not_used)
{
    lock = 0;
    lock_ignored = true;
    assert_false(i6300esb_start(SECOND_NS));
    store_le16(block + RELOAD, 0);
    i6300esb_reload();
    assert_int_equal(load_le16(block + RELOAD), 0);
}

static uint32_t absent(uint16_t port, uint32_t bytes, uint32_t kept)
{
    (void)port;
    (void)kept;
    return UINT32_MAX >> (32 - 8 * bytes);
}

/* Takes a machine whose configuration space is in memory alone, such as QEMU's microvm. */
TEST(watchdog_without_the_configuration_ports_is_not_used)
{
    fake_ports_read = absent;
    fake_ports_written = NULL;
    assert_false(i6300esb_start(SECOND_NS));
    store_le16(block + RELOAD, 0);
    i6300esb_reload();
    assert_int_equal(load_le16(block + RELOAD), 0);
}

TEST(both_stages_share_the_time_and_the_first_is_silent)
{
    assert_true(i6300esb_start(2 * (uint64_t)SECOND_NS));
    assert_int_equal(load_le32(block + PRELOAD_1), 1008); /* 1008 ticks of 993 us are just above a second */
    assert_int_equal(load_le32(block + PRELOAD_2), 1008);
    assert_int_equal(type_written, WDT_INT_TYPE_DISABLED);
    assert_int_equal(lock, BIT(WDT_ENABLE_BIT));
    assert_int_equal(load_le16(block + RELOAD), RELOAD_NOW);
    assert_true(config[PCI_COMMAND_STATUS / 4] & 2);
}

TEST(longest_time_is_2082_seconds)
{
    assert_true(i6300esb_start(UINT64_MAX));
    assert_int_equal(load_le32(block + PRELOAD_1), STAGE_TICKS_MAX);
}

TEST(time_starts_again_with_each_reload)
{
    assert_true(i6300esb_start(3 * (uint64_t)SECOND_NS));
    for (int i = 0; i < 2; i++) {
        store_le16(block + RELOAD, 0);
        i6300esb_reload();
        assert_int_equal(load_le16(block + RELOAD), RELOAD_NOW);
    }
}
