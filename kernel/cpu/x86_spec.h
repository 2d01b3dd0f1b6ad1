/* Intel 64 and IA-32 Architectures Software Developer's Manual (SDM), in its spelling. Bits are numbers for BIT(n).
 * The SDM is cited by titles: its chapters are renumbered now and then. */
#pragma once

#include <assert.h>
#include <stdint.h>

/* SDM vol. 3, "Control Registers" */
enum {
    CR4_MCE_BIT = 6,
    CR4_UMIP_BIT = 11,
    CR4_OSXSAVE_BIT = 18,
    CR4_SMEP_BIT = 20,
    CR4_SMAP_BIT = 21,
};

/* SDM vol. 1, "Enabling the XSAVE Feature Set": XCR0 */
enum {
    XCR0_X87_BIT = 0,
    XCR0_SSE_BIT = 1,
    XCR0_AVX_BIT = 2,
    XCR0_OPMASK_BIT = 5,
    XCR0_ZMM_HI256_BIT = 6,
    XCR0_HI16_ZMM_BIT = 7,
};

/* SDM vol. 4, "Model-Specific Registers" */
enum {
    IA32_APIC_BASE = 0x1b,
    IA32_PAT = 0x277,
};
enum { APIC_BASE_EXTD_BIT = 10, APIC_BASE_EN_BIT = 11 };

/* SDM vol. 3, "4-Level Paging": the bits of an entry at any level */
enum {
    PAGE_P_BIT = 0,
    PAGE_RW_BIT = 1,
    PAGE_PWT_BIT = 3,
    PAGE_PCD_BIT = 4,
    PAGE_PS_BIT = 7, /* in a directory or pointer table: this entry is a page */
    PAGE_XD_BIT = 63,
};
#define PAGE_ADDRESS_MASK UINT64_C(0x000ffffffffff000)

/* SDM vol. 3, "Protected-Mode Exceptions and Interrupts" */
enum {
    VECTOR_DE = 0,
    VECTOR_NMI = 2,
    VECTOR_DF = 8,
    VECTOR_PF = 14,
    VECTOR_MC = 18,
    VECTOR_EXCEPTION_COUNT = 32,
    VECTOR_WAKE = 0x40, /* ours: ends a sleep (kernel/time/sleep.c) */
    VECTOR_SPURIOUS = 0xff,
    VECTOR_COUNT = 256,
};

/* SDM vol. 3, "Page-Fault Exceptions": the error code */
enum {
    PF_ERROR_P_BIT = 0, /* the page is there, its rights forbid it */
    PF_ERROR_WR_BIT = 1,
    PF_ERROR_RSVD_BIT = 3,
    PF_ERROR_ID_BIT = 4, /* instruction fetch */
};

/* SDM vol. 3, "64-Bit Mode IDT" */
struct idt_gate {
    uint16_t offset_low, selector;
    uint8_t ist, type;
    uint16_t offset_middle;
    uint32_t offset_high, reserved;
};
static_assert(sizeof(struct idt_gate) == 16, "SDM vol. 3, 64-Bit IDT Gate Descriptors");
enum { IDT_TYPE_INTERRUPT_GATE = 0x8e }; /* present, ring 0, interrupts off inside */

/* SDM vol. 3, "Task Management in 64-bit Mode" */
struct __attribute__((packed)) tss64 {
    uint32_t reserved0;
    uint64_t rsp[3], reserved1, ist[7], reserved2; /* ist[0] is IST1 */
    uint16_t reserved3, io_map_base;
};
static_assert(sizeof(struct tss64) == 104, "SDM vol. 3, 64-Bit TSS Format");

struct __attribute__((packed)) descriptor_table {
    uint16_t limit;
    uint64_t base;
};
