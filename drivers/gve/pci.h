/* gVNIC over PCI: registers in BAR 0, doorbells in BAR 2. */
#pragma once

#include "drivers/gve/bus.h"
#include "drivers/pci/pci.h"

struct gve_pci {
    struct gve_bus bus; /* first: cast back */
    struct registers block, doorbells;
};

bool gve_pci_is(const struct pci_function *function);

/* Enables the function and fills in `pci->bus`. The receive queue's interrupts go to `message`, or nowhere if it is
 * NULL. Returns false if the registers cannot be reached. */
bool gve_pci_open(struct gve_pci *pci, const struct pci_access *access, const struct pci_function *function,
                  const struct pci_message *message);
