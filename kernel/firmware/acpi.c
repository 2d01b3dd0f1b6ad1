/* Reads the tables once, at the start, and keeps the facts that are asked for later. Believes no length. */
#include "kernel/firmware/acpi.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"
#include "kernel/firmware/acpi_spec.h"
#include "kernel/firmware/boot_info.h"
#include "kernel/firmware/efi.h"
#include "kernel/firmware/efi_spec.h"
#include "kernel/memory/memory.h"

enum {
    /* A table longer than this is not believed: the longest seen are DSDTs of some 100 KiB. */
    TABLE_BYTES_MAX = 1 << 20,
    ROOT_ENTRY_COUNT_MAX = 256,
    IOAPIC_COUNT_MAX = 8,

    /* ACPI 6.5 §5.2.5.1: where the RSDP of a BIOS machine lies */
    BIOS_AREA_BEGIN = 0xe0000,
    BIOS_AREA_END = 0x100000,
    EBDA_SEARCH_BYTES = 1024,
};

extern uint32_t boot_ebda; /* boot/entry.asm, which still sees page zero; 0: none */

static struct {
    struct acpi_ecam ecams[ACPI_ECAM_COUNT_MAX];
    size_t ecam_count;
    uint32_t cba_base;
    struct acpi_virtio_mmio virtio_mmios[ACPI_VIRTIO_MMIO_COUNT_MAX];
    size_t virtio_mmio_count;
    uint32_t apic_ids[ACPI_CPU_COUNT_MAX];
    size_t cpu_count;
    struct acpi_register pm_timer, reset;
    uint32_t pm_timer_bits;
    struct acpi_power_button button;
    const char *iommu;
    uint8_t rtc_century;
    struct {
        uint32_t address, gsi_base;
    } ioapics[IOAPIC_COUNT_MAX];
    size_t ioapic_count;
    uint32_t timer_gsi; /* ISA line 0, unless overridden */
    bool timer_active_low;
    uint8_t reset_value;
} found;

/* Returns true if all bytes of a table add up to 0, ACPI 6.5 §5.2.2. */
static bool checksum_good(const uint8_t *table, size_t bytes)
{
    uint8_t sum = 0;
    for (size_t i = 0; i < bytes; i++)
        sum += table[i];
    return sum == 0;
}

/* ---- the root ---- */

struct root {
    uint64_t xsdt, rsdt; /* 0: not given */
};

static bool rsdp_parse(const uint8_t *rsdp, size_t bytes, struct root *root)
{
    if (bytes < ACPI_RSDP_BYTES_V1 || memcmp(rsdp, "RSD PTR ", ACPI_RSDP_SIGNATURE_BYTES) != 0
        || !checksum_good(rsdp, ACPI_RSDP_BYTES_V1))
        return false;
    *root = (struct root){ .rsdt = load_le32(rsdp + ACPI_RSDP_RSDT_ADDRESS) };
    if (rsdp[ACPI_RSDP_REVISION] >= 2 && bytes >= ACPI_RSDP_BYTES_V2
        && load_le32(rsdp + ACPI_RSDP_LENGTH) >= ACPI_RSDP_BYTES_V2 && checksum_good(rsdp, ACPI_RSDP_BYTES_V2))
        root->xsdt = load_le64(rsdp + ACPI_RSDP_XSDT_ADDRESS);
    return true;
}

static bool rsdp_search(uint64_t begin, uint64_t end, struct root *root)
{
    ASSERT(begin < end);
    const uint8_t *area = memory_map_table(begin, (size_t)(end - begin));
    for (size_t at = 0; area != NULL && at + ACPI_RSDP_BYTES_V1 <= end - begin; at += ACPI_RSDP_ALIGN)
        if (rsdp_parse(area + at, (size_t)(end - begin) - at, root))
            return true;
    return false;
}

static bool rsdp_at(uint64_t physical, struct root *root)
{
    const uint8_t *rsdp = physical != 0 ? memory_map_table(physical, ACPI_RSDP_BYTES_V2) : NULL;
    return rsdp != NULL && rsdp_parse(rsdp, ACPI_RSDP_BYTES_V2, root);
}

/* Finds the root pointer: the operator's, the loader's, that of UEFI's tables (ACPI 6.5 §5.2.5.2), then the place where
 * a BIOS puts it. */
