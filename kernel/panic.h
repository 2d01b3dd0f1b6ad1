/* Our own mistakes end here: a line, a backtrace, and the way back to Linux. */
#pragma once

#include <stdint.h>

_Noreturn void panic(const char *form, ...) __attribute__((format(printf, 1, 2)));
