/* The log: formatted lines in one ring in memory. Sinks (consoles, a host's stderr) are handed each line. Readers
 * (syslog, the control channel, the crash record) come back for more.
 *
 * Never called on the hot path (stamp with trace.h, print later). Lines longer than LOG_LINE_BYTES_MAX are cut.
 *
 * Two modes. At once, the default: log_line returns when every sink has the line. Deferred, from the loop on: log_line
 * only writes the ring, and log_drain hands on a little at a time. One character on a serial line can cost more than an
 * answer. A panic goes back to the first mode. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LOG_LINE_BYTES_MAX = 512,
    /* The last 1000 lines or so: the notable events of a whole run, and the boot report. */
    LOG_RING_BYTES = 64 * 1024,
    LOG_SINK_COUNT_MAX = 4, /* serial line, screen; two to spare */
};

/* Appends one line (no newline in `form`; control characters become '?') to the ring, stamped with log_clock_ns. */
void log_line(const char *form, ...) __attribute__((format(printf, 1, 2)));

/* The stamp for lines, nanoseconds since start. Set by the loop each turn; log.c reads no clock. */
extern uint64_t log_clock_ns;

/* The wall clock at stamp 0, nanoseconds since 1970 UTC; 0: unknown. Set once by the platform. */
extern uint64_t log_wall_origin_ns;

/* ---- for the platform ---- */

/* Copies the line at `*position` (0: the oldest), without terminator, and moves the position past the line. For a
 * reader that comes back. Skips lines that the ring has forgotten. Returns its bytes; 0: nothing new. */
size_t log_read(uint64_t *position, char out[LOG_LINE_BYTES_MAX]);

/* Returns the position after the newest line. */
uint64_t log_end(void);
/* Returns how many lines the ring has forgotten since the start. */
uint64_t log_lines_forgotten(void);

/* Returns the position, for log_read, of the newest whole lines that have `bytes_max` bytes at most, and their end. */
uint64_t log_tail_position(size_t bytes_max, uint64_t *end);

/* A sink takes what it can of `text`, at once, and returns how many bytes that was; it is offered the rest again.
 * `text` is the rest of one line with its stamp and '\n', not terminated by NUL. A sink that wants whole lines
 * takes all or nothing: only the first offer of a line begins with '['. When the ring overtakes a sink, or a sink
 * stalls, whole lines may be skipped, and the rest of the line that was begun. */
typedef size_t log_sink(const char *text, size_t bytes);

/* Adds a sink, LOG_SINK_COUNT_MAX at most. It gets the lines that the ring holds, then everything new. */
void log_add_sink(log_sink *sink);

/* Makes lines wait for log_drain from now on, or, as at the start, go to the sinks within log_line. */
void log_defer(bool deferred);

/* Offers each sink the next piece of its current line, once. False when no sink has anything left to take. */
bool log_drain(void);

/* Offers lines until every sink has everything. A sink that takes nothing a million times in a row loses its
 * backlog; in the middle of a line it gets the '\n' before anything else. */
void log_flush(void);

/* Lines a sink missed because the ring overtook it or because it stalled. */
extern uint64_t log_lines_missed_count;
