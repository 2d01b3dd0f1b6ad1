#include "kernel/watchdog.h"

#include "kernel/apic.h"
#include "kernel/apic_spec.h"
#include "kernel/base/log.h"
#include "kernel/blackbox.h"
#include "kernel/clock.h"
#include "kernel/reset.h"
#include "kernel/second_cpu.h"

/* How long the NMI's dump may go without a beat before the second CPU resets the machine: a full log at 115200 baud takes
 * 5.7 s. */
#define DUMP_NS UINT64_C(8000000000)

volatile uint64_t watchdog_beats;

static uint64_t timeout_ns;         /* 0: not armed */
static bool fired;

bool watchdog_has_fired(void) { return __atomic_load_n(&fired, __ATOMIC_ACQUIRE); }

void watchdog_arm(uint64_t timeout, bool second_cpu)
{
    if (!second_cpu) {
        log_line("watchdog: no second CPU, so none");
        return;
    }
    log_line("watchdog: after %u ms without a turn", (unsigned)(timeout / 1000000));
    __atomic_store_n(&timeout_ns, timeout, __ATOMIC_RELEASE);
}

static _Noreturn void fire(void)
{
    __atomic_store_n(&fired, true, __ATOMIC_RELEASE);
    apic_send(second_cpu_first_apic_id(), APIC_ICR_NMI);
    uint64_t seen = watchdog_beats, seen_ns = clock_now_ns();
    while (clock_now_ns() - seen_ns < DUMP_NS) {
        second_cpu_nap();
        if (watchdog_beats != seen) {
            seen = watchdog_beats;
            seen_ns = clock_now_ns();
        }
    }
    blackbox_write(BLACKBOX_FAILED, "watchdog: the loop stood still and did not answer an NMI");
    reset_now();
}

void watchdog_look(void)
{
    static uint64_t seen, seen_ns;
    uint64_t timeout = __atomic_load_n(&timeout_ns, __ATOMIC_ACQUIRE);
    uint64_t now_ns = clock_now_ns(), beats = watchdog_beats;
    if (timeout == 0 || seen_ns == 0 || beats != seen) {
        seen = beats;
        seen_ns = now_ns;
    } else if (now_ns > seen_ns && now_ns - seen_ns >= timeout) {
        fire();
    }
}
