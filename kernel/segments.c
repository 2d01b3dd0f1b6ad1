#include "kernel/segments.h"

#include "kernel/stacks.h"
#include "kernel/x86_spec.h"

static struct tss64 tss;

/* SDM vol. 3 §3.4.5: code and data of ring 0; the TSS descriptor takes two slots. */
static uint64_t gdt[5] = {
    [SELECTOR_CODE / 8] = 0x00af9b000000ffff,
    [SELECTOR_DATA / 8] = 0x00cf93000000ffff,
};

void segments_init(void)
{
    tss.ist[IST_TRAP - 1] = stack_top(STACK_TRAP);
    tss.ist[IST_DOUBLE_FAULT - 1] = stack_top(STACK_DOUBLE_FAULT);
    tss.ist[IST_NMI - 1] = stack_top(STACK_NMI);
    tss.ist[IST_MACHINE_CHECK - 1] = stack_top(STACK_MACHINE_CHECK);
    tss.io_map_base = sizeof tss;

    /* SDM vol. 3 §7.2.3, "TSS Descriptor in 64-bit mode": present, available 64-bit TSS, byte granular. */
    uint64_t base = (uintptr_t)&tss, limit = sizeof tss - 1;
    gdt[SELECTOR_TSS / 8] = limit | (base & 0xffffff) << 16 | UINT64_C(0x89) << 40 | (base >> 24 & 0xff) << 56;
    gdt[SELECTOR_TSS / 8 + 1] = base >> 32;

    struct descriptor_table pointer = { sizeof gdt - 1, (uintptr_t)gdt };
    __asm__ volatile("lgdt %0\n\tltr %w1" : : "m"(pointer), "r"(SELECTOR_TSS) : "memory");
}