static bool root_find(const struct boot_info *boot, uint64_t rsdp, struct root *root)
{
    ASSERT(boot->rsdp_copy_bytes <= sizeof boot->rsdp_copy);
    return rsdp_at(rsdp, root)
           || (boot->rsdp_copy_bytes != 0 && rsdp_parse(boot->rsdp_copy, boot->rsdp_copy_bytes, root))
           || rsdp_at(boot->rsdp, root) || rsdp_at(efi_find_table(&boot->efi, EFI_ACPI_20_TABLE_GUID), root)
           || rsdp_at(efi_find_table(&boot->efi, EFI_ACPI_TABLE_GUID), root)
           || (boot_ebda != 0 && rsdp_search(boot_ebda, boot_ebda + EBDA_SEARCH_BYTES, root))
           || rsdp_search(BIOS_AREA_BEGIN, BIOS_AREA_END, root);
}

/* ---- the tables ---- */

/* Returns the whole table at `physical`, or NULL. `*sound` says that its checksum is right. */
static const uint8_t *table_at(uint64_t physical, uint32_t *bytes, bool *sound)
{
    const uint8_t *table = physical != 0 ? memory_map_table(physical, ACPI_HEADER_BYTES) : NULL;
    if (table == NULL)
        return NULL;
    *bytes = load_le32(table + ACPI_HEADER_LENGTH);
    if (*bytes < ACPI_HEADER_BYTES || *bytes > TABLE_BYTES_MAX || memory_map_table(physical, *bytes) == NULL) {
        log_line("acpi: the table at 0x%zx is broken, skipped", (size_t)physical);
        return NULL;
    }
    *sound = checksum_good(table, *bytes);
    if (!*sound)
        log_line("acpi: %.4s at 0x%zx has a wrong checksum; it is used if there is no sounder one", (const char *)table,
                 (size_t)physical);
    return table;
}

static struct acpi_register gas_parse(const uint8_t *gas)
{
    uint64_t address = load_le64(gas + GAS_ADDRESS);
    enum acpi_space space = address == 0                                           ? ACPI_SPACE_NONE
                            : gas[GAS_SPACE] == GAS_SYSTEM_MEMORY                  ? ACPI_SPACE_MEMORY
                            : gas[GAS_SPACE] == GAS_SYSTEM_IO && address <= 0xffff ? ACPI_SPACE_PORT
                                                                                   : ACPI_SPACE_NONE;
    return (struct acpi_register){ space, address };
}

/* Takes the configuration space from the host bridge's method _CBA, which names it where there is no MCFG, as on QEMU's
 * microvm with PCI (PCI Firmware 3.2 §4.1.3). Only a method that returns a constant counts. */
static void cba_take(const uint8_t *name)
{
    static const uint8_t method[] = { '_', 'C', 'B', 'A', AML_METHOD_FLAGS_NONE, AML_RETURN, AML_DWORD };
    if (memcmp(name, method, sizeof method) == 0)
        found.cba_base = load_le32(name + sizeof method);
}

/* Takes the first fixed memory range after each hardware id of a virtio-mmio device, without running AML. In Linux
 * drivers/virtio/virtio_mmio.c takes the same id and its first memory resource. Good for tables as plain as QEMU's, in
 * which the resources are a constant. The driver checks that a virtio device is there. */
static void dsdt_take(uint64_t physical)
{
    static const char hid[] = "LNRO0005";
    uint32_t bytes;
    bool sound;
    const uint8_t *dsdt = table_at(physical, &bytes, &sound);
    ASSERT(found.virtio_mmio_count <= ACPI_VIRTIO_MMIO_COUNT_MAX);
    bool in_device = false;
    for (uint32_t at = ACPI_HEADER_BYTES; dsdt != NULL && at + MEMORY32_FIXED_BYTES <= bytes; at++) {
        const uint8_t *range = dsdt + at;
        cba_take(range);
        if (memcmp(range, hid, sizeof hid) == 0) {
            in_device = true;
        } else if (in_device && range[0] == MEMORY32_FIXED_TAG && load_le16(range + 1) == MEMORY32_FIXED_LENGTH) {
            in_device = false;
            if (found.virtio_mmio_count < ACPI_VIRTIO_MMIO_COUNT_MAX) {
                found.virtio_mmios[found.virtio_mmio_count++] = (struct acpi_virtio_mmio){
                    load_le32(range + MEMORY32_FIXED_BASE), load_le32(range + MEMORY32_FIXED_SIZE)
                };
            }
        }
    }
}

