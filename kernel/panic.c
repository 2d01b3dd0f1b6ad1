/* Formats the message of a panic or of a failed assertion and hands it to the registered handler. */
#include "kernel/panic.h"

#include <stddef.h>

#include <stdarg.h>

#include "base/assert.h"
#include "base/format.h"
#include "base/log.h"

static panic_handler *handle;

void panic_set_handler(panic_handler *handler) { handle = handler; }

_Noreturn void panic(const char *form, ...)
{
    char text[LOG_LINE_BYTES_MAX / 2];
    va_list list;
    va_start(list, form);
    format_list(text, sizeof text, form, list);
    va_end(list);
    if (handle != NULL)
        handle(text, (uint64_t)__builtin_frame_address(0));
    __builtin_trap();
}

_Noreturn void assert_failed(const char *file, int line, const char *condition)
{
    panic("%s:%d: assertion failed: %s", file, line, condition);
}
