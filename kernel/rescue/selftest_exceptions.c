/* Every exception there is. The CPU raises those that ring 0 can cause; `vector-N` hands the gate of vector N a
 * frame as the CPU would have made it. */
#include "kernel/rescue/selftest.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/segments.h"
#include "kernel/cpu/x86_spec.h"

enum {
    SELECTOR_ABSENT = 0x28, /* after kernel/cpu/segments.c's own */
    GDT_COUNT = SELECTOR_ABSENT / 8 + 1,
    /* SDM vol. 1, "x87 FPU Control Word": the default of FNINIT without the zero-divide mask */
    FPU_CONTROL_UNMASK_ZE = 0x37b,
};

/* The vectors that push an error code, as in boot/traps.asm. SDM vol. 3, "Protected-Mode Exceptions and Interrupts". */
#define VECTORS_WITH_ERROR                                                                                             \
    (BIT(8) | BIT(10) | BIT(11) | BIT(12) | BIT(13) | BIT(14) | BIT(17) | BIT(21) | BIT(29) | BIT(30))

/* A GDT that can be changed: the kernel's, then a data segment whose P bit is clear. */
static uint64_t gdt[GDT_COUNT];

static void gdt_replace(void)
{
    struct descriptor_table table;
    __asm__ volatile("sgdt %0" : "=m"(table));
    memcpy(gdt, (const void *)table.base, min_size(table.limit + 1u, sizeof gdt));
    gdt[SELECTOR_ABSENT / 8] = 0x00cf13000000ffff;
    table = (struct descriptor_table){ sizeof gdt - 1, (uintptr_t)gdt };
    __asm__ volatile("lgdt %0" : : "m"(table));
}

static __attribute__((noinline)) void trap_debug(void) /* single step: RFLAGS.TF */
{
    __asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tnop" : : : "memory", "cc");
}

static __attribute__((noinline)) void trap_breakpoint(void) { __asm__ volatile("int3"); }

/* Raises the exception of INTO, which is gone in 64-bit mode. */
static __attribute__((noinline)) void trap_overflow(void) { __asm__ volatile("int $4"); }

static __attribute__((noinline)) void trap_bound(void) { __asm__ volatile("int $5"); } /* BOUND is gone too */

static __attribute__((noinline)) void trap_device(void) /* CR0.TS says that the FPU's state is another task's */
{
    __asm__ volatile("mov %%cr0, %%rax\n\tor $8, %%rax\n\tmov %%rax, %%cr0\n\tfnop" : : : "rax", "memory");
}

/* Shortens the TSS, so that the NMI's stack lies past its limit and the fault's within. SDM vol. 3, "Interrupt 10". */
static __attribute__((noinline)) void trap_tss(void)
{
    const unsigned at = SELECTOR_TSS / 8;
    gdt_replace();
    gdt[at] = (gdt[at] & ~(UINT64_C(0xffff) | UINT64_C(0xf) << 40)) | UINT64_C(0x9) << 40
              | (offsetof(struct tss64, ist[IST_NMI - 1]) - 1);
    __asm__ volatile("ltr %w0\n\tint $2" : : "r"(SELECTOR_TSS) : "memory");
}

static __attribute__((noinline)) void trap_segment(void)
{
    gdt_replace();
    __asm__ volatile("mov %w0, %%ds" : : "r"(SELECTOR_ABSENT));
}

static __attribute__((noinline)) void trap_stack_segment(void)
{
    gdt_replace();
    __asm__ volatile("mov %w0, %%ss" : : "r"(SELECTOR_ABSENT));
}

static __attribute__((noinline)) void trap_general(void) /* an address that is not canonical */
{
    volatile uint64_t *volatile at = (uint64_t *)UINT64_C(0x8000000000000000);
    *at;
}

static __attribute__((noinline)) void trap_x87(void)
{
    uint16_t control = FPU_CONTROL_UNMASK_ZE;
    __asm__ volatile("fninit\n\tfldcw %0\n\tfld1\n\tfldz\n\tfdivrp\n\tfwait" : : "m"(control) : "memory");
}

/* Pushes the frame of SDM vol. 3, "64-Bit Mode Stack Frame": aligned, then SS, RSP, RFLAGS, CS, RIP and perhaps an
 * error code. */
static __attribute__((noinline)) void trap_vector(unsigned vector)
{
    ASSERT(vector < VECTOR_EXCEPTION_COUNT);
    struct descriptor_table idt;
    __asm__ volatile("sidt %0" : "=m"(idt));
    const struct idt_gate *gate = (const struct idt_gate *)idt.base + vector;
    uint64_t handler = gate->offset_low | (uint64_t)gate->offset_middle << 16 | (uint64_t)gate->offset_high << 32;
    uint64_t has_error = VECTORS_WITH_ERROR >> vector & 1;
    __asm__ volatile("mov %%rsp, %%rax\n\tand $-16, %%rsp\n\t"
                     "push %2\n\tpush %%rax\n\tpushfq\n\tpush %3\n\tlea 1f(%%rip), %%rax\n\tpush %%rax\n\t"
                     "test %1, %1\n\tjz 2f\n\tpush $0\n2:\tjmp *%0\n1:\tud2"
                     :
                     : "r"(handler), "r"(has_error), "i"(SELECTOR_DATA), "i"(SELECTOR_CODE)
                     : "rax", "memory", "cc");
}

static const struct {
    const char *word;
    void (*fail)(void);
} exceptions[] = {
    { "debug", trap_debug },       { "breakpoint", trap_breakpoint },
    { "overflow", trap_overflow }, { "bound", trap_bound },
    { "device", trap_device },     { "tss", trap_tss },
    { "segment", trap_segment },   { "stack-segment", trap_stack_segment },
    { "general", trap_general },   { "x87", trap_x87 },
};

/* Parses "vector-0" to "vector-31". */
static bool vector_parse(const char *word, unsigned *vector)
{
    static const char head[] = "vector-";
    if (strncmp(word, head, sizeof head - 1) != 0)
        return false;
    const char *at = word + sizeof head - 1;
    *vector = 0;
    do {
        if (*at < '0' || *at > '9')
            return false;
        *vector = *vector * 10 + (unsigned)(*at++ - '0');
    } while (*at != '\0' && *vector < VECTOR_EXCEPTION_COUNT);
    return *vector < VECTOR_EXCEPTION_COUNT;
}

bool selftest_exception(const char *word)
{
    unsigned vector;
    if (vector_parse(word, &vector)) {
        trap_vector(vector);
        return true;
    }
    for (size_t i = 0; i < ARRAY_COUNT(exceptions); i++) {
        if (strcmp(word, exceptions[i].word) == 0) {
            exceptions[i].fail();
            return true;
        }
    }
    return false;
}