/* Returns a fixed register of the FADT: by its Generic Address Structure, else by the old field, which names a port. */
static struct acpi_register fixed_register(const uint8_t *fadt, uint32_t bytes, uint32_t x_field, uint32_t field)
{
    struct acpi_register at = { 0 };
    ASSERT(x_field > field);
    if (bytes >= x_field + GAS_BYTES)
        at = gas_parse(fadt + x_field);
    uint32_t port = bytes >= field + 4 ? load_le32(fadt + field) : 0;
    if (at.space == ACPI_SPACE_NONE && port != 0 && port <= 0xffff)
        at = (struct acpi_register){ ACPI_SPACE_PORT, port };
    return at;
}

/* Takes the registers that hardware-reduced machines lack. */
static void fixed_hardware_take(const uint8_t *fadt, uint32_t bytes, uint32_t flags)
{
    if (bytes <= FADT_PM_TMR_LEN)
        return;
    found.pm_timer = fixed_register(fadt, bytes, FADT_X_PM_TMR_BLK, FADT_PM_TMR_BLK);
    found.pm_timer_bits = flags & BIT(FADT_FLAGS_TMR_VAL_EXT_BIT) ? 32 : 24;
    ASSERT(found.pm_timer.space == ACPI_SPACE_NONE || found.pm_timer.address != 0);
    uint32_t event_bytes = fadt[FADT_PM1_EVT_LEN];
    if (flags & BIT(FADT_FLAGS_PWR_BUTTON_BIT) || event_bytes < 4)
        return;
    found.button = (struct acpi_power_button){
        .event = { fixed_register(fadt, bytes, FADT_X_PM1A_EVT_BLK, FADT_PM1A_EVT_BLK),
                   fixed_register(fadt, bytes, FADT_X_PM1B_EVT_BLK, FADT_PM1B_EVT_BLK) },
        .enable_offset = event_bytes / 2,
        .control = fixed_register(fadt, bytes, FADT_X_PM1A_CNT_BLK, FADT_PM1A_CNT_BLK),
        .smi_port = (uint16_t)load_le32(fadt + FADT_SMI_CMD),
        .acpi_enable = fadt[FADT_ACPI_ENABLE],
    };
}

/* Takes the FADT, ACPI 6.5 §5.2.9. Old tables are shorter; each field counts only if the table reaches that far. */
static void fadt_take(const uint8_t *fadt, uint32_t bytes)
{
    ASSERT(bytes >= ACPI_HEADER_BYTES && bytes <= TABLE_BYTES_MAX);
    uint32_t flags = bytes >= FADT_FLAGS + 4 ? load_le32(fadt + FADT_FLAGS) : 0;
    if (!(flags & BIT(FADT_FLAGS_HW_REDUCED_ACPI_BIT)))
        fixed_hardware_take(fadt, bytes, flags);
    found.rtc_century = bytes > FADT_CENTURY ? fadt[FADT_CENTURY] : 0;
    uint64_t dsdt = bytes >= FADT_X_DSDT + 8 ? load_le64(fadt + FADT_X_DSDT) : 0;
    dsdt_take(dsdt != 0 || bytes < FADT_DSDT + 4 ? dsdt : load_le32(fadt + FADT_DSDT));
    if (bytes > FADT_RESET_VALUE && flags & BIT(FADT_FLAGS_RESET_REG_SUP_BIT)) {
        found.reset = gas_parse(fadt + FADT_RESET_REG);
        found.reset_value = fadt[FADT_RESET_VALUE];
    }
}

static void cpu_add(uint32_t apic_id, uint32_t flags)
{
    if (flags & BIT(MADT_FLAGS_ENABLED_BIT) && found.cpu_count < ACPI_CPU_COUNT_MAX)
        found.apic_ids[found.cpu_count++] = apic_id;
}

static void ioapic_add(uint32_t address, uint32_t gsi_base)
{
    if (found.ioapic_count < IOAPIC_COUNT_MAX) {
        found.ioapics[found.ioapic_count].address = address;
        found.ioapics[found.ioapic_count++].gsi_base = gsi_base;
    }
}

