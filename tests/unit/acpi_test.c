/* ACPI tables in a small simulated physical memory: good, old, broken, and random. */
#define _GNU_SOURCE
#include <string.h>

#include "kernel/firmware/acpi.h"
#include "kernel/firmware/acpi_spec.h"
#include "kernel/firmware/boot_info.h"
#include "kernel/memory/memory.h"
#include "tests/lib/logged.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"

/* Physical memory is [0, MEMORY_BYTES), all of it on the heap, so that ASan watches its ends. memory_map_table returns
 * NULL for any other address. */
enum {
    MEMORY_BYTES = 0x120000,
    RSDP = 0xf0040,
    XSDT = 0x101000,
    RSDT = 0x102000,
    FADT = 0x103000,
    MADT = 0x104000,
    MCFG = 0x105000,
    DSDT = 0x106000,
};
static uint8_t *memory;
uint32_t boot_ebda;
static struct boot_info boot;

const void *memory_map_table(uint64_t physical, size_t bytes)
{
    return physical != 0 && physical <= MEMORY_BYTES && bytes <= MEMORY_BYTES - physical ? memory + physical : NULL;
}

static void checksum_fix(uint32_t at, size_t bytes, uint32_t field)
{
    uint8_t sum = 0;
    memory[at + field] = 0;
    for (size_t i = 0; i < bytes; i++)
        sum += memory[at + i];
    memory[at + field] = -sum;
}

static void table_put(uint32_t at, const char *signature, uint32_t bytes)
{
    memcpy(memory + at, signature, 4);
    store_le32(memory + at + ACPI_HEADER_LENGTH, bytes);
    checksum_fix(at, bytes, 9);
}

static void rsdp_put(uint32_t at, uint8_t revision)
{
    memcpy(memory + at, "RSD PTR ", 8);
    memory[at + ACPI_RSDP_REVISION] = revision;
    store_le32(memory + at + ACPI_RSDP_RSDT_ADDRESS, RSDT);
    store_le32(memory + at + ACPI_RSDP_LENGTH, 36);
    store_le64(memory + at + ACPI_RSDP_XSDT_ADDRESS, XSDT);
    checksum_fix(at, 20, 8);
    checksum_fix(at, 36, 32);
}

static void gas_put(uint32_t at, uint8_t space, uint64_t address)
{
    memory[at] = space;
    store_le64(memory + at + GAS_ADDRESS, address);
}

/* Lays out the tables of a q35: 2 CPUs enabled of 3, one ECAM segment, timer and reset register in ports. */
BEFORE_EACH()
{
    memory = calloc(1, MEMORY_BYTES);
    memset(&boot, 0, sizeof boot);
    boot_ebda = 0;
    rsdp_put(RSDP, 2);

    static const uint32_t tables[] = { FADT, MADT, MCFG };
    for (size_t i = 0; i < ARRAY_COUNT(tables); i++) {
        store_le64(memory + XSDT + 36 + 8 * i, tables[i]);
        store_le32(memory + RSDT + 36 + 4 * i, tables[i]);
    }
    table_put(XSDT, "XSDT", 36 + 8 * 3);
    table_put(RSDT, "RSDT", 36 + 4 * 3);

    store_le32(memory + FADT + FADT_DSDT, DSDT);
    store_le32(memory + FADT + FADT_PM_TMR_BLK, 0x608);
    memory[FADT + FADT_PM_TMR_LEN] = 4;
    store_le32(memory + FADT + FADT_FLAGS, BIT(FADT_FLAGS_RESET_REG_SUP_BIT) | BIT(FADT_FLAGS_TMR_VAL_EXT_BIT));
    gas_put(FADT + FADT_RESET_REG, GAS_SYSTEM_IO, 0xcf9);
    memory[FADT + FADT_RESET_VALUE] = 0x0f;
    gas_put(FADT + FADT_X_PM_TMR_BLK, GAS_SYSTEM_IO, 0x608);
    table_put(FADT, "FACP", 244);

    static const uint8_t madt[] = {
        0, 8,  0, 0, 1, 0,    0,    0,                               /* APIC id 0, enabled */
        1, 12, 0, 0, 0, 0,    0xc0, 0xfe, 0,    0, 0, 0,             /* an I/O APIC */
        1, 12, 0, 0, 0, 0x10, 0xc0, 0xfe, 24,   0, 0, 0,             /* another, for lines from 24 on */
        2, 10, 0, 9, 9, 0,    0,    0,    0x0d, 0,                   /* ISA line 9 */
        2, 10, 0, 0, 2, 0,    0,    0,    0,    0,                   /* ISA line 0, the timer's, is 2 */
        0, 8,  1, 5, 0, 0,    0,    0,                               /* id 5, not enabled */
        9, 16, 0, 0, 7, 0,    0,    0,    1,    0, 0, 0, 2, 0, 0, 0, /* x2APIC id 7, enabled */
        9, 16, 0, 0, 0, 1,    0,    0,    1,    0, 0, 0, 3, 0, 0, 0, /* x2APIC id 256 */
    };
    memcpy(memory + MADT + MADT_ENTRIES, madt, sizeof madt);
    table_put(MADT, "APIC", MADT_ENTRIES + sizeof madt);

    store_le64(memory + MCFG + MCFG_ENTRIES, 0xb0000000);
    memory[MCFG + MCFG_ENTRIES + MCFG_ENTRY_BUS_LAST] = 255;
    table_put(MCFG, "MCFG", MCFG_ENTRIES + MCFG_ENTRY_BYTES);

    table_put(DSDT, "DSDT", 36);
}

