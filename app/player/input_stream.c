#include "app/player/input_stream.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/format.h"
#include "base/hot_section.h"
#include "base/log.h"
#include "base/time.h"

struct input_stream_counters input_stream_counters;
const struct counter_group input_stream_counter_group = COUNTER_GROUP("input_stream.", "Connections that bring digits",
                                                                      INPUT_STREAM_COUNTERS, input_stream_counters);

void input_stream_init_all(void) { memset(&input_stream_counters, 0, sizeof input_stream_counters); }

void input_stream_init(struct input_stream *input, uint32_t index, const char *name, const struct endpoint *to)
{
    ASSERT(index < ENDPOINT_COUNT_MAX);
    memset(input, 0, sizeof *input);
    session_init(&input->session, name, (struct session_owner){ SESSION_OF_INPUT, (uint8_t)index }, to);
}

static void send_request(struct input_stream *input, uint64_t now_ns)
{
    ASSERT(input->session.state == SESSION_UP && input->request_due);
    uint8_t *message = transport_message(input->session.connection);
    if (!message)
        return;
    size_t bytes = format((char *)message, TRANSPORT_MESSAGE_BYTES_MAX, "GET / HTTP/1.1\r\nHost: %pI4h:%u\r\n\r\n",
                          &input->session.to.address, input->session.to.port);
    if (!transport_send(input->session.connection, 0, (uint32_t)bytes, now_ns))
        return;
    input->request_due = false;
    input_stream_counters.requests++;
}

void input_stream_hold(struct input_stream *input, bool held)
{
    ASSERT(input->session.state == SESSION_UP);
    if (held != input->held)
        transport_hold(input->session.connection, held);
    input->held = held;
}

/* Leaves the connection. Its owner is then nobody, who ignores the data that still come. */
static void leave(struct input_stream *input, const char *why, bool in_order, uint64_t now_ns)
{
    input_stream_hold(input, false);
    session_leave(&input->session, why, in_order, now_ns);
}

void input_stream_connected(struct input_stream *input, uint64_t now_ns)
{
    session_connected(&input->session, now_ns);
    http_response_begin(&input->response);
    input->request_due = true;
    input->held = false;
    input->pending.count = 0;
    input->last_digit_ns = now_ns;
    send_request(input, now_ns);
}

void input_stream_poll(struct input_stream *input, uint64_t timeout_ns, uint64_t now_ns)
{
    session_poll(&input->session, now_ns);
    if (input->session.state != SESSION_UP)
        return;
    if (input->request_due)
        send_request(input, now_ns);
    if (input->held)
        input->last_digit_ns = now_ns; /* the held digits wait for us, so the input is not silent */
    if (timeout_ns && now_ns - input->last_digit_ns >= timeout_ns) {
        input_stream_counters.silent++;
        leave(input, "silent", false, now_ns);
    }
}

uint64_t input_stream_next_deadline_ns(const struct input_stream *input, uint64_t timeout_ns, uint64_t now_ns)
{
    if (input->session.state != SESSION_UP)
        return session_next_deadline_ns(&input->session);
    if (input->request_due)
        return now_ns + NS_PER_MS;
    return timeout_ns ? input->last_digit_ns + timeout_ns : UINT64_MAX;
}

/* Returns true if the response's status is 200; else leaves the connection. */
static bool take_head(struct input_stream *input, uint64_t now_ns)
{
    input_stream_counters.responses++;
    if (input->response.status == 200) {
        if (input->head_logged_ns != 0 && now_ns - input->head_logged_ns < NS_PER_S)
            return true;
        input->head_logged_ns = now_ns;
        log_line("%s: HTTP 200, %s", input->session.name,
                 input->response.chunked       ? "chunked"
                 : input->response.until_close ? "until it closes"
                                               : "of a stated length");
        return true;
    }
    input_stream_counters.bad_status++;
    char why[32];
    format(why, sizeof why, "HTTP status %u", input->response.status);
    leave(input, why, false, now_ns);
    return false;
}

