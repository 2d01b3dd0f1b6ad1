/* The status page over HTTP (docs/status.md): the statistics as plain text at "/", for Prometheus at "/metrics". Off
 * unless http.port= is set; anybody may read it. One request a connection.
 *
 * A page is rendered a few lines a call into pieces of one message each. Connections and messages are the first CPU's,
 * which calls page_tend only when nothing else is to be done, so no answer ever waits for a page. The rendering is
 * page_turn's, which a second CPU may call: a piece belongs to one of them at a time, and the values come from a copy
 * that the first CPU makes when it has read a request (app/stats.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kernel/base/counters.h"
#include "net/transport.h"

enum {
    PAGE_CONNECTION_COUNT_MAX = 4,      /* more are reset: net/transport.h has room for so many beside the game's */
    PAGE_REQUEST_BYTES_MAX = 2048,
};
#define PAGE_PATIENCE_NS (UINT64_C(10) * 1000 * 1000 * 1000)    /* a peer that neither asks nor takes is reset */

/* After transport_init, and after all statistics were registered. `port` 0: off. `elsewhere`: another CPU calls
 * page_turn, else page_tend does. False: the port cannot be had. */
bool page_init(uint16_t port, bool elsewhere);

/* Renders a few lines, some microseconds; false when nothing was asked for. */
bool page_turn(void);

/* Events of connections that nobody else knows. */
void page_event(const struct transport_event *event, uint64_t now_ns);

/* A slice of work, some microseconds. */
void page_tend(uint64_t now_ns);

/* When page_tend has something to do. */
uint64_t page_wake_ns(uint64_t now_ns);

struct page_counters {
    uint64_t accepted, refused_busy;
    uint64_t requests, responses_200, responses_refused;
    uint64_t given_up;                  /* reset for want of patience */
};
extern struct page_counters page_counters;
extern const struct counter_group page_counter_group;
