#include "kernel/traps.h"

#include "kernel/apic.h"
#include "kernel/backtrace.h"
#include "kernel/base/bytes.h"
#include "kernel/base/log.h"
#include "kernel/blackbox.h"
#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/memory.h"
#include "kernel/paging.h"
#include "kernel/ports.h"
#include "kernel/reset.h"
#include "kernel/second_cpu.h"
#include "kernel/segments.h"
#include "kernel/stacks.h"
#include "kernel/symbols.h"
#include "kernel/watchdog.h"
#include "kernel/x86_spec.h"

enum {
    /* Intel 8259A data sheet: command and data port of the two controllers */
    PIC1_COMMAND = 0x20, PIC1_DATA = 0x21,
    PIC2_COMMAND = 0xa0, PIC2_DATA = 0xa1,
    PIC_ICW1_INIT_WITH_ICW4 = 0x11,
    PIC_ICW4_8086 = 0x01,
    PIC1_VECTOR = 0x20, PIC2_VECTOR = 0x28,     /* clear of the exceptions, should one slip through */

    CODE_BYTES_BEFORE = 16,
    CODE_BYTES_AFTER = 16,
};

extern const uint64_t trap_stubs[VECTOR_COUNT];     /* boot/traps.asm */

uint64_t traps_unexpected_count;

static struct idt_gate idt[VECTOR_COUNT];

static const char *const names[VECTOR_EXCEPTION_COUNT] = {
    "divide error", "debug", "NMI", "breakpoint", "overflow", "bound range exceeded", "invalid opcode",
    "device not available", "double fault", "coprocessor segment overrun", "invalid TSS", "segment not present",
    "stack-segment fault", "general protection", "page fault", "reserved", "x87 floating-point error",
    "alignment check", "machine check", "SIMD floating-point exception", "virtualization exception",
    "control protection", "reserved", "reserved", "reserved", "reserved", "reserved", "reserved",
    "hypervisor injection", "VMM communication", "security exception", "reserved",
};

/* ------------------------------------------------------------------------------------------------ the dump */

/* What a page fault was about: the access, and the address if it has a name. */
static void page_fault_describe(const struct trap_frame *frame, uint64_t address)
{
    const char *access = frame->error & BIT(PF_ERROR_ID_BIT)   ? "execute"
                         : frame->error & BIT(PF_ERROR_WR_BIT) ? "write"
                                                               : "read";
    const char *rights = frame->error & BIT(PF_ERROR_RSVD_BIT) ? "a reserved bit is set in its entry"
                         : frame->error & BIT(PF_ERROR_P_BIT)  ? "its page forbids it"
                                                               : "no page is there";
    log_line("  cannot %s 0x%zx: %s", access, (size_t)address, rights);
    if (address < MEMORY_PAGE_BYTES) {
        log_line("  page zero: a NULL pointer");
    }
}

static void stack_overflow_describe(uint64_t address)
{
    enum stack_id id = stack_with_guard(address);
    if (id != STACK_COUNT) {
        log_line("  stack overflow: 0x%zx is in the guard page of the %s stack", (size_t)address, stack_name(id));
    }
}

static void code_dump(uint64_t rip)
{
    char line[(CODE_BYTES_BEFORE + CODE_BYTES_AFTER) * 5 + 1];
    size_t bytes = 0;
    for (uint64_t at = rip - CODE_BYTES_BEFORE; at != rip + CODE_BYTES_AFTER; at++) {
        if (!paging_is_plain(at, 1)) {
            bytes += format(line + bytes, sizeof line - bytes, at == rip ? " <-->" : " --");
        } else {
            bytes += format(line + bytes, sizeof line - bytes, at == rip ? " <%02x>" : " %02x", *(const uint8_t *)at);
        }
    }
    log_line("  code%s", line);
}

static void registers_dump(const struct trap_frame *frame)
{
    log_line("  rax %016lx rbx %016lx rcx %016lx rdx %016lx", frame->rax, frame->rbx, frame->rcx, frame->rdx);
    log_line("  rsi %016lx rdi %016lx rbp %016lx rsp %016lx", frame->rsi, frame->rdi, frame->rbp, frame->rsp);
    log_line("  r8  %016lx r9  %016lx r10 %016lx r11 %016lx", frame->r8, frame->r9, frame->r10, frame->r11);
    log_line("  r12 %016lx r13 %016lx r14 %016lx r15 %016lx", frame->r12, frame->r13, frame->r14, frame->r15);
    log_line("  rip %016lx rflags %08lx cs %02lx ss %02lx cr0 %08lx cr2 %016lx cr3 %08lx cr4 %08lx", frame->rip,
             frame->rflags, frame->cs, frame->ss, cr0_read(), cr2_read(), cr3_read(), cr4_read());
}

static void registers_note(const struct trap_frame *f)
{
    const uint64_t registers[BLACKBOX_REGISTER_COUNT] = {
        f->rax, f->rbx, f->rcx, f->rdx, f->rsi, f->rdi, f->rbp, f->rsp, f->r8, f->r9, f->r10, f->r11, f->r12, f->r13,
        f->r14, f->r15, f->rip, f->rflags, f->cs, f->ss, f->vector, f->error, cr0_read(), cr2_read(), cr3_read(),
        cr4_read(),
    };
    blackbox_note_registers(registers);
}

