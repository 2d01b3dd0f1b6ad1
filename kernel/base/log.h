/* The log: formatted lines into one ring in memory; the platform drains it where it can be seen.
 *
 * Never called on the hot path (stamp with trace.h, print later). Lines longer than LOG_LINE_BYTES_MAX are cut. */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LOG_LINE_BYTES_MAX = 512,
    LOG_RING_BYTES = 64 * 1024,     /* the last ~1000 lines: a whole flight's notable events, and the boot report */
};

/* Formats like printf, for the subset %s %c %d %i %u %x %X %p %% with flags 0 and -, width, .precision (for %s),
 * and the sizes l, ll, z. Always terminates; returns the bytes written without the terminator. */
size_t format(char *out, size_t out_bytes, const char *form, ...) __attribute__((format(printf, 3, 4)));
size_t format_list(char *out, size_t out_bytes, const char *form, va_list list);

/* Appends one line (no newline in `form`) to the ring, stamped with log_clock_ns, and hands it to the sinks. */
void log_line(const char *form, ...) __attribute__((format(printf, 1, 2)));

/* The stamp for lines, nanoseconds since start. Set by the loop each turn; log.c reads no clock. */
extern uint64_t log_clock_ns;

/* Copies the newest whole lines that fit, oldest first, each ended by '\n'. Returns the bytes written. */
size_t log_tail(char *out, size_t out_bytes);

/* Sinks get each line with its stamp and '\n', not terminated by NUL; at most LOG_SINK_COUNT_MAX of them. */
enum { LOG_SINK_COUNT_MAX = 6 };
typedef void log_sink(const char *text, size_t bytes);
void log_add_sink(log_sink *sink);      /* also replays what the ring holds so far */
