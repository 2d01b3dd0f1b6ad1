/* Intel 82093AA I/O APIC data sheet, §3: registers and the bits of a redirection entry's lower half. */
#pragma once

enum {
    IOAPIC_BYTES = 0x20,
    IOAPIC_IOREGSEL = 0x00,
    IOAPIC_IOWIN = 0x10,
    IOAPIC_VERSION = 0x01, /* bits 23..16: the highest entry */
    IOAPIC_VERSION_LAST_BIT = 16,
    IOAPIC_REDIRECTION = 0x10, /* two registers a pin, the lower half first */

    IOAPIC_DELIVERY_NMI = 0x400,
    IOAPIC_ACTIVE_LOW_BIT = 13,
    IOAPIC_MASKED_BIT = 16,
    IOAPIC_DESTINATION_BIT = 24, /* in the upper half */
};
