/* Reads the page that KVM fills in, and believes it only when its version says that it is whole.
 *
 * Each reading switches the page on again, which makes KVM write it: the time in it is then the host's of this moment.
 * The page stays on. After a migration or a pause KVM writes it by itself, and the version shows that. */
#include "kernel/time/kvmclock.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/cycles.h"
#include "base/time.h"
#include "kernel/cpu/hypervisor.h"

enum {
    HYPERVISOR_KVM_FEATURES = 1,
    KVM_FEATURE_CLOCKSOURCE2_BIT = 3,
    MSR_KVM_WALL_CLOCK_NEW = 0x4b564d00,
    MSR_KVM_SYSTEM_TIME_NEW = 0x4b564d01,
    KVM_SYSTEM_TIME_ENABLE = 1,
    PVCLOCK_GUEST_STOPPED_BIT = 1,
    READS_MAX = 1000,
};

/* The page that the MSR names. `version` is odd while the hypervisor writes. */
struct pvclock_vcpu_time_info {
    uint32_t version, pad0;
    uint64_t tsc_timestamp, system_time;
    uint32_t tsc_to_system_mul; /* ns = (cycles << tsc_shift) * mul >> 32 */
    int8_t tsc_shift;
    uint8_t flags, pad[2];
};
static_assert(sizeof(struct pvclock_vcpu_time_info) == 32, "Linux arch/x86/include/asm/pvclock-abi.h");

struct pvclock_wall_clock { /* the wall clock at system_time 0 */
    uint32_t version, sec, nsec;
};
static_assert(sizeof(struct pvclock_wall_clock) == 12, "Linux arch/x86/include/asm/pvclock-abi.h");

static bool present(void)
{
    return hypervisor_is(HYPERVISOR_KVM)
           && hypervisor_leaf(HYPERVISOR_KVM_FEATURES).eax & BIT(KVM_FEATURE_CLOCKSOURCE2_BIT);
}

static volatile struct pvclock_vcpu_time_info page __attribute__((aligned(64)));

/* The state that kvmclock_changed compares with: of the first reading, or of the last change. */
static struct {
    uint32_t version, tsc_to_system_mul;
    int8_t tsc_shift;
} noted;

/* Copies a whole state of the page, and reads the TSC at that time. */
static bool copy(struct pvclock_vcpu_time_info *out, uint64_t *cycles)
{
    bool whole = false;
    ASSERT(out != NULL && cycles != NULL);
    for (int i = 0; i < READS_MAX && !whole; i++) {
        uint32_t version = page.version;
        *out = (struct pvclock_vcpu_time_info){
            .version = version,
            .tsc_timestamp = page.tsc_timestamp,
            .system_time = page.system_time,
            .tsc_to_system_mul = page.tsc_to_system_mul,
            .tsc_shift = page.tsc_shift,
            .flags = page.flags,
        };
        *cycles = cycles_now(); /* RDTSCP is not everywhere, least of all where instructions are interpreted */
        whole = version % 2 == 0 && version == page.version;
    }
    return whole && out->tsc_to_system_mul != 0 && out->tsc_shift >= -31 && out->tsc_shift <= 31;
}

static void note(const struct pvclock_vcpu_time_info *info)
{
    noted.version = info->version;
    noted.tsc_to_system_mul = info->tsc_to_system_mul;
    noted.tsc_shift = info->tsc_shift;
}

/* Has the page written, and copies it. */
static bool read(struct pvclock_vcpu_time_info *out, uint64_t *cycles)
{
    if (!present())
        return false;
    msr_write(MSR_KVM_SYSTEM_TIME_NEW, (uintptr_t)&page | KVM_SYSTEM_TIME_ENABLE);
    if (!copy(out, cycles))
        return false;
    if (noted.tsc_to_system_mul == 0)
        note(out);
    return true;
}

static uint64_t khz_of(const struct pvclock_vcpu_time_info *info)
{
    ASSERT(info->tsc_to_system_mul != 0);
    /* 1 ms is 10^6 ns = (khz << shift) * mul >> 32. */
    uint64_t khz_shifted = (UINT64_C(1000000) << 32) / info->tsc_to_system_mul;
    return info->tsc_shift < 0 ? khz_shifted << -info->tsc_shift : khz_shifted >> info->tsc_shift;
}

uint64_t kvmclock_tsc_khz(void)
{
    struct pvclock_vcpu_time_info info;
    uint64_t cycles;
    return read(&info, &cycles) ? khz_of(&info) : 0;
}

bool kvmclock_changed(struct kvmclock_change *change)
{
    struct pvclock_vcpu_time_info info;
    uint64_t cycles;
    if (page.version == noted.version || !copy(&info, &cycles))
        return false;
    ASSERT(info.version % 2 == 0);
    bool rescaled = info.tsc_to_system_mul != noted.tsc_to_system_mul || info.tsc_shift != noted.tsc_shift;
    *change = (struct kvmclock_change){
        .stopped = info.flags & BIT(PVCLOCK_GUEST_STOPPED_BIT),
        .khz = rescaled ? khz_of(&info) : 0,
    };
    if (change->stopped) /* KVM keeps it until the guest clears it */
        page.flags &= (uint8_t)~BIT(PVCLOCK_GUEST_STOPPED_BIT);
    note(&info);
    return change->stopped || rescaled;
}

bool kvmclock_now_ns(uint64_t *ns)
{
    struct pvclock_vcpu_time_info info;
    uint64_t cycles;
    if (!read(&info, &cycles))
        return false;
    ASSERT(info.tsc_shift >= -31 && info.tsc_shift <= 31);
    uint64_t since = cycles - info.tsc_timestamp;
    since = info.tsc_shift < 0 ? since >> -info.tsc_shift : since << info.tsc_shift;
    *ns = info.system_time + (uint64_t)((unsigned __int128)since * info.tsc_to_system_mul >> 32);
    return true;
}

bool kvmclock_wall_ns(uint64_t *ns)
{
    static volatile struct pvclock_wall_clock wall __attribute__((aligned(64)));
    uint64_t now_ns;
    if (!kvmclock_now_ns(&now_ns))
        return false;
    msr_write(MSR_KVM_WALL_CLOCK_NEW, (uintptr_t)&wall); /* written within the exit, once */
    *ns = wall.sec * NS_PER_S + wall.nsec + now_ns;
    return wall.sec != 0 && wall.version % 2 == 0;
}
