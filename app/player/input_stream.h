/* One input connection: asks for the stream, reads the response, hands on its digits where they lie. Knows
 * HTTP and the session; does not know what the digits mean. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/player/session.h"
#include "base/counters.h"
#include "net/http/response.h"

struct input_stream {
    _Alignas(64) struct bytes pending; /* the part of the body that input_stream_next has not read */
    uint64_t last_digit_ns;            /* when the last digit came, or it connected */
    uint64_t head_logged_ns;           /* when a response's head was last logged: at most one a second */
    bool request_due;                  /* connected, and the GET has not left yet */
    bool held;                         /* transport_hold: the bytes of an event wait to be taken */
    /* Digits on their way touch the beginning of `session` and that of `response`: two lines. */
    struct session session;
    struct http_response response;
    struct bytes waiting; /* the bytes of that event after `pending`: the caller's */
};
static_assert(offsetof(struct input_stream, session.useful) < 64 && offsetof(struct input_stream, response.state) < 128,
              "struct input_stream");

/* Clears the counters of all input streams. */
void input_stream_init_all(void);

/* Sets up the input stream of that index. `name` must stay valid. */
void input_stream_init(struct input_stream *input, uint32_t index, const char *name, const struct endpoint *to);

/* Takes TRANSPORT_CONNECTED: sends the GET, and tries again with each poll until it has left. A server that sends at
 * once does not wait for the GET; another does. */
void input_stream_connected(struct input_stream *input, uint64_t now_ns);
void input_stream_poll(struct input_stream *input, uint64_t timeout_ns, uint64_t now_ns);

/* Holds the connection's data back, or lets them come. A feed whose data are held is not silent. */
void input_stream_hold(struct input_stream *input, bool held);

/* Finds the next run of digits between *at and `end`. Returns false when the bytes are used up or the connection was
 * left (wrong status, not HTTP, the stream ended). Other bytes are counted and skipped: they do not end a number. The
 * caller counts the digits (input_stream_counters.digits) after their answers have left. */
bool input_stream_next(struct input_stream *input, const uint8_t **at, const uint8_t *end, struct bytes *digits,
                       uint64_t now_ns);

/* Acts on TRANSPORT_ENDED and TRANSPORT_CLOSED. */
void input_stream_ended(struct input_stream *input, uint64_t now_ns);
void input_stream_closed(struct input_stream *input, enum transport_reason reason, uint64_t now_ns);

/* Returns when input_stream_poll has something to do. */
uint64_t input_stream_next_deadline_ns(const struct input_stream *input, uint64_t timeout_ns, uint64_t now_ns);

/* `bytes_dropped_closed` waited for the running search when their connection was lost. */
#define INPUT_STREAM_COUNTERS(X)                                                                                       \
    X(COUNT, requests), X(COUNT, responses), X(COUNT, digits), X(COUNT, bytes_skipped_line_ends),                      \
        X(COUNT, bytes_skipped_other), X(COUNT, bad_http), X(COUNT, bad_status), X(COUNT, streams_ended),              \
        X(COUNT, streams_cut), X(COUNT, silent), X(DROP, bytes_dropped_closed)
extern struct input_stream_counters {
    uint64_t INPUT_STREAM_COUNTERS(COUNTER_MEMBER);
} input_stream_counters;
extern const struct counter_group input_stream_counter_group;
