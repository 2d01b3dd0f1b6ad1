/* PCI Local Bus Specification 3.0 §6 and PCI-to-PCI Bridge Architecture Specification 1.2 §3: configuration space. */
#pragma once

enum {
    PCI_VENDOR_DEVICE = 0x00,
    PCI_COMMAND_STATUS = 0x04,
    PCI_CLASS_REVISION = 0x08,
    PCI_HEADER_TYPE_DWORD = 0x0c, /* header type in bits 16..23 */
    PCI_BAR0 = 0x10,
    PCI_BRIDGE_BUSES = 0x18,  /* primary, secondary, subordinate, latency */
    PCI_BRIDGE_IO = 0x1c,     /* base, limit (bits 15..12 of the address), status */
    PCI_BRIDGE_MEMORY = 0x20, /* base, limit (bits 31..20 of the address) */
    PCI_BRIDGE_PREFETCHABLE = 0x24,
    PCI_SUBSYSTEM = 0x2c,
    PCI_CAPABILITY_POINTER = 0x34,
    PCI_BRIDGE_CONTROL_DWORD = 0x3c,
};

/* Command register, masks */
enum {
    PCI_COMMAND_IO = 0x0001,
    PCI_COMMAND_MEMORY = 0x0002,
    PCI_COMMAND_BUS_MASTER = 0x0004,
    PCI_COMMAND_INTERRUPT_DISABLE = 0x0400,
};
enum { PCI_CLASS_ETHERNET = 0x0200 };      /* class and subclass, appendix D */
enum { PCI_STATUS_CAPABILITIES = 0x0010 }; /* status register, mask */

/* Header type, masks */
enum {
    PCI_HEADER_MULTIFUNCTION = 0x80,
    PCI_HEADER_LAYOUT = 0x7f,
    PCI_HEADER_LAYOUT_BRIDGE = 0x01,
};

/* Base address registers, masks, PCI 3.0 §6.2.5.1 */
enum {
    PCI_BAR_IO = 0x1,
    PCI_BAR_MEMORY_TYPE = 0x6,
    PCI_BAR_MEMORY_TYPE_64 = 0x4,
    PCI_BAR_PREFETCHABLE = 0x8,
};

/* Capability ids */
enum {
    PCI_CAPABILITY_POWER = 0x01, /* PCI Power Management 1.2 §3.2 */
    PCI_CAPABILITY_VENDOR = 0x09,
    PCI_CAPABILITY_MSIX = 0x11,
};
enum {
    PCI_POWER_CONTROL = 4, /* offset in the capability; the state is bits 1..0, 0 is D0 */
    PCI_POWER_STATE = 0x3,
    PCI_POWER_WAIT_US = 10000, /* from D3 to the first access, PCI Power Management 1.2 §5.6.1 */
    PCI_MSIX_ENABLE_BIT = 31,  /* in the capability's first dword, PCI 3.0 §6.8.2 */
    PCI_MSIX_FUNCTION_MASK_BIT = 30,
    PCI_MSIX_LAST_ENTRY_MASK = 0x7ff, /* bits of the message control, 31..16 of the first dword */
    PCI_MSIX_TABLE = 4,               /* offset in the capability: BAR in bits 2..0, offset in it above */
    PCI_MSIX_TABLE_BAR_MASK = 0x7,
    PCI_MSIX_ENTRY_ADDRESS = 0, /* offsets in a table entry */
    PCI_MSIX_ENTRY_DATA = 8,
    PCI_MSIX_ENTRY_CONTROL = 12,
    PCI_MSIX_ENTRY_BYTES = 16,
};
