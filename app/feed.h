/* One input connection: asks for the stream, reads the response, hands on its digits where they lie. Knows HTTP and
 * the link; does not know what the digits mean. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/link.h"
#include "net/http.h"

struct feed {
    _Alignas(64) struct http_body pending;  /* the part of the latest body stretch that feed_next has not looked at */
    uint64_t heard_ns;              /* when the last digit came, or it connected */
    bool request_due;               /* connected, and the GET has not left yet */
    struct link link;               /* digits on their way touch its beginning and that of `response`: two lines */
    struct http_response response;
};
static_assert(offsetof(struct feed, link.useful) < 64 && offsetof(struct feed, response.state) < 128, "struct feed");

/* `name` is lent as to link_init. */
void feed_init(struct feed *feed, const char *name, const struct settings_endpoint *to);

/* TRANSPORT_CONNECTED, and then now and again until the GET has left. A server that sends at once does not wait for
 * it; one that waits needs it. */
void feed_connected(struct feed *feed, uint64_t now_ns);
void feed_tend(struct feed *feed, uint64_t timeout_ns, uint64_t now_ns);

/* The next run of digits of the bytes between *at and `end`; false when they are used up or the connection was left
 * (wrong status, not HTTP, the stream ended). Other bytes are counted and skipped: they do not end a number. Digits are
 * counted (feed_counters.digits) by who takes them, when they have gone their way. */
bool feed_next(struct feed *feed, const uint8_t **at, const uint8_t *end, struct http_body *digits, uint64_t now_ns);

/* TRANSPORT_ENDED, TRANSPORT_CLOSED. */
void feed_ended(struct feed *feed, uint64_t now_ns);
void feed_closed(struct feed *feed, enum transport_reason reason, uint64_t now_ns);

/* When feed_tend has something to do. */
uint64_t feed_wake_ns(const struct feed *feed, uint64_t timeout_ns, uint64_t now_ns);

struct feed_counters {
    uint64_t requests, responses;
    uint64_t digits, bytes_skipped_line_ends, bytes_skipped_other;
    uint64_t bad_http, bad_status, streams_ended, streams_cut, silent;
};
extern struct feed_counters feed_counters;
extern const struct counter_group feed_counter_group;
