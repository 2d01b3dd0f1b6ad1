/* Scans buses, reads capabilities and base addresses, over an accessor. Believes no number that a device reports. */
#include "drivers/pci/pci.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/format.h"
#include "base/log.h"
#include "drivers/pci/spec.h"

enum {
    PCI_DEPTH_MAX = 16,               /* the depth of bridges; a VM has two or three */
    PCI_CAPABILITY_OFFSET_MIN = 0x40, /* PCI 3.0 §6.7: after the header */
    PCI_CAPABILITY_OFFSET_MAX = 0xf8, /* two words before the end, which all ids used here have */
};

uint32_t pci_read(const struct pci_access *access, struct pci_address address, uint16_t offset)
{
    return access->read(access->context, address, offset);
}

void pci_write(const struct pci_access *access, struct pci_address address, uint16_t offset, uint32_t value)
{
    access->write(access->context, address, offset, value);
}

/* ---- functions and buses ---- */

static bool pci_exists(const struct pci_access *access, struct pci_address address)
{
    uint16_t vendor = (uint16_t)pci_read(access, address, PCI_VENDOR_DEVICE);
    return vendor != 0xffff && vendor != 0;
}

static uint8_t pci_header_type(const struct pci_access *access, struct pci_address address)
{
    return (uint8_t)(pci_read(access, address, PCI_HEADER_TYPE_DWORD) >> 16);
}

static bool pci_is_bridge(const struct pci_access *access, struct pci_address address)
{
    return (pci_header_type(access, address) & PCI_HEADER_LAYOUT) == PCI_HEADER_LAYOUT_BRIDGE;
}

/* Walks the functions of a bus. Starts as { .at.bus = bus }. */
struct pci_cursor {
    struct pci_address at;
    unsigned next; /* device and function in one number, 0..255 */
    bool multifunction;
};

/* PCI 3.0 §3.2.2.3.4: Finds the next function. Functions 1 to 7 exist only where function 0 does and says so. */
static bool pci_cursor_next(const struct pci_access *access, struct pci_cursor *cursor)
{
    while (cursor->next < 256) {
        cursor->at.device = (uint8_t)(cursor->next >> 3);
        cursor->at.function = cursor->next & 7;
        cursor->next++;
        if (cursor->at.function == 0)
            cursor->multifunction = false;
        else if (!cursor->multifunction)
            continue;
        if (!pci_exists(access, cursor->at))
            continue;
        if (cursor->at.function == 0)
            cursor->multifunction = pci_header_type(access, cursor->at) & PCI_HEADER_MULTIFUNCTION;
        return true;
    }
    return false;
}

static void pci_list_add(const struct pci_access *access, struct pci_list *list, struct pci_address address)
{
    if (list->count == PCI_FUNCTION_COUNT_MAX) {
        list->missed_count++;
        return;
    }
    ASSERT(list->count < PCI_FUNCTION_COUNT_MAX);
    uint32_t id = pci_read(access, address, PCI_VENDOR_DEVICE);
    list->function[list->count++] = (struct pci_function){
        .address = address,
        .vendor = (uint16_t)id,
        .device = (uint16_t)(id >> 16),
        .subsystem = (uint16_t)(pci_read(access, address, PCI_SUBSYSTEM) >> 16),
        .class_code = pci_read(access, address, PCI_CLASS_REVISION) >> 8,
        .is_bridge = pci_is_bridge(access, address),
    };
}

static void pci_scan_depth(const struct pci_access *access, struct pci_list *list, uint8_t bus, bool may_number,
                           unsigned depth);

/* Scans the bus behind a bridge. Firmware has numbered it in almost every machine. Otherwise the bus gets the next
 * free number here, and the buses below it the numbers after that. The bridge forwards all buses up to the last one
 * until the end of that range is known. PCI-to-PCI Bridge 1.2 §3.2.5. */
