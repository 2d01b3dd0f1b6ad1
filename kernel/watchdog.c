#include "kernel/watchdog.h"

#include "kernel/apic.h"
#include "kernel/apic_spec.h"
#include "kernel/base/bytes.h"
#include "kernel/base/log.h"
#include "kernel/blackbox.h"
#include "kernel/clock.h"
#include "kernel/nmi_timer.h"
#include "kernel/reset.h"
#include "kernel/second_cpu.h"
#include "kernel/segments.h"

enum { LOOK_PERIOD_NS = 1000000 };      /* of the second CPU; time-outs are a second or more */

volatile uint64_t watchdog_beats;

static bool fired;

/* Written by whoever looks. */
static struct {
    uint64_t timeout_ns, looks, age_ns;
} watchdog_counters;
static const struct counter watchdog_counter_table[] = {
    COUNTER("watchdog.", watchdog_counters, timeout_ns),
    COUNTER("watchdog.", watchdog_counters, looks),
    COUNTER("watchdog.", watchdog_counters, age_ns),
};
const struct counter_group watchdog_counter_group = { watchdog_counter_table, ARRAY_COUNT(watchdog_counter_table) };

bool watchdog_has_fired(void) { return __atomic_load_n(&fired, __ATOMIC_ACQUIRE); }

void watchdog_arm(uint64_t timeout_ns, bool second_cpu)
{
    bool looks = second_cpu || nmi_timer_start();
    if (!looks) {
        log_line("watchdog: no second CPU and no timer that can send an NMI, so none");
        return;
    }
    log_line("watchdog: after %u ms without a turn, by %s", (unsigned)(timeout_ns / 1000000),
             second_cpu ? "the second CPU" : "a timer's NMI");
    __atomic_store_n(&watchdog_counters.timeout_ns, timeout_ns, __ATOMIC_RELEASE);
}

/* How long the loop has stood still. */
static uint64_t age(void)
{
    static uint64_t seen, seen_ns;
    uint64_t now_ns = clock_now_ns(), beats = watchdog_beats;
    if (seen_ns == 0 || beats != seen) {
        seen = beats;
        seen_ns = now_ns;
    }
    watchdog_counters.looks++;
    watchdog_counters.age_ns = now_ns > seen_ns ? now_ns - seen_ns : 0;
    return watchdog_counters.age_ns;
}

static bool is_stuck(uint64_t age_ns)
{
    uint64_t timeout_ns = __atomic_load_n(&watchdog_counters.timeout_ns, __ATOMIC_ACQUIRE);
    return timeout_ns != 0 && age_ns >= timeout_ns;
}

static _Noreturn void reset_without_it(void)
{
    blackbox_write(BLACKBOX_FAILED, "watchdog: the loop stood still and did not answer an NMI");
    reset_now();
}

/* ------------------------------------------------------------------------------------------------ the second CPU */

static _Noreturn void fire(void)
{
    __atomic_store_n(&fired, true, __ATOMIC_RELEASE);
    apic_send(second_cpu_first_apic_id(), APIC_ICR_NMI);
    uint64_t seen = watchdog_beats, seen_ns = clock_now_ns();
    while (clock_now_ns() - seen_ns < WATCHDOG_DUMP_NS) {
        second_cpu_nap();
        if (watchdog_beats != seen) {
            seen = watchdog_beats;
            seen_ns = clock_now_ns();
        }
    }
    reset_without_it();
}

/* Seldom, since it takes from the loop's CPU the cache lines of the beats and of what lies beside them, which that CPU
 * writes in each turn. */
void watchdog_look(void)
{
    static uint64_t next_ns;
    uint64_t now_ns = clock_now_ns();
    if (now_ns < next_ns) {
        return;
    }
    next_ns = now_ns + LOOK_PERIOD_NS;
    if (is_stuck(age())) {
        fire();
    }
}

/* ------------------------------------------------------------------------------------------------ the NMI */

/* The first tick that finds the loop stuck becomes the dump, which never returns; so NMIs are let in again, on a stack
 * of their own, and go on looking after the dump. */
bool watchdog_tick(void)
{
    if (!nmi_timer_is_due(clock_now_ns())) {
        return false;
    }
    nmi_timer_arm();
    uint64_t age_ns = age();
    if (watchdog_has_fired()) {
        if (age_ns >= watchdog_counters.timeout_ns + WATCHDOG_DUMP_NS) {
            reset_without_it();
        }
        return true;
    }
    if (!is_stuck(age_ns)) {
        return true;
    }
    __atomic_store_n(&fired, true, __ATOMIC_RELEASE);
    segments_let_nmi_in();
    return false;
}
