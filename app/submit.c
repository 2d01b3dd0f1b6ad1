#include "app/submit.h"

#include <string.h>

#include "app/breaker.h"
#include "app/link.h"
#include "app/outbox.h"
#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"
#include "kernel/base/hot.h"
#include "kernel/base/log.h"
#include "net/http.h"

enum { WORD_BYTES_MAX = 16 };           /* of a response's body, as much as tells the result */

/* The first line is all that an answer on its way touches. */
static struct {
    _Alignas(64) uint8_t *message;      /* the next message area with the head in it; NULL: not prepared */
    uint32_t head_bytes;
    bool clear;                         /* nothing waits, there is room for any answer, the breaker is closed */
    bool ended;                         /* the peer said FIN: nothing more is sent here */
    bool last_response;                 /* the response that has begun ends the connection */
    uint64_t stream_bytes;              /* given to this connection in all */
    struct link link;
    struct http_response response;
    char word[WORD_BYTES_MAX];
    uint32_t word_bytes;
    uint64_t ended_ns;
    uint64_t heard_ns;                  /* when the peer last said anything, or it connected */
    uint64_t bad_status_logged_ns;
    char head[SUBMIT_HEAD_BYTES_MAX];   /* up to and with "Content-Length: " */
} submit;

struct histogram submit_response_ns;
struct submit_counters submit_counters;
static const struct counter submit_counter_table[] = {
    COUNTER("submit.", submit_counters, posts),
    COUNTER("submit.", submit_counters, posts_again),
    COUNTER("submit.", submit_counters, waited),
    COUNTER("submit.", submit_counters, dropped_expired),
    COUNTER("submit.", submit_counters, dropped_no_room),
    COUNTER("submit.", submit_counters, dropped_breaker),
    COUNTER("submit.", submit_counters, unanswered),
    COUNTER("submit.", submit_counters, responses_2xx),
    COUNTER("submit.", submit_counters, responses_3xx),
    COUNTER("submit.", submit_counters, responses_4xx),
    COUNTER("submit.", submit_counters, responses_5xx),
    COUNTER("submit.", submit_counters, responses_unasked),
    COUNTER("submit.", submit_counters, bad_http),
    COUNTER("submit.", submit_counters, results_points),
    COUNTER("submit.", submit_counters, results_early),
    COUNTER("submit.", submit_counters, results_dup),
    COUNTER("submit.", submit_counters, results_late),
    COUNTER("submit.", submit_counters, results_wrong),
    COUNTER("submit.", submit_counters, results_other),
    COUNTER("submit.", submit_counters, points),
};
const struct counter_group submit_counter_group = { submit_counter_table, ARRAY_COUNT(submit_counter_table) };

/* The head ends with the one value that changes. Its digits, the empty line and the body are written behind it, so the
 * length is as short as it is (no padding, no leading zeros for a server to trip over) and nothing is moved. */
void submit_init(const struct settings *settings)
{
    memset(&submit, 0, sizeof submit);
    memset(&submit_counters, 0, sizeof submit_counters);
    histogram_clear(&submit_response_ns);
    outbox_init();
    link_init(&submit.link, "submit", &settings->submit);

    char user[3 * SETTINGS_USER_BYTES_MAX + 1], passwd[3 * SETTINGS_USER_BYTES_MAX + 1];
    http_percent_encode(user, settings->user, strlen(settings->user));
    http_percent_encode(passwd, settings->passwd, strlen(settings->passwd));
    uint32_t a = settings->submit.address;
    submit.head_bytes = (uint32_t)format(submit.head, sizeof submit.head,
        "POST /submit?user=%s&passwd=%s HTTP/1.1\r\nHost: %u.%u.%u.%u:%u\r\nContent-Length: ", user, passwd, a >> 24,
        a >> 16 & 255, a >> 8 & 255, a & 255, settings->submit.port);
    /* "1024\r\n\r\n" behind it. settings.h bounds the name and the password so that this holds. */
    ASSERT(submit.head_bytes + 8 <= SUBMIT_HEAD_BYTES_MAX);
}

/* Fetches the next message area and puts the head there. */
NOT_HOT static void prepare(void)
{
    if (submit.message || submit.link.state != LINK_UP || submit.ended)
        return;
    submit.message = transport_message(submit.link.connection);
    if (submit.message) {
        memcpy(submit.message, submit.head, submit.head_bytes);
        transport_message_prepare(submit.link.connection, 0, submit.head_bytes);
    }
}

/* Anew at the end of whatever may move the outbox or the breaker: submit_answer, submit_event, submit_tend. */
static void look_whether_clear(void)
{
    submit.clear = outbox_waiting_count() == 0 && outbox_has_room(MATCHER_N_DIGITS_MAX) && !breaker_is_open();
}

static uint8_t *write_length(uint8_t *at, size_t count)
{
    if (count >= 1000)
        *at++ = (uint8_t)('0' + count / 1000);
    if (count >= 100)
        *at++ = (uint8_t)('0' + count / 100 % 10);
    if (count >= 10)
        *at++ = (uint8_t)('0' + count / 10 % 10);
    *at++ = (uint8_t)('0' + count % 10);
    return at;
}

