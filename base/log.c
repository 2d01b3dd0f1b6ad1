/* The log ring and its sinks. Knows no device and reads no clock. */
#include "base/log.h"
#include "base/format.h"

#include <stdarg.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

enum {
    /* Offers in a row that a sink may refuse: polls of a serial line's status, 0.2 us each under QEMU's TCG, some 3 us
     * under KVM. 16 bytes at 9600 baud take 17 ms; ten times as long is a line that nobody empties, or a busy host. */
    LOG_STALL_COUNT_MAX = 1000000,
    /* The limit for a sink that was given up and has taken nothing since: a dump of 40 lines must not wait for
     * each. */
    LOG_STALL_COUNT_AGAIN_MAX = 20000,
};

uint64_t log_clock_ns;
uint64_t log_wall_origin_ns;
uint64_t log_lines_missed_count;

/* Positions count every byte ever written; the ring holds the last LOG_RING_BYTES of them, whole lines only. */
static struct {
    char bytes[LOG_RING_BYTES];
    uint64_t begin; /* the oldest line still whole */
    uint64_t end;
    uint64_t lines_forgotten;
    bool deferred;
} ring;

static struct {
    log_sink *offer;
    uint64_t position; /* the next byte it has not taken */
    bool torn;         /* the rest of its last line was skipped: a '\n' comes first */
    bool stalled;      /* given up by log_flush, and nothing taken since */
} sinks[LOG_SINK_COUNT_MAX];
static size_t sink_count;

static char ring_at(uint64_t position) { return ring.bytes[position % LOG_RING_BYTES]; }

/* Returns the position after the '\n' of the line that `position` lies in. */
static uint64_t line_end(uint64_t position)
{
    while (position < ring.end && ring_at(position) != '\n')
        position++;
    return position < ring.end ? position + 1 : ring.end;
}

/* Moves a sink on to a position; the lines before it are lost to that sink. */
static void sink_skip(size_t index, uint64_t to)
{
    uint64_t position = sinks[index].position;
    ASSERT(position < to && to <= ring.end);
    sinks[index].torn |= position > ring.begin && ring_at(position - 1) != '\n';
    sinks[index].position = to;
    for (; position < to; position = line_end(position))
        log_lines_missed_count++;
}

static void ring_append(const char *text, size_t bytes)
{
    ASSERT(bytes <= LOG_LINE_BYTES_MAX);
    while (ring.end + bytes - ring.begin > LOG_RING_BYTES) {
        uint64_t next = line_end(ring.begin);
        for (size_t i = 0; i < sink_count; i++)
            if (sinks[i].position < next)
                sink_skip(i, next);
        ring.begin = next;
        ring.lines_forgotten++;
    }
    for (size_t i = 0; i < bytes; i++)
        ring.bytes[(ring.end + i) % LOG_RING_BYTES] = text[i];
    ring.end += bytes;
    ASSERT(ring.end - ring.begin <= LOG_RING_BYTES);
}

void log_line(const char *form, ...)
{
    va_list list;
    char line[LOG_LINE_BYTES_MAX];
    uint64_t us = log_clock_ns / 1000;
    size_t bytes = format(line, sizeof line, "[%5u.%06u] ", (unsigned)(us / 1000000), (unsigned)(us % 1000000));
    size_t stamp_bytes = bytes;
    va_start(list, form);
    bytes += format_list(line + bytes, sizeof line - bytes, form, list);
    va_end(list);
    for (size_t i = stamp_bytes; i < bytes; i++)
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
            line[i] = '?';
    ASSERT(bytes < sizeof line);
    line[bytes++] = '\n'; /* in the terminator's place */
    ring_append(line, bytes);
    if (!ring.deferred)
        log_flush();
}

uint64_t log_end(void) { return ring.end; }

uint64_t log_lines_forgotten(void) { return ring.lines_forgotten; }

uint64_t log_tail_position(size_t bytes_max, uint64_t *end)
{
    uint64_t begin = ring.begin;
    if (ring.end - begin > bytes_max) /* the first line that begins at this byte or later */
        begin = line_end(ring.end - bytes_max - 1);
    *end = ring.end;
    return begin;
}

size_t log_read(uint64_t *position, char out[LOG_LINE_BYTES_MAX])
{
    if (*position < ring.begin || *position > ring.end)
        *position = ring.begin;
    size_t bytes = min_size((size_t)(line_end(*position) - *position), LOG_LINE_BYTES_MAX);
    for (size_t i = 0; i < bytes; i++)
        out[i] = ring_at(*position + i);
    *position += bytes;
    ASSERT(*position <= ring.end);
    return bytes;
}

void log_add_sink(log_sink *sink)
{
    ASSERT(sink_count < LOG_SINK_COUNT_MAX);
    sinks[sink_count].offer = sink;
    sinks[sink_count].position = ring.begin;
    sink_count++;
    if (!ring.deferred)
        log_flush();
}

void log_defer(bool deferred) { ring.deferred = deferred; }

static bool sink_has_all(size_t index) { return sinks[index].position == ring.end && !sinks[index].torn; }

/* Offers the rest of the sink's current line. */
static size_t sink_offer(size_t index)
{
    uint64_t position = sinks[index].position;
    if (sinks[index].torn) {
        size_t taken = sinks[index].offer("\n", 1);
        sinks[index].torn = taken == 0;
        return taken;
    }
    if (position == ring.end)
        return 0;
    size_t bytes = (size_t)(line_end(position) - position);
    ASSERT(position >= ring.begin && bytes <= LOG_LINE_BYTES_MAX);
    char line[LOG_LINE_BYTES_MAX];
    for (size_t i = 0; i < bytes; i++)
        line[i] = ring_at(position + i);
    size_t taken = sinks[index].offer(line, bytes);
    ASSERT(taken <= bytes);
    sinks[index].position = position + taken;
    return taken;
}

bool log_drain(void)
{
    bool left = false;
    for (size_t i = 0; i < sink_count; i++) {
        sink_offer(i);
        left |= !sink_has_all(i);
    }
    return left;
}

void log_flush(void)
{
    for (size_t i = 0; i < sink_count; i++) {
        unsigned stalls = 0, most = sinks[i].stalled ? LOG_STALL_COUNT_AGAIN_MAX : LOG_STALL_COUNT_MAX;
        while (!sink_has_all(i) && stalls < most) {
            if (sink_offer(i) == 0) {
                stalls++;
            } else {
                stalls = 0;
                most = LOG_STALL_COUNT_MAX; /* the sink takes again */
            }
        }
        sinks[i].stalled = !sink_has_all(i);
        if (sinks[i].position != ring.end)
            sink_skip(i, ring.end);
    }
}
