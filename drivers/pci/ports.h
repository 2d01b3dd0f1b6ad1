/* Configuration mechanism 1, PCI 3.0 §3.2.2.3.2: a function's configuration space by two ports. */
#pragma once

#include <stdint.h>

#include "drivers/pci/pci.h"
#include "kernel/cpu/ports.h"

enum {
    PCI_PORT_ADDRESS = 0xcf8,
    PCI_PORT_DATA = 0xcfc, /* to 0xcff: the four bytes of the word that is selected */
};
#define PCI_PORT_ENABLE UINT32_C(0x80000000)

/* Selects the word that holds `offset`. Returns the port of its byte, for an access of 1, 2 or 4 bytes. */
static inline uint16_t pci_port_select(struct pci_address address, uint16_t offset)
{
    port_out32(PCI_PORT_ADDRESS, PCI_PORT_ENABLE | (uint32_t)address.bus << 16 | (uint32_t)address.device << 11
                                     | (uint32_t)address.function << 8 | (offset & 0xfcu));
    return (uint16_t)(PCI_PORT_DATA + (offset & 3));
}
