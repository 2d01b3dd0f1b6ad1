/* The TSC's frequency under made-up hypervisors: the places of KVM's leaves, the source that counts, and the changes
 * when the machine moves to another host. kernel/cpu/hypervisor.c and kernel/time/{tsc_frequency,kvmclock,clock}.c.
 *
 * The TSC is this CPU's own. Its frequency is what the fake timers make it: they count by the TSC. */
#include "base/log.h"
#include "base/time.h"
#include "kernel/cpu/cpu.h"
#include "kernel/firmware/acpi.h"
#include "kernel/memory/memory.h"
#include "kernel/time/clock.h"
#include "tests/lib/fake_cpu.h"
#include "tests/lib/fake_ports.h"

/* The state of the one page starts again with each test. */
#include "kernel/time/kvmclock.c"
#include "tests/lib/test.h"

enum {
    TRUE_KHZ = 2000000,
    CLAIMED_KHZ = 3600000,
    PM_PORT = 0x608,
    PM_HZ = 3579545,
    PIT_DATA = 0x42,
    PIT_COMMAND = 0x43,
    PIT_RATE_HZ = 1193182,
    FIRST_BASE = 0x40000000,
};

struct cpu cpu;
static bool has_pm_timer, has_pit;
static uint16_t pit_latch;
static bool pit_high_next;
static struct pvclock_vcpu_time_info host_says; /* written whenever the page is switched on */
static uint64_t log_begin;

struct acpi_register acpi_pm_timer(uint32_t *width_bits)
{
    *width_bits = 24;
    return (struct acpi_register){ has_pm_timer ? ACPI_SPACE_PORT : ACPI_SPACE_NONE, PM_PORT };
}

volatile void *memory_map_device(uint64_t physical, size_t bytes)
{
    (void)physical, (void)bytes;
    fail_msg("the timer is a port");
    return NULL;
}

static uint64_t ticks(uint32_t hz) { return (uint64_t)((unsigned __int128)cycles_now() * hz / TRUE_KHZ / 1000); }

static uint32_t port_value(uint16_t port, uint32_t bytes, uint32_t kept)
{
    (void)bytes;
    if (port == PM_PORT && has_pm_timer)
        return (uint32_t)ticks(PM_HZ) & 0xffffff;
    if (port != PIT_DATA || !has_pit)
        return kept;
    pit_high_next = !pit_high_next;
    return pit_high_next ? pit_latch & 0xff : pit_latch >> 8;
}

static void port_written(uint16_t port, uint32_t bytes, uint32_t value)
{
    (void)bytes, (void)value;
    if (port == PIT_COMMAND)
        pit_latch = (uint16_t)-ticks(PIT_RATE_HZ);
}

static void page_put(void)
{
    host_says.version = page.version + 2;
    memcpy((void *)(uintptr_t)&page, &host_says, sizeof host_says);
}

static void msr_written(uint32_t msr, uint64_t value)
{
    assert_int_equal(msr, MSR_KVM_SYSTEM_TIME_NEW);
    assert_int_equal(value, (uintptr_t)&page | KVM_SYSTEM_TIME_ENABLE);
    page_put();
}

BEFORE_EACH()
{
    fake_cpu_reset();
    fake_cpu_msr_written = msr_written;
    fake_ports_reset(0xff);
    fake_ports_read = port_value;
    fake_ports_written = port_written;
    memset((void *)(uintptr_t)&page, 0, sizeof page);
    memset(&noted, 0, sizeof noted);
    memset(&hypervisor, 0, sizeof hypervisor);
    host_says = (struct pvclock_vcpu_time_info){ .tsc_to_system_mul = UINT32_C(1) << 31 }; /* half a ns a cycle */
    has_pm_timer = has_pit = true;
    pit_high_next = false;
    cpu.tsc_invariant = true;
    log_begin = log_end();
}

static bool logged(const char *text)
{
    char line[LOG_LINE_BYTES_MAX];
    for (uint64_t at = log_begin; log_read(&at, line) != 0;)
        if (strstr(line, text) != NULL)
            return true;
    return false;
}

static void add_hypervisor(uint32_t base, uint32_t leaf_max, const char name[13])
{
    struct cpuid r = { .eax = leaf_max };
    memcpy(&r.ebx, name, 4);
    memcpy(&r.ecx, name + 4, 4);
    memcpy(&r.edx, name + 8, 4);
    fake_cpu_leaf(base, r);
}

static void add_kvm(uint32_t base)
{
    add_hypervisor(base, base + 1, "KVMKVMKVM\0\0\0");
    fake_cpu_leaf(base + 1, (struct cpuid){ .eax = BIT(KVM_FEATURE_CLOCKSOURCE2_BIT) });
}

/* Adds CPUID 0x15 of a CPU at CLAIMED_KHZ: a crystal of 25 MHz times 288 / 2. */
static void add_claim(void)
{
    fake_cpu_leaf(0, (struct cpuid){ .eax = 0x16 });
    fake_cpu_leaf(0x15, (struct cpuid){ 2, 288, 25000000, 0 });
}

