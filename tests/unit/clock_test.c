/* The TSC's frequency under made-up hypervisors: the places of KVM's leaves, the source that counts, and the changes
 * when the machine moves to another host. kernel/cpu/hypervisor.c and kernel/time/{tsc_frequency,kvmclock,clock}.c.
 *
 * The TSC is this CPU's own. Its frequency is what the fake timers make it: they count by the TSC. */
#include "kernel/cpu/cpu.h"
#include "kernel/firmware/acpi.h"
#include "kernel/memory/memory.h"
#include "kernel/time/clock.h"
#include "tests/lib/fake_cpu.h"
#include "tests/lib/fake_ports.h"
#include "tests/lib/logged.h"

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
/* The PM timer's count from which on its rate rises, by 0.7 % in 20 ms. 0: never. */
static uint64_t drift_from;
static uint16_t pit_latch;
static int pit_loads, reads; /* counted: bytes of the count; reads of any port */
static bool pit_high_next;
static struct pvclock_vcpu_time_info host_says;  /* written whenever the page is switched on */
static struct pvclock_wall_clock host_says_wall; /* written when it is asked for */
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
    reads++;
    if (port == PM_PORT && has_pm_timer) {
        const uint64_t count = ticks(PM_HZ), since = drift_from == 0 ? 0 : count - drift_from;
        return (uint32_t)(count + since * since / (20 * 1000 * 1000)) & 0xffffff;
    }
    if (port != PIT_DATA || !has_pit || pit_loads != 2)
        return kept;
    pit_high_next = !pit_high_next;
    return pit_high_next ? pit_latch & 0xff : pit_latch >> 8;
}

static void port_written(uint16_t port, uint32_t bytes, uint32_t value)
{
    (void)bytes, (void)value;
    if (port == PIT_COMMAND)
        pit_latch = (uint16_t)-ticks(PIT_RATE_HZ);
    pit_loads += port == PIT_DATA;
}

static void page_put(void)
{
    host_says.version = page.version + 2;
    memcpy((void *)(uintptr_t)&page, &host_says, sizeof host_says);
}

static void msr_written(uint32_t msr, uint64_t value)
{
    if (msr == MSR_KVM_WALL_CLOCK_NEW) { /* the guest's physical address, at a multiple of 4 */
        assert_int_equal(value % 4, 0);
        memcpy((void *)(uintptr_t)value, &host_says_wall, sizeof host_says_wall);
        return;
    }
    assert_int_equal(msr, MSR_KVM_SYSTEM_TIME_NEW);
    assert_int_equal(value, (uintptr_t)&page | KVM_SYSTEM_TIME_ENABLE);
    page_put();
}

static void msr_unknown(uint32_t msr, uint64_t value)
{
    (void)value;
    fail_msg("MSR %#x is not there", msr);
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
    host_says_wall = (struct pvclock_wall_clock){ 2, 1700000000, 999999999 };
    has_pm_timer = has_pit = true;
    drift_from = 0;
    pit_high_next = false;
    pit_loads = reads = 0;
    cpu.tsc_invariant = true;
    log_begin = log_end();
}

static bool logged(const char *text) { return lines_logged(log_begin, text) > 0; }

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