static void pci_scan_behind(const struct pci_access *access, struct pci_list *list, struct pci_address bridge,
                            bool may_number, unsigned depth)
{
    uint32_t buses = pci_read(access, bridge, PCI_BRIDGE_BUSES);
    uint8_t secondary = (uint8_t)(buses >> 8);
    if (secondary != 0) {
        /* Below a bridge with a number nothing is numbered: its range may be full. */
        if (secondary > bridge.bus && secondary <= access->bus_last)
            pci_scan_depth(access, list, secondary, false, depth + 1);
        return;
    }
    if (!may_number || list->bus_highest >= access->bus_last)
        return;
    secondary = ++list->bus_highest;
    ASSERT(secondary != 0 && secondary <= access->bus_last);
    uint32_t numbers = (buses & 0xff000000) | (uint32_t)secondary << 8 | bridge.bus;
    pci_write(access, bridge, PCI_BRIDGE_BUSES, numbers | (uint32_t)access->bus_last << 16);
    pci_scan_depth(access, list, secondary, true, depth + 1);
    pci_write(access, bridge, PCI_BRIDGE_BUSES, numbers | (uint32_t)list->bus_highest << 16);
}

static void pci_scan_depth(const struct pci_access *access, struct pci_list *list, uint8_t bus, bool may_number,
                           unsigned depth)
{
    /* A set of buses seen: a bridge that claims one of them cannot lead in circles. */
    if (depth > PCI_DEPTH_MAX || list->bus_seen[bus])
        return;
    list->bus_seen[bus] = true;
    ASSERT(bus <= list->bus_highest || depth > 0);

    /* First all functions of this bus: a number given below must be above those of every bridge here. */
    for (struct pci_cursor c = { .at.bus = bus }; pci_cursor_next(access, &c);) {
        pci_list_add(access, list, c.at);
        if (pci_is_bridge(access, c.at)) {
            uint8_t subordinate = (uint8_t)(pci_read(access, c.at, PCI_BRIDGE_BUSES) >> 16);
            if (subordinate > list->bus_highest)
                list->bus_highest = subordinate;
        }
    }
    for (struct pci_cursor c = { .at.bus = bus }; pci_cursor_next(access, &c);)
        if (pci_is_bridge(access, c.at))
            pci_scan_behind(access, list, c.at, may_number, depth);
}

void pci_scan_bus(const struct pci_access *access, struct pci_list *list, uint8_t bus)
{
    if (bus > list->bus_highest)
        list->bus_highest = bus;
    pci_scan_depth(access, list, bus, true, 0);
}

size_t pci_function_name(const struct pci_function *function, char *out, size_t out_bytes)
{
    struct pci_address address = function->address;
    ASSERT(address.device < 32 && address.function < 8);
    return format(out, out_bytes, "pci %02x:%02x.%x %04x:%04x", address.bus, address.device, address.function,
                  function->vendor, function->device);
}

void pci_print(const struct pci_access *access, const struct pci_list *list)
{
    log_line("pci by %s: %zu functions", access->name, list->count + list->missed_count);
    for (size_t i = 0; i < list->count; i++) {
        const struct pci_function *function = &list->function[i];
        char name[32];
        pci_function_name(function, name, sizeof name);
        log_line("%s class %06x%s", name, function->class_code, function->is_bridge ? ", a bridge" : "");
    }
}

/* ---- capabilities and registers ---- */

uint8_t pci_capability_next(const struct pci_access *access, struct pci_address address, uint8_t id, uint8_t previous,
                            unsigned *budget)
{
    uint16_t status = (uint16_t)(pci_read(access, address, PCI_COMMAND_STATUS) >> 16);
    if (!(status & PCI_STATUS_CAPABILITIES))
        return 0;
    uint32_t word = previous ? pci_read(access, address, previous) >> 8
                             : pci_read(access, address, PCI_CAPABILITY_POINTER);
    ASSERT(*budget <= PCI_CAPABILITY_COUNT_MAX);
    while (*budget > 0) {
        (*budget)--;
        uint8_t offset = (uint8_t)word & 0xfc; /* PCI 3.0 §6.7: the low two bits are reserved, to be masked */
        if (offset < PCI_CAPABILITY_OFFSET_MIN || offset > PCI_CAPABILITY_OFFSET_MAX)
            return 0;
        word = pci_read(access, address, offset);
        if ((uint8_t)word == id)
            return offset;
        word >>= 8;
    }
    return 0;
}

