/* kernel/cpu/instructions.h for hosted programs, which get their host's CPUID and may not touch MSRs. Objects that are
 * built for tests/lib/fake_ports.h find this file first; tests/lib/fake_cpu.h is the test's side. */
#pragma once

#include <stdint.h>

struct cpuid {
    uint32_t eax, ebx, ecx, edx;
};
struct cpuid cpuid(uint32_t leaf, uint32_t subleaf);
uint64_t msr_read(uint32_t msr);
void msr_write(uint32_t msr, uint64_t value);
