/* The submit connection: answers out as pipelined POSTs, responses in, nothing sent twice.
 *
 * What becomes of a POST when its connection ends without a response to it:
 * - A response before it ends the connection, by `Connection: close` or because nothing else ends it: the server must not
 *   act on it (RFC 9112 §9.6). It goes out again, even if that response was cut short behind its head.
 * - The peer reset the connection and had not acknowledged the POST's last byte: it never had the whole request, so it
 *   cannot have acted on it. It goes out again. (An acknowledgement that was lost together with the connection would
 *   make this wrong once; a reset follows the segment it answers, so the two cross only if the network reorders.)
 * - Otherwise it may have been acted on. It counts as submitted (`submit.unanswered`): a repetition costs a point and
 *   is forbidden here, whatever a miss costs.
 * An answer that cannot be sent within SUBMIT_EXPIRY_NS of being found is dropped and counted. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/histogram.h"
#include "app/settings.h"
#include "kernel/base/counters.h"

#define SUBMIT_EXPIRY_NS (UINT64_C(5) * 1000 * 1000 * 1000)      /* CONTEST.md: later is worth nothing */

enum {
    SUBMIT_HEAD_BYTES_MAX = 376,            /* net/transport.h: with 1024 digits it fills a message */
    SUBMIT_POSTS_PER_TURN_MAX = 64,
    SUBMIT_DOUBT_NS = 200 * 1000 * 1000,    /* after the peer's FIN, how long to wait for word of what it has */
};

/* Once, before all else here. The settings are borrowed for the call. */
void submit_init(const struct settings *settings);

/* Sends an answer at once if that is possible; else it waits its turn. `true`: it was sent, and the stamps of
 * kernel/base/trace.h are those of this one. False for now, or for ever if there is no room (counted). The hot path. */
bool submit_answer(const uint8_t *digits, size_t count, uint64_t now_ns);

/* Events of the link's connection. */
void submit_event(const struct transport_event *event, uint64_t now_ns);

/* What waits, what expires, what is overdue; connects. */
void submit_tend(uint64_t now_ns);
uint64_t submit_wake_ns(uint64_t now_ns);

struct submit_counters {
    uint64_t posts;                         /* given to the transport */
    uint64_t posts_again;                   /* of those, a second time: the first was never acted on */
    uint64_t waited;                        /* answers that could not be sent at once */
    uint64_t dropped_expired, dropped_no_room, dropped_breaker;
    uint64_t unanswered;                    /* sent, and nobody will tell what became of them */
    uint64_t responses_2xx, responses_3xx, responses_4xx, responses_5xx;
    uint64_t responses_unasked, bad_http;
    /* By the first word of a 2xx body; a server that says something else counts as `other`. */
    uint64_t results_points, results_early, results_dup, results_late, results_wrong, results_other;
    uint64_t points;                        /* the sum of the +N */
};
extern struct submit_counters submit_counters;
extern const struct counter_group submit_counter_group;
extern struct histogram submit_response_ns; /* POST given to the transport to response read */
