/* The processor: what it offers, what of it is switched on, and its few instructions that C lacks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kernel/cpu/instructions.h"

struct cpu {
    char vendor[13]; /* "GenuineIntel" */
    char model[49];
    uint32_t leaf_max;
    uint32_t address_bits; /* physical */
    uint32_t thread_bits;  /* an APIC id's lowest bits, which number a core's threads; 0: none */
    bool gib_pages, tsc_invariant, rdrand, rdseed;
    uint64_t xcr0; /* state that is switched on; 0 without XSAVE */
    /* The CPU has these vectors, and their state is switched on. AVX2 with BMI2; AVX-512 is F, BW, VL and DQ. */
    bool avx2, avx512;
};

/* Valid after cpu_init. */
extern struct cpu cpu;

/* Reads CPUID, then switches on every SIMD state that exists, SMEP, SMAP and UMIP. Executes no SIMD itself: all but the
 * variants of matcher and digest is built for general registers (tools/workshop/make/image.mk), except memcpy's plain
 * moves.
 *
 * `plain` (simd=scalar) is for a hypervisor that interprets the kernel's instructions and knows few of them: no state
 * beyond SSE is switched on, and RDRAND and RDSEED count as missing. */
void cpu_init(bool plain);
void cpu_report(void);

/* Switches on, on another CPU, the same state as on the first, whose CR4 is `cr4`. */
void cpu_init_worker(uint64_t cr4);

static inline uint64_t cr0_read(void)
{
    uint64_t v;
    __asm__ volatile("mov %%cr0, %0" : "=r"(v));
    return v;
}
static inline uint64_t cr2_read(void)
{
    uint64_t v;
    __asm__ volatile("mov %%cr2, %0" : "=r"(v));
    return v;
}
static inline uint64_t cr3_read(void)
{
    uint64_t v;
    __asm__ volatile("mov %%cr3, %0" : "=r"(v));
    return v;
}

/* Tells the core that this is a loop that waits. */
static inline void cpu_pause(void) { __asm__ volatile("pause"); }

/* Stops this CPU; only an NMI, a machine check or a reset from outside comes through. */
static inline _Noreturn void cpu_stop(void)
{
    for (;;)
        __asm__ volatile("cli\n\thlt");
}

/* Raises an exception without handlers: no machine survives it. */
_Noreturn void cpu_triple_fault(void);