/* Completes the prepared message and gives it away. Copies the digits once, into the frame that leaves. */
static inline bool post(const uint8_t *digits, size_t count, uint64_t now_ns)
{
    uint8_t *at = write_length(submit.message + submit.head_bytes, count);
    memcpy(at, "\r\n\r\n", 4);
    copy_here(at + 4, digits, count);
    uint32_t bytes = (uint32_t)(at + 4 + count - submit.message);
    if (!transport_send(submit.link.connection, 0, bytes, now_ns))
        return false;
    submit.message = NULL;
    submit.stream_bytes += bytes;
    return true;
}

/* Off the path: notes an answer that has left, or keeps it until it can. */
NOT_HOT static bool note_answer(const uint8_t *digits, size_t count, bool sent, uint64_t now_ns)
{
    if (breaker_is_open()) {
        submit_counters.dropped_breaker++;
        return false;
    }
    if (!outbox_put(digits, count, now_ns)) {
        ASSERT(!sent);
        submit_counters.dropped_no_room++;
        return false;
    }
    if (sent) {
        submit_counters.posts++;
        outbox_sent(now_ns, submit.stream_bytes);
    } else {
        submit_counters.waited++;
    }
    look_whether_clear();
    return sent;
}

HOT bool submit_answer(const uint8_t *digits, size_t count, uint64_t now_ns)
{
    if (__builtin_expect(!submit.message, 0))
        prepare();                      /* a second answer of one burst; the first finds it done */
    bool sent = submit.clear && submit.message && post(digits, count, now_ns);
    return note_answer(digits, count, sent, now_ns);
}

/* What waits goes out in order, unless it is too old. */
static void send_waiting(uint64_t now_ns)
{
    struct outbox_entry *entry;
    for (unsigned i = 0; i < SUBMIT_POSTS_PER_TURN_MAX && (entry = outbox_next());) {
        if (breaker_is_open()) {
            submit_counters.dropped_breaker++;
            outbox_drop();
            continue;
        }
        if (now_ns - entry->offered_ns > SUBMIT_EXPIRY_NS) {
            submit_counters.dropped_expired++;
            outbox_drop();
            continue;
        }
        prepare();
        if (!submit.message || !post(entry->digits, entry->count, now_ns))
            return;
        submit_counters.posts++;
        submit_counters.posts_again += entry->sent_ns != 0;
        outbox_sent(now_ns, submit.stream_bytes);
        i++;
    }
}

/* Nobody will answer the POSTs that the peer has, or may have: those that end within the first `had` bytes. But behind a
 * response that ends the connection it acts on nothing (RFC 9112 §9.6), even if that was cut short, as by the RST of a
 * server that closes with POSTs unread. */
static void give_up_unanswered(uint64_t had)
{
    struct outbox_entry *entry = outbox_oldest();
    if (submit.last_response && entry)
        had = min_size(had, entry->stream_end);
    while ((entry = outbox_oldest()) && entry->stream_end <= had) {
        submit_counters.unanswered++;
        outbox_answered();
    }
}

/* The connection is about to be gone. Those of its POSTs that the peer never had wait again. */
static void connection_over(uint64_t had)
{
    give_up_unanswered(had);
    outbox_take_back();
    submit.message = NULL;
}

static void leave(const char *why, bool in_order, uint64_t had, uint64_t now_ns)
{
    connection_over(had);
    link_leave(&submit.link, why, in_order, now_ns);
}

/* Responses. */

static bool word_is(const char *word)
{
    return submit.word_bytes >= strlen(word) && !memcmp(submit.word, word, strlen(word));
}

static void count_result(void)
{
    if (submit.word_bytes >= 2 && submit.word[0] == '+' && submit.word[1] >= '0' && submit.word[1] <= '9') {
        submit_counters.results_points++;
        submit_counters.points += (uint64_t)(submit.word[1] - '0');
    } else if (word_is("early")) {
        submit_counters.results_early++;
    } else if (word_is("dup")) {
        submit_counters.results_dup++;
    } else if (word_is("late")) {
        submit_counters.results_late++;
    } else if (word_is("wrong")) {
        submit_counters.results_wrong++;
    } else {
        submit_counters.results_other++;
    }
}

static void count_response(uint64_t now_ns)
{
    uint16_t status = submit.response.status;
    if (status >= 200 && status < 300) {
        submit_counters.responses_2xx++;
        count_result();
        breaker_result(word_is("wrong") || word_is("dup"), now_ns);
        return;
    }
    if (status >= 300 && status < 400)
        submit_counters.responses_3xx++;
    else if (status >= 400 && status < 500)
        submit_counters.responses_4xx++;
    else
        submit_counters.responses_5xx++;
    if (submit.bad_status_logged_ns == 0 || now_ns - submit.bad_status_logged_ns >= 1000000000) {
        submit.bad_status_logged_ns = now_ns;
        log_line("submit: HTTP status %u", status);
    }
}

static void response_begin(void)
{
    http_response_begin(&submit.response);
    submit.word_bytes = 0;
    submit.last_response = false;
}