static void expect_clock(const char *source, uint64_t khz)
{
    assert_true(clock_init());
    assert_string_equal(clock_source(), source);
    assert_in_range(clock_tsc_khz(), khz - khz / 200, khz + khz / 200);
}

TEST(kvm_is_found_behind_the_leaves_of_hyperv)
{
    add_claim();
    add_hypervisor(FIRST_BASE, 0x40000006, "Microsoft Hv");
    add_kvm(0x40000100);
    hypervisor_find();
    assert_string_equal(hypervisor.name, "KVMKVMKVM");
    expect_clock("kvmclock", TRUE_KHZ);
}

TEST(kvm_is_found_at_the_last_place)
{
    add_hypervisor(FIRST_BASE, 0x40000006, "Microsoft Hv");
    add_kvm(0x4000ff00);
    hypervisor_find();
    expect_clock("kvmclock", TRUE_KHZ);
}

TEST(leaf_of_the_timing_lies_at_the_base_of_kvm)
{
    add_hypervisor(FIRST_BASE, 0x40000010, "Microsoft Hv");
    fake_cpu_leaf(0x40000010, (struct cpuid){ .eax = 1234567 });
    add_hypervisor(0x40000200, 0x40000210, "KVMKVMKVM\0\0\0");
    fake_cpu_leaf(0x40000210, (struct cpuid){ .eax = TRUE_KHZ });
    hypervisor_find();
    expect_clock("hypervisor leaf", TRUE_KHZ);
}

TEST(hypervisor_without_kvm_is_named_by_its_first_leaf)
{
    add_hypervisor(FIRST_BASE, 0x40000010, "VMwareVMware");
    fake_cpu_leaf(0x40000010, (struct cpuid){ .eax = TRUE_KHZ });
    hypervisor_find();
    assert_string_equal(hypervisor.name, "VMwareVMware");
    expect_clock("hypervisor leaf", TRUE_KHZ);
}

TEST(old_kvm_with_zero_for_its_last_leaf_has_two)
{
    add_hypervisor(FIRST_BASE, 0, "KVMKVMKVM\0\0\0");
    fake_cpu_leaf(FIRST_BASE + 1, (struct cpuid){ .eax = BIT(KVM_FEATURE_CLOCKSOURCE2_BIT) });
    fake_cpu_leaf(FIRST_BASE + 0x10, (struct cpuid){ .eax = 1234567 });
    hypervisor_find();
    expect_clock("kvmclock", TRUE_KHZ);
}

TEST(frequency_that_no_cpu_has_is_not_believed)
{
    add_kvm(FIRST_BASE);
    host_says.tsc_to_system_mul = 1;
    hypervisor_find();
    expect_clock("acpi pm timer", TRUE_KHZ);
}

TEST(claim_of_cpuid_that_the_timer_contradicts_does_not_count)
{
    add_claim();
    expect_clock("acpi pm timer", TRUE_KHZ);
    assert_true(logged("CPUID 0x15 says 3600000 kHz, but the acpi pm timer "));
    assert_true(clock_refine(TRUE_KHZ));
    assert_int_equal(clock_tsc_khz(), TRUE_KHZ);
    assert_false(clock_refine(CLAIMED_KHZ));
}

TEST(claim_of_cpuid_is_checked_by_the_pit_where_there_is_no_pm_timer)
{
    add_claim();
    has_pm_timer = false;
    expect_clock("pit", TRUE_KHZ);
    assert_true(logged("CPUID 0x15 says 3600000 kHz, but the pit "));
}

TEST(claim_of_cpuid_that_the_timer_confirms_counts_to_the_last_digit)
{
    fake_cpu_leaf(0, (struct cpuid){ .eax = 0x16 });
    fake_cpu_leaf(0x15, (struct cpuid){ 1, 80, 25000123, 0 });
    expect_clock("cpuid 0x15", 2000009);
    assert_int_equal(clock_tsc_khz(), 2000009);
    assert_false(logged("says"));
    assert_false(clock_refine(CLAIMED_KHZ));
}

TEST(claim_of_leaf_0x16_is_checked_as_well)
{
    fake_cpu_leaf(0, (struct cpuid){ .eax = 0x16 });
    fake_cpu_leaf(0x15, (struct cpuid){ 2, 288, 0, 0 }); /* no crystal */
    fake_cpu_leaf(0x16, (struct cpuid){ .eax = CLAIMED_KHZ / 1000 });
    expect_clock("acpi pm timer", TRUE_KHZ);
}

TEST(claim_of_cpuid_without_a_timer_gives_way_to_the_measurement_of_linux)
{
    add_claim();
    has_pm_timer = has_pit = false;
    expect_clock("cpuid 0x15", CLAIMED_KHZ);
    assert_true(logged("which nothing confirms"));
    assert_true(clock_refine(TRUE_KHZ));
    assert_int_equal(clock_tsc_khz(), TRUE_KHZ);
    assert_true(logged("tsc.khz=2000000 counts, as Linux measured it; cpuid 0x15 says 3600000 kHz"));
    assert_false(clock_refine(CLAIMED_KHZ)); /* the settings have the key once; the measurement is certain */
}

