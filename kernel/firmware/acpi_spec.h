/* Advanced Configuration and Power Interface Specification 6.5, in its spelling: offsets and sizes only. */
#pragma once

enum {
    /* §5.2.5.3, "Root System Description Pointer (RSDP) Structure" */
    ACPI_RSDP_SIGNATURE_BYTES = 8, /* "RSD PTR " */
    ACPI_RSDP_REVISION = 15,
    ACPI_RSDP_RSDT_ADDRESS = 16,
    ACPI_RSDP_BYTES_V1 = 20,
    ACPI_RSDP_LENGTH = 20,
    ACPI_RSDP_XSDT_ADDRESS = 24,
    ACPI_RSDP_BYTES_V2 = 36,
    ACPI_RSDP_ALIGN = 16,

    /* §5.2.6, "System Description Table Header" */
    ACPI_HEADER_LENGTH = 4,
    ACPI_HEADER_BYTES = 36,

    /* §5.2.9, "Fixed ACPI Description Table (FADT)" */
    FADT_DSDT = 40,
    FADT_SMI_CMD = 48,
    FADT_ACPI_ENABLE = 52,
    FADT_PM1A_EVT_BLK = 56,
    FADT_PM1B_EVT_BLK = 60,
    FADT_PM1A_CNT_BLK = 64,
    FADT_PM_TMR_BLK = 76,
    FADT_PM1_EVT_LEN = 88,
    FADT_PM_TMR_LEN = 91,
    FADT_CENTURY = 108,
    FADT_FLAGS = 112,
    FADT_RESET_REG = 116,
    FADT_RESET_VALUE = 128,
    FADT_X_DSDT = 140,
    FADT_X_PM1A_EVT_BLK = 148,
    FADT_X_PM1B_EVT_BLK = 160,
    FADT_X_PM1A_CNT_BLK = 172,
    FADT_X_PM_TMR_BLK = 208,
    FADT_FLAGS_PWR_BUTTON_BIT = 4,  /* the button is a device of the DSDT, not the fixed one */
    FADT_FLAGS_TMR_VAL_EXT_BIT = 8, /* the timer has 32 bits, otherwise 24 */
    FADT_FLAGS_RESET_REG_SUP_BIT = 10,
    FADT_FLAGS_HW_REDUCED_ACPI_BIT = 20, /* §4.1: no fixed registers exist, except for the reset register */

    /* §4.8.3.1, "PM1 Event Grouping": 16 bits of status, then 16 of enable; and §4.8.3.2, "PM1 Control Grouping" */
    PM1_PWRBTN_BIT = 8, /* PWRBTN_STS is cleared by writing 1, PWRBTN_EN enables it */
    PM1_CNT_SCI_EN_BIT = 0,

    /* §6.4.3.4, "32-Bit Fixed Memory Range Descriptor": tag, length (2 bytes), rights, base, bytes */
    MEMORY32_FIXED_TAG = 0x86,
    MEMORY32_FIXED_LENGTH = 9,
    MEMORY32_FIXED_BASE = 4,
    MEMORY32_FIXED_SIZE = 8,
    MEMORY32_FIXED_BYTES = 12,

    /* §5.2.3.2, "Generic Address Structure" */
    GAS_SPACE = 0,
    GAS_ADDRESS = 4,
    GAS_BYTES = 12,
    GAS_SYSTEM_MEMORY = 0,
    GAS_SYSTEM_IO = 1,

    /* §4.8.3.3, "Power Management Timer" */
    PM_TIMER_HZ = 3579545,

    /* §5.2.12, "Multiple APIC Description Table (MADT)" */
    MADT_ENTRIES = 44,
    MADT_ENTRY_TYPE = 0,
    MADT_ENTRY_LENGTH = 1,
    MADT_LOCAL_APIC = 0,
    MADT_LOCAL_APIC_ID = 3,
    MADT_LOCAL_APIC_FLAGS = 4,
    MADT_LOCAL_APIC_BYTES = 8,
    MADT_IO_APIC = 1, /* §5.2.12.3 */
    MADT_IO_APIC_ADDRESS = 4,
    MADT_IO_APIC_GSI_BASE = 8,
    MADT_IO_APIC_BYTES = 12,
    MADT_SOURCE_OVERRIDE = 2, /* §5.2.12.5 */
    MADT_SOURCE_OVERRIDE_SOURCE = 3,
    MADT_SOURCE_OVERRIDE_GSI = 4,
    MADT_SOURCE_OVERRIDE_FLAGS = 8,
    MADT_SOURCE_OVERRIDE_BYTES = 10,
    MADT_FLAGS_POLARITY_MASK = 3,
    MADT_FLAGS_ACTIVE_LOW = 3,
    MADT_LOCAL_X2APIC = 9,
    MADT_LOCAL_X2APIC_ID = 4,
    MADT_LOCAL_X2APIC_FLAGS = 8,
    MADT_LOCAL_X2APIC_BYTES = 16,
    MADT_FLAGS_ENABLED_BIT = 0,

    /* PCI Firmware Specification 3.2 §4.1.2, "MCFG Table" */
    MCFG_ENTRIES = 44,
    MCFG_ENTRY_BASE = 0,
    MCFG_ENTRY_SEGMENT = 8,
    MCFG_ENTRY_BUS_FIRST = 10,
    MCFG_ENTRY_BUS_LAST = 11,
    MCFG_ENTRY_BYTES = 16,
};

/* A method that only returns a constant, as AML encodes the method after its name (§20.2.3, §20.2.5.2). */
enum {
    AML_METHOD_FLAGS_NONE = 0x00,
    AML_RETURN = 0xa4,
    AML_DWORD = 0x0c,
};
