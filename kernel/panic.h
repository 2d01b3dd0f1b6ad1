/* Panic: the end of a kernel that has found its own mistake. Stands below every room of the kernel, because all of them
 * may panic; knows no console, no record and no reset. kernel/rescue/failure.c registers the actions. */
#pragma once

#include <stdint.h>

/* Ends the kernel with a message, printf's subset of base/log.h. */
_Noreturn void panic(const char *form, ...) __attribute__((format(printf, 1, 2)));

/* Gets the message, and the frame pointer of the function that failed. Must not return. */
typedef void panic_handler(const char *message, uint64_t rbp);

/* Sets what a panic does. Before that it only traps. */
void panic_set_handler(panic_handler *handler);
