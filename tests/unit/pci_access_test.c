/* drivers/pci/access.c: the configuration space by ports and by memory, and the choice between both. */
#include "drivers/pci/pci.h"
#include "kernel/firmware/acpi.h"
#include "kernel/memory/memory.h"
#include "tests/lib/fake_ports.h"
#include "tests/lib/test.h"

enum { CONFIG_ADDRESS = 0xcf8, CONFIG_DATA = 0xcfc, BUS_BYTES = 1 << 20 };

static struct acpi_ecam table[2];
static size_t table_count;
static uint64_t mapped_at;
static uint32_t map_count;
static uint32_t bus_memory[BUS_BYTES / 4];

size_t acpi_ecam_count(void) { return table_count; }
const struct acpi_ecam *acpi_ecam(size_t index) { return &table[index]; }

volatile void *memory_map_device(uint64_t physical, size_t bytes)
{
    assert_int_equal(bytes, BUS_BYTES);
    mapped_at = physical;
    map_count++;
    return bus_memory;
}

BEFORE_EACH()
{
    fake_ports_reset(0);
    table_count = 0;
    map_count = 0;
}

static uint32_t absent(uint16_t port, uint32_t bytes, uint32_t kept)
{
    (void)port;
    (void)bytes;
    (void)kept;
    return UINT32_MAX;
}

TEST(machine_without_table_and_ports_has_no_pci)
{
    fake_ports_read = absent;
    assert_null(pci_access_find());
}

static uint32_t selected, written;

static uint32_t data_of_selected(uint16_t port, uint32_t bytes, uint32_t kept)
{
    assert_int_equal(bytes, 4);
    return port == CONFIG_DATA ? ~selected : kept;
}

static void note(uint16_t port, uint32_t bytes, uint32_t value)
{
    assert_int_equal(bytes, 4);
    *(port == CONFIG_ADDRESS ? &selected : &written) = value;
}

TEST(ports_select_a_word_and_move_it)
{
    fake_ports_read = data_of_selected;
    fake_ports_written = note;
    const struct pci_access *access = pci_access_find();
    assert_non_null(access);
    assert_string_equal(access->name, "ports");
    assert_int_equal(access->bus_first, 0);
    assert_int_equal(access->bus_last, 255);
    assert_int_equal(access->spare, 0);

    struct pci_address address = { .bus = 0x12, .device = 0x1e, .function = 5 };
    assert_int_equal(pci_read(access, address, 0x34), ~UINT32_C(0x8012f534));
    pci_write(access, address, 0x10, 0xfeedf00d);
    assert_int_equal(selected, 0x8012f510);
    assert_int_equal(written, 0xfeedf00d);
}

TEST(table_of_segment_0_is_preferred_and_buses_are_mapped_when_needed)
{
    table[0] = (struct acpi_ecam){ .base = 0x90000000, .segment = 1, .bus_last = 255 };
    table[1] = (struct acpi_ecam){ .base = 0xb0000000, .bus_first = 2, .bus_last = 9 };
    table_count = 2;
    const struct pci_access *access = pci_access_find();
    assert_non_null(access);
    assert_string_equal(access->name, "ecam");
    assert_int_equal(access->bus_first, 2);
    assert_int_equal(access->bus_last, 9);
    assert_int_equal(access->spare, 0xb0000000 - PCI_SPARE_BYTES);
    assert_int_equal(map_count, 0);

    struct pci_address address = { .bus = 3, .device = 4, .function = 1 };
    bus_memory[(4 << 15 | 1 << 12 | 0x104) / 4] = 0x12345678;
    assert_int_equal(pci_read(access, address, 0x104), 0x12345678);
    assert_true(mapped_at == 0xb0000000 + 3 * (uint64_t)BUS_BYTES);
    pci_write(access, address, 0xffc, 0xfeedf00d);
    assert_int_equal(bus_memory[(4 << 15 | 1 << 12 | 0xffc) / 4], 0xfeedf00d);
    assert_int_equal(map_count, 1);
    address.bus = 9;
    pci_read(access, address, 0);
    assert_int_equal(map_count, 2);
}

TEST(table_out_of_the_32_bit_hole_gives_no_spare_addresses)
{
    table_count = 1;
    static const uint64_t bases[] = { 0x40000000, UINT64_C(0x4000000000) };
    for (size_t i = 0; i < 2; i++) {
        table[0] = (struct acpi_ecam){ .base = bases[i], .bus_last = 255 };
        assert_int_equal(pci_access_find()->spare, 0);
    }
    table[0].base = 0xb0000800; /* bridges forward whole MiB */
    assert_int_equal(pci_access_find()->spare, 0xb0000000 - PCI_SPARE_BYTES);
}
