/* What the rest of the machine asks of the ACPI tables. ACPI 6.5 §5.2. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One segment of PCI configuration space by memory (MCFG, PCI Firmware Specification 3.2 §4.1.2). */
struct acpi_ecam {
    uint64_t base;
    uint16_t segment;
    uint8_t bus_first, bus_last;
};

enum { ACPI_ECAM_COUNT_MAX = 4, ACPI_CPU_COUNT_MAX = 64 };

size_t acpi_ecam_count(void);           /* 0 without MCFG: use ports 0xcf8/0xcfc */
const struct acpi_ecam *acpi_ecam(size_t index);

size_t acpi_cpu_count(void);            /* enabled local APICs of the MADT; at least 1 */
uint8_t acpi_cpu_apic_id(size_t index);