AFTER_EACH() { free(memory); }

static void assert_logged(const char *text)
{
    uint64_t end;
    assert_true(lines_logged(log_tail_position(LOG_LINE_BYTES_MAX, &end), text) > 0);
}

static void init_finds_all(uint64_t rsdp)
{
    acpi_init(&boot, rsdp);
    uint32_t bits;
    uint8_t value;
    assert_int_equal(acpi_cpu_count(), 3);
    struct acpi_timer_line line;
    assert_true(acpi_timer_line(&line));
    assert_true(line.ioapic == 0xfec00000 && line.pin == 2 && !line.active_low);
    assert_true(acpi_cpu_apic_id(0) == 0 && acpi_cpu_apic_id(1) == 7 && acpi_cpu_apic_id(2) == 256);
    assert_true(acpi_ecam_count() == 1 && acpi_ecam(0)->base == 0xb0000000 && acpi_ecam(0)->bus_last == 255);
    assert_int_equal(acpi_pm_timer(&bits).space, ACPI_SPACE_PORT);
    assert_true(acpi_pm_timer(&bits).address == 0x608 && bits == 32);
    assert_int_equal(acpi_reset_register(&value).space, ACPI_SPACE_PORT);
    assert_true(acpi_reset_register(&value).address == 0xcf9 && value == 0x0f);
    assert_logged(
        "acpi: 3 CPUs, 1 ECAM segments, 0 virtio-mmio devices, a PM timer, a reset register, no power button");
}

static void init_finds_nothing(uint64_t rsdp)
{
    acpi_init(&boot, rsdp);
    uint32_t bits;
    uint8_t value;
    assert_int_equal(acpi_cpu_count(), 1);
    assert_int_equal(acpi_cpu_apic_id(0), 0);
    assert_int_equal(acpi_ecam_count(), 0);
    assert_null(acpi_ecam(0));
    assert_null(acpi_virtio_mmio(0));
    assert_int_equal(acpi_pm_timer(&bits).space, ACPI_SPACE_NONE);
    assert_int_equal(acpi_reset_register(&value).space, ACPI_SPACE_NONE);
}

TEST(acpi_is_found_in_the_bios_area) { init_finds_all(0); }

TEST(acpi_is_found_in_the_ebda)
{
    memset(memory + RSDP, 0, 36);
    boot_ebda = 0x9fc00;
    rsdp_put(0x9fc00 + 0x3d0, 2);
    init_finds_all(0);
}

TEST(acpi_is_found_at_the_loaders_address)
{
    memset(memory + RSDP, 0, 36);
    rsdp_put(0x110008, 2); /* aligned to 8 only: a pointer needs no alignment to 16 */
    boot.rsdp = 0x110008;
    init_finds_all(0);
}

TEST(acpi_is_found_by_the_loaders_copy)
{
    memcpy(boot.rsdp_copy, memory + RSDP, 36);
    boot.rsdp_copy_bytes = 36;
    memset(memory + RSDP, 0, 36);
    init_finds_all(0);
}

