#include "kernel/panic.h"

#include "kernel/backtrace.h"
#include "kernel/base/assert.h"
#include "kernel/base/log.h"
#include "kernel/console.h"
#include "kernel/reset.h"
#include "kernel/second_cpu.h"

_Noreturn void panic(const char *form, ...)
{
    char text[LOG_LINE_BYTES_MAX / 2];
    va_list list;
    va_start(list, form);
    format_list(text, sizeof text, form, list);
    va_end(list);
    if (second_cpu_is_me()) {
        second_cpu_panicked(text);
    }
    if (reset_speaks_last()) {
        reset_now();
    }
    console_take_back();
    log_line("panic: %s", text);
    static bool again;                  /* a panic inside a panic's backtrace or inside a sink */
    if (!again) {
        again = true;
        backtrace_log((uint64_t)__builtin_frame_address(0));
    }
    reset_after_failure("panic");
}

_Noreturn void assert_failed(const char *file, int line, const char *condition)
{
    panic("%s:%d: assertion failed: %s", file, line, condition);
}