/* Returns 0 if all eight bytes are digits. The exclusive or makes 0 to 9 of a digit. The sum sets the top bit of a byte
 * of 10 to 127; a byte above has it already. A carry only leaves a byte that is no digit itself. */
static inline uint64_t not_digits(const uint8_t *at)
{
    uint64_t x = load_le64(at) ^ UINT64_C(0x3030303030303030);
    return (x | (x + UINT64_C(0x7676767676767676))) & UINT64_C(0x8080808080808080);
}

/* Returns true if all bytes are digits, as in nearly every burst. Reads 32 bytes at a time and the rest by eights, the
 * last of which overlap those before. */
static bool all_digits(const uint8_t *at, size_t bytes)
{
    size_t n = 0;
    uint64_t not = 0;
    if (bytes < 8)
        return false;
    for (; n + 32 <= bytes; n += 32)
        not |= not_digits(at + n) | not_digits(at + n + 8) | not_digits(at + n + 16) | not_digits(at + n + 24);
    for (; n + 8 <= bytes; n += 8)
        not |= not_digits(at + n);
    return (not | not_digits(at + bytes - 8)) == 0;
}

static size_t count_digits(const uint8_t *at, size_t bytes)
{
    size_t n = 0;
    while (n + 8 <= bytes && not_digits(at + n) == 0)
        n += 8;
    while (n < bytes && at[n] >= '0' && at[n] <= '9')
        n++;
    return n;
}

/* Takes the first run of digits of the pending bytes, and skips the bytes before the run. Returns false if there is
 * none. */
__attribute__((noinline)) static bool take_part(struct input_stream *input, struct bytes *digits)
{
    const uint8_t *from = input->pending.data, *end = from + input->pending.count;
    while (from < end && (*from < '0' || *from > '9')) {
        if (*from == '\r' || *from == '\n')
            input_stream_counters.bytes_skipped_line_ends++;
        else
            input_stream_counters.bytes_skipped_other++;
        from++;
    }
    *digits = (struct bytes){ from, count_digits(from, (size_t)(end - from)) };
    from += digits->count;
    input->pending = (struct bytes){ from, (size_t)(end - from) };
    return digits->count > 0;
}

/* Acts on the response's head or end. False: the connection was left. */
NOT_HOT static bool take_step(struct input_stream *input, enum http_step step, uint64_t now_ns)
{
    ASSERT(step == HTTP_HEAD || step == HTTP_DONE || step == HTTP_BAD);
    if (step == HTTP_HEAD)
        return take_head(input, now_ns);
    if (step == HTTP_DONE) {
        input_stream_counters.streams_ended++;
        leave(input, "the stream ended", true, now_ns);
    } else {
        input_stream_counters.bad_http++;
        leave(input, input->response.bad, false, now_ns);
    }
    return false;
}

HOT bool input_stream_next(struct input_stream *input, const uint8_t **at, const uint8_t *end, struct bytes *digits,
                           uint64_t now_ns)
{
    while (input->session.state == SESSION_UP) {
        if (input->pending.count == 0) {
            enum http_step step = http_response_step(&input->response, at, end, &input->pending);
            if (step == HTTP_MORE)
                return false;
            if (step != HTTP_BODY) {
                if (!take_step(input, step, now_ns))
                    return false;
                continue;
            }
        }
        if (all_digits(input->pending.data, input->pending.count)) {
            *digits = input->pending;
            input->pending.count = 0;
        } else if (!take_part(input, digits)) {
            continue;
        }
        input->last_digit_ns = now_ns;
        input->session.useful = true;
        return true;
    }
    return false;
}

void input_stream_ended(struct input_stream *input, uint64_t now_ns)
{
    if (input->response.until_close && http_response_finish(&input->response) == HTTP_DONE)
        input_stream_counters.streams_ended++;
    else
        input_stream_counters.streams_cut++;
    leave(input, "closed by the server", true, now_ns);
}

void input_stream_closed(struct input_stream *input, enum transport_reason reason, uint64_t now_ns)
{
    if (input->session.state == SESSION_UP)
        input_stream_counters.streams_cut++;
    session_closed(&input->session, reason, now_ns);
}
