/* Decides what a trap or a panic leads to. Knows who describes it and who resets the machine. */
#include "kernel/rescue/failure.h"

#include "base/assert.h"
#include "base/format.h"
#include "base/log.h"
#include "kernel/cpu/workers.h"
#include "kernel/cpu/x86_spec.h"
#include "kernel/panic.h"
#include "kernel/rescue/backtrace.h"
#include "kernel/rescue/blackbox.h"
#include "kernel/rescue/console.h"
#include "kernel/rescue/reset.h"
#include "kernel/rescue/shutdown.h"
#include "kernel/rescue/trap_dump.h"
#include "kernel/rescue/watchdog.h"
#include "kernel/rescue/wipe.h"

static void panicked(const char *message, uint64_t rbp)
{
    if (worker_me() != 0)
        worker_panicked(message);
    if (shutdown_is_flushing())
        reset_now();
    console_take_back();
    log_line("panic: %s", message);
    static bool again; /* a panic inside a panic's backtrace or inside a sink */
    if (!again) {
        again = true;
        backtrace_log(rbp);
    }
    shutdown_after_failure("panic");
}

void failure_init(void)
{
    panic_set_handler(panicked);
    reset_set_last_step(wipe_secrets);
}

static const char *cause_of(const struct trap_frame *frame)
{
    return frame->vector == VECTOR_NMI && watchdog_has_fired() ? "watchdog: the loop stood still"
                                                               : trap_name(frame->vector);
}

/* Describes the first trap. A trap inside the dump must not start the dump again: the second says so, the third does
 * not even try. */
static _Noreturn void trapped(const struct trap_frame *frame)
{
    static unsigned depth;
    console_take_back();
    switch (depth++) {
    case 0:
        trap_dump(frame);
        shutdown_after_failure(cause_of(frame));
    case 1:
        blackbox_write(BLACKBOX_FAILED, "a trap inside a trap"); /* first: it may be the log that traps */
        log_line("trap: %s at 0x%lx while handling a trap", trap_name(frame->vector), frame->rip);
        shutdown_after_failure("a trap inside a trap");
    default:
        reset_now();
    }
}

void failure_of_trap(const struct trap_frame *frame)
{
    ASSERT(frame->vector < VECTOR_EXCEPTION_COUNT);
    if (worker_me() != 0)
        worker_trapped(frame);
    if (frame->vector == VECTOR_NMI && watchdog_tick())
        return;
    if (shutdown_is_flushing())
        reset_now();
    /* If CR0.TS is what trapped, the dump's own 16-byte moves would trap again. */
    __asm__ volatile("clts");
    trapped(frame);
}

/* Returns what the record says of a worker's failure. An NMI comes from the watchdog. */
static const char *worker_cause(const struct worker_failure *failure)
{
    if (failure->is_deaf)
        return "stood still and did not answer an NMI";
    if (failure->message != NULL)
        return "panic";
    return failure->frame.vector == VECTOR_NMI ? "stood still" : trap_name(failure->frame.vector);
}

void failure_of_workers(void)
{
    ASSERT(worker_me() == 0);
    const struct worker_failure *failure = workers_failed();
    if (failure == NULL)
        return;
    console_take_back();
    char cause[64];
    format(cause, sizeof cause, "worker %u: %s", failure->worker, worker_cause(failure));
    log_line("worker %u, APIC id %u: %s", failure->worker, failure->apic_id,
             failure->message != NULL ? failure->message : worker_cause(failure));
    if (!failure->is_deaf) {
        /* The dump shows the registers of the CPU it runs on. */
        __asm__ volatile("mov %0, %%cr2" : : "r"(failure->cr2));
        trap_dump(&failure->frame);
    }
    shutdown_after_failure(cause);
}
