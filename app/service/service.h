/* The service that every program has: the control channel, the status page, the log over UDP, and the times after
 * which the machine is given back. A program hands over the events that are not its own, and lets the service work
 * once a turn. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/program.h"
#include "base/counters.h"
#include "net/transport.h"

/* The places that the service takes of the transport's, beside a program's. A program with a measure of its free
 * capacity has those of app/service/agent.h, too. */
enum { SERVICE_CONNECTION_COUNT = 4, SERVICE_LISTENER_COUNT = 2, SERVICE_UDP_PORT_COUNT = 1 };

/* Begins, after transport_init. `secret` is fresh random bytes; `has_helper`: another CPU calls status_page_render.
 * NULL, or a message. */
const char *service_init(const uint8_t secret[32], bool has_helper, uint64_t now_ns);

/* Takes an event that the program does not know. */
void service_event(const struct transport_event *event, uint64_t now_ns);

/* Works for some microseconds, once a turn. The status page and the log get a slice if the program is `idle`: it has
 * nothing better to do. A program that has not been idle for a second gives them one each millisecond. Idle time is
 * rehearsed in (app/service/rehearsal.h): call last in a turn, with no event's payload borrowed. Returns PROGRAM_ON, or
 * the reason why the loop ends. */
enum program_verdict service_poll(bool idle, uint64_t now_ns);

/* Ends the loop as GG does: service_poll says so from now on, and the program leaves in its own order. For the power
 * button and for signals. */
void service_leave(void);

/* Returns when service_poll and transport_idle next have something to do, at most 100 ms ahead. */
uint64_t service_next_deadline_ns(uint64_t now_ns);

#define SERVICE_COUNTERS(X) X(LEVEL, uptime_ns)
extern struct service_counters {
    uint64_t SERVICE_COUNTERS(COUNTER_MEMBER);
} service_counters;

/* Returns the verdict in words, for the log: "gg", "network lost", ... */
const char *service_verdict_name(enum program_verdict verdict);
