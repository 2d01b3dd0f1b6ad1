/* The TSC as a clock: cycles to nanoseconds. kernel/time/tsc_frequency.c finds the frequency. */
#include "kernel/time/clock.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/cycles.h"
#include "base/log.h"
#include "base/time.h"
#include "kernel/cpu/cpu.h"
#include "kernel/time/kvmclock.h"
#include "kernel/time/tsc_frequency.h"

#define TURN_NS_MAX NS_PER_MS /* hardly any turn is longer */

static struct {
    uint64_t start_cycles, start_ns; /* the clock showed start_ns when the TSC was at start_cycles */
    uint64_t ns_per_cycle_q32;       /* nanoseconds a cycle, 32 fraction bits */
    struct tsc_frequency frequency;
} tsc;

static void tsc_set(uint64_t start_cycles, uint64_t start_ns)
{
    ASSERT(tsc.frequency.khz != 0);
    tsc.ns_per_cycle_q32 = (UINT64_C(1000000) << 32) / tsc.frequency.khz;
    tsc.start_cycles = start_cycles;
    tsc.start_ns = start_ns;
}

bool clock_init(void)
{
    tsc.frequency = tsc_frequency_find();
    if (tsc.frequency.khz == 0) {
        log_line("clock: the machine does not report the TSC's frequency, and has no ACPI timer and no PIT to measure "
                 "it by");
        return false;
    }
    ASSERT(tsc.frequency.source != NULL);
    tsc_set(cycles_now(), 0);
    log_line("clock: TSC %zu kHz by %s%s%s", (size_t)tsc.frequency.khz, tsc.frequency.source,
             tsc.frequency.certain ? "" : ", which nothing confirms",
             cpu.tsc_invariant ? "" : ", not said to be invariant");
    return true;
}

/* Converts a difference of cycles_now() readings to ns. */
static uint64_t from_cycles_ns(uint64_t cycles)
{
    return (uint64_t)((unsigned __int128)cycles * tsc.ns_per_cycle_q32 >> 32);
}

uint64_t clock_at_ns(uint64_t cycles) { return tsc.start_ns + from_cycles_ns(cycles - tsc.start_cycles); }

uint64_t clock_now_ns(void) { return clock_at_ns(cycles_now()); }

/* Goes on, if the TSC has gone back, after all times that the last turn may have read. That turn has read the TSC for
 * less time than is missing now, so a host whose CPUs are a little out of step makes the clock hardly faster. */
uint64_t clock_turn_ns(uint64_t cycles, uint64_t *last_cycles)
{
    ASSERT(tsc.frequency.khz != 0);
    if (__builtin_expect(cycles < *last_cycles, 0)) {
        const uint64_t back_ns = from_cycles_ns(*last_cycles - cycles) + 1;
        tsc_set(cycles, clock_at_ns(*last_cycles) + min_u64(back_ns, TURN_NS_MAX));
        if (back_ns >= TURN_NS_MAX)
            log_line("clock: the TSC went back by %zu us; time goes on", (size_t)(back_ns / NS_PER_US));
    }
    *last_cycles = cycles;
    return clock_at_ns(cycles);
}

/* Goes on with another frequency, without a step. */
static void frequency_change(uint64_t khz, const char *source)
{
    uint64_t cycles = cycles_now();
    uint64_t now_ns = clock_at_ns(cycles);
    tsc.frequency = (struct tsc_frequency){ khz, source, true };
    tsc_set(cycles, now_ns);
}

bool clock_refine(uint32_t khz)
{
    const uint64_t here_khz = tsc.frequency.khz;
    ASSERT(here_khz != 0);
    uint64_t apart = khz > here_khz ? khz - here_khz : here_khz - khz;
    if (apart * 100 > here_khz && tsc.frequency.certain) {
        log_line("clock: tsc.khz=%u is not this machine's, keeping %zu", khz, (size_t)here_khz);
        return false;
    }
    if (apart * 100 > here_khz)
        log_line("clock: tsc.khz=%u counts, as Linux measured it; %s says %zu kHz", khz, tsc.frequency.source,
                 (size_t)here_khz);
    frequency_change(khz, "tsc.khz=");
    return true;
}

void clock_follow_host(void)
{
    struct kvmclock_change change;
    if (!kvmclock_changed(&change))
        return;
    ASSERT(tsc.frequency.khz != 0);
    if (change.stopped)
        log_line("clock: the host stopped this machine, and let it go on");
    if (change.khz != 0) {
        log_line("clock: TSC %zu kHz by kvmclock, %zu before: the host is another one", (size_t)change.khz,
                 (size_t)tsc.frequency.khz);
        frequency_change(change.khz, "kvmclock");
    }
}

uint64_t clock_tsc_khz(void) { return tsc.frequency.khz; }

const char *clock_source(void) { return tsc.frequency.source; }

void clock_spin_us(uint32_t us)
{
    uint64_t until = clock_now_ns() + (uint64_t)us * 1000;
    while (clock_now_ns() < until)
        cpu_pause();
}
