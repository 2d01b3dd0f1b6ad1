/* Compares signs of life, and fires when there is none. Knows the workers and the timer, and nothing of the code
 * that gives the signs of life. */
#include "kernel/rescue/watchdog.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/time.h"
#include "kernel/cpu/apic.h"
#include "kernel/cpu/apic_spec.h"
#include "kernel/cpu/segments.h"
#include "kernel/cpu/workers.h"
#include "kernel/rescue/blackbox.h"
#include "kernel/rescue/nmi_timer.h"
#include "kernel/rescue/reset.h"
#include "kernel/time/clock.h"

enum {
    CHECK_PERIOD_NS = 10 * NS_PER_MS,   /* on worker 1; time-outs are a second or more */
    CHECK_GAP_NS_MAX = 200 * NS_PER_MS, /* the longest gap between checks, unless the host stops the machine */
};

volatile uint64_t watchdog_beats;

static bool fired;
static const uint64_t *progress = &(const uint64_t){ 0 };

/* Written by the CPU that checks. */
#define WATCHDOG_COUNTERS(X) X(LEVEL, timeout_ns), X(LEVEL, checks), X(LEVEL, age_ns)
static struct {
    uint64_t WATCHDOG_COUNTERS(COUNTER_MEMBER);
} watchdog_counters;
const struct counter_group watchdog_counter_group = COUNTER_GROUP("watchdog.", "Watchdog", WATCHDOG_COUNTERS,
                                                                  watchdog_counters);

bool watchdog_has_fired(void) { return __atomic_load_n(&fired, __ATOMIC_ACQUIRE); }

bool watchdog_arm(uint64_t timeout_ns, bool has_worker)
{
    if (!has_worker && !nmi_timer_start()) {
        log_line("watchdog: no worker and no timer that can send an NMI");
        return false;
    }
    ASSERT(timeout_ns != 0);
    log_line("watchdog: after %u ms without a turn, by %s", (unsigned)(timeout_ns / NS_PER_MS),
             has_worker ? "worker 1" : "a timer's NMI");
    __atomic_store_n(&watchdog_counters.timeout_ns, timeout_ns, __ATOMIC_RELEASE);
    return true;
}

void watchdog_watch(const uint64_t *counter) { __atomic_store_n(&progress, counter, __ATOMIC_RELEASE); }

/* Returns how long there has been no sign of life, in time that this machine was running. A host that stops the whole
 * machine stops the checks too, so a long gap between two checks counts only in part. */
static uint64_t age(void)
{
    static uint64_t seen, checked_ns, age_ns;
    uint64_t now_ns = clock_now_ns();
    uint64_t signs = watchdog_beats + *(const volatile uint64_t *)__atomic_load_n(&progress, __ATOMIC_ACQUIRE);
    uint64_t gap_ns = checked_ns != 0 && now_ns > checked_ns ? now_ns - checked_ns : 0;
    age_ns = signs == seen ? age_ns + min_size(gap_ns, CHECK_GAP_NS_MAX) : 0;
    seen = signs;
    checked_ns = now_ns;
    watchdog_counters.checks++;
    watchdog_counters.age_ns = age_ns;
    return age_ns;
}

/* Checks for signs of life: of the loop, and of the dump once the watchdog has fired. Returns true if there has been
 * none for too long. */
static bool is_stuck(void)
{
    uint64_t timeout_ns = __atomic_load_n(&watchdog_counters.timeout_ns, __ATOMIC_ACQUIRE);
    uint64_t age_ns = age();
    return timeout_ns != 0 && age_ns >= (watchdog_has_fired() ? WATCHDOG_DUMP_NS : timeout_ns);
}

/* Begins the dump's time: its first sign of life is given here. */
static void fire(void)
{
    ASSERT(!watchdog_has_fired());
    __atomic_store_n(&fired, true, __ATOMIC_RELEASE);
    watchdog_beat();
}

static _Noreturn void reset_without_loop(void)
{
    ASSERT(watchdog_has_fired());
    blackbox_write(BLACKBOX_FAILED, "watchdog: the loop stood still and did not answer an NMI");
    reset_now();
}

/* ---- worker 1 ---- */

/* Checks seldom: each check takes the cache line of the beats from the loop's CPU, which writes it in each turn. */
void watchdog_poll(void)
{
    ASSERT(worker_me() == WATCHDOG_WORKER);
    static uint64_t next_ns;
    uint64_t now_ns = clock_now_ns();
    if (next_ns - now_ns - 1 < CHECK_PERIOD_NS) /* also if the clock goes back: not before the next check */
        return;
    next_ns = now_ns + CHECK_PERIOD_NS;
    if (!is_stuck())
        return;
    fire();
    apic_send(workers_first_apic_id(), APIC_ICR_NMI);
    while (!is_stuck())
        worker_nap();
    reset_without_loop();
}

/* ---- the workers ---- */

/* Counts for each worker how long its beats have stood still. A host that stops the first CPU as well delays the check,
 * which then counts as the second that it should have been. */
void watchdog_check_workers(void)
{
    static uint64_t seen[WORKER_COUNT_MAX + 1], still_ns[WORKER_COUNT_MAX + 1];
    const uint64_t timeout_ns = watchdog_counters.timeout_ns;
    for (uint32_t worker = 1; timeout_ns != 0 && worker <= workers_count(); worker++) {
        uint64_t beats = workers_beats(worker);
        still_ns[worker] = beats == seen[worker] ? still_ns[worker] + NS_PER_S : 0;
        seen[worker] = beats;
        if (still_ns[worker] > timeout_ns)
            workers_stop(worker);
    }
    ASSERT(worker_me() == 0);
}

/* ---- the NMI ---- */

/* Turns the first tick that finds the loop stuck into the dump, which never returns. NMIs are unblocked before it, on a
 * stack of their own, and watch the dump. */
bool watchdog_tick(void)
{
    if (!nmi_timer_has_fired())
        return false;
    nmi_timer_arm();
    ASSERT(watchdog_counters.timeout_ns != 0 || !watchdog_has_fired());
    if (!is_stuck())
        return true;
    if (watchdog_has_fired())
        reset_without_loop();
    fire();
    segments_unblock_nmi();
    return false;
}