TEST(acpi_is_found_at_the_operators_address_before_all_others)
{
    memset(boot.rsdp_copy, 0, 36);
    boot.rsdp_copy_bytes = 36;
    boot.rsdp = RSDP;
    memcpy(memory + 0x110010, memory + RSDP, 36);
    store_le32(memory + RSDP + ACPI_RSDP_RSDT_ADDRESS, 0);
    store_le64(memory + RSDP + ACPI_RSDP_XSDT_ADDRESS, 0);
    checksum_fix(RSDP, 20, 8);
    checksum_fix(RSDP, 36, 32);
    init_finds_nothing(0);
    init_finds_all(0x110010);
    memcpy(memory + RSDP, memory + 0x110010, 36);
    init_finds_all(0x110018); /* no root pointer lies there */
}

/* Lays out UEFI's tables, with the offsets of UEFI 2.10 for pointers of this size: an ACPI root pointer is the last of
 * three. Moves the root pointer away from the BIOS area. */
static void efi_put(bool is_64, const char *guid, uint64_t tables)
{
    const uint32_t entry_bytes = is_64 ? 24 : 20, count_at = is_64 ? 104 : 64, tables_at = is_64 ? 112 : 68;
    memset(memory + 0x107000, 0, 0x2000);
    memcpy(memory + 0x107000, "IBI SYST", 8);
    store_le32(memory + 0x107000 + count_at, 3);
    memcpy(memory + 0x107000 + tables_at, &tables, is_64 ? 8 : 4);
    memcpy(memory + 0x108000 + 2 * entry_bytes, guid, 16);
    store_le32(memory + 0x108000 + 2 * entry_bytes + 16, 0x110010);
    memmove(memory + 0x110010, memory + (memory[RSDP] ? RSDP : 0x110010), 36);
    memset(memory + RSDP, 0, 36);
    boot.efi = (struct efi_handover){ .system_table = 0x107000, .is_64 = is_64 };
}

static const char acpi_20_guid[] = "\x71\xe8\x68\x88\xf1\xe4\xd3\x11\xbc\x22\0\x80\xc7\x3c\x88\x81";
static const char acpi_10_guid[] = "\x30\x2d\x9d\xeb\x88\x2d\xd3\x11\x9a\x16\0\x90\x27\x3f\xc1\x4d";

TEST(acpi_is_found_by_uefis_tables)
{
    for (int is_64 = 0; is_64 <= 1; is_64++) {
        efi_put(is_64, acpi_20_guid, 0x108000);
        init_finds_all(0);
        efi_put(is_64, acpi_10_guid, 0x108000);
        init_finds_all(0);
    }
}

/* Takes the system table of a machine that comes by kexec: its pointers are the former Linux's own addresses. */
TEST(acpi_is_found_by_the_tables_that_kexec_reports)
{
    efi_put(true, acpi_20_guid, 0xfffffffeff708000);
    init_finds_nothing(0);
    boot.efi.configuration_tables = 0x108000;
    init_finds_all(0);
}

TEST(acpi_is_not_found_by_broken_tables_of_uefi)
{
    efi_put(true, acpi_20_guid, 0x108000);
    memory[0x107000]++; /* another signature */
    init_finds_nothing(0);
    efi_put(true, acpi_20_guid, MEMORY_BYTES - 3 * 24 + 1); /* beyond what can be mapped */
    init_finds_nothing(0);
    efi_put(true, acpi_20_guid, 0x108000);
    store_le64(memory + 0x107000 + 104, UINT64_MAX); /* more entries than are believed */
    init_finds_all(0);
    boot.efi.system_table = MEMORY_BYTES - 119;
    init_finds_nothing(0);
    efi_put(true, acpi_20_guid, 0x108000);
    store_le32(memory + 0x108000 + 2 * 24 + 16, 0x110018); /* no root pointer lies there */
    init_finds_nothing(0);
}

TEST(acpi_of_version_1_has_an_rsdt)
{
    rsdp_put(RSDP, 0);
    memset(memory + XSDT, 0, 100);
    init_finds_all(0);
    memory[RSDT + 9]++; /* a wrong sum, and no other table */
    init_finds_all(0);
}

