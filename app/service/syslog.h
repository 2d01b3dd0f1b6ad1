/* The log over UDP to log=: RFC 5424 messages, one a datagram (RFC 5426), one a line.
 *
 *     <134>1 2026-11-21T23:56:16.507014Z 10.0.2.15 peregrine - - [meta sequenceId="7" sysUpTime="50"] net: link up
 *
 * Follows the log's ring at its own pace: what the ring forgets before it was sent is counted, and shows as a gap in
 * sequenceId. Sends nothing while the network is down. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/settings.h"
#include "base/time.h"

enum {
    SYSLOG_PERIOD_NS = NS_PER_MS,      /* at most one line a millisecond */
    SYSLOG_SETTLE_NS = 50 * NS_PER_MS, /* after the network came up: ARP keeps a datagram or two */
};

/* Begins. `to` must stay valid. Address 0: off. */
void syslog_init(const struct endpoint *to);

/* Sends one line, if one is due. The caller has nothing better to do. */
void syslog_poll(uint64_t now_ns);

/* Returns when syslog_poll has something to do. */
uint64_t syslog_next_deadline_ns(void);

/* Sends one line whenever it is called, at the end. False: nothing is left that could be sent. */
bool syslog_flush_step(uint64_t now_ns);

#define SYSLOG_COUNTERS(X) X(COUNT, lines_sent), X(COUNT, lines_missed), X(COUNT, send_failed)
extern struct syslog_counters {
    uint64_t SYSLOG_COUNTERS(COUNTER_MEMBER);
} syslog_counters;
extern const struct counter_group syslog_counter_group;
