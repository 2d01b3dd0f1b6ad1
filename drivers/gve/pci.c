/* Opens a gVNIC's PCI function. Its registers and doorbells are big-endian. */
#include "drivers/gve/pci.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/hot_section.h"
#include "base/log.h"
#include "drivers/pci/spec.h"
#include "kernel/time/clock.h"

enum { DOORBELL_BYTES_MAX = 1 << 20 };

static const struct gve_pci *gve_pci_of(struct gve_bus *bus) { return (const struct gve_pci *)bus; }

static uint32_t read(struct gve_bus *bus, uint32_t offset)
{
    return __builtin_bswap32(registers_read32(gve_pci_of(bus)->block, offset));
}

static void write(struct gve_bus *bus, uint32_t offset, uint32_t value, uint8_t bytes)
{
    struct registers block = gve_pci_of(bus)->block;
    ASSERT(bytes == 1 || bytes == 2 || bytes == 4);
    if (bytes == 1)
        registers_write8(block, offset, (uint8_t)value);
    else if (bytes == 2)
        registers_write16(block, offset, __builtin_bswap16((uint16_t)value));
    else
        registers_write32(block, offset, __builtin_bswap32(value));
}

/* Rings a doorbell. x86 keeps the store after those of the ring; the compiler must, too. */
HOT static void doorbell(struct gve_bus *bus, uint32_t index, uint32_t value)
{
    __atomic_thread_fence(__ATOMIC_RELEASE);
    *(volatile uint32_t *)(gve_pci_of(bus)->doorbells.memory + (size_t)index * 4) = __builtin_bswap32(value);
}

static const struct gve_bus_ops ops = { .read = read, .write = write, .doorbell = doorbell };

bool gve_pci_is(const struct pci_function *function)
{
    return function->vendor == GVE_PCI_VENDOR && function->device == GVE_PCI_DEVICE;
}

bool gve_pci_open(struct gve_pci *pci, const struct pci_access *access, const struct pci_function *function,
                  const struct pci_message *message)
{
    ASSERT(gve_pci_is(function));
    struct pci_bar bar[PCI_BAR_COUNT];
    memset(pci, 0, sizeof *pci);
    pci_function_name(function, pci->bus.place, sizeof pci->bus.place);
    pci_bars_read(access, function->address, bar);
    pci_enable(access, function->address, clock_spin_us);
    const struct pci_bar *rings = &bar[GVE_BAR_DOORBELLS];
    const uint64_t doorbell_bytes = min_u64(rings->bytes, DOORBELL_BYTES_MAX);
    if (bar[GVE_BAR_REGISTERS].is_port || rings->is_port || doorbell_bytes < 4
        || !pci_registers_open(&bar[GVE_BAR_REGISTERS], 0, sizeof(struct gve_registers), &pci->block)
        || !pci_registers_open(rings, 0, doorbell_bytes, &pci->doorbells)) {
        for (unsigned i = 0; i <= GVE_BAR_DOORBELLS; i += GVE_BAR_DOORBELLS)
            log_line("gve: %s: BAR %u has %llu bytes%s at 0x%llx", pci->bus.place, i, (unsigned long long)bar[i].bytes,
                     bar[i].is_port ? " of ports" : "", (unsigned long long)bar[i].base);
        return false;
    }
    pci->bus.ops = &ops;
    pci->bus.wait_us = clock_spin_us;
    pci->bus.doorbell_count = (uint32_t)(doorbell_bytes / 4);
    pci->bus.pci_revision = (uint8_t)pci_read(access, function->address, PCI_CLASS_REVISION);
    pci->bus.interrupts = message && pci_msix_open(access, function->address, bar, GVE_NOTIFY_RX, message);
    return true;
}
