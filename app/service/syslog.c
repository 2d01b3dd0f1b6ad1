#include "app/service/syslog.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/format.h"
#include "base/log.h"
#include "base/text.h"
#include "base/trace.h"
#include "base/utc.h"
#include "net/transport.h"

enum {
    /* RFC 5424 §6.2.1: facility local0, severity informational, notice or critical */
    PRIORITY_INFO = 16 * 8 + 6,
    PRIORITY_NOTICE = 16 * 8 + 5,
    PRIORITY_CRITICAL = 16 * 8 + 2,
    SOURCE_PORT = 514,         /* RFC 5426 §3.3 recommends it; nothing listens there */
    SEQUENCE_MAX = 2147483647, /* RFC 5424 §7.3.1: then 1 again */
    HEAD_BYTES_MAX = 160,
};

static struct {
    const struct endpoint *to;
    uint64_t position; /* the log position of the next line to send */
    uint64_t lines;    /* lines of the log before that position */
    uint64_t due_ns;
    uint32_t sequence;
} syslog;

struct syslog_counters syslog_counters;
const struct counter_group syslog_counter_group = COUNTER_GROUP("syslog.", "Log over UDP", SYSLOG_COUNTERS,
                                                                syslog_counters);

void syslog_init(const struct endpoint *to)
{
    memset(&syslog, 0, sizeof syslog);
    memset(&syslog_counters, 0, sizeof syslog_counters);
    syslog.to = to;
}

static bool is_on(void) { return syslog.to && syslog.to->address != 0; }

/* Cuts off the stamp that base/log.c puts in front, "[    1.234567] "; returns it in microseconds. */
static uint64_t stamp_take(struct bytes *line)
{
    struct bytes rest = *line, stamp, seconds;
    uint64_t s, us;
    if (!text_skip(&rest, "[") || !text_split(&rest, ']', &stamp) || !rest.data)
        return 0;
    while (text_skip(&stamp, " "))
        ;
    if (!text_split(&stamp, '.', &seconds) || !stamp.data || !text_number(seconds, 0, UINT32_MAX, &s)
        || !text_number(stamp, 0, 999999, &us))
        return 0;
    text_skip(&rest, " ");
    *line = rest;
    return s * 1000000 + us;
}

static unsigned priority_of(struct bytes text)
{
    if (text_starts(text, "panic:") || text_starts(text, "trap:"))
        return PRIORITY_CRITICAL;
    return text_starts(text, "back to Linux:") || text_starts(text, "breaker:") ? PRIORITY_NOTICE : PRIORITY_INFO;
}

/* Writes a message. RFC 5424 §6: "-" stands for an unknown value. */
static size_t message_write(char *out, size_t out_bytes, struct bytes line)
{
    ASSERT(syslog.sequence < SEQUENCE_MAX);
    char time[UTC_TEXT_BYTES + 1] = "-", host[16] = "-";
    uint64_t us = stamp_take(&line);
    if (log_wall_origin_ns != 0)
        utc_format(time, log_wall_origin_ns + us * 1000);
    const struct transport_network *network = transport_network();
    if (network->address != 0) /* a hosted program learns its address when it connects */
        format(host, sizeof host, "%pI4h", &network->address);
    return format(out, out_bytes, "<%u>1 %s %s peregrine - - [meta sequenceId=\"%u\" sysUpTime=\"%llu\"] %.*s",
                  priority_of(line), time, host, syslog.sequence + 1, (unsigned long long)(us / 10000), (int)line.count,
                  (const char *)line.data);
}

static void sequence_step(uint64_t by) { syslog.sequence = (uint32_t)((syslog.sequence + by) % SEQUENCE_MAX); }

/* Sends the next line. False: there is none, or it cannot be sent now. */
static bool send_next(uint64_t now_ns)
{
    ASSERT(is_on());
    char line[LOG_LINE_BYTES_MAX], message[HEAD_BYTES_MAX + LOG_LINE_BYTES_MAX];
    uint64_t position = syslog.position, forgotten = log_lines_forgotten();
    const struct transport_network *network = transport_network();
    if (!network->up)
        return false;
    size_t bytes = log_read(&position, line);
    if (bytes == 0)
        return false;
    if (forgotten > syslog.lines) {
        sequence_step(forgotten - syslog.lines);
        syslog_counters.lines_missed += forgotten - syslog.lines;
        syslog.lines = forgotten;
        syslog.position = position - bytes;
    }
    struct bytes text = { (const uint8_t *)line, bytes - (line[bytes - 1] == '\n') };
    size_t message_bytes = message_write(message, sizeof message, text);
    message_bytes = min_size(message_bytes, network->mtu_bytes - TRANSPORT_DATAGRAM_HEAD_BYTES);
    if (!transport_udp_send(SOURCE_PORT, syslog.to->address, syslog.to->port, message, message_bytes, now_ns)) {
        syslog_counters.send_failed++;
        return false;
    }
    sequence_step(1);
    syslog_counters.lines_sent++;
    syslog.lines++;
    syslog.position = position;
    return true;
}

void syslog_poll(uint64_t now_ns)
{
    ASSERT(syslog.position <= log_end());
    if (now_ns < syslog.due_ns || !is_on() || syslog.position == log_end())
        return;
    if (!transport_network()->up) {
        syslog.due_ns = now_ns + SYSLOG_SETTLE_NS;
        return;
    }
    syslog.due_ns = now_ns + SYSLOG_PERIOD_NS;
    trace_work(TRACE_WORK_SYSLOG);
    send_next(now_ns);
}

uint64_t syslog_next_deadline_ns(void)
{
    bool idle = !is_on() || syslog.position == log_end() || !transport_network()->up;
    return idle ? UINT64_MAX : syslog.due_ns;
}

bool syslog_flush_step(uint64_t now_ns) { return is_on() && send_next(now_ns); }
