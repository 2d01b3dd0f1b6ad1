/* PCI: the functions of a machine, their registers and capabilities. All accesses go through struct pci_access, so that
 * tests bring their own configuration space; drivers/pci/access.c has the machine's, by ports or by memory (ECAM). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "drivers/registers.h"

enum {
    PCI_FUNCTION_COUNT_MAX = 128, /* remembered and listed; a VM has 5 to 40 */
    PCI_BAR_COUNT = 6,
    PCI_CAPABILITY_COUNT_MAX = 48, /* at least 4 of 192 bytes each: more is a circle */
};

struct pci_address {
    uint8_t bus, device, function;
};

/* All accesses are of aligned 32-bit words; `context` is the accessor's own. */
struct pci_access {
    uint32_t (*read)(void *context, struct pci_address address, uint16_t offset);
    void (*write)(void *context, struct pci_address address, uint16_t offset, uint32_t value);
    void *context;
    uint8_t bus_first, bus_last;
    const char *name; /* "ports", "ecam" */
    uint32_t spare;   /* pci_assign takes addresses below this one; 0: none are free */
};
enum { PCI_SPARE_BYTES = 1 << 20 }; /* for each function: the least window of a bridge */

struct pci_function {
    struct pci_address address;
    uint16_t vendor, device;
    uint16_t subsystem;  /* the subsystem's id; of transitional virtio devices the device type */
    uint32_t class_code; /* class, subclass, interface: 0x020000 is Ethernet */
    bool is_bridge;
};

/* The functions that scans have found so far. Starts zeroed. */
struct pci_list {
    struct pci_function function[PCI_FUNCTION_COUNT_MAX];
    size_t count;        /* entries of `function` */
    size_t missed_count; /* functions that found no room in it */
    bool bus_seen[256];
    uint8_t bus_highest; /* the highest number a bus has, by firmware or by us */
};

struct pci_bar {
    bool present, is_port, is_64;
    uint64_t base; /* 0: nobody has assigned it */
    uint64_t bytes;
};

/* Returns the accessor of this machine's configuration space, which stays valid. NULL: there is no PCI. Before
 * memory_seal. */
const struct pci_access *pci_access_find(void);

/* Adds the functions of a bus and of all buses below it to the list. Gives numbers to the buses that firmware has not
 * numbered. A bus seen before is not scanned again. */
void pci_scan_bus(const struct pci_access *access, struct pci_list *list, uint8_t bus);

/* Writes place and ids, "pci 00:03.0 1af4:1000". Returns the bytes written, as format does. */
size_t pci_function_name(const struct pci_function *function, char *out, size_t out_bytes);

/* Puts the list into the log, one function a line. */
void pci_print(const struct pci_access *access, const struct pci_list *list);

uint32_t pci_read(const struct pci_access *access, struct pci_address address, uint16_t offset);
void pci_write(const struct pci_access *access, struct pci_address address, uint16_t offset, uint32_t value);

/* Returns the offset of the next capability with this id after `previous` (0: the first), or 0. *budget starts at
 * PCI_CAPABILITY_COUNT_MAX and ends lists that run in circles. PCI 3.0 §6.7. */
uint8_t pci_capability_next(const struct pci_access *access, struct pci_address address, uint8_t id, uint8_t previous,
                            unsigned *budget);

/* Reads and sizes a base address register. Decoding is off while it is sized. The upper half of a 64-bit one is not a
 * register of its own: step over it where is_64 says so. */
struct pci_bar pci_bar_read(const struct pci_access *access, struct pci_address address, unsigned index);

/* Gives addresses to the memory BARs of a function to which firmware gave none, out of access->spare, and opens the
 * bridges above it for them. Does nothing to a function that has its addresses. */
void pci_assign(const struct pci_access *access, const struct pci_list *list, const struct pci_function *function);

/* Makes a function ready to be driven: memory, ports and bus mastering on, INTx and MSI-X off, awake (D0). A function
 * that slept keeps its addresses; `wait_us` waits until it may be accessed. */
void pci_enable(const struct pci_access *access, struct pci_address address, void (*wait_us)(uint32_t us));

/* Returns the offset of the MSI-X capability, or 0; its table is at *offset in *bar. */
uint8_t pci_msix_find(const struct pci_access *access, struct pci_address address, unsigned *bar, uint32_t *offset);
/* Switches MSI-X on, or off, when its table is ready. */
void pci_msix_set(const struct pci_access *access, struct pci_address address, bool on);

/* The address and data of a message-signalled interrupt. */
struct pci_message {
    uint64_t address;
    uint32_t data;
};

/* Reads and sizes all base address registers. */
void pci_bars_read(const struct pci_access *access, struct pci_address address, struct pci_bar bar[PCI_BAR_COUNT]);

/* Opens `bytes` of a BAR from `offset` on. Returns false when the BAR does not hold them or nobody gave it an
 * address. */
bool pci_registers_open(const struct pci_bar *bar, uint64_t offset, uint64_t bytes, struct registers *block);

/* Writes a message to an entry of the MSI-X table, unmasked, and switches MSI-X on. Returns false if the function has
 * no MSI-X, or fewer entries. */
bool pci_msix_open(const struct pci_access *access, struct pci_address address, const struct pci_bar bar[PCI_BAR_COUNT],
                   uint16_t entry, const struct pci_message *message);
