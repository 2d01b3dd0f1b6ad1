/* Reads CPUID and switches on what it offers. Names no feature that nobody uses. */
#include "kernel/cpu/cpu.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/vectors.h"
#include "kernel/cpu/hypervisor.h"
#include "kernel/cpu/x86_spec.h"

/* SDM vol. 2, CPUID */
enum {
    CPUID_1_EDX_MCE_BIT = 7,
    CPUID_1_ECX_XSAVE_BIT = 26,
    CPUID_1_ECX_RDRAND_BIT = 30,
    CPUID_1_ECX_HYPERVISOR_BIT = 31, /* always 0 in Intel's manual; hypervisors set this bit */
    CPUID_7_EBX_AVX2_BIT = 5,
    CPUID_7_EBX_SMEP_BIT = 7,
    CPUID_7_EBX_BMI2_BIT = 8,
    CPUID_7_EBX_AVX512F_BIT = 16,
    CPUID_7_EBX_AVX512DQ_BIT = 17,
    CPUID_7_EBX_RDSEED_BIT = 18,
    CPUID_7_EBX_SMAP_BIT = 20,
    CPUID_7_EBX_AVX512BW_BIT = 30,
    CPUID_7_EBX_AVX512VL_BIT = 31,
    CPUID_7_ECX_UMIP_BIT = 2,
    CPUID_TOPOLOGY = 0xb,
    CPUID_B_EAX_SHIFT_MASK = 0x1f,   /* the shift of an x2APIC id to the next level's id */
    CPUID_B_EBX_COUNT_MASK = 0xffff, /* 0: the leaf says nothing */
    CPUID_B_ECX_LEVEL_BIT = 8,       /* to 15: the level's type */
    CPUID_B_LEVEL_THREADS = 1,
    CPUID_80000001_EDX_PAGE1GB_BIT = 26,
    CPUID_80000007_EDX_INVARIANT_TSC_BIT = 8,
    CPUID_EXTENDED_STATE = 0xd,

    ADDRESS_BITS_DEFAULT = 36, /* SDM vol. 3, "Enumeration of Paging Features by CPUID": without leaf 0x80000008 */
    ADDRESS_BITS_MAX = 52,
};
#define CPUID_EXTENDED UINT32_C(0x80000000)

struct cpu cpu;

static bool all_set(uint64_t value, uint64_t bits) { return (value & bits) == bits; }

static void take_names(uint32_t extended_max)
{
    struct cpuid r = cpuid(0, 0);
    memcpy(cpu.vendor, &r.ebx, 4);
    memcpy(cpu.vendor + 4, &r.edx, 4);
    memcpy(cpu.vendor + 8, &r.ecx, 4);
    for (uint32_t i = 0; i < 3 && extended_max >= CPUID_EXTENDED + 4; i++) {
        r = cpuid(CPUID_EXTENDED + 2 + i, 0);
        memcpy(cpu.model + 16 * i, &r, 16);
    }
}

/* SDM vol. 1, "Enabling the XSAVE Feature Set": OSXSAVE first, then XCR0. AVX needs SSE, and the three parts of AVX-512
 * come together. */
static void enable_vector_state(struct cpuid leaf_7)
{
    cr4_write(cr4_read() | BIT(CR4_OSXSAVE_BIT));
    struct cpuid offered = cpuid(CPUID_EXTENDED_STATE, 0);
    const uint64_t avx = BIT(XCR0_AVX_BIT);
    const uint64_t avx512 = BIT(XCR0_OPMASK_BIT) | BIT(XCR0_ZMM_HI256_BIT) | BIT(XCR0_HI16_ZMM_BIT);
    cpu.xcr0 = BIT(XCR0_X87_BIT) | BIT(XCR0_SSE_BIT);
    cpu.xcr0 |= offered.eax & avx;
    cpu.xcr0 |= all_set(offered.eax, avx | avx512) ? avx512 : 0;
    ASSERT(!(cpu.xcr0 & avx512) || all_set(cpu.xcr0, avx | avx512)); /* anything else is a general protection fault */
    xcr0_write(cpu.xcr0);

    cpu.avx2 = all_set(cpu.xcr0, avx) && all_set(leaf_7.ebx, BIT(CPUID_7_EBX_AVX2_BIT) | BIT(CPUID_7_EBX_BMI2_BIT));
    cpu.avx512 = cpu.avx2 && all_set(cpu.xcr0, avx512)
                 && all_set(leaf_7.ebx, BIT(CPUID_7_EBX_AVX512F_BIT) | BIT(CPUID_7_EBX_AVX512DQ_BIT)
                                            | BIT(CPUID_7_EBX_AVX512BW_BIT) | BIT(CPUID_7_EBX_AVX512VL_BIT));
}

