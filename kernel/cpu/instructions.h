/* The instructions of ring 0, and those that a hypervisor answers in a guest. tests/lib/fake_ports/ has the same for
 * hosted tests. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kernel/cpu/x86_spec.h"

struct cpuid {
    uint32_t eax, ebx, ecx, edx;
};

static inline struct cpuid cpuid(uint32_t leaf, uint32_t subleaf)
{
    struct cpuid r;
    __asm__ volatile("cpuid" : "=a"(r.eax), "=b"(r.ebx), "=c"(r.ecx), "=d"(r.edx) : "a"(leaf), "c"(subleaf));
    return r;
}

static inline uint64_t msr_read(uint32_t msr)
{
    uint32_t low, high;
    __asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr));
    return (uint64_t)high << 32 | low;
}

static inline void msr_write(uint32_t msr, uint64_t value)
{
    __asm__ volatile("wrmsr" : : "c"(msr), "a"((uint32_t)value), "d"((uint32_t)(value >> 32)) : "memory");
}

static inline void cr3_write(uint64_t v) { __asm__ volatile("mov %0, %%cr3" : : "r"(v) : "memory"); }
static inline uint64_t cr4_read(void)
{
    uint64_t v;
    __asm__ volatile("mov %%cr4, %0" : "=r"(v));
    return v;
}
static inline void cr4_write(uint64_t v) { __asm__ volatile("mov %0, %%cr4" : : "r"(v) : "memory"); }

static inline void xcr0_write(uint64_t value)
{
    __asm__ volatile("xsetbv" : : "c"(0), "a"((uint32_t)value), "d"((uint32_t)(value >> 32)));
}
static inline void idt_load(const struct descriptor_table *table) { __asm__ volatile("lidt %0" : : "m"(*table)); }

/* Draws a word of the CPU's generator. Returns false if there is none yet. rdseed does, too. */
static inline bool rdrand(uint64_t *word)
{
    bool good;
    __asm__ volatile("rdrand %0" : "=r"(*word), "=@ccc"(good));
    return good;
}
static inline bool rdseed(uint64_t *word)
{
    bool good;
    __asm__ volatile("rdseed %0" : "=r"(*word), "=@ccc"(good));
    return good;
}
