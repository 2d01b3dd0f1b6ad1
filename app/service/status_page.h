/* The status page over HTTP (docs/status.md): the statistics as plain text at "/", for Prometheus at "/metrics", and
 * with capture.http=on the capture at "/capture" (docs/capture.md). Off unless http.port= is set; anybody may read it.
 * One request a connection.
 *
 * A page is rendered a few lines a call into pieces of one message each. Connections and messages are the first
 * CPU's, which calls status_page_poll only when nothing else is to be done, so no answer ever waits for a page. A
 * other CPU may call status_page_render, which renders. A piece belongs to one of them at a time, and the values
 * come from a copy that the first CPU makes when it has read a request (app/service/stats.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/time.h"
#include "net/transport.h"

enum {
    /* One more takes the place of one that stands still, or is reset. */
    STATUS_PAGE_CONNECTION_COUNT_MAX = 4,
    STATUS_PAGE_REQUEST_BYTES_MAX = 2048,
};
#define STATUS_PAGE_PATIENCE_NS (10 * NS_PER_S) /* a peer that neither asks nor takes is reset */

/* Begins, after transport_init; requests are taken once all statistics are registered. `port` 0: off. `elsewhere`:
 * another CPU calls status_page_render, else status_page_poll does. `capture`: there is a capture, and it is served.
 * False: the port cannot be had. */
bool status_page_init(uint16_t port, bool elsewhere, bool capture);

/* Renders a few lines, some microseconds; false when nothing was asked for. */
bool status_page_render(void);

/* Takes the events of connections that nobody else knows. */
void status_page_event(const struct transport_event *event, uint64_t now_ns);

/* Does a slice of work, some microseconds. */
void status_page_poll(uint64_t now_ns);

/* Returns when status_page_poll has something to do. */
uint64_t status_page_next_deadline_ns(uint64_t now_ns);

/* Asserts the invariant of all connections. */
void status_page_check(void);

/* Resets: `evicted`, a newcomer took the place of a connection that stood still; `given_up`, the peer neither asked nor
 * took. */
#define STATUS_PAGE_COUNTERS(X)                                                                                        \
    X(COUNT, accepted), X(COUNT, refused_busy), X(COUNT, evicted), X(COUNT, requests), X(COUNT, responses_200),        \
        X(COUNT, responses_refused), X(COUNT, given_up)
extern struct status_page_counters {
    uint64_t STATUS_PAGE_COUNTERS(COUNTER_MEMBER);
} status_page_counters;
extern const struct counter_group status_page_counter_group;
