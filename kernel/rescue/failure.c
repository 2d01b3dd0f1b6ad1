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

static void panicked(const char *message, uint64_t rbp)
{
    if (second_cpu_is_me())
        second_cpu_panicked(message);
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

void failure_init(void) { panic_set_handler(panicked); }

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
    if (second_cpu_is_me())
        second_cpu_trapped(frame);
    if (frame->vector == VECTOR_NMI && watchdog_tick())
        return;
    if (shutdown_is_flushing())
        reset_now();
    /* If CR0.TS is what trapped, the dump's own 16-byte moves would trap again. */
    __asm__ volatile("clts");
    trapped(frame);
}

void failure_of_second_cpu(void)
{
    ASSERT(!second_cpu_is_me());
    const struct second_cpu_failure *failure = second_cpu_failed();
    if (failure == NULL)
        return;
    console_take_back();
    log_line("second CPU: %s", failure->message != NULL ? failure->message : "a trap");
    __asm__ volatile("mov %0, %%cr2" : : "r"(failure->cr2)); /* the dump shows the registers of the CPU it runs on */
    trap_dump(&failure->frame);
    char cause[64];
    format(cause, sizeof cause, "second CPU: %s",
           failure->message != NULL ? "panic" : trap_name(failure->frame.vector));
    shutdown_after_failure(cause);
}
