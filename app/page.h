/* The status page over HTTP (docs/status.md): the statistics as plain text at "/", for Prometheus at "/metrics". Off
 * unless http.port= is set; anybody may read it. One request a connection.
 *
 * Written a few lines a call, into the frames that leave: the caller calls page_tend only when nothing else is to be
 * done, so no answer ever waits for a page. */
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

/* After transport_init. `port` 0: off. False: the port cannot be had. */
bool page_init(uint16_t port);

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
