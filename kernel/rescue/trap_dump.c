/* Says where a trap happened and what stood in the registers. Knows nothing of what happens next. */
#include "kernel/rescue/trap_dump.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/format.h"
#include "base/log.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/stacks.h"
#include "kernel/cpu/x86_spec.h"
#include "kernel/memory/map.h"
#include "kernel/memory/paging.h"
#include "kernel/rescue/backtrace.h"
#include "kernel/rescue/blackbox.h"
#include "kernel/rescue/symbols.h"

enum { CODE_BYTES_BEFORE = 16, CODE_BYTES_AFTER = 16 };

/* Logs the access of a page fault, and the address if it has a name. */
static void page_fault_describe(const struct trap_frame *frame, uint64_t address)
{
    ASSERT(frame->vector == VECTOR_PF);
    const char *access = frame->error & BIT(PF_ERROR_ID_BIT)   ? "execute"
                         : frame->error & BIT(PF_ERROR_WR_BIT) ? "write"
                                                               : "read";
    const char *rights = frame->error & BIT(PF_ERROR_RSVD_BIT) ? "a reserved bit is set in its entry"
                         : frame->error & BIT(PF_ERROR_P_BIT)  ? "its page forbids it"
                                                               : "no page is there";
    log_line("  cannot %s 0x%zx: %s", access, (size_t)address, rights);
    if (address < MEMORY_PAGE_BYTES)
        log_line("  page zero: a NULL pointer");
}

static void stack_overflow_describe(uint64_t address)
{
    const char *name = stack_name_of_guard(address);
    if (name != NULL)
        log_line("  stack overflow: 0x%zx is in the guard page of the %s stack", (size_t)address, name);
}

static void code_dump(uint64_t rip)
{
    char line[(CODE_BYTES_BEFORE + CODE_BYTES_AFTER) * 5 + 1];
    size_t bytes = 0;
    for (uint64_t at = rip - CODE_BYTES_BEFORE; at != rip + CODE_BYTES_AFTER; at++)
        if (!paging_is_readable(at))
            bytes += format(line + bytes, sizeof line - bytes, at == rip ? " <-->" : " --");
        else
            bytes += format(line + bytes, sizeof line - bytes, at == rip ? " <%02x>" : " %02x", *(const uint8_t *)at);
    ASSERT(bytes < sizeof line);
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
        f->rax, f->rbx, f->rcx,    f->rdx,   f->rsi,     f->rdi,     f->rbp,     f->rsp,     f->r8,
        f->r9,  f->r10, f->r11,    f->r12,   f->r13,     f->r14,     f->r15,     f->rip,     f->rflags,
        f->cs,  f->ss,  f->vector, f->error, cr0_read(), cr2_read(), cr3_read(), cr4_read(),
    };
    blackbox_note_registers(registers);
}

void trap_dump(const struct trap_frame *frame)
{
    uint64_t vector = frame->vector;
    ASSERT(vector < VECTOR_EXCEPTION_COUNT);
    registers_note(frame);
    char where[SYMBOL_TEXT_BYTES_MAX];
    symbol_format(where, sizeof where, frame->rip, SYMBOL_EXACT);
    log_line("trap: %s (%lu), error 0x%lx, at 0x%lx %s", trap_name(vector), vector, frame->error, frame->rip, where);
    if (vector == VECTOR_PF)
        page_fault_describe(frame, cr2_read());
    if (vector == VECTOR_PF || vector == VECTOR_DF)
        stack_overflow_describe(cr2_read());
    registers_dump(frame);
    code_dump(frame->rip);
    backtrace_log_trap(frame->rip, frame->rsp, frame->rbp);
}
