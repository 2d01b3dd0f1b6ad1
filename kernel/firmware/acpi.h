/* The facts of the ACPI tables that the rest of the machine asks for. ACPI 6.5 §5.2.
 *
 * Tables are input: lengths are checked, and a table that is too short or too long counts as none. A table with a wrong
 * checksum is used all the same, with a line in the log, as in Linux: its firmware has patched it, and forgotten the
 * sum. A root with the right sum comes first. AML is not run. Pointers returned here stay valid. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct boot_info;

/* Reads the tables, before the seal. `rsdp` is the address of a root pointer that comes before all others; 0: none.
 * Everything below answers "nothing there" if there are no tables. */
void acpi_init(const struct boot_info *boot, uint64_t rsdp);

/* One segment of PCI configuration space by memory (MCFG, PCI Firmware Specification 3.2 §4.1.2). */
struct acpi_ecam {
    uint64_t base;
    uint16_t segment;
    uint8_t bus_first, bus_last;
};

enum { ACPI_ECAM_COUNT_MAX = 4, ACPI_CPU_COUNT_MAX = 64 };

size_t acpi_ecam_count(void); /* 0 without MCFG: use ports 0xcf8/0xcfc */
const struct acpi_ecam *acpi_ecam(size_t index);

size_t acpi_cpu_count(void); /* enabled local APICs of the MADT; at least 1 */
uint32_t acpi_cpu_apic_id(size_t index);

/* The pin of an I/O APIC at which the PIT's interrupt, ISA line 0, comes in. */
struct acpi_timer_line {
    uint64_t ioapic; /* the address of its registers */
    uint32_t pin;
    bool active_low;
};
/* Finds that pin. Returns false if the MADT names no I/O APIC. */
bool acpi_timer_line(struct acpi_timer_line *line);

/* virtio-mmio devices: nodes LNRO0005 of the DSDT, as QEMU's microvm describes them. */
struct acpi_virtio_mmio {
    uint32_t base, bytes;
};
enum { ACPI_VIRTIO_MMIO_COUNT_MAX = 32 };
/* Returns the device of an index below ACPI_VIRTIO_MMIO_COUNT_MAX, or NULL. */
const struct acpi_virtio_mmio *acpi_virtio_mmio(size_t index);

/* A register by address. */
enum acpi_space { ACPI_SPACE_NONE, ACPI_SPACE_MEMORY, ACPI_SPACE_PORT };
struct acpi_register {
    enum acpi_space space;
    uint64_t address;
};

/* Returns the register in which the power management timer counts, and its width; space NONE without one. */
struct acpi_register acpi_pm_timer(uint32_t *width_bits);

/* The fixed power button, ACPI 6.5 §4.8.2.2.1.1. */
struct acpi_power_button {
    struct acpi_register event[2]; /* PM1a and PM1b: status, and `enable_offset` higher enable; space NONE: absent */
    uint32_t enable_offset;
    struct acpi_register control; /* PM1a's */
    /* The command port takes `acpi_enable` if the machine is not in ACPI mode yet. 0: there is no other mode. */
    uint16_t smi_port;
    uint8_t acpi_enable;
};
/* Finds the button. Returns false if the machine has none, or one that only AML can read (hardware-reduced ACPI). */
bool acpi_power_button(struct acpi_power_button *button);

/* Returns the signature of the table that describes an IOMMU, "DMAR", "IVRS" or "VIOT", or NULL. A table that cannot be
 * read counts. */
const char *acpi_iommu(void);

/* Returns the RTC's register for the century; 0: it has none. */
uint8_t acpi_rtc_century(void);

/* Returns the reset register and the value that resets; space NONE without one. */
struct acpi_register acpi_reset_register(uint8_t *value);
