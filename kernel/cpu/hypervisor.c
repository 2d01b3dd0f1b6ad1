/* Reads the leaves that hypervisors add to CPUID, and those that tell a machine with encrypted memory.
 *
 * A hypervisor has its leaves at 0x40000000. One that imitates another puts the other's leaves there, and its own
 * 0x100 or more higher. KVM has its leaves at 0x40000100 if it offers Windows those of Hyper-V. */
#include "kernel/cpu/hypervisor.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

enum {
    /* Linux Documentation/virt/kvm/x86/cpuid.rst; arch/x86/include/asm/cpuid: where guests look. */
    CPUID_HYPERVISOR = 0x40000000,
    CPUID_HYPERVISOR_END = 0x40010000,
    CPUID_HYPERVISOR_STEP = 0x100,

    /* SDM vol. 2, and Intel TDX Module 1.5 ABI, "CPUID Virtualization" */
    CPUID_TDX = 0x21,

    /* AMD64 Architecture Programmer's Manual vol. 3, Fn8000_001F, and vol. 2, "SEV_STATUS MSR" */
    CPUID_8000001F_EAX_SEV_BIT = 1,
    SEV_STATUS_ENABLED_BIT = 0,
};
#define CPUID_EXTENDED       UINT32_C(0x80000000)
#define CPUID_ENCRYPTION     UINT32_C(0x8000001f)
#define MSR_AMD64_SEV_STATUS UINT32_C(0xc0010131)

struct hypervisor hypervisor;

static struct hypervisor hypervisor_at(uint32_t base)
{
    struct cpuid r = cpuid(base, 0);
    /* Old KVM puts 0 into EAX and means the second leaf (Linux Documentation/virt/kvm/x86/cpuid.rst). */
    struct hypervisor found = { .base = base, .leaf_max = r.eax > base ? r.eax : base + 1 };
    memcpy(found.name, &r.ebx, 4);
    memcpy(found.name + 4, &r.ecx, 4);
    memcpy(found.name + 8, &r.edx, 4);
    return found;
}

void hypervisor_find(void)
{
    hypervisor = hypervisor_at(CPUID_HYPERVISOR);
    for (uint32_t base = CPUID_HYPERVISOR; base < CPUID_HYPERVISOR_END && !hypervisor_is(HYPERVISOR_KVM);
         base += CPUID_HYPERVISOR_STEP) {
        struct hypervisor found = hypervisor_at(base);
        if (strcmp(found.name, HYPERVISOR_KVM) == 0)
            hypervisor = found;
    }
    ASSERT(hypervisor.leaf_max > hypervisor.base);
}

bool hypervisor_is(const char *name) { return strcmp(hypervisor.name, name) == 0; }

struct cpuid hypervisor_leaf(uint32_t number)
{
    ASSERT(number > 0);
    if (number > hypervisor.leaf_max - hypervisor.base)
        return (struct cpuid){ 0 };
    return cpuid(hypervisor.base + number, 0);
}

const char *hypervisor_memory_encryption(void)
{
    if (cpuid(0, 0).eax >= CPUID_TDX) {
        struct cpuid r = cpuid(CPUID_TDX, 0);
        const uint32_t name[] = { r.ebx, r.edx, r.ecx };
        if (memcmp(name, "IntelTDX    ", sizeof name) == 0)
            return "TDX";
    }
    if (cpuid(CPUID_EXTENDED, 0).eax >= CPUID_ENCRYPTION
        && cpuid(CPUID_ENCRYPTION, 0).eax & BIT(CPUID_8000001F_EAX_SEV_BIT)
        && msr_read(MSR_AMD64_SEV_STATUS) & BIT(SEV_STATUS_ENABLED_BIT))
        return "SEV";
    return NULL;
}
