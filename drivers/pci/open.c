/* The parts of a PCI function that a driver opens: blocks of registers, and an interrupt. */
#include "base/assert.h"
#include "drivers/pci/pci.h"
#include "drivers/pci/spec.h"
#include "kernel/memory/memory.h"

void pci_bars_read(const struct pci_access *access, struct pci_address address, struct pci_bar bar[PCI_BAR_COUNT])
{
    for (unsigned i = 0; i < PCI_BAR_COUNT; i++)
        bar[i] = (struct pci_bar){ 0 };
    for (unsigned i = 0; i < PCI_BAR_COUNT; i += bar[i].is_64 ? 2 : 1)
        bar[i] = pci_bar_read(access, address, i);
}

bool pci_registers_open(const struct pci_bar *bar, uint64_t offset, uint64_t bytes, struct registers *block)
{
    if (!bar->present || bar->base == 0 || offset > bar->bytes || bytes > bar->bytes - offset)
        return false;
    ASSERT(bytes != 0);
    *block = (struct registers){ .port = (uint16_t)(bar->base + offset) };
    if (!bar->is_port)
        block->memory = (volatile uint8_t *)memory_map_device(bar->base + offset, bytes);
    return true;
}

/* PCI 3.0 §6.8.2 */
bool pci_msix_open(const struct pci_access *access, struct pci_address address, const struct pci_bar bar[PCI_BAR_COUNT],
                   uint16_t entry, const struct pci_message *message)
{
    ASSERT(message->address != 0);
    unsigned index;
    uint32_t offset;
    struct registers table;
    uint8_t at = pci_msix_find(access, address, &index, &offset);
    if (at == 0 || entry > (pci_read(access, address, at) >> 16 & PCI_MSIX_LAST_ENTRY_MASK) || index >= PCI_BAR_COUNT
        || bar[index].is_port
        || !pci_registers_open(&bar[index], offset + (uint64_t)entry * PCI_MSIX_ENTRY_BYTES, PCI_MSIX_ENTRY_BYTES,
                               &table))
        return false;
    registers_write32(table, PCI_MSIX_ENTRY_ADDRESS, (uint32_t)message->address);
    registers_write32(table, PCI_MSIX_ENTRY_ADDRESS + 4, (uint32_t)(message->address >> 32));
    registers_write32(table, PCI_MSIX_ENTRY_DATA, message->data);
    registers_write32(table, PCI_MSIX_ENTRY_CONTROL, 0); /* 0: unmasked */
    pci_msix_set(access, address, true);
    return true;
}
