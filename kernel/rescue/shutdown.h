/* The way back: every end of this kernel comes through here. Says why, leaves a record, resets. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Logs the cause, leaves a crash record (kernel/rescue/blackbox.h), empties the log to its sinks, and resets.
 * `cause` is a few words for a human. For an end that was asked for. */
_Noreturn void shutdown(const char *cause);

/* Does the same for an end that somebody may want to read: waits first, if shutdown_set_reading_pause was called. */
_Noreturn void shutdown_after_failure(const char *cause);

/* Sets how long a failure stays on the screen. */
void shutdown_set_reading_pause(uint32_t ms);

/* Sets the final flush: a step that sends the rest of the log before the reset. The step is called again and again, as
 * long as it returns true or has done so lately, for a second at most. */
void shutdown_set_final_flush(bool (*step)(void));

/* Returns true during the final flush. A trap or a panic in it resets at once: the cause has been reported. */
bool shutdown_is_flushing(void);
