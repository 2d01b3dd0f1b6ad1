/* The IDT, and what every vector has in common. Exceptions go to the handler that traps_init was given. */
#include "kernel/cpu/traps.h"

#include <stddef.h>

#include "base/assert.h"
#include "kernel/cpu/apic.h"
#include "kernel/cpu/instructions.h"
#include "kernel/cpu/ports.h"
#include "kernel/cpu/segments.h"
#include "kernel/cpu/x86_spec.h"

enum {
    /* Intel 8259A data sheet: command and data port of the two controllers */
    PIC1_COMMAND = 0x20,
    PIC1_DATA = 0x21,
    PIC2_COMMAND = 0xa0,
    PIC2_DATA = 0xa1,
    PIC_ICW1_INIT_WITH_ICW4 = 0x11,
    PIC_ICW4_8086 = 0x01,
    PIC_END_OF_INTERRUPT = 0x20, /* OCW2, non-specific */
    PIC1_VECTOR = 0x20,
    PIC2_VECTOR = 0x28, /* clear of the exceptions, should an interrupt slip through */
    PIC_CASCADE_LINE = 2,
};

extern const uint64_t trap_stubs[VECTOR_COUNT]; /* boot/traps.asm */

uint64_t traps_unexpected_count;

static struct idt_gate idt[VECTOR_COUNT];
static trap_handler *exception_handle;

static const char *const names[VECTOR_EXCEPTION_COUNT] = {
    "divide error",
    "debug",
    "NMI",
    "breakpoint",
    "overflow",
    "bound range exceeded",
    "invalid opcode",
    "device not available",
    "double fault",
    "coprocessor segment overrun",
    "invalid TSS",
    "segment not present",
    "stack-segment fault",
    "general protection",
    "page fault",
    "reserved",
    "x87 floating-point error",
    "alignment check",
    "machine check",
    "SIMD floating-point exception",
    "virtualization exception",
    "control protection",
    "reserved",
    "reserved",
    "reserved",
    "reserved",
    "reserved",
    "reserved",
    "hypervisor injection",
    "VMM communication",
    "security exception",
    "reserved",
};

const char *trap_name(uint64_t vector)
{
    ASSERT(vector < VECTOR_EXCEPTION_COUNT);
    return names[vector];
}

static void interrupt_dismiss(void)
{
    traps_unexpected_count++;
    port_out8(PIC2_COMMAND, PIC_END_OF_INTERRUPT);
    port_out8(PIC1_COMMAND, PIC_END_OF_INTERRUPT);
    apic_end_interrupt();
}

void trap_handle(const struct trap_frame *frame)
{
    ASSERT(frame->vector < VECTOR_COUNT);
    if (frame->vector == VECTOR_WAKE)
        apic_end_interrupt(); /* the interrupt has ended the HLT, and has no other purpose */
    else if (frame->vector >= VECTOR_EXCEPTION_COUNT)
        interrupt_dismiss();
    else
        exception_handle(frame);
}

static uint8_t ist_of(unsigned vector)
{
    ASSERT(vector < VECTOR_COUNT);
    switch (vector) {
    case VECTOR_DF:
        return IST_DOUBLE_FAULT;
    case VECTOR_NMI:
        return IST_NMI;
    case VECTOR_MC:
        return IST_MACHINE_CHECK;
    default:
        return IST_TRAP; /* no other exception returns, so one stack serves them all */
    }
}

/* Moves both controllers' vectors away from the exceptions, then masks all lines. 8259A data sheet, "Initialization
 * Command Words". */
static void pic_mask(void)
{
    port_out8(PIC1_COMMAND, PIC_ICW1_INIT_WITH_ICW4);
    port_out8(PIC2_COMMAND, PIC_ICW1_INIT_WITH_ICW4);
    port_out8(PIC1_DATA, PIC1_VECTOR);
    port_out8(PIC2_DATA, PIC2_VECTOR);
    port_out8(PIC1_DATA, 1 << PIC_CASCADE_LINE);
    port_out8(PIC2_DATA, PIC_CASCADE_LINE);
    port_out8(PIC1_DATA, PIC_ICW4_8086);
    port_out8(PIC2_DATA, PIC_ICW4_8086);
    port_out8(PIC1_DATA, 0xff);
    port_out8(PIC2_DATA, 0xff);
}

static void gates_load(void)
{
    const struct descriptor_table table = { sizeof idt - 1, (uintptr_t)idt };
    idt_load(&table);
}

void traps_init(trap_handler *handler)
{
    ASSERT(handler != NULL);
    exception_handle = handler;
    segments_init();
    for (unsigned vector = 0; vector < VECTOR_COUNT; vector++) {
        uint64_t stub = trap_stubs[vector];
        ASSERT(stub != 0);
        idt[vector] = (struct idt_gate){
            .offset_low = (uint16_t)stub,
            .offset_middle = (uint16_t)(stub >> 16),
            .offset_high = (uint32_t)(stub >> 32),
            .selector = SELECTOR_CODE,
            .ist = ist_of(vector),
            .type = IDT_TYPE_INTERRUPT_GATE,
        };
    }
    gates_load();
    pic_mask();
}

void traps_init_worker(uint32_t worker)
{
    ASSERT(exception_handle != NULL);
    segments_init_worker(worker);
    gates_load();
}