static void find_kvm(void)
{
    add_kvm(FIRST_BASE);
    hypervisor_find();
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
    assert_int_equal(fake_ports[0x61], 0xfd); /* the counter's gate is open, the speaker is off */
    assert_true(logged("CPUID 0x15 says 3600000 kHz, but the pit "));
    assert_false(clock_refine(CLAIMED_KHZ));
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

TEST(measurements_that_never_agree_count_only_where_there_is_no_claim)
{
    drift_from = ticks(PM_HZ);
    assert_true(clock_init());
    assert_string_equal(clock_source(), "acpi pm timer");
    assert_in_range(clock_tsc_khz(), 1, TRUE_KHZ - TRUE_KHZ / 100); /* the last one's */
    add_claim();
    drift_from = ticks(PM_HZ);
    expect_clock("cpuid 0x15", CLAIMED_KHZ);
    assert_true(logged("which nothing confirms"));
}

/* SDM vol. 2, CPUID leaf 0x15: the ratio is not enumerated if EBX is 0, and EAX divides. */
TEST(claim_without_a_ratio_is_none)
{
    static const struct cpuid ratios[] = { { 2, 0, 0, 0 }, { 0, 288, 25000000, 0 } };
    has_pm_timer = has_pit = false;
    for (size_t i = 0; i < ARRAY_COUNT(ratios); i++) {
        fake_cpu_reset();
        fake_cpu_leaf(0, (struct cpuid){ .eax = 0x16 });
        fake_cpu_leaf(0x15, ratios[i]);
        fake_cpu_leaf(0x16, (struct cpuid){ .eax = CLAIMED_KHZ / 1000 });
        assert_false(clock_init());
    }
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
    assert_true(reads > 2 * 1000000); /* two a count: a timer may be slow */
}

TEST(change_of_the_page_without_a_change_of_scale_is_silent)
{
    uint64_t ns;
    find_kvm();
    expect_clock("kvmclock", TRUE_KHZ);
    log_begin = log_end();
    clock_follow_host();
    page_put();
    clock_follow_host();
    assert_true(kvmclock_now_ns(&ns)); /* has the page written */
    clock_follow_host();
    assert_int_equal(log_end(), log_begin);
    assert_int_equal(clock_tsc_khz(), TRUE_KHZ);
    assert_false(clock_refine(TRUE_KHZ + TRUE_KHZ / 100 + 1)); /* 1 % is this machine still */
    assert_true(clock_refine(TRUE_KHZ + TRUE_KHZ / 100));
}

TEST(another_host_has_another_scale_and_time_goes_on_without_a_step)
{
    find_kvm();
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
    find_kvm();
    expect_clock("kvmclock", TRUE_KHZ);
    host_says.tsc_to_system_mul = UINT32_C(1) << 30;
    assert_true(kvmclock_now_ns(&ns)); /* the comparison of each minute comes first */
    clock_follow_host();
    assert_int_equal(clock_tsc_khz(), 4000000);
}

TEST(time_goes_on_when_the_tsc_goes_back)
{
    expect_clock("acpi pm timer", TRUE_KHZ);
    uint64_t last_cycles = cycles_now(), back_cycles = 100;
    for (int i = 0; i < 3; i++, back_cycles = last_cycles / (i == 1 ? 1000 : 2)) {
        const uint64_t ns = clock_at_ns(last_cycles + 99);
        assert_in_range(clock_turn_ns(last_cycles - back_cycles, &last_cycles), ns, ns + 1 + NS_PER_MS);
        assert_int_equal(logged("clock: the TSC went back by"), i > 0);
    }
}

TEST(host_that_stopped_the_machine_is_logged_once)
{
    find_kvm();
    expect_clock("kvmclock", TRUE_KHZ);
    host_says.flags = BIT(PVCLOCK_GUEST_STOPPED_BIT);
    page_put();
    clock_follow_host();
    assert_true(logged("clock: the host stopped this machine, and let it go on"));
    assert_int_equal(clock_tsc_khz(), TRUE_KHZ);
    assert_int_equal(page.flags, 0);
    log_begin = log_end();
    host_says.flags = 0;
    page_put();
    clock_follow_host();
    assert_int_equal(log_end(), log_begin);
}

TEST(page_that_is_being_written_is_not_read)
{
    find_kvm();
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

/* Linux Documentation/virt/kvm/x86/msr.rst, MSR_KVM_SYSTEM_TIME_NEW: the steps from cycles to nanoseconds. */
TEST(time_of_the_host_is_that_of_the_page_and_the_cycles_since)
{
    static const struct {
        int8_t shift;
        uint64_t ns;
    } rows[] = { { 0, 500 }, { 1, 1000 }, { -1, 250 } };
    const uint64_t since_cycles = UINT64_C(1000000000) * NS_PER_S;
    uint64_t ns;
    find_kvm();
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        host_says.tsc_shift = rows[i].shift;
        host_says.system_time = 7 * NS_PER_S;
        host_says.tsc_timestamp = cycles_now() - since_cycles;
        assert_true(kvmclock_now_ns(&ns));
        const uint64_t least_ns = host_says.system_time + since_cycles / 1000 * rows[i].ns;
        assert_in_range(ns, least_ns, least_ns + 10 * NS_PER_S);
    }
}

/* Linux Documentation/virt/kvm/x86/msr.rst, MSR_KVM_WALL_CLOCK_NEW: the page has the wall clock of the start, to which
 * the time since is added. */
TEST(wall_clock_is_that_of_the_start_and_the_time_since)
{
    uint64_t before_ns, ns, after_ns;
    find_kvm();
    host_says.system_time = 7 * NS_PER_S;
    host_says.tsc_timestamp = cycles_now();
    assert_true(kvmclock_now_ns(&before_ns));
    assert_true(kvmclock_wall_ns(&ns));
    assert_true(kvmclock_now_ns(&after_ns));
    const uint64_t start_ns = 1700000000 * NS_PER_S + 999999999;
    assert_in_range(ns, start_ns + before_ns, start_ns + after_ns);
    host_says_wall.version++; /* the host is writing */
    assert_false(kvmclock_wall_ns(&ns));
    host_says_wall = (struct pvclock_wall_clock){ .version = 2 }; /* a host that does not know the time */
    assert_false(kvmclock_wall_ns(&ns));
}

/* A write of an MSR that is not there is a trap. */
TEST(without_kvmclock_neither_page_is_asked_for)
{
    uint64_t ns;
    fake_cpu_msr_written = msr_unknown;
    for (int i = 0; i < 2; i++) {
        hypervisor_find();
        assert_int_equal(kvmclock_tsc_khz(), 0);
        assert_false(kvmclock_now_ns(&ns));
        assert_false(kvmclock_wall_ns(&ns));
        add_hypervisor(FIRST_BASE, FIRST_BASE + 1, "KVMKVMKVM\0\0\0"); /* without the feature */
    }
}

TEST(shift_of_more_than_the_word_gives_no_time)
{
    uint64_t ns;
    find_kvm();
    for (int shift = -32; shift <= 32; shift++) {
        host_says.tsc_shift = (int8_t)shift;
        assert_int_equal(kvmclock_now_ns(&ns), shift > -32 && shift < 32);
    }
}

TEST(page_that_is_never_whole_gives_no_time)
{
    uint64_t ns;
    find_kvm();
    page.version = 1; /* odd: the host is writing, and page_put keeps it */
    assert_false(kvmclock_now_ns(&ns));
    assert_false(kvmclock_wall_ns(&ns));
    assert_int_equal(kvmclock_tsc_khz(), 0);
}

TEST(spin_lasts_at_least_its_time)
{
    expect_clock("acpi pm timer", TRUE_KHZ);
    const uint64_t before_ns = clock_now_ns();
    clock_spin_us(100);
    assert_in_range(clock_now_ns() - before_ns, 100 * NS_PER_US, UINT64_MAX);
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