static void trap_dump(const struct trap_frame *frame)
{
    uint64_t vector = frame->vector;
    registers_note(frame);
    char where[SYMBOL_TEXT_BYTES_MAX];
    symbol_format(where, sizeof where, frame->rip, SYMBOL_EXACT);
    log_line("trap: %s (%lu), error 0x%lx, at 0x%lx %s", names[vector], vector, frame->error, frame->rip, where);
    if (vector == VECTOR_PF) {
        page_fault_describe(frame, cr2_read());
    }
    if (vector == VECTOR_PF || vector == VECTOR_DF) {
        stack_overflow_describe(cr2_read());
    }
    registers_dump(frame);
    code_dump(frame->rip);
    backtrace_log_trap(frame->rip, frame->rsp, frame->rbp);
}

/* ---------------------------------------------------------------------------------------------- entry from the stubs */

static void interrupt_dismiss(void)
{
    traps_unexpected_count++;
    port_out8(PIC2_COMMAND, 0x20);      /* 8259A: non-specific end of interrupt */
    port_out8(PIC1_COMMAND, 0x20);
    apic_end_interrupt();
}

void trap_handle(const struct trap_frame *frame)
{
    if (frame->vector == VECTOR_WAKE) {
        apic_end_interrupt();           /* that it came is all there is to it */
        return;
    }
    if (frame->vector >= VECTOR_EXCEPTION_COUNT) {
        interrupt_dismiss();
        return;
    }
    if (second_cpu_is_me()) {
        second_cpu_trapped(frame);
    }
    if (frame->vector == VECTOR_NMI && watchdog_tick()) {
        return;
    }
    if (reset_speaks_last()) {
        reset_now();
    }
    /* Should CR0.TS be what trapped, the dump's own 16-byte moves would again. */
    __asm__ volatile("clts");
    /* A trap inside the dump must not start the dump again: the second says so, the third does not even try. */
    static unsigned depth;
    console_take_back();
    switch (depth++) {
    case 0:
        trap_dump(frame);
        reset_after_failure(frame->vector == VECTOR_NMI && watchdog_has_fired() ? "watchdog: the loop stood still"
                                                                                : names[frame->vector]);
    case 1:
        blackbox_write(BLACKBOX_FAILED, "a trap inside a trap");    /* first: it may be the log that traps */
        log_line("trap: %s at 0x%lx while handling a trap", names[frame->vector], frame->rip);
        reset_after_failure("a trap inside a trap");
    default:
        reset_now();
    }
}

_Noreturn void trap_of_second(const struct trap_frame *frame, uint64_t address, bool panicked)
{
    __asm__ volatile("mov %0, %%cr2" : : "r"(address));     /* the dump shows the registers of the CPU it runs on */
    trap_dump(frame);
    char cause[64];
    format(cause, sizeof cause, "second CPU: %s", panicked ? "panic" : names[frame->vector]);
    reset_after_failure(cause);
}

/* ------------------------------------------------------------------------------------------------ init */

static uint8_t ist_of(unsigned vector)
{
    switch (vector) {
    case VECTOR_DF: return IST_DOUBLE_FAULT;
    case VECTOR_NMI: return IST_NMI;
    case VECTOR_MC: return IST_MACHINE_CHECK;
    default: return IST_TRAP;           /* none of them returns, so one stack serves them all */
    }
}

/* 8259A data sheet, "Initialization Command Words". Both moved away from the exceptions, then all lines masked. */
static void pic_mask(void)
{
    port_out8(PIC1_COMMAND, PIC_ICW1_INIT_WITH_ICW4);
    port_out8(PIC2_COMMAND, PIC_ICW1_INIT_WITH_ICW4);
    port_out8(PIC1_DATA, PIC1_VECTOR);
    port_out8(PIC2_DATA, PIC2_VECTOR);
    port_out8(PIC1_DATA, 1 << 2);       /* the second hangs on line 2 */
    port_out8(PIC2_DATA, 2);
    port_out8(PIC1_DATA, PIC_ICW4_8086);
    port_out8(PIC2_DATA, PIC_ICW4_8086);
    port_out8(PIC1_DATA, 0xff);
    port_out8(PIC2_DATA, 0xff);
}

static void idt_load(void)
{
    struct descriptor_table pointer = { sizeof idt - 1, (uintptr_t)idt };
    __asm__ volatile("lidt %0" : : "m"(pointer));
}

void traps_init(void)
{
    segments_init();
    for (unsigned vector = 0; vector < VECTOR_COUNT; vector++) {
        uint64_t stub = trap_stubs[vector];
        idt[vector] = (struct idt_gate){
            .offset_low = (uint16_t)stub,
            .offset_middle = (uint16_t)(stub >> 16),
            .offset_high = (uint32_t)(stub >> 32),
            .selector = SELECTOR_CODE,
            .ist = ist_of(vector),
            .type = IDT_TYPE_INTERRUPT_GATE,
        };
    }
    idt_load();
    pic_mask();
}

void traps_init_second(void)
{
    segments_init_second();
    idt_load();
}
