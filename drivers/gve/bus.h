/* A gVNIC's registers: PCI (drivers/gve/pci.c), or a model in a test. Values are in host order. Every call is register
 * accesses, so VM exits. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "drivers/gve/spec.h"

struct gve_bus;

struct gve_bus_ops {
    uint32_t (*read)(struct gve_bus *bus, uint32_t offset); /* 32 bits of struct gve_registers */
    void (*write)(struct gve_bus *bus, uint32_t offset, uint32_t value, uint8_t bytes);
    void (*doorbell)(struct gve_bus *bus, uint32_t index, uint32_t value);
};

/* The first member of each bus. */
struct gve_bus {
    const struct gve_bus_ops *ops;
    void (*wait_us)(uint32_t us); /* between two readings of a register */
    char place[40];               /* "pci 00:03.0 1ae0:0042", for the report */
    const char *behind;           /* "DMAR", "SEV", ...: stands between it and memory; NULL: nothing does */
    uint32_t doorbell_count;
    uint8_t pci_revision;
    bool interrupts; /* MSI-X entry GVE_NOTIFY_RX ends a sleep */

    /* The admin queue, of drivers/gve/admin.c. */
    struct gve_command *commands; /* a page; NULL: not taken yet */
    uint8_t *answer;              /* a page that the device writes */
    uint32_t command_count;       /* since the reset */
};

enum { GVE_NOTIFY_TX = 0, GVE_NOTIFY_RX = 1, GVE_NOTIFY_COUNT = 2 }; /* notification blocks, and MSI-X entries */
