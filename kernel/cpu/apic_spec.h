/* Intel SDM vol. 3, "Advanced Programmable Interrupt Controller": register offsets, bits as numbers for BIT(n). */
#pragma once

enum {
    APIC_ID = 0x20,
    APIC_TPR = 0x80,
    APIC_EOI = 0xb0,
    APIC_SVR = 0xf0,
    APIC_ICR_LOW = 0x300,
    APIC_ICR_HIGH = 0x310,
    APIC_LVT_TIMER = 0x320,
    APIC_LVT_THERMAL = 0x330,
    APIC_LVT_PERFORMANCE = 0x340,
    APIC_LVT_LINT0 = 0x350,
    APIC_LVT_ERROR = 0x370,
    APIC_TIMER_INITIAL = 0x380,
    APIC_TIMER_CURRENT = 0x390,
    APIC_TIMER_DIVIDE = 0x3e0,
    APIC_BYTES = 4096,

    /* "Interrupt Command Register": delivery mode with level assert */
    APIC_ICR_FIXED = 0x4000,
    APIC_ICR_NMI = 0x4400,
    APIC_ICR_INIT = 0x4500,
    APIC_ICR_STARTUP = 0x4600,
    APIC_ICR_PENDING_BIT = 12,
    APIC_SVR_ENABLE_BIT = 8,
    APIC_LVT_MASKED_BIT = 16, /* without this bit and without a mode: fixed delivery, one shot */
    APIC_TIMER_DIVIDE_BY_16 = 0x3,

    APIC_X2APIC_MSR = 0x800, /* "x2APIC Register Address Space": plus offset / 16 */

    /* "Message Signalled Interrupts": the destination in bits 19..12 of the address, the vector in the data */
    APIC_MSI_DESTINATION_BIT = 12,
};
#define APIC_MSI_ADDRESS UINT32_C(0xfee00000)