struct pci_bar pci_bar_read(const struct pci_access *access, struct pci_address address, unsigned index)
{
    ASSERT(index < PCI_BAR_COUNT);
    uint16_t offset = (uint16_t)(PCI_BAR0 + 4 * index);
    uint32_t command = pci_read(access, address, PCI_COMMAND_STATUS) & 0xffff; /* zeros leave the status bits alone */
    pci_write(access, address, PCI_COMMAND_STATUS, command & ~(uint32_t)(PCI_COMMAND_IO | PCI_COMMAND_MEMORY));

    /* PCI 3.0 §6.2.5.1: the lowest bit that keeps a one gives the size. So a size is a power of two, whatever the bits
     * above say. */
    uint32_t low = pci_read(access, address, offset);
    pci_write(access, address, offset, UINT32_MAX);
    uint32_t low_ones = pci_read(access, address, offset);
    pci_write(access, address, offset, low);

    struct pci_bar bar = { .is_port = low & PCI_BAR_IO };
    uint64_t ones = low_ones & (bar.is_port ? 0xfffcu : ~15u); /* x86 decodes 16 bits of ports */
    if (bar.is_port) {
        bar.base = low & ~UINT32_C(3);
    } else {
        bar.is_64 = (low & PCI_BAR_MEMORY_TYPE) == PCI_BAR_MEMORY_TYPE_64 && index + 1 < PCI_BAR_COUNT;
        bar.base = low & ~UINT32_C(15);
        if (bar.is_64) {
            uint32_t high = pci_read(access, address, offset + 4);
            pci_write(access, address, offset + 4, UINT32_MAX);
            ones |= (uint64_t)pci_read(access, address, offset + 4) << 32;
            pci_write(access, address, offset + 4, high);
            bar.base |= (uint64_t)high << 32;
        }
    }
    bar.bytes = ones & -ones;
    bar.present = bar.bytes != 0;
    pci_write(access, address, PCI_COMMAND_STATUS, command);
    return bar;
}

/* PCI 3.0 §6.2.5.1: Assigns an address, a multiple of the size, out of the MiB at `spare`. Does nothing if no room is
 * left. */
static void pci_bar_assign(const struct pci_access *access, struct pci_address address, unsigned index,
                           const struct pci_bar *bar, uint32_t spare, uint32_t *used_bytes)
{
    ASSERT(spare % PCI_SPARE_BYTES == 0);
    ASSERT(index < PCI_BAR_COUNT);
    uint64_t at = (*used_bytes + bar->bytes - 1) & ~(bar->bytes - 1);
    if (at >= PCI_SPARE_BYTES || bar->bytes > PCI_SPARE_BYTES - at)
        return;
    pci_write(access, address, (uint16_t)(PCI_BAR0 + 4 * index), spare + (uint32_t)at);
    if (bar->is_64)
        pci_write(access, address, (uint16_t)(PCI_BAR0 + 4 * index + 4), 0);
    *used_bytes = (uint32_t)(at + bar->bytes);
    ASSERT(*used_bytes <= PCI_SPARE_BYTES);
}

/* PCI-to-PCI Bridge 1.2 §3.2.5.8: Sets base and limit, the upper 12 bits of the first and last MiB forwarded. */
static void pci_bridge_open(const struct pci_access *access, struct pci_address bridge, uint32_t spare)
{
    uint32_t mib = spare >> 16 & 0xfff0;
    pci_write(access, bridge, PCI_BRIDGE_MEMORY, mib << 16 | mib);
    pci_write(access, bridge, PCI_COMMAND_STATUS, PCI_COMMAND_MEMORY | PCI_COMMAND_BUS_MASTER);
}