static void response_done(uint64_t now_ns)
{
    struct outbox_entry *entry = outbox_oldest();
    if (entry) {
        histogram_add(&submit_response_ns, now_ns - entry->sent_ns);
        outbox_answered();
        count_response(now_ns);
        submit.link.useful = true;
    } else {
        submit_counters.responses_unasked++;    /* 408 before an idle connection is closed, most likely */
    }
    bool keep_alive = submit.response.keep_alive;
    response_begin();
    if (!keep_alive)
        leave("closed by the server's response", true, 0, now_ns);
}

static void take_responses(const uint8_t *at, const uint8_t *end, uint64_t now_ns)
{
    struct http_body body;
    while (submit.link.state == LINK_UP) {
        switch (http_response_step(&submit.response, &at, end, &body)) {
        case HTTP_MORE:
            return;
        case HTTP_HEAD:
            submit.last_response = !submit.response.keep_alive;
            break;
        case HTTP_BODY: {
            size_t bytes = min_size(body.bytes, WORD_BYTES_MAX - submit.word_bytes);
            memcpy(submit.word + submit.word_bytes, body.data, bytes);
            submit.word_bytes += (uint32_t)bytes;
            break;
        }
        case HTTP_DONE:
            response_done(now_ns);
            break;
        case HTTP_BAD:
            submit_counters.bad_http++;
            leave(submit.response.bad, false, submit.stream_bytes, now_ns);
            return;
        }
    }
}

/* The peer will say no more. A response that only its end completes is complete. */
static void ended(uint64_t now_ns)
{
    if (http_response_finish(&submit.response) == HTTP_DONE) {
        response_done(now_ns);
        if (submit.link.state != LINK_UP)
            return;
    }
    if (submit.last_response) {
        leave("closed by the server", true, submit.stream_bytes, now_ns);
        return;
    }
    submit.ended = true;
    submit.ended_ns = now_ns;
    submit.message = NULL;
}

void submit_event(const struct transport_event *event, uint64_t now_ns)
{
    switch (event->kind) {
    case TRANSPORT_CONNECTED:
        link_connected(&submit.link, now_ns);
        response_begin();
        submit.stream_bytes = 0;
        submit.ended = false;
        submit.heard_ns = now_ns;
        submit.message = NULL;
        prepare();
        break;
    case TRANSPORT_DATA:
        submit.heard_ns = now_ns;
        take_responses(event->data, event->data + event->bytes, now_ns);
        break;
    case TRANSPORT_ENDED:
        ended(now_ns);
        break;
    case TRANSPORT_CLOSED: {
        uint64_t unacked = event->reason == TRANSPORT_RESET ? transport_unacked_bytes(submit.link.connection) : 0;
        connection_over(submit.stream_bytes - unacked);
        link_closed(&submit.link, event->reason, now_ns);
        break;
    }
    default:
        break;
    }
    look_whether_clear();
}

/* After the peer's FIN. What it has acknowledged it may have acted on; for what it has not, wait a little for its RST
 * (it is gone) or its acknowledgement (it reads on). */
static void tend_ended(uint64_t now_ns)
{
    give_up_unanswered(submit.stream_bytes - transport_unacked_bytes(submit.link.connection));
    if (outbox_unanswered_count() > 0 && now_ns - submit.ended_ns < SUBMIT_DOUBT_NS)
        return;
    leave("closed by the server", true, submit.stream_bytes, now_ns);
}

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

void submit_tend(uint64_t now_ns)
{
    if (submit.link.state == LINK_UP && submit.ended)
        tend_ended(now_ns);
    link_tend(&submit.link, now_ns);

    /* A server that owes an answer and says nothing at all for so long has hung, or the way to it has: a new connection
     * is better. One that is slow, with thousands of POSTs before it, has had them in time and is waited for. */
    struct outbox_entry *entry = submit.link.state == LINK_UP ? outbox_oldest() : NULL;
    if (entry && now_ns - later(entry->sent_ns, submit.heard_ns) > SUBMIT_EXPIRY_NS)
        leave("no response", transport_unacked_bytes(submit.link.connection) == 0, submit.stream_bytes, now_ns);

    prepare();
    send_waiting(now_ns);
    look_whether_clear();
}

uint64_t submit_wake_ns(uint64_t now_ns)
{
    uint64_t wake_ns = link_wake_ns(&submit.link);
    if (submit.link.state == LINK_UP && (submit.ended || !submit.message || outbox_waiting_count() > 0))
        wake_ns = now_ns + 1000000;
    struct outbox_entry *entry = outbox_oldest();
    if (entry && later(entry->sent_ns, submit.heard_ns) + SUBMIT_EXPIRY_NS < wake_ns)
        wake_ns = later(entry->sent_ns, submit.heard_ns) + SUBMIT_EXPIRY_NS;
    entry = outbox_next();
    if (entry && entry->offered_ns + SUBMIT_EXPIRY_NS < wake_ns)
        wake_ns = entry->offered_ns + SUBMIT_EXPIRY_NS;
    return wake_ns;
}