/* Changes up to three bytes of a machine, so that checksums are wrong. */
TEST(acpi_tables_with_wrong_checksums_are_used_if_no_better_ones_are_there)
{
    static const uint32_t changed[][3] = {
        { RSDP + 8 },            /* is no root pointer any more */
        { XSDT + 40 },           /* the RSDT replaces it */
        { XSDT + 9, RSDT + 40 }, /* as wrong as the RSDT */
        { FADT + 9, MADT + 9, MCFG + 9 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(changed); i++)
        for (int undo = 0; undo < 2; undo++) {
            for (size_t k = 0; k < 3 && changed[i][k] != 0; k++)
                memory[changed[i][k]] += undo ? 0xff : 1;
            (i == 0 && !undo ? init_finds_nothing : init_finds_all)(0);
        }
}

TEST(acpi_rsdp_with_a_bad_long_checksum_has_no_xsdt)
{
    memory[RSDP + 32]++;
    memset(memory + RSDT, 0, 100);
    init_finds_nothing(0);
}

TEST(acpi_table_of_an_iommu_is_named)
{
    static const char *const signatures[] = { "DMAR", "IVRS", "VIOT" };
    acpi_init(&boot, 0);
    assert_null(acpi_iommu());
    for (size_t i = 0; i < ARRAY_COUNT(signatures); i++) {
        table_put(MCFG, signatures[i], 60);
        acpi_init(&boot, 0);
        assert_string_equal(acpi_iommu(), signatures[i]);
    }
    store_le32(memory + MCFG + ACPI_HEADER_LENGTH, 0xffffffff); /* a table that cannot be read is there all the same */
    acpi_init(&boot, 0);
    assert_string_equal(acpi_iommu(), "VIOT");
}

TEST(acpi_fixed_power_button_is_reported)
{
    struct acpi_power_button button;
    acpi_init(&boot, 0);
    assert_false(acpi_power_button(&button));
    memory[FADT + FADT_PM1_EVT_LEN] = 4;
    store_le32(memory + FADT + FADT_SMI_CMD, 0xb2);
    memory[FADT + FADT_ACPI_ENABLE] = 0xf1;
    store_le32(memory + FADT + FADT_PM1A_EVT_BLK, 0x600);
    store_le32(memory + FADT + FADT_PM1A_CNT_BLK, 0x604);
    gas_put(FADT + FADT_X_PM1B_EVT_BLK, GAS_SYSTEM_MEMORY, 0xfed80000);
    table_put(FADT, "FACP", 244);
    acpi_init(&boot, 0);
    assert_true(acpi_power_button(&button));
    assert_int_equal(button.event[0].space, ACPI_SPACE_PORT);
    assert_int_equal(button.event[0].address, 0x600);
    assert_int_equal(button.event[1].space, ACPI_SPACE_MEMORY);
    assert_int_equal(button.event[1].address, 0xfed80000);
    assert_int_equal(button.enable_offset, 2);
    assert_int_equal(button.control.address, 0x604);
    assert_int_equal(button.smi_port, 0xb2);
    assert_int_equal(button.acpi_enable, 0xf1);
}

TEST(acpi_machine_of_reduced_hardware_has_no_fixed_registers)
{
    static const uint32_t bits[] = { FADT_FLAGS_PWR_BUTTON_BIT, FADT_FLAGS_HW_REDUCED_ACPI_BIT };
    for (size_t i = 0; i < ARRAY_COUNT(bits); i++) {
        struct acpi_power_button button;
        uint32_t width_bits;
        uint8_t value;
        memory[FADT + FADT_PM1_EVT_LEN] = 4;
        store_le32(memory + FADT + FADT_PM1A_EVT_BLK, 0x600);
        store_le32(memory + FADT + FADT_FLAGS, (uint32_t)(BIT(FADT_FLAGS_RESET_REG_SUP_BIT) | BIT(bits[i])));
        table_put(FADT, "FACP", 244);
        acpi_init(&boot, 0);
        assert_false(acpi_power_button(&button));
        assert_int_equal(acpi_pm_timer(&width_bits).space == ACPI_SPACE_NONE, i == 1);
        assert_int_equal(acpi_reset_register(&value).address, 0xcf9);
    }
}

TEST(acpi_table_with_an_absurd_length_is_skipped)
{
    static const uint32_t lengths[] = { 0, 35, MEMORY_BYTES, 0x7fffffff, 0xffffffff };
    for (size_t i = 0; i < ARRAY_COUNT(lengths); i++) {
        store_le32(memory + MCFG + ACPI_HEADER_LENGTH, lengths[i]);
        acpi_init(&boot, 0);
        assert_int_equal(acpi_ecam_count(), 0);
        assert_int_equal(acpi_cpu_count(), 3);
    }
}

TEST(acpi_fadt_of_version_1_has_a_timer_of_24_bits_and_no_reset_register)
{
    uint32_t bits;
    uint8_t value;
    store_le32(memory + FADT + FADT_FLAGS, BIT(FADT_FLAGS_RESET_REG_SUP_BIT));
    table_put(FADT, "FACP", 116);
    acpi_init(&boot, 0);
    assert_int_equal(acpi_pm_timer(&bits).space, ACPI_SPACE_PORT);
    assert_int_equal(acpi_pm_timer(&bits).address, 0x608);
    assert_int_equal(bits, 24);
    assert_int_equal(acpi_reset_register(&value).space, ACPI_SPACE_NONE);
}

TEST(acpi_fields_of_the_fadt_count_if_it_reaches_so_far)
{
    memory[FADT + FADT_CENTURY] = 0x32;
    store_le32(memory + FADT + FADT_DSDT, 0);
    store_le64(memory + FADT + FADT_X_DSDT, DSDT);
    static const char method[] = "_CBA\0\xa4\x0c\0\0\0\xe0............";
    memcpy(memory + DSDT + 36, method, sizeof method - 1);
    table_put(DSDT, "DSDT", 36 + sizeof method - 1);
    table_put(MCFG, "NONE", 36);
    for (uint32_t bytes = FADT_DSDT; bytes <= FADT_X_DSDT + 8; bytes++) {
        table_put(FADT, "FACP", bytes);
        acpi_init(&boot, 0);
        assert_int_equal(acpi_rtc_century(), bytes > FADT_CENTURY ? 0x32 : 0);
        assert_int_equal(acpi_ecam_count(), bytes == FADT_X_DSDT + 8); /* _CBA stands for the missing MCFG */
    }
    assert_int_equal(acpi_ecam(0)->base, 0xe0000000);
    assert_int_equal(acpi_ecam(0)->bus_last, 255);
    store_le64(memory + FADT + FADT_X_DSDT, 0);
    store_le32(memory + FADT + FADT_DSDT, DSDT);
    for (uint32_t bytes = FADT_DSDT; bytes <= FADT_DSDT + 4; bytes++) {
        table_put(FADT, "FACP", bytes);
        acpi_init(&boot, 0);
        assert_int_equal(acpi_ecam_count(), bytes == FADT_DSDT + 4);
    }
}

TEST(acpi_timer_line_belongs_to_the_io_apic_below_it)
{
    static const uint8_t lines[][2] = { { 0, 0 }, { 23, 23 }, { 24, 0 }, { 26, 2 } }; /* a line, and its pin */
    struct acpi_timer_line line;
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        memory[MADT + MADT_ENTRIES + 42 + 4] = lines[i][0];
        acpi_init(&boot, 0);
        assert_true(acpi_timer_line(&line));
        assert_int_equal(line.ioapic, lines[i][0] < 24 ? 0xfec00000 : 0xfec01000);
        assert_int_equal(line.pin, lines[i][1]);
    }
}