void pci_assign(const struct pci_access *access, const struct pci_list *list, const struct pci_function *function)
{
    struct pci_bar bar;
    size_t place = (size_t)(function - list->function);
    ASSERT(place < list->count);
    uint32_t spare = access->spare - (uint32_t)place * PCI_SPARE_BYTES, used_bytes = 0;
    for (unsigned i = 0; i < PCI_BAR_COUNT; i += bar.is_64 ? 2 : 1) {
        bar = pci_bar_read(access, function->address, i);
        bool wants = bar.present && !bar.is_port && bar.base == 0;
        if (wants && access->spare != 0)
            pci_bar_assign(access, function->address, i, &bar, spare, &used_bytes);
    }
    if (used_bytes == 0)
        return;
    /* Upwards, from bus to bus; each is the secondary bus of one bridge, or the first. */
    uint8_t bus = function->address.bus;
    for (unsigned depth = 0; depth < PCI_DEPTH_MAX; depth++)
        for (size_t i = 0; i < list->count; i++) {
            struct pci_address at = list->function[i].address;
            if (!list->function[i].is_bridge || (uint8_t)(pci_read(access, at, PCI_BRIDGE_BUSES) >> 8) != bus)
                continue;
            pci_bridge_open(access, at, spare);
            bus = at.bus;
            break;
        }
}

uint8_t pci_msix_find(const struct pci_access *access, struct pci_address address, unsigned *bar, uint32_t *offset)
{
    unsigned budget = PCI_CAPABILITY_COUNT_MAX;
    uint8_t at = pci_capability_next(access, address, PCI_CAPABILITY_MSIX, 0, &budget);
    if (at == 0)
        return 0;
    uint32_t table = pci_read(access, address, at + PCI_MSIX_TABLE);
    *bar = table & PCI_MSIX_TABLE_BAR_MASK;
    *offset = table & ~(uint32_t)PCI_MSIX_TABLE_BAR_MASK;
    return at;
}

void pci_msix_set(const struct pci_access *access, struct pci_address address, bool on)
{
    unsigned bar;
    uint32_t offset;
    uint8_t at = pci_msix_find(access, address, &bar, &offset);
    if (at == 0)
        return;
    ASSERT(at >= PCI_CAPABILITY_OFFSET_MIN);
    const uint32_t enable = BIT(PCI_MSIX_ENABLE_BIT), mask = BIT(PCI_MSIX_FUNCTION_MASK_BIT);
    uint32_t control = pci_read(access, address, at) & ~(enable | mask);
    pci_write(access, address, at, on ? control | enable : control);
}

/* PCI Power Management 1.2 §3.2.4, No_Soft_Reset: a function that leaves D3 may lose its addresses. */
static void pci_wake(const struct pci_access *access, struct pci_address address, void (*wait_us)(uint32_t us))
{
    unsigned budget = PCI_CAPABILITY_COUNT_MAX;
    uint8_t at = pci_capability_next(access, address, PCI_CAPABILITY_POWER, 0, &budget);
    uint32_t control = at != 0 ? pci_read(access, address, at + PCI_POWER_CONTROL) : 0, bar[PCI_BAR_COUNT];
    if ((control & PCI_POWER_STATE) == 0)
        return;
    ASSERT(at >= PCI_CAPABILITY_OFFSET_MIN);
    for (unsigned i = 0; i < PCI_BAR_COUNT; i++)
        bar[i] = pci_read(access, address, (uint16_t)(PCI_BAR0 + 4 * i));
    pci_write(access, address, at + PCI_POWER_CONTROL, control & ~(uint32_t)PCI_POWER_STATE);
    wait_us(PCI_POWER_WAIT_US);
    for (unsigned i = 0; i < PCI_BAR_COUNT; i++)
        pci_write(access, address, (uint16_t)(PCI_BAR0 + 4 * i), bar[i]);
}

void pci_enable(const struct pci_access *access, struct pci_address address, void (*wait_us)(uint32_t us))
{
    pci_wake(access, address, wait_us);
    pci_msix_set(access, address, false);
    uint32_t command = pci_read(access, address, PCI_COMMAND_STATUS) & 0xffff;
    pci_write(access, address, PCI_COMMAND_STATUS,
              command | PCI_COMMAND_IO | PCI_COMMAND_MEMORY | PCI_COMMAND_BUS_MASTER | PCI_COMMAND_INTERRUPT_DISABLE);
}
