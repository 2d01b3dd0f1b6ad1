/* The CPUID leaves, the MSRs and the control registers of a unit test. */
#pragma once

#include "tests/lib/fake_ports/kernel/cpu/instructions.h"

/* Forgets all leaves and registers, and the function. */
void fake_cpu_reset(void);

/* Sets subleaf 0 of a leaf; others read as zeros. */
void fake_cpu_leaf(uint32_t leaf, struct cpuid value);

/* Sets the value that an MSR reads as. A read of any other ends the test: it would be a trap. */
void fake_cpu_msr(uint32_t msr, uint64_t value);

/* Is called for each write of an MSR. May be NULL. */
extern void (*fake_cpu_msr_written)(uint32_t msr, uint64_t value);

/* The registers as they were written last; the generator's words come from `draw`. */
extern struct fake_cpu {
    uint64_t cr3, cr4, xcr0;
    struct descriptor_table idt;
    bool (*draw)(bool seed, uint64_t *word);
} fake_cpu;
