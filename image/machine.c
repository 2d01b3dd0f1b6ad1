/* The machine as a program measures it: app/machine.h. Time is read with cycles_now_serialised before and after each
 * probe, so two readings are part of each. */
#include "app/machine.h"

#include <stdbool.h>
#include <stddef.h>

#include "app/service/settings.h"
#include "base/assert.h"
#include "base/cycles.h"
#include "base/time.h"
#include "base/trace.h"
#include "drivers/nic/nic.h"
#include "kernel/cpu/apic.h"
#include "kernel/cpu/apic_spec.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/ports.h"
#include "kernel/cpu/workers.h"
#include "kernel/cpu/x86_spec.h"
#include "kernel/time/clock.h"
#include "kernel/time/sleep.h"
#include "net/settings.h"

enum {
    DIAGNOSTIC_PORT = 0x80, /* shows the firmware's progress; writes do nothing else */
    ANSWER_POLLS = 4096,    /* in one slice of worker 1 */
    ANSWER_US_MAX = 50000,  /* a host may stop the worker for milliseconds: the tail */
    WAKE_NS_MAX = ANSWER_US_MAX * NS_PER_US,
    HALT_US = 20, /* the first CPU has halted by then */
};

/* The lines between the CPUs. `ball` is odd while worker 1 has to throw it back. */
static struct {
    _Alignas(64) uint64_t ball;
    _Alignas(64) bool wake_asked; /* by the first CPU */
    uint64_t wake_cycles;         /* when worker 1 sent its interrupt; 0: not yet */
    uint64_t frame_cycles;        /* when it saw a frame in the ring; 0: not yet */
} court;

/* ---- on worker 1 ---- */

static bool throw_back(void)
{
    ASSERT(worker_me() == 1);
    for (unsigned i = 0; i < ANSWER_POLLS; i++) {
        uint64_t ball = __atomic_load_n(&court.ball, __ATOMIC_ACQUIRE);
        if (ball % 2 != 0)
            __atomic_store_n(&court.ball, ball + 1, __ATOMIC_RELEASE);
    }
    return true;
}

static bool wake(void)
{
    ASSERT(worker_me() == 1);
    if (!__atomic_load_n(&court.wake_asked, __ATOMIC_ACQUIRE))
        return false;
    clock_spin_us(HALT_US);
    __atomic_store_n(&court.wake_asked, false, __ATOMIC_RELEASE);
    __atomic_store_n(&court.wake_cycles, cycles_now_serialised(), __ATOMIC_RELEASE);
    apic_send(workers_first_apic_id(), APIC_ICR_FIXED | VECTOR_WAKE);
    return true;
}

static bool watch_ring(void)
{
    ASSERT(worker_me() == 1);
    for (unsigned i = 0; i < ANSWER_POLLS; i++)
        if (nic_frame_waits() && __atomic_load_n(&court.frame_cycles, __ATOMIC_ACQUIRE) == 0)
            __atomic_store_n(&court.frame_cycles, cycles_now(), __ATOMIC_RELEASE);
    return true;
}

static bool spin(void) { return false; }

/* ---- on the first CPU ---- */

/* Returns half of the way there and back. */
static uint64_t line_transfer_cycles(void)
{
    const uint64_t limit_cycles = clock_tsc_khz() * ANSWER_US_MAX / 1000;
    uint64_t back = __atomic_load_n(&court.ball, __ATOMIC_ACQUIRE) + 2, begin = cycles_now_serialised();
    if (back % 2 != 0) /* the last one is not back yet */
        return 0;
    __atomic_store_n(&court.ball, back - 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&court.ball, __ATOMIC_ACQUIRE) != back)
        if (cycles_now() - begin > limit_cycles)
            return 0;
    return (cycles_now_serialised() - begin) / 2;
}

/* Sleeps until worker 1 has sent its interrupt. Another one, such as a frame's, may end a sleep before. */
static uint64_t wake_cycles(void)
{
    uint64_t now_ns = clock_now_ns(), end = 0, begin = 0;
    const uint64_t limit_ns = now_ns + WAKE_NS_MAX;
    if (__atomic_load_n(&court.wake_asked, __ATOMIC_ACQUIRE)) /* worker 1 is late, and will send it yet */
        return 0;
    court.wake_cycles = 0;
    __atomic_store_n(&court.wake_asked, true, __ATOMIC_RELEASE);
    for (; begin == 0 && now_ns < limit_ns; now_ns = clock_now_ns()) {
        sleep_until_ns(now_ns, limit_ns);
        end = cycles_now_serialised();
        begin = __atomic_load_n(&court.wake_cycles, __ATOMIC_ACQUIRE);
    }
    return begin != 0 && end > begin ? end - begin : 0;
}

static uint64_t woken_cycles(void)
{
    uint64_t begin = __atomic_exchange_n(&court.frame_cycles, 0, __ATOMIC_ACQ_REL),
             end = trace.cycles[TRACE_FRAME_SEEN];
    return begin != 0 && end > begin ? end - begin : 0;
}

const char *machine_sleep_refusal(void)
{
    ASSERT(network_settings.device != NULL);
    if (service_settings.wait != SERVICE_WAIT_SLEEP)
        return "wait=sleep is not set";
    return nic_can_wake() ? NULL : "the network card cannot wake this machine";
}

const char *machine_probe_refusal(enum machine_probe probe)
{
    ASSERT(probe < MACHINE_PROBE_COUNT);
    if (probe < MACHINE_LINE_TRANSFER)
        return NULL;
    if (workers_count() == 0)
        return "no second CPU is up";
    if (service_settings.cpus != 1)
        return "cpus=2 gives the second CPU other work";
    return probe == MACHINE_WAKE_IPI || probe == MACHINE_WAKE_MSI ? machine_sleep_refusal() : NULL;
}

void machine_probe_begin(enum machine_probe probe)
{
    static bool (*const works[MACHINE_PROBE_COUNT])(void) = {
        [MACHINE_LINE_TRANSFER] = throw_back,
        [MACHINE_WAKE_IPI] = wake,
        [MACHINE_WAKE_MSI] = watch_ring,
        [MACHINE_SPIN] = spin,
    };
    ASSERT(machine_probe_refusal(probe) == NULL);
    if (works[probe] != NULL)
        workers_give(1, works[probe]);
}

void machine_probe_end(void)
{
    if (workers_count() > 0 && service_settings.cpus == 1)
        workers_give(1, NULL);
    ASSERT(machine_probe_refusal(MACHINE_EXIT) == NULL);
}

uint64_t machine_probe_cycles(enum machine_probe probe)
{
    ASSERT(probe < MACHINE_SPIN);
    uint64_t begin = cycles_now_serialised();
    switch (probe) {
    case MACHINE_LINE_TRANSFER:
        return line_transfer_cycles();
    case MACHINE_WAKE_IPI:
        return wake_cycles();
    case MACHINE_WAKE_MSI:
        return woken_cycles();
    case MACHINE_EXIT:
        cpuid(0, 0);
        break;
    case MACHINE_PORT_WRITE:
        port_out8(DIAGNOSTIC_PORT, 0);
        break;
    case MACHINE_NOTIFICATION:
        nic_notify();
        break;
    case MACHINE_SPIN:
    case MACHINE_PROBE_COUNT:
        break;
    }
    return cycles_now_serialised() - begin;
}
