/* kernel/cpu/instructions.h for hosted programs, which get their host's CPUID and may not touch MSRs. Objects that are
 * built for tests/lib/fake_ports.h find this file first; tests/lib/fake_cpu.h is the test's side. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kernel/cpu/x86_spec.h"

struct cpuid {
    uint32_t eax, ebx, ecx, edx;
};
struct cpuid cpuid(uint32_t leaf, uint32_t subleaf);
uint64_t msr_read(uint32_t msr);
void msr_write(uint32_t msr, uint64_t value);
uint64_t cr4_read(void);
void cr4_write(uint64_t value);
void cr3_write(uint64_t value);
void xcr0_write(uint64_t value);
void idt_load(const struct descriptor_table *table);
bool rdrand(uint64_t *word);
bool rdseed(uint64_t *word);
