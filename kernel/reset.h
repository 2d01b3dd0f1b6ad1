/* The way back: every end of this kernel comes through here, and the machine's next boot is Linux. */
#pragma once

/* Learns the ACPI reset register, after acpi_init. Without it the ladder begins one rung lower. */
void reset_arm(void);

/* Logs the cause, empties the log to its sinks, and resets: ACPI reset register, port 0xCF9, keyboard controller,
 * triple fault, with a pause between rungs. `cause` is a few words for a human. */
_Noreturn void reset_machine(const char *cause);

/* The ladder alone, silently: for a trap inside a trap. */
_Noreturn void reset_now(void);