/* Returns how many bits of an APIC id number the hyperthreads of a core. SDM vol. 3, "Hierarchical Mapping of CPUID
 * Extended Topology Leaf". */
static uint32_t thread_bits(void)
{
    if (cpu.leaf_max < CPUID_TOPOLOGY)
        return 0;
    struct cpuid r = cpuid(CPUID_TOPOLOGY, 0);
    bool reported = r.ebx & CPUID_B_EBX_COUNT_MASK && (r.ecx >> CPUID_B_ECX_LEVEL_BIT & 0xff) == CPUID_B_LEVEL_THREADS;
    return reported ? r.eax & CPUID_B_EAX_SHIFT_MASK : 0;
}

/* Switches on what the kernel wants of CR4, as far as the CPU has it. */
static void enable_protection(struct cpuid leaf_1, struct cpuid leaf_7)
{
    uint64_t wanted = 0;
    wanted |= leaf_1.edx & BIT(CPUID_1_EDX_MCE_BIT) ? BIT(CR4_MCE_BIT)
                                                    : 0; /* without it a machine check is a shutdown */
    /* There are no user pages: SMEP and SMAP cost nothing and would catch a U bit set by mistake. */
    wanted |= leaf_7.ebx & BIT(CPUID_7_EBX_SMEP_BIT) ? BIT(CR4_SMEP_BIT) : 0;
    wanted |= leaf_7.ebx & BIT(CPUID_7_EBX_SMAP_BIT) ? BIT(CR4_SMAP_BIT) : 0;
    wanted |= leaf_7.ecx & BIT(CPUID_7_ECX_UMIP_BIT) ? BIT(CR4_UMIP_BIT) : 0;
    cr4_write(cr4_read() | wanted);
    ASSERT(all_set(cr4_read(), wanted));
}

static uint32_t address_bits(uint32_t extended_max)
{
    uint32_t bits = extended_max >= CPUID_EXTENDED + 8 ? cpuid(CPUID_EXTENDED + 8, 0).eax & 0xff : ADDRESS_BITS_DEFAULT;
    return min_u32(bits, ADDRESS_BITS_MAX);
}

void cpu_init(bool plain)
{
    uint32_t extended_max = cpuid(CPUID_EXTENDED, 0).eax;
    struct cpuid leaf_1 = cpuid(1, 0), leaf_7 = { 0 };
    cpu.leaf_max = cpuid(0, 0).eax;
    if (cpu.leaf_max >= 7)
        leaf_7 = cpuid(7, 0);
    take_names(extended_max);
    if (leaf_1.ecx & BIT(CPUID_1_ECX_HYPERVISOR_BIT))
        hypervisor_find();
    cpu.gib_pages = cpuid(CPUID_EXTENDED + 1, 0).edx & BIT(CPUID_80000001_EDX_PAGE1GB_BIT);
    cpu.tsc_invariant = extended_max >= CPUID_EXTENDED + 7
                        && cpuid(CPUID_EXTENDED + 7, 0).edx & BIT(CPUID_80000007_EDX_INVARIANT_TSC_BIT);
    cpu.address_bits = address_bits(extended_max);
    cpu.thread_bits = thread_bits();
    cpu.rdrand = !plain && leaf_1.ecx & BIT(CPUID_1_ECX_RDRAND_BIT);
    cpu.rdseed = !plain && leaf_7.ebx & BIT(CPUID_7_EBX_RDSEED_BIT);
    if (!plain && leaf_1.ecx & BIT(CPUID_1_ECX_XSAVE_BIT) && cpu.leaf_max >= CPUID_EXTENDED_STATE)
        enable_vector_state(leaf_7);
    vectors_set_state(cpu.xcr0);
    enable_protection(leaf_1, leaf_7);
    ASSERT(cpu.avx2 || !cpu.avx512);
    ASSERT(cpu.address_bits <= ADDRESS_BITS_MAX);
}

void cpu_init_worker(uint64_t cr4)
{
    cr4_write(cr4);
    if (cpu.xcr0 != 0)
        xcr0_write(cpu.xcr0);
}

void cpu_report(void)
{
    log_line("cpu: %s, hypervisor %s, xcr0 0x%zx%s%s%s%s%s", cpu.model[0] ? cpu.model : cpu.vendor,
             hypervisor.name[0] ? hypervisor.name : "none", (size_t)cpu.xcr0, cpu.avx2 ? ", avx2" : "",
             cpu.avx512 ? ", avx512" : "", cpu.gib_pages ? ", 1 GiB pages" : "", cpu.rdseed ? ", rdseed" : "",
             cpu.rdrand ? ", rdrand" : "");
}

_Noreturn void cpu_triple_fault(void)
{
    static const struct descriptor_table no_idt;
    for (;;)
        __asm__ volatile("lidt %0\n\tint3" : : "m"(no_idt));
}