TEST(acpi_cpus_beyond_the_bound_are_left_out)
{
    for (uint32_t i = 0; i <= ACPI_CPU_COUNT_MAX; i++)
        memcpy(memory + MADT + MADT_ENTRIES + i * 8, (uint8_t[]){ 0, 8, 0, (uint8_t)(i + 1), 1, 0, 0, 0 }, 8);
    table_put(MADT, "APIC", MADT_ENTRIES + 8 * (ACPI_CPU_COUNT_MAX + 1));
    acpi_init(&boot, 0);
    assert_int_equal(acpi_cpu_count(), ACPI_CPU_COUNT_MAX);
    assert_int_equal(acpi_cpu_apic_id(ACPI_CPU_COUNT_MAX - 1), ACPI_CPU_COUNT_MAX);
    assert_int_equal(acpi_cpu_apic_id(ACPI_CPU_COUNT_MAX), 0);
}

TEST(acpi_registers_in_memory_are_reported_as_memory)
{
    uint32_t bits;
    uint8_t value;
    gas_put(FADT + FADT_X_PM_TMR_BLK, GAS_SYSTEM_MEMORY, 0xfed00000);
    gas_put(FADT + FADT_RESET_REG, GAS_SYSTEM_MEMORY, 0x1fed00000);
    table_put(FADT, "FACP", 244);
    acpi_init(&boot, 0);
    assert_int_equal(acpi_pm_timer(&bits).space, ACPI_SPACE_MEMORY);
    assert_int_equal(acpi_reset_register(&value).address, 0x1fed00000);
    store_le32(memory + FADT + FADT_FLAGS, 0); /* the register is not supported */
    acpi_init(&boot, 0);
    assert_int_equal(acpi_reset_register(&value).space, ACPI_SPACE_NONE);
    assert_logged("a PM timer, no reset register, no power button");
    store_le32(memory + FADT + FADT_FLAGS, BIT(FADT_FLAGS_RESET_REG_SUP_BIT));
    gas_put(FADT + FADT_RESET_REG, GAS_SYSTEM_IO, 0x10cf9); /* a port beyond 0xffff */
    table_put(FADT, "FACP", 244);
    acpi_init(&boot, 0);
    assert_int_equal(acpi_reset_register(&value).space, ACPI_SPACE_NONE);
}