/* Takes the MADT, ACPI 6.5 §5.2.12. */
static void madt_take(const uint8_t *madt, uint32_t bytes)
{
    ASSERT(bytes >= ACPI_HEADER_BYTES && bytes <= TABLE_BYTES_MAX);
    uint32_t at = MADT_ENTRIES;
    while (at + 2 <= bytes) {
        const uint8_t *entry = madt + at;
        uint8_t length = entry[MADT_ENTRY_LENGTH];
        if (length < 2 || length > bytes - at)
            return;
        if (entry[MADT_ENTRY_TYPE] == MADT_LOCAL_APIC && length >= MADT_LOCAL_APIC_BYTES) {
            cpu_add(entry[MADT_LOCAL_APIC_ID], load_le32(entry + MADT_LOCAL_APIC_FLAGS));
        } else if (entry[MADT_ENTRY_TYPE] == MADT_LOCAL_X2APIC && length >= MADT_LOCAL_X2APIC_BYTES) {
            cpu_add(load_le32(entry + MADT_LOCAL_X2APIC_ID), load_le32(entry + MADT_LOCAL_X2APIC_FLAGS));
        } else if (entry[MADT_ENTRY_TYPE] == MADT_IO_APIC && length >= MADT_IO_APIC_BYTES) {
            ioapic_add(load_le32(entry + MADT_IO_APIC_ADDRESS), load_le32(entry + MADT_IO_APIC_GSI_BASE));
        } else if (entry[MADT_ENTRY_TYPE] == MADT_SOURCE_OVERRIDE && length >= MADT_SOURCE_OVERRIDE_BYTES
                   && entry[MADT_SOURCE_OVERRIDE_SOURCE] == 0) {
            found.timer_gsi = load_le32(entry + MADT_SOURCE_OVERRIDE_GSI);
            uint32_t flags = load_le16(entry + MADT_SOURCE_OVERRIDE_FLAGS);
            found.timer_active_low = (flags & MADT_FLAGS_POLARITY_MASK) == MADT_FLAGS_ACTIVE_LOW;
        }
        at += length;
    }
}

static void mcfg_take(const uint8_t *mcfg, uint32_t bytes)
{
    ASSERT(bytes >= ACPI_HEADER_BYTES && bytes <= TABLE_BYTES_MAX);
    for (uint32_t at = MCFG_ENTRIES; at + MCFG_ENTRY_BYTES <= bytes && found.ecam_count < ACPI_ECAM_COUNT_MAX;
         at += MCFG_ENTRY_BYTES) {
        const uint8_t *entry = mcfg + at;
        struct acpi_ecam ecam = {
            .base = load_le64(entry + MCFG_ENTRY_BASE),
            .segment = load_le16(entry + MCFG_ENTRY_SEGMENT),
            .bus_first = entry[MCFG_ENTRY_BUS_FIRST],
            .bus_last = entry[MCFG_ENTRY_BUS_LAST],
        };
        if (ecam.base != 0 && ecam.bus_first <= ecam.bus_last)
            found.ecams[found.ecam_count++] = ecam;
    }
}

/* Takes note of an IOMMU: DMA Remapping, I/O Virtualization Reporting, Virtual I/O Translation (ACPI 6.5 §5.2.6). */
static void iommu_take(const uint8_t *table)
{
    static const char *const signatures[] = { "DMAR", "IVRS", "VIOT" };
    ASSERT(table != NULL);
    for (size_t i = 0; i < ARRAY_COUNT(signatures); i++)
        if (memcmp(table, signatures[i], 4) == 0)
            found.iommu = signatures[i];
}

static void table_take(uint64_t physical)
{
    uint32_t bytes;
    bool sound;
    const uint8_t *header = physical != 0 ? memory_map_table(physical, ACPI_HEADER_BYTES) : NULL;
    if (header == NULL)
        return;
    iommu_take(header);
    const uint8_t *table = table_at(physical, &bytes, &sound);
    if (table == NULL)
        return;
    if (memcmp(table, "FACP", 4) == 0)
        fadt_take(table, bytes);
    else if (memcmp(table, "APIC", 4) == 0)
        madt_take(table, bytes);
    else if (memcmp(table, "MCFG", 4) == 0)
        mcfg_take(table, bytes);
}

/* Takes all tables that the RSDT (pointers of 4 bytes) or the XSDT (8) names; ACPI 6.5 §5.2.7, §5.2.8. Returns false if
 * there is no root of this kind, or if the root must have the right checksum and has not. */
