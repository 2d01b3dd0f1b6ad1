/* The way back: every end of this kernel comes through here, and the machine's next boot is Linux. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The ladder, from the first rung to the last. */
enum reset_rung {
    RESET_RUNG_ACPI,            /* the ACPI tables' reset register */
    RESET_RUNG_CONTROL,         /* port 0xCF9 */
    RESET_RUNG_8042,            /* the keyboard controller */
    RESET_RUNG_TRIPLE_FAULT,
    RESET_RUNG_COUNT,
};

/* Leaves out the rungs whose bits are not set: test.rungs=, to see what a single one does on a machine. */
void reset_use_rungs(uint32_t mask);

/* Learns the ACPI reset register, after acpi_init. Without it the ladder begins one rung lower. */
void reset_arm(void);

/* Logs the cause, leaves a record (kernel/blackbox.h), empties the log to its sinks, and climbs the ladder, with a
 * pause between rungs. `cause` is a few words for a human. */
_Noreturn void reset_machine(const char *cause);

/* The same for an end that somebody may want to read: waits first, if reset_set_reading_pause was called. */
_Noreturn void reset_after_failure(const char *cause);
void reset_set_reading_pause(uint32_t ms);

/* Called again and again before the ladder, for a second at most, as long as it returns true or has lately: whoever
 * still has something to send. A trap or a panic in there goes straight to the ladder: what was the cause is told. */
void reset_set_last_words(bool (*step)(void));
bool reset_speaks_last(void);

/* The ladder alone, silently: for a trap inside a trap. */
_Noreturn void reset_now(void);
