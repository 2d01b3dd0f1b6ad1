/* The TSC as a clock: cycles to nanoseconds. kernel/time/tsc_frequency.c finds the frequency. */
#include "kernel/time/clock.h"

#include "base/assert.h"
#include "base/cycles.h"
#include "base/log.h"
#include "kernel/cpu/cpu.h"
#include "kernel/time/tsc_frequency.h"

static struct {
    uint64_t start_cycles, start_ns; /* the clock showed start_ns when the TSC was at start_cycles */
    uint64_t ns_per_cycle_q32;       /* nanoseconds a cycle, 32 fraction bits */
    uint64_t khz;
    const char *source;
} tsc;

static void tsc_set(uint64_t start_cycles, uint64_t start_ns)
{
    ASSERT(tsc.khz != 0);
    tsc.ns_per_cycle_q32 = (UINT64_C(1000000) << 32) / tsc.khz;
    tsc.start_cycles = start_cycles;
    tsc.start_ns = start_ns;
}

bool clock_init(void)
{
    tsc.khz = tsc_frequency_khz(&tsc.source);
    if (tsc.khz == 0) {
        log_line("clock: the machine does not report the TSC's frequency, and has no ACPI timer and no PIT to measure "
                 "it by");
        return false;
    }
    ASSERT(tsc.source != NULL);
    tsc_set(cycles_now(), 0);
    log_line("clock: TSC %zu kHz by %s%s", (size_t)tsc.khz, tsc.source,
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

bool clock_refine(uint32_t khz)
{
    ASSERT(tsc.khz != 0);
    uint64_t apart = khz > tsc.khz ? khz - tsc.khz : tsc.khz - khz;
    if (apart * 100 > tsc.khz) {
        log_line("clock: tsc.khz=%u is not this machine's, keeping %zu", khz, (size_t)tsc.khz);
        return false;
    }
    uint64_t cycles = cycles_now();
    uint64_t now_ns = clock_at_ns(cycles);
    tsc.khz = khz;
    tsc.source = "tsc.khz=";
    tsc_set(cycles, now_ns);
    return true;
}

uint64_t clock_tsc_khz(void) { return tsc.khz; }

const char *clock_source(void) { return tsc.source; }

void clock_spin_us(uint32_t us)
{
    uint64_t until = clock_now_ns() + (uint64_t)us * 1000;
    while (clock_now_ns() < until)
        cpu_pause();
}