static bool root_take(uint64_t physical, unsigned pointer_bytes, bool must_be_sound)
{
    uint32_t bytes;
    bool sound;
    const uint8_t *table = table_at(physical, &bytes, &sound);
    if (table == NULL || memcmp(table, pointer_bytes == 8 ? "XSDT" : "RSDT", 4) != 0 || (must_be_sound && !sound))
        return false;
    ASSERT(pointer_bytes == 4 || pointer_bytes == 8);
    size_t count = min_size((bytes - ACPI_HEADER_BYTES) / pointer_bytes, ROOT_ENTRY_COUNT_MAX);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *pointer = table + ACPI_HEADER_BYTES + i * pointer_bytes;
        table_take(pointer_bytes == 8 ? load_le64(pointer) : load_le32(pointer));
    }
    return true;
}

void acpi_init(const struct boot_info *boot, uint64_t rsdp)
{
    memset(&found, 0, sizeof found);
    struct root root;
    if (!root_find(boot, rsdp, &root)) {
        log_line("acpi: no tables");
        return;
    }
    if (!root_take(root.xsdt, 8, true) && !root_take(root.rsdt, 4, true) && !root_take(root.xsdt, 8, false)
        && !root_take(root.rsdt, 4, false)) {
        log_line("acpi: neither XSDT nor RSDT can be read");
        return;
    }
    if (found.ecam_count == 0 && found.cba_base != 0)
        found.ecams[found.ecam_count++] = (struct acpi_ecam){ .base = found.cba_base, .bus_first = 0, .bus_last = 255 };
    ASSERT(found.ecam_count <= ACPI_ECAM_COUNT_MAX && found.ioapic_count <= IOAPIC_COUNT_MAX);
    ASSERT(found.cpu_count <= ACPI_CPU_COUNT_MAX && found.virtio_mmio_count <= ACPI_VIRTIO_MMIO_COUNT_MAX);
    struct acpi_power_button button;
    log_line(
        "acpi: %zu CPUs, %zu ECAM segments, %zu virtio-mmio devices, %s PM timer, %s reset register, %s power button",
        acpi_cpu_count(), found.ecam_count, found.virtio_mmio_count,
        found.pm_timer.space == ACPI_SPACE_NONE ? "no" : "a", found.reset.space == ACPI_SPACE_NONE ? "no" : "a",
        acpi_power_button(&button) ? "a" : "no");
}

size_t acpi_ecam_count(void) { return found.ecam_count; }

const struct acpi_ecam *acpi_ecam(size_t index) { return index < found.ecam_count ? &found.ecams[index] : NULL; }

size_t acpi_cpu_count(void) { return max_size(found.cpu_count, 1); }

uint32_t acpi_cpu_apic_id(size_t index) { return index < found.cpu_count ? found.apic_ids[index] : 0; }

bool acpi_timer_line(struct acpi_timer_line *line)
{
    size_t best = found.ioapic_count; /* the nearest that begins at or below the line */
    for (size_t i = 0; i < found.ioapic_count; i++) {
        uint32_t base = found.ioapics[i].gsi_base;
        if (base <= found.timer_gsi && (best == found.ioapic_count || base > found.ioapics[best].gsi_base))
            best = i;
    }
    if (best == found.ioapic_count || found.ioapics[best].address == 0)
        return false;
    ASSERT(found.timer_gsi >= found.ioapics[best].gsi_base);
    *line = (struct acpi_timer_line){
        .ioapic = found.ioapics[best].address,
        .pin = found.timer_gsi - found.ioapics[best].gsi_base,
        .active_low = found.timer_active_low,
    };
    return true;
}

const struct acpi_virtio_mmio *acpi_virtio_mmio(size_t index)
{
    return index < found.virtio_mmio_count ? &found.virtio_mmios[index] : NULL;
}

uint8_t acpi_rtc_century(void) { return found.rtc_century; }

bool acpi_power_button(struct acpi_power_button *button)
{
    *button = found.button;
    return button->event[0].space != ACPI_SPACE_NONE;
}

const char *acpi_iommu(void) { return found.iommu; }

struct acpi_register acpi_pm_timer(uint32_t *width_bits)
{
    *width_bits = found.pm_timer_bits;
    return found.pm_timer;
}

struct acpi_register acpi_reset_register(uint8_t *value)
{
    *value = found.reset_value;
    return found.reset;
}
