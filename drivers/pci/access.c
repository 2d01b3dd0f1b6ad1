/* The machine's PCI configuration space: by memory where the ACPI tables name it (MCFG), else by ports. */
#include "base/assert.h"
#include "base/bytes.h"
#include "drivers/pci/pci.h"
#include "drivers/pci/ports.h"
#include "kernel/firmware/acpi.h"
#include "kernel/memory/memory.h"

static uint32_t ports_read(void *context, struct pci_address address, uint16_t offset)
{
    (void)context;
    return port_in32(pci_port_select(address, offset));
}

static void ports_write(void *context, struct pci_address address, uint16_t offset, uint32_t value)
{
    (void)context;
    port_out32(pci_port_select(address, offset), value);
}

static bool ports_present(void)
{
    port_out32(PCI_PORT_ADDRESS, PCI_PORT_ENABLE);
    return port_in32(PCI_PORT_ADDRESS) == PCI_PORT_ENABLE;
}

/* PCI Express Base 3.0 §7.2.2: 4 KiB a function, 1 MiB a bus. Mapped a bus at a time, when a scan comes there. */
struct ecam {
    const struct acpi_ecam *table;
    volatile uint32_t *bus[256];
};

static volatile uint32_t *ecam_word(struct ecam *ecam, struct pci_address address, uint16_t offset)
{
    if (!ecam->bus[address.bus])
        ecam->bus[address.bus] = memory_map_device(ecam->table->base + ((uint64_t)address.bus << 20), 1u << 20);
    ASSERT(address.device < 32 && address.function < 8 && offset < 4096);
    uint32_t at = (uint32_t)address.device << 15 | (uint32_t)address.function << 12 | (offset & 0xffcu);
    return ecam->bus[address.bus] + at / 4;
}

static uint32_t ecam_read(void *context, struct pci_address address, uint16_t offset)
{
    return *ecam_word(context, address, offset);
}

static void ecam_write(void *context, struct pci_address address, uint16_t offset, uint32_t value)
{
    *ecam_word(context, address, offset) = value;
}

/* Finds the table of segment 0. MCFG's base is that of bus 0, also where the range begins later (PCI Firmware 3.2
 * §4.1.2). Segment 0 only: no known VM has a network device in another. */
static const struct acpi_ecam *ecam_of_segment_0(void)
{
    for (size_t i = 0; i < acpi_ecam_count(); i++)
        if (acpi_ecam(i)->segment == 0)
            return acpi_ecam(i);
    return NULL;
}

/* Returns the MiB below the configuration space. It and those below count as free where nobody has assigned addresses.
 * In QEMU's microvm, the one known machine of this kind, they are the end of the window that the host bridge forwards,
 * 512 MiB long. */
static uint32_t spare_below(uint64_t ecam_base)
{
    const uint32_t base = (uint32_t)ecam_base & -(uint32_t)PCI_SPARE_BYTES; /* the table may name any */
    return ecam_base > BIT(31) && ecam_base < BIT(32) ? base - PCI_SPARE_BYTES : 0;
}

const struct pci_access *pci_access_find(void)
{
    static struct ecam ecam;
    static struct pci_access access;

    ecam.table = ecam_of_segment_0();
    if (ecam.table) {
        access = (struct pci_access){
            .read = ecam_read,
            .write = ecam_write,
            .context = &ecam,
            .bus_first = ecam.table->bus_first,
            .bus_last = ecam.table->bus_last,
            .name = "ecam",
            .spare = spare_below(ecam.table->base),
        };
        ASSERT(access.bus_first <= access.bus_last);
        return &access;
    }
    if (ports_present()) {
        access = (struct pci_access){ .read = ports_read, .write = ports_write, .bus_last = 255, .name = "ports" };
        return &access;
    }
    return NULL;
}
