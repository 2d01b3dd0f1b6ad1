#include "app/feed.h"

#include <string.h>

#include "kernel/base/bytes.h"
#include "kernel/base/hot.h"
#include "kernel/base/log.h"

struct feed_counters feed_counters;
static const struct counter feed_counter_table[] = {
    COUNTER("feed.", feed_counters, requests),
    COUNTER("feed.", feed_counters, responses),
    COUNTER("feed.", feed_counters, digits),
    COUNTER("feed.", feed_counters, bytes_skipped_line_ends),
    COUNTER("feed.", feed_counters, bytes_skipped_other),
    COUNTER("feed.", feed_counters, bad_http),
    COUNTER("feed.", feed_counters, bad_status),
    COUNTER("feed.", feed_counters, streams_ended),
    COUNTER("feed.", feed_counters, streams_cut),
    COUNTER("feed.", feed_counters, silent),
};
const struct counter_group feed_counter_group = { feed_counter_table, ARRAY_COUNT(feed_counter_table) };

void feed_init(struct feed *feed, const char *name, const struct settings_endpoint *to)
{
    memset(feed, 0, sizeof *feed);
    link_init(&feed->link, name, to);
}

static void send_request(struct feed *feed, uint64_t now_ns)
{
    uint8_t *message = transport_message(feed->link.connection);
    if (!message)
        return;
    uint32_t a = feed->link.to.address;
    size_t bytes = format((char *)message, TRANSPORT_MESSAGE_BYTES_MAX,
                          "GET / HTTP/1.1\r\nHost: %u.%u.%u.%u:%u\r\n\r\n", a >> 24, a >> 16 & 255, a >> 8 & 255, a & 255, feed->link.to.port);
    if (!transport_send(feed->link.connection, 0, (uint32_t)bytes, now_ns))
        return;
    feed->request_due = false;
    feed_counters.requests++;
}

void feed_connected(struct feed *feed, uint64_t now_ns)
{
    link_connected(&feed->link, now_ns);
    http_response_begin(&feed->response);
    feed->request_due = true;
    feed->pending.bytes = 0;
    feed->heard_ns = now_ns;
    send_request(feed, now_ns);
}

void feed_tend(struct feed *feed, uint64_t timeout_ns, uint64_t now_ns)
{
    link_tend(&feed->link, now_ns);
    if (feed->link.state != LINK_UP)
        return;
    if (feed->request_due)
        send_request(feed, now_ns);
    if (timeout_ns && now_ns - feed->heard_ns >= timeout_ns) {
        feed_counters.silent++;
        link_leave(&feed->link, "silent", false, now_ns);
    }
}

uint64_t feed_wake_ns(const struct feed *feed, uint64_t timeout_ns, uint64_t now_ns)
{
    if (feed->link.state != LINK_UP)
        return link_wake_ns(&feed->link);
    if (feed->request_due)
        return now_ns + 1000000;
    return timeout_ns ? feed->heard_ns + timeout_ns : UINT64_MAX;
}

static bool take_head(struct feed *feed, uint64_t now_ns)
{
    feed_counters.responses++;
    if (feed->response.status == 200) {
        log_line("%s: HTTP 200, %s", feed->link.name, feed->response.chunked ? "chunked"
                 : feed->response.until_close ? "until it closes" : "of a stated length");
        return true;
    }
    feed_counters.bad_status++;
    char why[32];
    format(why, sizeof why, "HTTP status %u", feed->response.status);
    link_leave(&feed->link, why, false, now_ns);
    return false;
}

/* Not 0 if one of eight bytes is no digit: the sum's top bit says so of what is 10 to 127 more than '0', the other term of the
 * rest. A carry only comes out of a byte that is none itself. */
static inline uint64_t not_digits(const uint8_t *at)
{
    uint64_t x = load_le64(at) ^ UINT64_C(0x3030303030303030);
    return (x | (x + UINT64_C(0x7676767676767676))) & UINT64_C(0x8080808080808080);
}

/* A burst is all digits, as nearly always: 32 bytes at a time, and what is left by eights, the last of which looks at some
 * bytes twice. */
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

/* The first run of digits of what is pending, behind bytes that are skipped; false if there is none. */
__attribute__((noinline)) static bool take_part(struct feed *feed, struct http_body *digits)
{
    const uint8_t *from = feed->pending.data, *end = from + feed->pending.bytes;
    while (from < end && (*from < '0' || *from > '9')) {
        if (*from == '\r' || *from == '\n')
            feed_counters.bytes_skipped_line_ends++;
        else
            feed_counters.bytes_skipped_other++;
        from++;
    }
    *digits = (struct http_body){ from, count_digits(from, (size_t)(end - from)) };
    from += digits->bytes;
    feed->pending = (struct http_body){ from, (size_t)(end - from) };
    return digits->bytes > 0;
}

/* What the response says besides its body; false: nothing more comes of these bytes. */
NOT_HOT static bool take_step(struct feed *feed, enum http_step step, uint64_t now_ns)
{
    switch (step) {
    case HTTP_HEAD:
        return take_head(feed, now_ns);
    case HTTP_DONE:
        feed_counters.streams_ended++;
        link_leave(&feed->link, "the stream ended", true, now_ns);
        return false;
    case HTTP_BAD:
        feed_counters.bad_http++;
        link_leave(&feed->link, feed->response.bad, false, now_ns);
        return false;
    default:
        return false;
    }
}

HOT bool feed_next(struct feed *feed, const uint8_t **at, const uint8_t *end, struct http_body *digits, uint64_t now_ns)
{
    while (feed->link.state == LINK_UP) {
        if (feed->pending.bytes == 0) {
            enum http_step step = http_response_step(&feed->response, at, end, &feed->pending);
            if (step == HTTP_MORE)
                return false;
            if (step != HTTP_BODY) {
                if (!take_step(feed, step, now_ns))
                    return false;
                continue;
            }
        }
        if (all_digits(feed->pending.data, feed->pending.bytes)) {
            *digits = feed->pending;
            feed->pending.bytes = 0;
        } else if (!take_part(feed, digits)) {
            continue;
        }
        feed->heard_ns = now_ns;
        feed->link.useful = true;
        return true;
    }
    return false;
}

void feed_ended(struct feed *feed, uint64_t now_ns)
{
    if (feed->response.until_close && http_response_finish(&feed->response) == HTTP_DONE)
        feed_counters.streams_ended++;
    else
        feed_counters.streams_cut++;
    link_leave(&feed->link, "closed by the server", true, now_ns);
}

void feed_closed(struct feed *feed, enum transport_reason reason, uint64_t now_ns)
{
    if (feed->link.state == LINK_UP)
        feed_counters.streams_cut++;
    link_closed(&feed->link, reason, now_ns);
}
