/* Builds and loads a GDT and a TSS for each CPU. Knows the stacks, and no handler that runs on them. */
#include "kernel/cpu/segments.h"

#include "base/assert.h"
#include "kernel/cpu/stacks.h"
#include "kernel/cpu/x86_spec.h"

/* SDM vol. 3, "Segment Descriptors": code and data of ring 0; a TSS descriptor takes two slots. Each CPU has a table,
 * because a TSS that is loaded is marked busy. */
struct machine_tables {
    struct tss64 tss;
    uint64_t gdt[5];
};

static struct machine_tables first, of_workers[WORKER_COUNT_MAX];

static void load(struct machine_tables *tables)
{
    for (unsigned ist = IST_TRAP; ist <= IST_MACHINE_CHECK; ist++)
        ASSERT(tables->tss.ist[ist - 1] % 16 == 0 && tables->tss.ist[ist - 1] != 0);
    tables->tss.io_map_base = sizeof tables->tss;
    tables->gdt[SELECTOR_CODE / 8] = 0x00af9b000000ffff;
    tables->gdt[SELECTOR_DATA / 8] = 0x00cf93000000ffff;

    /* SDM vol. 3, "TSS Descriptor in 64-bit mode": present, available 64-bit TSS, byte granular. */
    uint64_t base = (uintptr_t)&tables->tss, limit = sizeof tables->tss - 1;
    tables->gdt[SELECTOR_TSS / 8] = limit | (base & 0xffffff) << 16 | UINT64_C(0x89) << 40 | (base >> 24 & 0xff) << 56;
    tables->gdt[SELECTOR_TSS / 8 + 1] = base >> 32;

    struct descriptor_table pointer = { sizeof tables->gdt - 1, (uintptr_t)tables->gdt };
    __asm__ volatile("lgdt %0\n\tltr %w1" : : "m"(pointer), "r"(SELECTOR_TSS) : "memory");
}

void segments_init(void)
{
    first.tss.ist[IST_TRAP - 1] = stack_top(STACK_TRAP);
    first.tss.ist[IST_DOUBLE_FAULT - 1] = stack_top(STACK_DOUBLE_FAULT);
    first.tss.ist[IST_NMI - 1] = stack_top(STACK_NMI);
    first.tss.ist[IST_MACHINE_CHECK - 1] = stack_top(STACK_MACHINE_CHECK);
    load(&first);
}

/* Executes an IRET to the next instruction: after an NMI, the CPU holds back further ones until an IRET (SDM vol. 3,
 * "Handling Multiple NMIs"). The caller stands on the NMI's stack, so the next NMI gets the machine check's. */
void segments_unblock_nmi(void)
{
    first.tss.ist[IST_NMI - 1] = stack_top(STACK_MACHINE_CHECK);
    __asm__ volatile("mov %%rsp, %%rax\n\tpush %0\n\tpush %%rax\n\tpushfq\n\tpush %1\n\tlea 1f(%%rip), %%rax\n\t"
                     "push %%rax\n\tiretq\n1:"
                     :
                     : "i"(SELECTOR_DATA), "i"(SELECTOR_CODE)
                     : "rax", "memory");
}

/* Gives all traps one stack: none of them returns but the timer's, which comes while the worker sleeps. */
void segments_init_worker(uint32_t worker)
{
    ASSERT(worker >= 1 && worker <= WORKER_COUNT_MAX);
    struct machine_tables *tables = &of_workers[worker - 1];
    for (unsigned ist = IST_TRAP; ist <= IST_MACHINE_CHECK; ist++)
        tables->tss.ist[ist - 1] = stack_top_of_worker_trap(worker);
    load(tables);
}
