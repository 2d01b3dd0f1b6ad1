/* The way back: every end of this kernel comes through here, and the machine's next boot is Linux. */
#pragma once

#include <stdint.h>

/* What the ACPI tables say (FADT, ACPI 6.5 §5.2.9). Without it the ladder begins one rung lower. */
enum reset_space { RESET_NONE, RESET_MEMORY, RESET_PORT };
void reset_set_register(enum reset_space space, uint64_t address, uint8_t value);

/* Logs the cause, empties the log to its sinks, and resets: ACPI reset register, port 0xCF9, keyboard controller,
 * triple fault, with a pause between rungs. `cause` is a few words for a human. */
_Noreturn void reset_machine(const char *cause);

/* The ladder alone, silently: for a trap inside a trap. */
_Noreturn void reset_now(void);
