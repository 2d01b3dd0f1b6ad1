#include "kernel/wall.h"

#include "kernel/acpi.h"
#include "kernel/acpi_spec.h"
#include "kernel/base/bytes.h"
#include "kernel/base/log.h"
#include "kernel/base/utc.h"
#include "kernel/clock.h"
#include "kernel/kvmclock.h"
#include "kernel/memory.h"
#include "kernel/ports.h"
#include "kernel/rtc.h"

enum {
    PORT_RTC_INDEX = 0x70,              /* bit 7 would mask NMIs; it stays clear */
    PORT_RTC_DATA = 0x71,
    PM_READS = 4,
};
#define NS_PER_S UINT64_C(1000000000)
#define RTC_HALF_SECOND_NS UINT64_C(500000000)      /* of the second that runs, half has passed on average */

/* What the TSC is compared with, when it was read last, and how far it had come since the start. */
enum reference { REFERENCE_NONE, REFERENCE_KVMCLOCK, REFERENCE_PM_TIMER };
static struct {
    enum reference kind;
    struct acpi_register pm_timer;
    uint64_t pm_mask;
    uint64_t begin_tsc_ns, begin_ns;
    uint64_t tsc_ns, count, ticks;      /* the PM timer: its last reading, and all its ticks so far */
} reference;

static struct {
    uint64_t compared_ns, ahead_ns, behind_ns;      /* the TSC's clock against the reference, since the start */
} wall_counters;
static const struct counter wall_counter_table[] = {
    COUNTER("clock.", wall_counters, compared_ns),
    COUNTER("clock.", wall_counters, ahead_ns),
    COUNTER("clock.", wall_counters, behind_ns),
};
const struct counter_group wall_counter_group = { wall_counter_table, ARRAY_COUNT(wall_counter_table) };

static uint8_t rtc_port_read(uint8_t index)
{
    port_out8(PORT_RTC_INDEX, index);
    return port_in8(PORT_RTC_DATA);
}

static void reference_begin(void);

void wall_init(void)
{
    const char *source = "kvmclock";
    uint64_t now_ns = 0;
    if (!kvmclock_wall_ns(&now_ns)) {
        source = "rtc, to half a second";
        if (rtc_read(rtc_port_read, acpi_rtc_century(), &now_ns)) {
            now_ns += RTC_HALF_SECOND_NS;
        }
    }
    if (now_ns != 0) {
        char text[UTC_TEXT_BYTES + 1];
        utc_format(text, now_ns);
        log_wall_origin_ns = now_ns - clock_now_ns();
        log_line("time: %s by %s", text, source);
    } else {
        log_line("time: not known, neither kvmclock nor an RTC tells it");
    }
    reference_begin();
}

/* ------------------------------------------------------------------------------------------------ the comparison */

static uint64_t pm_read(void)
{
    return reference.pm_timer.space == ACPI_SPACE_PORT ? port_in32((uint16_t)reference.pm_timer.address)
                                                       : *(volatile uint32_t *)reference.pm_timer.address;
}

/* Timer and TSC at one moment: of several readings the one that took the shortest. */
static uint64_t pm_sample(uint64_t *tsc_ns)
{
    uint64_t best = UINT64_MAX, count = 0;
    for (int i = 0; i < PM_READS; i++) {
        uint64_t before_ns = clock_now_ns(), now = pm_read(), width_ns = clock_now_ns() - before_ns;
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
    uint32_t bits;
    reference.pm_timer = acpi_pm_timer(&bits);
    reference.begin_tsc_ns = clock_now_ns();
    if (kvmclock_now_ns(&reference.begin_ns)) {
        reference.kind = REFERENCE_KVMCLOCK;
    } else if (reference.pm_timer.space != ACPI_SPACE_NONE) {
        if (reference.pm_timer.space == ACPI_SPACE_MEMORY) {
            memory_map_device(reference.pm_timer.address, 4);
        }
        reference.kind = REFERENCE_PM_TIMER;
        reference.pm_mask = BIT(bits) - 1;
        reference.count = pm_sample(&reference.begin_tsc_ns);
        reference.tsc_ns = reference.begin_tsc_ns;
    }
}

/* A count at one rate as a count at another; in two parts, for a product of 64 bits. */
static uint64_t rescale(uint64_t count, uint64_t from_hz, uint64_t to_hz)
{
    return count / from_hz * to_hz + count % from_hz * to_hz / from_hz;
}

/* The timer wraps after 4.7 s (24 bits): how often it has since the last look, the TSC knows well enough, as long as
 * the two are less than half a wrap apart, which at 1 % takes minutes. */
static uint64_t pm_elapsed_ns(uint64_t *tsc_ns)
{
    uint64_t count = pm_sample(tsc_ns), period = reference.pm_mask + 1;
    uint64_t expected = rescale(*tsc_ns - reference.tsc_ns, NS_PER_S, PM_TIMER_HZ);
    uint64_t ticks = (count - reference.count) & reference.pm_mask;
    if (expected > ticks) {
        ticks += (expected - ticks + period / 2) / period * period;
    }
    reference.ticks += ticks;
    reference.count = count;
    reference.tsc_ns = *tsc_ns;
    return rescale(reference.ticks, PM_TIMER_HZ, NS_PER_S);
}

void wall_compare(void)
{
    uint64_t tsc_ns = clock_now_ns(), elapsed_ns = 0;
    if (reference.kind == REFERENCE_KVMCLOCK && kvmclock_now_ns(&elapsed_ns)) {
        elapsed_ns -= reference.begin_ns;
    } else if (reference.kind == REFERENCE_PM_TIMER) {
        elapsed_ns = pm_elapsed_ns(&tsc_ns);
    } else {
        return;
    }
    tsc_ns -= reference.begin_tsc_ns;
    wall_counters.compared_ns = tsc_ns;
    wall_counters.ahead_ns = tsc_ns > elapsed_ns ? tsc_ns - elapsed_ns : 0;
    wall_counters.behind_ns = elapsed_ns > tsc_ns ? elapsed_ns - tsc_ns : 0;
}

void wall_report(void)
{
    wall_compare();
    uint64_t apart_ns = wall_counters.ahead_ns + wall_counters.behind_ns, us = wall_counters.compared_ns / 1000;
    if (reference.kind == REFERENCE_NONE || us == 0) {
        return;
    }
    log_line("time: after %zu s the TSC is %zu us %s %s, %zu ppb", (size_t)(us / 1000000), (size_t)(apart_ns / 1000),
             wall_counters.ahead_ns != 0 ? "ahead of" : "behind",
             reference.kind == REFERENCE_KVMCLOCK ? "kvmclock" : "the ACPI PM timer",
             (size_t)(apart_ns * 1000000 / us));
}
