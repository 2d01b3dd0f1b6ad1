/* Assertions that stay on. One condition each, no side effects inside.
 *
 * A failed assertion is our own mistake, never the wire's: it panics with file and line, leaves a record, and
 * brings Linux back. The platform (kernel/panic.c, host/platform.c, a test) supplies `assert_failed`. */
#pragma once

/* Ends the machine if the condition is false. */
#define ASSERT(condition) ((condition) ? (void)0 : assert_failed(__FILE__, __LINE__, #condition))

/* ---- for the platform ---- */

__attribute__((noreturn)) void assert_failed(const char *file, int line, const char *condition);
