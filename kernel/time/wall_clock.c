/* Reads the time of day once and compares the TSC with a second clock. Knows no time zone and no leap second. */
#include "kernel/time/wall_clock.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/time.h"
#include "base/utc.h"
#include "kernel/cpu/ports.h"
#include "kernel/firmware/acpi.h"
#include "kernel/firmware/acpi_spec.h"
#include "kernel/time/clock.h"
#include "kernel/time/kvmclock.h"
#include "kernel/time/pm_timer.h"
#include "kernel/time/rtc.h"

enum {
    PORT_RTC_INDEX = 0x70, /* bit 7 would mask NMIs; it stays clear */
    PORT_RTC_DATA = 0x71,
    PM_READS = 4,
};
#define RTC_HALF_SECOND_NS UINT64_C(500000000) /* half of the current second has passed on average */

/* The clock that the TSC is compared with, its last reading, and its ticks since the start. */
enum reference { REFERENCE_NONE, REFERENCE_KVMCLOCK, REFERENCE_PM_TIMER };
static struct {
    enum reference kind;
    uint64_t pm_mask;
    uint64_t begin_tsc_ns, begin_ns;
    uint64_t tsc_ns, count, ticks; /* the PM timer: its last reading, and all its ticks so far */
} reference;

/* The TSC's clock against the reference, since the start. */
#define WALL_COUNTERS(X) X(LEVEL, compared_ns), X(LEVEL, ahead_ns), X(LEVEL, behind_ns)
static struct {
    uint64_t WALL_COUNTERS(COUNTER_MEMBER);
} wall_counters;
const struct counter_group wall_clock_counter_group = COUNTER_GROUP("clock.", "Clocks", WALL_COUNTERS, wall_counters);

static uint8_t rtc_port_read(uint8_t index)
{
    port_out8(PORT_RTC_INDEX, index);
    return port_in8(PORT_RTC_DATA);
}

static void reference_begin(void);
static uint64_t wall_error_ns;

uint64_t wall_clock_error_ns(void) { return wall_error_ns; }

void wall_clock_init(void)
{
    ASSERT(clock_tsc_khz() != 0);
    const char *source = "kvmclock";
    uint64_t now_ns = 0;
    if (!kvmclock_wall_ns(&now_ns)) {
        source = "rtc, to half a second";
        if (rtc_read(rtc_port_read, acpi_rtc_century(), &now_ns)) {
            now_ns += RTC_HALF_SECOND_NS;
            wall_error_ns = RTC_HALF_SECOND_NS;
        }
    }
    if (now_ns != 0) {
        char text[UTC_TEXT_BYTES + 1];
        utc_format(text, now_ns);
        log_wall_origin_ns = now_ns - clock_now_ns();
        log_line("time: %s by %s", text, source);
    } else {
        log_line("time: not known, there is neither a kvmclock nor an RTC");
    }
    reference_begin();
}

/* ---- the comparison ---- */

/* Reads timer and TSC at one moment: takes the shortest of several readings. */
static uint64_t pm_sample(uint64_t *tsc_ns)
{
    ASSERT(reference.pm_mask != 0);
    uint64_t best = UINT64_MAX, count = 0;
    for (int i = 0; i < PM_READS; i++) {
        uint64_t before_ns = clock_now_ns(), now = pm_timer_read(), width_ns = clock_now_ns() - before_ns;
        if (width_ns < best) {
            best = width_ns;
            count = now;
            *tsc_ns = before_ns + width_ns / 2;
        }
    }
    return count;
}

static void reference_begin(void)
{
    ASSERT(reference.kind == REFERENCE_NONE);
    reference.pm_mask = pm_timer_open();
    reference.begin_tsc_ns = clock_now_ns();
    if (kvmclock_now_ns(&reference.begin_ns)) {
        reference.kind = REFERENCE_KVMCLOCK;
    } else if (reference.pm_mask != 0) {
        reference.kind = REFERENCE_PM_TIMER;
        reference.count = pm_sample(&reference.begin_tsc_ns);
        reference.tsc_ns = reference.begin_tsc_ns;
    }
}

/* Converts a count at one rate to a count at another; in two parts, for a product of 64 bits. */
static uint64_t rescale(uint64_t count, uint64_t from_hz, uint64_t to_hz)
{
    ASSERT(from_hz != 0);
    return count / from_hz * to_hz + count % from_hz * to_hz / from_hz;
}

/* Returns the time by the PM timer since the start. The timer wraps after 4.7 s (24 bits). The TSC says how often it
 * has wrapped since the last call, as long as the two are less than half a wrap apart, which at 1 % takes minutes. */
static uint64_t pm_elapsed_ns(uint64_t *tsc_ns)
{
    ASSERT(reference.kind == REFERENCE_PM_TIMER);
    uint64_t count = pm_sample(tsc_ns), period = reference.pm_mask + 1;
    uint64_t expected = rescale(*tsc_ns - reference.tsc_ns, NS_PER_S, PM_TIMER_HZ);
    uint64_t ticks = (count - reference.count) & reference.pm_mask;
    if (expected > ticks)
        ticks += (expected - ticks + period / 2) / period * period;
    reference.ticks += ticks;
    reference.count = count;
    reference.tsc_ns = *tsc_ns;
    return rescale(reference.ticks, PM_TIMER_HZ, NS_PER_S);
}

void wall_clock_compare(void)
{
    uint64_t tsc_ns = clock_now_ns(), elapsed_ns = 0;
    if (reference.kind == REFERENCE_KVMCLOCK && kvmclock_now_ns(&elapsed_ns))
        elapsed_ns -= reference.begin_ns;
    else if (reference.kind == REFERENCE_PM_TIMER)
        elapsed_ns = pm_elapsed_ns(&tsc_ns);
    else
        return;
    ASSERT(reference.kind != REFERENCE_NONE);
    tsc_ns -= reference.begin_tsc_ns;
    wall_counters.compared_ns = tsc_ns;
    wall_counters.ahead_ns = tsc_ns > elapsed_ns ? tsc_ns - elapsed_ns : 0;
    wall_counters.behind_ns = elapsed_ns > tsc_ns ? elapsed_ns - tsc_ns : 0;
}

void wall_clock_report(void)
{
    wall_clock_compare();
    uint64_t apart_ns = wall_counters.ahead_ns + wall_counters.behind_ns, us = wall_counters.compared_ns / 1000;
    if (reference.kind == REFERENCE_NONE || us == 0)
        return;
    ASSERT(wall_counters.ahead_ns == 0 || wall_counters.behind_ns == 0);
    log_line("time: after %zu s the TSC is %zu us %s %s, %zu ppb", (size_t)(us / 1000000), (size_t)(apart_ns / 1000),
             wall_counters.ahead_ns != 0 ? "ahead of" : "behind",
             reference.kind == REFERENCE_KVMCLOCK ? "kvmclock" : "the ACPI PM timer",
             (size_t)(apart_ns * 1000000 / us));
}