TEST(machine_without_any_source_has_no_clock)
{
    has_pm_timer = has_pit = false;
    assert_false(clock_init());
}

TEST(change_of_the_page_without_a_change_of_scale_is_silent)
{
    uint64_t ns;
    add_kvm(FIRST_BASE);
    hypervisor_find();
    expect_clock("kvmclock", TRUE_KHZ);
    log_begin = log_end();
    clock_follow_host();
    page_put();
    clock_follow_host();
    assert_true(kvmclock_now_ns(&ns)); /* has the page written */
    clock_follow_host();
    assert_int_equal(log_end(), log_begin);
    assert_int_equal(clock_tsc_khz(), TRUE_KHZ);
}

TEST(another_host_has_another_scale_and_time_goes_on_without_a_step)
{
    add_kvm(FIRST_BASE);
    hypervisor_find();
    expect_clock("kvmclock", TRUE_KHZ);
    host_says.tsc_to_system_mul = UINT32_C(1) << 30; /* 4 GHz */
    page_put();
    uint64_t before_ns = clock_now_ns();
    clock_follow_host();
    uint64_t after_ns = clock_now_ns();
    assert_in_range(after_ns, before_ns, before_ns + NS_PER_S);
    assert_int_equal(clock_tsc_khz(), 4000000);
    assert_true(logged("clock: TSC 4000000 kHz by kvmclock, 2000000 before: the host is another one"));
    uint64_t cycles = cycles_now();
    assert_int_equal(clock_at_ns(cycles + 4000) - clock_at_ns(cycles), 1000);
    log_begin = log_end();
    clock_follow_host();
    assert_int_equal(log_end(), log_begin);
}

TEST(scale_that_changes_between_two_readings_of_others_is_noticed)
{
    uint64_t ns;
    add_kvm(FIRST_BASE);
    hypervisor_find();
    expect_clock("kvmclock", TRUE_KHZ);
    host_says.tsc_to_system_mul = UINT32_C(1) << 30;
    assert_true(kvmclock_now_ns(&ns)); /* the comparison of each minute comes first */
    clock_follow_host();
    assert_int_equal(clock_tsc_khz(), 4000000);
}

TEST(host_that_stopped_the_machine_is_logged_once)
{
    add_kvm(FIRST_BASE);
    hypervisor_find();
    expect_clock("kvmclock", TRUE_KHZ);
    host_says.flags = BIT(PVCLOCK_GUEST_STOPPED_BIT);
    page_put();
    clock_follow_host();
    assert_true(logged("clock: the host stopped this machine, and let it go on"));
    assert_int_equal(page.flags, 0);
    log_begin = log_end();
    host_says.flags = 0;
    page_put();
    clock_follow_host();
    assert_int_equal(log_end(), log_begin);
}

TEST(page_that_is_being_written_is_not_read)
{
    add_kvm(FIRST_BASE);
    hypervisor_find();
    expect_clock("kvmclock", TRUE_KHZ);
    host_says.tsc_to_system_mul = UINT32_C(1) << 30;
    page_put();
    page.version++;
    clock_follow_host();
    assert_int_equal(clock_tsc_khz(), TRUE_KHZ);
    page.version++;
    clock_follow_host();
    assert_int_equal(clock_tsc_khz(), 4000000);
}

TEST(encrypted_memory_is_named)
{
    assert_null(hypervisor_memory_encryption());
    fake_cpu_leaf(0, (struct cpuid){ .eax = 0x21 });
    assert_null(hypervisor_memory_encryption());
    fake_cpu_leaf(0x80000000, (struct cpuid){ .eax = 0x8000001f });
    fake_cpu_leaf(0x8000001f, (struct cpuid){ .eax = 1 << 1 });
    fake_cpu_msr(0xc0010131, 0); /* the CPU could, and does not */
    assert_null(hypervisor_memory_encryption());
    test_before_each();
    fake_cpu_leaf(0x80000000, (struct cpuid){ .eax = 0x8000001f });
    fake_cpu_leaf(0x8000001f, (struct cpuid){ .eax = 1 << 1 });
    fake_cpu_msr(0xc0010131, 1);
    assert_string_equal(hypervisor_memory_encryption(), "SEV");
    test_before_each();
    struct cpuid tdx = { 0 };
    memcpy(&tdx.ebx, "Inte", 4);
    memcpy(&tdx.edx, "lTDX", 4);
    memcpy(&tdx.ecx, "    ", 4);
    fake_cpu_leaf(0, (struct cpuid){ .eax = 0x21 });
    fake_cpu_leaf(0x21, tdx);
    assert_string_equal(hypervisor_memory_encryption(), "TDX");
}