TEST(acpi_madt_entry_of_no_length_ends_the_list)
{
    memory[MADT + MADT_ENTRIES + 9] = 0; /* the I/O APIC's length */
    table_put(MADT, "APIC", load_le32(memory + MADT + ACPI_HEADER_LENGTH));
    acpi_init(&boot, 0);
    assert_int_equal(acpi_cpu_count(), 1);
    memory[MADT + MADT_ENTRIES + 9] = 2; /* the shortest entry; the next ones follow at once */
    memset(memory + MADT + MADT_ENTRIES + 10, 2, 10);
    acpi_init(&boot, 0);
    assert_int_equal(acpi_cpu_count(), 3);
}

TEST(acpi_dsdt_names_virtio_mmio_devices)
{
    static const uint8_t aml[] = "....VR05_HID\x0dLNRO0005\0_CRS\x86\x09\0\x01\0\x2e\xb0\xfe\0\x02\0\0......"
                                 "OTHR_CRS\x86\x09\0\x01\0\0\0\xf0\0\x10\0\0...."
                                 "_HID\x0dLNRO0005\0_CRS\x86\x09\0\x01\0\x2c\xb0\xfe\0\x02\0"; /* cut off */
    memcpy(memory + DSDT + 36, aml, sizeof aml - 1);
    table_put(DSDT, "DSDT", 36 + sizeof aml - 1);
    acpi_init(&boot, 0);
    assert_int_equal(acpi_virtio_mmio(0)->base, 0xfeb02e00);
    assert_int_equal(acpi_virtio_mmio(0)->bytes, 0x200);
    assert_null(acpi_virtio_mmio(1));
    for (int i = 0; i <= ACPI_VIRTIO_MMIO_COUNT_MAX; i++)
        memcpy(memory + DSDT + 36 + i * 64, aml, 64);
    table_put(DSDT, "DSDT", 36 + (ACPI_VIRTIO_MMIO_COUNT_MAX + 1) * 64);
    acpi_init(&boot, 0);
    assert_non_null(acpi_virtio_mmio(ACPI_VIRTIO_MMIO_COUNT_MAX - 1));
}

TEST(acpi_of_random_bytes_is_survived)
{
    random_seed(20220217);
    static const uint32_t tables[] = { XSDT, RSDT, FADT, MADT, MCFG, DSDT };
    for (int round = 0; round < 300; round++) {
        uint32_t at = tables[random_below(ARRAY_COUNT(tables))];
        for (int i = random_below(8); i >= 0; i--)
            memory[at + 4 + random_below(120)] = (uint8_t)random_next();
        uint32_t bytes = load_le32(memory + at + ACPI_HEADER_LENGTH);
        if (bytes >= 36 && bytes <= MEMORY_BYTES - at)
            checksum_fix(at, bytes, 9);
        acpi_init(&boot, 0); /* ASan finds a read outside */
        assert_true(acpi_cpu_count() <= ACPI_CPU_COUNT_MAX);
        assert_true(acpi_ecam_count() <= ACPI_ECAM_COUNT_MAX);
    }
}
