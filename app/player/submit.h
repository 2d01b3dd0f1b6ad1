/* The submit connection: answers out as pipelined POSTs, responses in, nothing sent twice.
 *
 * The fate of a POST when its connection ends without a response to it:
 * - A response to an earlier POST ends the connection, by `Connection: close` or because nothing but the connection's
 *   end marks the end of that response. Then the server must not act on the POST (RFC 9112 §9.6). It goes out again,
 *   even if that response was cut short after its head. A response with both a length and a coding does not count
 *   here: the connection is left because its framing is not trusted, but the server may go on.
 * - The peer reset the connection and had not acknowledged the POST's last byte. It never had the whole request, so
 *   it cannot have acted on it. The POST goes out again. (Wrong only if that acknowledgement was lost, overtaken by
 *   the reset, or still held back: by Linux for up to 40 ms. A reset follows the segment it answers, so the two cross
 *   only if the network reorders.)
 * - Otherwise the server may have acted on the POST. It counts as submitted (`submit.unanswered`): a repetition costs
 *   a point and is forbidden here, whatever a miss costs.
 * A response that says that the server did not act on the POST, for now, lets it go out again: 408, 425, 429 and 503.
 * All answers wait for as long as its Retry-After says, or VERDICT_WAIT_NS, and at most SUBMIT_EXPIRY_NS.
 *
 * An answer that cannot be sent within SUBMIT_EXPIRY_NS of being found is dropped and counted.
 *
 * A connection on which answers wait makes progress when a response is complete; bytes alone are none. After
 * SUBMIT_EXPIRY_NS without progress a fresh connection takes its place. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/player/settings.h"
#include "base/counters.h"
#include "base/histogram.h"
#include "base/time.h"
#include "net/transport.h"

#define SUBMIT_EXPIRY_NS (5 * NS_PER_S) /* docs/contest.md, `late`: no points after that */

enum {
    SUBMIT_HEAD_BYTES_MAX = 376, /* net/transport.h: with 1024 digits it fills a message */
    /* The time after the peer's FIN in which its acknowledgements of received bytes may still come. */
    SUBMIT_DOUBT_NS = 200 * NS_PER_MS,
};

/* Begins, before all else here. The settings are borrowed for the call. */
void submit_init(const struct player_settings *settings);

/* Sends an answer at once if that is possible; else the answer waits its turn, or is dropped and counted if there is no
 * room. Returns true if the answer was sent: the stamps of base/trace.h are its own. The hot path. */
bool submit_answer(const uint8_t *digits, size_t count, uint64_t now_ns);

/* Takes the events of the session's connection. */
void submit_event(const struct transport_event *event, uint64_t now_ns);

/* Connects. Leaves a connection that is overdue if `all_taken`: no event waits that might be a response. */
void submit_poll(bool all_taken, uint64_t now_ns);

/* Sends the first answer that waits, or drops it if it is too old. Returns false if none waits, or it cannot be sent
 * now. */
bool submit_send_waiting(uint64_t now_ns);
uint64_t submit_next_deadline_ns(uint64_t now_ns);

/* Returns for how long every answer has failed, from the first failure to the latest; 0 until that is
 * submit.timeout=. A response ends it. */
uint64_t submit_lost_for_ns(void);

/* Asserts the invariant of the submit session and of the send queue. */
void submit_check(void);

/* `posts` are given to the transport; `posts_again` are those that repeat a POST that was never acted on. After
 * `refused_for_now` responses the answer waits to be sent again. `waited` answers could not be sent at once. The
 * fate of `unanswered` ones stays unknown. `lost` counts how often the server was called lost: submit.timeout=. Results
 * count by the first word of a 2xx body, other words as `other`. `points` is the sum of the +N. */
#define SUBMIT_COUNTERS(X)                                                                                             \
    X(COUNT, posts), X(COUNT, posts_again), X(COUNT, refused_for_now), X(COUNT, waited), X(DROP, dropped_expired),     \
        X(DROP, dropped_no_room), X(DROP, dropped_breaker), X(COUNT, unanswered), X(COUNT, lost),                      \
        X(RESPONSE, responses_2xx), X(RESPONSE, responses_3xx), X(RESPONSE, responses_4xx),                            \
        X(RESPONSE, responses_5xx), X(RESPONSE, responses_unasked), X(COUNT, bad_http), X(RESULT, results_points),     \
        X(RESULT, results_early), X(RESULT, results_dup), X(RESULT, results_late), X(RESULT, results_wrong),           \
        X(RESULT, results_other), X(COUNT, points)
extern struct submit_counters {
    uint64_t SUBMIT_COUNTERS(COUNTER_MEMBER);
} submit_counters;
extern const struct counter_group submit_counter_group;
extern struct histogram submit_response_ns; /* POST given to the transport to response read */
