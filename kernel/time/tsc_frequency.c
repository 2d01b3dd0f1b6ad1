/* Asks the hypervisor for the TSC's frequency; else measures it against the ACPI PM timer or the PIT.
 *
 * CPUID's own leaves are more exact than a measurement, and may be wrong: a host that scales its guest's TSC may show
 * the leaves of the host's CPU. They count if they agree with the measurement, or if there is no timer. */
#include "kernel/time/tsc_frequency.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/cycles.h"
#include "base/log.h"
#include "kernel/cpu/hypervisor.h"
#include "kernel/cpu/ports.h"
#include "kernel/firmware/acpi_spec.h"
#include "kernel/time/kvmclock.h"
#include "kernel/time/pm_timer.h"

enum {
    /* SDM vol. 2, CPUID */
    CPUID_TSC = 0x15,
    CPUID_FREQUENCY = 0x16,

    /* lkml.org/lkml/2008/10/1/246, "Leaf 0x40000010, Timing Information": EAX is the virtual TSC's kHz */
    HYPERVISOR_TIMING = 0x10,

    /* Intel 8254 data sheet; port 0x61 is the PC/AT's "system control port B" */
    PIT_CHANNEL2 = 0x42,
    PIT_CONTROL = 0x43,
    PIT_CHANNEL2_MODE2 = 0xb4, /* channel 2, low then high byte, rate generator */
    PIT_LATCH_CHANNEL2 = 0x80,
    PIT_HZ = 1193182,
    SYSTEM_CONTROL_B = 0x61,
    SYSTEM_CONTROL_B_GATE2 = 0x01,
    SYSTEM_CONTROL_B_SPEAKER = 0x02,

    TSC_KHZ_MIN = 100000, /* no x86-64 lies outside, as for tsc.khz= */
    TSC_KHZ_MAX = 10000000,
};

/* ---- reported ---- */

static uint64_t khz_of_hypervisor_leaf(void)
{
    bool knows = hypervisor_is(HYPERVISOR_KVM) || hypervisor_is(HYPERVISOR_VMWARE);
    return knows ? hypervisor_leaf(HYPERVISOR_TIMING).eax : 0;
}

/* Computes crystal Hz (ECX) * EBX / EAX, SDM vol. 2, CPUID leaf 0x15. CPUs that do not report the crystal have the base
 * frequency of leaf 0x16 as the TSC's (SDM vol. 3, "Determining the Processor Base Frequency"). */
static uint64_t khz_of_cpuid(void)
{
    const uint32_t leaf_max = cpuid(0, 0).eax;
    if (leaf_max < CPUID_TSC)
        return 0;
    struct cpuid ratio = cpuid(CPUID_TSC, 0);
    if (ratio.eax == 0 || ratio.ebx == 0)
        return 0;
    if (ratio.ecx != 0)
        return (uint64_t)ratio.ecx * ratio.ebx / ratio.eax / 1000;
    return leaf_max >= CPUID_FREQUENCY ? (uint64_t)(cpuid(CPUID_FREQUENCY, 0).eax & 0xffff) * 1000 : 0;
}

/* ---- measured ---- */

/* A counter that goes up at a known rate. */
struct counter_clock {
    uint32_t (*read)(void);
    uint32_t mask;
    uint32_t hz;
};

enum {
    MEASURE_MS = 20, /* a reading is good to 1 us at either end: 100 ppm */
    MEASURE_AGREE_PPM = 500,
    CLAIM_AGREE_PPM = 10000, /* as clock_refine: a scaled TSC differs by more than 1 % */
    MEASURE_TRIES_MAX = 8,   /* a host that takes the CPU away spoils one; two must agree */
    READING_TRIES = 8,
    STUCK_READS_MAX = 1000000, /* about a second of reads: a counter that stands is no timer */
};

static uint32_t pit_read(void)
{
    port_out8(PIT_CONTROL, PIT_LATCH_CHANNEL2);
    uint32_t low = port_in8(PIT_CHANNEL2);
    return -(low | (uint32_t)port_in8(PIT_CHANNEL2) << 8); /* the counter counts down */
}

static void pit_start(void)
{
    uint8_t control = port_in8(SYSTEM_CONTROL_B);
    port_out8(SYSTEM_CONTROL_B, (uint8_t)((control & ~SYSTEM_CONTROL_B_SPEAKER) | SYSTEM_CONTROL_B_GATE2));
    port_out8(PIT_CONTROL, PIT_CHANNEL2_MODE2);
    port_out8(PIT_CHANNEL2, 0); /* 65536: 54.9 ms to the wrap, longer than a measurement */
    port_out8(PIT_CHANNEL2, 0);
}

struct reading {
    uint64_t cycles;
    uint32_t count;
};

/* Reads both clocks at one moment: takes the shortest of several readings. */
static struct reading reading_take(const struct counter_clock *counter)
{
    ASSERT(counter->read != NULL);
    struct reading best = { 0 };
    uint64_t best_width = UINT64_MAX;
    for (int i = 0; i < READING_TRIES; i++) {
        uint64_t before = cycles_now();
        uint32_t count = counter->read();
        uint64_t width = cycles_now() - before;
        if (width < best_width) {
            best_width = width;
            best = (struct reading){ before + width / 2, count };
        }
    }
    return best;
}

/* Measures once, in kHz. Returns 0 when the counter stands still. */
static uint64_t khz_measure_once(const struct counter_clock *counter)
{
    uint32_t wanted = counter->hz / 1000 * MEASURE_MS;
    ASSERT(wanted != 0 && wanted < counter->mask);
    struct reading first = reading_take(counter);
    uint32_t last = first.count, stuck = 0;
    for (;;) {
        uint32_t now = counter->read();
        if (((now - first.count) & counter->mask) >= wanted)
            break;
        stuck = now == last ? stuck + 1 : 0;
        if (stuck == STUCK_READS_MAX)
            return 0;
        last = now;
    }
    struct reading second = reading_take(counter);
    uint64_t ticks = (second.count - first.count) & counter->mask;
    return ticks == 0 ? 0 : (second.cycles - first.cycles) * counter->hz / ticks / 1000;
}

static bool agree(uint64_t a_khz, uint64_t b_khz, uint32_t ppm)
{
    return (a_khz > b_khz ? a_khz - b_khz : b_khz - a_khz) * 1000000 <= b_khz * ppm;
}

/* Measures until two results agree. On a host too busy for that, the last one is as good as any. */
static uint64_t khz_measure(const struct counter_clock *counter, bool *settled)
{
    ASSERT(counter->hz != 0 && counter->mask != 0);
    uint64_t before = khz_measure_once(counter);
    for (int i = 0; before != 0 && i < MEASURE_TRIES_MAX; i++) {
        uint64_t khz = khz_measure_once(counter);
        *settled = khz != 0 && agree(khz, before, MEASURE_AGREE_PPM);
        if (*settled)
            return (khz + before) / 2;
        before = khz;
    }
    return before;
}

static struct tsc_frequency measured(bool *settled)
{
    uint32_t mask = pm_timer_open();
    uint64_t khz = 0;
    *settled = false;
    if (mask != 0)
        khz = khz_measure(&(struct counter_clock){ pm_timer_read, mask, PM_TIMER_HZ }, settled);
    if (khz != 0)
        return (struct tsc_frequency){ khz, "acpi pm timer", true };
    pit_start();
    khz = khz_measure(&(struct counter_clock){ pit_read, 0xffff, PIT_HZ }, settled);
    return (struct tsc_frequency){ khz, "pit", true };
}

/* ---- the choice ---- */

static bool is_plausible(uint64_t khz) { return khz >= TSC_KHZ_MIN && khz <= TSC_KHZ_MAX; }

struct tsc_frequency tsc_frequency_find(void)
{
    static const struct {
        uint64_t (*khz)(void);
        const char *name;
    } hypervisors[] = { { khz_of_hypervisor_leaf, "hypervisor leaf" }, { kvmclock_tsc_khz, "kvmclock" } };
    for (size_t i = 0; i < ARRAY_COUNT(hypervisors); i++) {
        uint64_t khz = hypervisors[i].khz();
        if (is_plausible(khz))
            return (struct tsc_frequency){ khz, hypervisors[i].name, true };
    }
    bool settled;
    const struct tsc_frequency timer = measured(&settled);
    const uint64_t claimed_khz = khz_of_cpuid();
    if (!is_plausible(claimed_khz))
        return timer;
    ASSERT(claimed_khz != 0);
    if (!settled || agree(claimed_khz, timer.khz, CLAIM_AGREE_PPM))
        return (struct tsc_frequency){ claimed_khz, "cpuid 0x15", settled };
    log_line("clock: CPUID 0x15 says %zu kHz, but the %s %zu kHz; the timer counts", (size_t)claimed_khz, timer.source,
             (size_t)timer.khz);
    return timer;
}
