#include "app/player/submit.h"

#include <string.h>

#include "app/player/circuit_breaker.h"
#include "app/player/send_queue.h"
#include "app/player/session.h"
#include "app/player/verdict.h"
#include "app/service/slow.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/format.h"
#include "base/hot_section.h"
#include "base/log.h"
#include "base/secrets.h"
#include "base/time.h"
#include "net/capture/capture.h"
#include "net/http/response.h"
#include "net/transport_path.h"

/* POSTs given up in a slice. Each may miss the cache: some 6 us in all (not measured). */
enum { GIVE_UP_MAX = 64 };

/* The first line is all that an answer on its way touches. */
static struct {
    _Alignas(64) uint8_t *message; /* the next message area with the head in it; NULL: not prepared */
    uint32_t head_bytes;
    bool can_post;         /* nothing waits, there is room for any answer, the breaker is closed */
    bool ended;            /* the peer said FIN: nothing more is sent here */
    bool last_response;    /* the response that has begun ends the connection */
    uint64_t stream_bytes; /* given to this connection in all */
    struct session session;
    struct http_response response;
    struct verdict verdict; /* on the POST whose response has begun */
    uint64_t ended_ns;
    bool settling;                        /* the connection is over, POSTs on it must be given up */
    uint64_t settle_bytes;                /* while settling: POSTs within these bytes of its stream are given up */
    uint64_t progress_ns;                 /* when a POST's response was last complete, or the connection came up */
    uint64_t timeout_ns;                  /* submit.timeout= */
    uint64_t failing_since_ns, failed_ns; /* the first and the latest failure since the last response; 0: none */
    bool lost;                            /* from the first to the latest is submit.timeout= or more */
    uint64_t bad_status_logged_ns;
    uint64_t resume_ns;               /* nothing is sent before, as a server has asked; 0: none has */
    char head[SUBMIT_HEAD_BYTES_MAX]; /* up to and with "Content-Length: " */
} submit;

struct histogram submit_response_ns;
struct submit_counters submit_counters;
enum { COUNTER_RESULT = COUNTER_LABELLED, COUNTER_RESPONSE };
static const struct counter_metric metrics[] = {
    { "results", "Submissions by what the server said to them", "result", "results_", "", COUNTER_COUNT },
    { "responses", "HTTP responses to submissions by class", "class", "responses_", "", COUNTER_COUNT },
};
const struct counter_group submit_counter_group = COUNTER_GROUP_LABELLED("submit.", "Submissions", SUBMIT_COUNTERS,
                                                                         submit_counters, metrics);

/* Prepares the head, which ends before the one value that changes. That value's digits, the empty line and the body
 * are written after the head: no padding, no leading zeros for a server to trip over, and nothing is moved. */
void submit_init(const struct player_settings *settings)
{
    memset(&submit, 0, sizeof submit);
    memset(&submit_counters, 0, sizeof submit_counters);
    histogram_clear(&submit_response_ns);
    send_queue_init();
    session_init(&submit.session, "submit", (struct session_owner){ SESSION_OF_SUBMIT, 0 }, &settings->submit);
    capture_note_login(settings->submit.address, settings->submit.port); /* each request carries the password */
    submit.timeout_ns = settings->submit_timeout_ns;

    char user[3 * PLAYER_USER_BYTES_MAX + 1], passwd[3 * PLAYER_USER_BYTES_MAX + 1];
    http_percent_encode(user, settings->user, strlen(settings->user));
    http_percent_encode(passwd, settings->passwd, strlen(settings->passwd));
    secrets_note(passwd, strlen(passwd));
    submit.head_bytes = (uint32_t)format(
        submit.head, sizeof submit.head,
        "POST /submit?user=%s&passwd=%s HTTP/1.1\r\nHost: %pI4h:%u\r\nContent-Length: ", user, passwd,
        &settings->submit.address, settings->submit.port);
    /* "1024\r\n\r\n" follows the head. settings.h bounds the name and the password so that this holds. */
    ASSERT(submit.head_bytes + 8 <= SUBMIT_HEAD_BYTES_MAX);
}

void submit_check(void)
{
    session_check(&submit.session);
    send_queue_check();
    ASSERT(!submit.message || submit.session.state == SESSION_UP);
    ASSERT(submit.session.state == SESSION_UP || submit.settling || send_queue_unanswered_count() == 0);
    ASSERT(!submit.settling || submit.session.state == SESSION_DOWN);
    ASSERT(submit.verdict.bytes <= VERDICT_BYTES_MAX);
    ASSERT(!submit.can_post || (send_queue_waiting_count() == 0 && !circuit_breaker_is_open()));
    ASSERT(!submit.can_post || submit.resume_ns == 0);
}

/* Fetches the next message area and puts the head there. */
NOT_HOT static void prepare(void)
{
    if (submit.message || submit.session.state != SESSION_UP || submit.ended)
        return;
    submit.message = transport_message(submit.session.connection);
    if (submit.message) {
        memcpy(submit.message, submit.head, submit.head_bytes);
        transport_message_prepare(submit.session.connection, 0, submit.head_bytes);
    }
}

/* Decides if an answer may be posted at once. Called at the end of whatever may move the queue or the breaker. */
static void update_can_post(void)
{
    submit.can_post = send_queue_waiting_count() == 0 && send_queue_has_room(MATCHER_N_DIGITS_MAX)
                      && !circuit_breaker_is_open() && submit.resume_ns == 0;
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
    if (!transport_send(submit.session.connection, 0, bytes, now_ns))
        return false;
    submit.message = NULL;
    submit.stream_bytes += bytes;
    return true;
}

/* Notes that an answer got no response and will get none. The log says once that they all do. */
NOT_HOT static void answer_failed(uint64_t now_ns)
{
    submit.failed_ns = now_ns;
    if (submit.failing_since_ns == 0)
        submit.failing_since_ns = now_ns;
    uint64_t failing_ns = now_ns - submit.failing_since_ns;
    if (submit.lost || submit.timeout_ns == 0 || failing_ns < submit.timeout_ns)
        return;
    submit.lost = true;
    submit_counters.lost++;
    log_line("submit: the server is lost, every answer has failed for %llu s",
             (unsigned long long)(failing_ns / NS_PER_S));
}

static void answer_succeeded(uint64_t now_ns)
{
    submit.progress_ns = now_ns;
    submit.failing_since_ns = 0;
    if (submit.lost)
        log_line("submit: the server is back");
    submit.lost = false;
}

uint64_t submit_lost_for_ns(void) { return submit.lost ? submit.failed_ns - submit.failing_since_ns : 0; }

/* Notes an answer that has left, or keeps it until it can; off the path. */
NOT_HOT static bool note_answer(const uint8_t *digits, size_t count, bool sent, uint64_t now_ns)
{
    if (!send_queue_append(digits, count, now_ns)) {
        ASSERT(!sent);
        submit_counters.dropped_no_room++;
        answer_failed(now_ns);
        return false;
    }
    if (sent) {
        submit_counters.posts++;
        send_queue_sent(now_ns, submit.stream_bytes);
    } else {
        submit_counters.waited++;
    }
    update_can_post();
    return sent;
}

HOT bool submit_answer(const uint8_t *digits, size_t count, uint64_t now_ns)
{
    if (__builtin_expect(!submit.message, 0))
        prepare(); /* a second answer of one burst; the first finds it done */
    bool sent = submit.can_post && submit.message && post(digits, count, now_ns);
    return note_answer(digits, count, sent, now_ns);
}

bool submit_send_waiting(uint64_t now_ns)
{
    struct send_queue_entry *entry = send_queue_next();
    if (!entry)
        return false;
    if (circuit_breaker_is_open()) {
        submit_counters.dropped_breaker++;
        send_queue_drop();
    } else if (now_ns - entry->offered_ns > SUBMIT_EXPIRY_NS) {
        submit_counters.dropped_expired++;
        answer_failed(now_ns);
        send_queue_drop();
    } else {
        prepare();
        if (submit.resume_ns != 0 || !submit.message || !post(entry->digits, entry->count, now_ns))
            return false;
        submit_counters.posts++;
        submit_counters.posts_again += entry->sent_ns != 0;
        static const uint64_t no_stages[SLOWEST_STAGE_COUNT];
        slow_note(now_ns - entry->offered_ns, no_stages, now_ns);
        send_queue_sent(now_ns, submit.stream_bytes);
    }
    update_can_post();
    return true;
}

/* Gives up POSTs that end within the first `peer_bytes` of the connection's stream, at most GIVE_UP_MAX of them.
 * Returns true if none is left. */
static bool give_up_unanswered(uint64_t peer_bytes, uint64_t now_ns)
{
    const struct send_queue_entry *entry;
    ASSERT(peer_bytes <= submit.stream_bytes);
    for (int i = 0; (entry = send_queue_oldest()) && entry->stream_end <= peer_bytes; i++) {
        if (i == GIVE_UP_MAX)
            return false;
        submit_counters.unanswered++;
        answer_failed(now_ns);
        send_queue_remove_oldest();
    }
    return true;
}

/* Goes on with the end of the connection: POSTs that the peer never had wait again after the others are given up. */
static void settle(uint64_t now_ns)
{
    ASSERT(submit.settling);
    if (!give_up_unanswered(submit.settle_bytes, now_ns))
        return;
    send_queue_take_back();
    submit.settling = false;
}

/* Ends the connection. Gives up the POSTs that the peer has, or may have: those within `peer_bytes`. After a response
 * that ends the connection the peer acts on nothing (RFC 9112 §9.6). That holds even if the response was cut short by
 * the RST of a server that closes with POSTs unread. */
static void connection_over(uint64_t peer_bytes, uint64_t now_ns)
{
    const struct send_queue_entry *entry = send_queue_oldest();
    submit.settle_bytes = submit.last_response && entry ? min_size(peer_bytes, entry->stream_end) : peer_bytes;
    submit.settling = true;
    submit.message = NULL;
    settle(now_ns);
}

/* Leaves the connection, by FIN if `in_order`, else by RST. */
static void leave(const char *why, bool in_order, uint64_t peer_bytes, uint64_t now_ns)
{
    connection_over(peer_bytes, now_ns);
    session_leave(&submit.session, why, in_order, now_ns);
}

/* ---- responses ---- */

/* Counts the word of a 2xx body. */
static void count_verdict(uint64_t now_ns)
{
    static uint64_t *const counted[] = { &submit_counters.results_points, &submit_counters.results_early,
                                         &submit_counters.results_dup,    &submit_counters.results_late,
                                         &submit_counters.results_wrong,  &submit_counters.results_other };
    uint64_t points = 0;
    enum verdict_kind kind = verdict_read(&submit.verdict, &points);
    ASSERT(kind < ARRAY_COUNT(counted));
    ++*counted[kind];
    submit_counters.points += kind == VERDICT_POINTS ? points : 0;
    circuit_breaker_result(kind == VERDICT_WRONG || kind == VERDICT_DUP, now_ns);
}

static void count_response(uint64_t now_ns)
{
    uint16_t status = submit.response.status;
    if (status >= 200 && status < 300) {
        submit_counters.responses_2xx++;
        count_verdict(now_ns);
        return;
    }
    if (status >= 300 && status < 400)
        submit_counters.responses_3xx++;
    else if (status >= 400 && status < 500)
        submit_counters.responses_4xx++;
    else
        submit_counters.responses_5xx++;
    if (submit.bad_status_logged_ns == 0 || now_ns - submit.bad_status_logged_ns >= NS_PER_S) {
        submit.bad_status_logged_ns = now_ns;
        log_line("submit: HTTP status %u", status);
    }
}

/* Lets the oldest POST, which was refused for now, go out again after the time that the server asks for. */
static void send_oldest_again(uint64_t now_ns)
{
    submit.resume_ns = max_size(submit.resume_ns,
                                now_ns + min_size(verdict_wait_ns(&submit.response), SUBMIT_EXPIRY_NS));
    submit_counters.refused_for_now++;
    if (send_queue_send_oldest_again())
        return;
    submit_counters.dropped_no_room++;
    answer_failed(now_ns);
}

static void response_begin(void)
{
    http_response_begin(&submit.response);
    submit.verdict.bytes = 0;
    submit.last_response = false;
}

static void response_done(uint64_t now_ns)
{
    ASSERT(submit.session.state == SESSION_UP);
    struct send_queue_entry *entry = send_queue_oldest();
    if (entry) {
        histogram_add(&submit_response_ns, now_ns - entry->sent_ns);
        answer_succeeded(now_ns);
        count_response(now_ns);
        if (verdict_is_refusal_for_now(submit.response.status))
            send_oldest_again(now_ns);
        else
            send_queue_remove_oldest();
        submit.session.useful = true;
    } else {
        submit_counters.responses_unasked++; /* 408 before an idle connection is closed, most likely */
    }
    bool keep_alive = submit.response.keep_alive, closes = submit.response.closes;
    response_begin();
    if (closes)
        leave("closed by the server's response", true, 0, now_ns);
    else if (!keep_alive)
        leave("two framings in one response", true, submit.stream_bytes, now_ns);
}

static void take_responses(const uint8_t *at, const uint8_t *end, uint64_t now_ns)
{
    struct bytes body;
    while (submit.session.state == SESSION_UP) {
        switch (http_response_step(&submit.response, &at, end, &body)) {
        case HTTP_MORE:
            return;
        case HTTP_HEAD:
            submit.last_response = submit.response.closes;
            break;
        case HTTP_BODY:
            verdict_add(&submit.verdict, body);
            break;
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

/* Acts on the peer's FIN. A response that only its end completes is complete. */
static void take_end(uint64_t now_ns)
{
    if (http_response_finish(&submit.response) == HTTP_DONE) {
        response_done(now_ns);
        if (submit.session.state != SESSION_UP)
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
        session_connected(&submit.session, now_ns);
        response_begin();
        submit.stream_bytes = 0;
        submit.ended = false;
        submit.progress_ns = now_ns;
        submit.message = NULL;
        prepare();
        break;
    case TRANSPORT_DATA:
        take_responses(event->payload.data, event->payload.data + event->payload.count, now_ns);
        break;
    case TRANSPORT_ENDED:
        take_end(now_ns);
        break;
    case TRANSPORT_CLOSED: {
        uint64_t unacked = event->reason == TRANSPORT_RESET ? transport_unacked_bytes(submit.session.connection) : 0;
        connection_over(submit.stream_bytes - unacked, now_ns);
        session_closed(&submit.session, event->reason, now_ns);
        break;
    }
    case TRANSPORT_NONE:
    case TRANSPORT_ACCEPTED:
    case TRANSPORT_DATAGRAM:
        break;
    }
    update_can_post();
    submit_check();
}

/* Decides about the POSTs after the peer's FIN. The peer may have acted on those that it has acknowledged. The others
 * wait a little for its RST (it is gone) or its acknowledgement (it reads on). */
static void poll_ended(uint64_t now_ns)
{
    if (!give_up_unanswered(submit.stream_bytes - transport_unacked_bytes(submit.session.connection), now_ns))
        return;
    if (send_queue_unanswered_count() > 0 && now_ns - submit.ended_ns < SUBMIT_DOUBT_NS)
        return;
    leave("closed by the server", true, submit.stream_bytes, now_ns);
}

/* Returns when the connection has made no progress for SUBMIT_EXPIRY_NS; UINT64_MAX: nothing waits for progress. The
 * wait begins when the oldest POST was sent, or, if none is out, when the oldest waiting answer was found.
 *
 * A server that is slow, with thousands of POSTs before it, has had them in time: each response begins the wait again.
 * If the queue is full a response does not, or a server that responds now and then would keep the queue full. */
static uint64_t overdue_ns(void)
{
    if (submit.session.state != SESSION_UP)
        return UINT64_MAX;
    const struct send_queue_entry *entry = send_queue_oldest();
    if (entry && !send_queue_has_room(MATCHER_N_DIGITS_MAX))
        return entry->sent_ns + SUBMIT_EXPIRY_NS + 1;
    if (entry)
        return max_size(entry->sent_ns, submit.progress_ns) + SUBMIT_EXPIRY_NS + 1;
    entry = send_queue_next();
    return entry ? max_size(entry->offered_ns, submit.progress_ns) + SUBMIT_EXPIRY_NS + 1 : UINT64_MAX;
}

void submit_poll(bool all_taken, uint64_t now_ns)
{
    if (submit.session.state == SESSION_UP && submit.ended)
        poll_ended(now_ns);
    else if (submit.settling)
        settle(now_ns);
    if (!submit.settling) /* a new connection's stream begins at 0 again */
        session_poll(&submit.session, now_ns);

    /* The server has hung, or the way to it has: a new connection is better. */
    if (all_taken && now_ns >= overdue_ns())
        leave("no response", true, submit.stream_bytes, now_ns);

    if (now_ns >= submit.resume_ns)
        submit.resume_ns = 0;
    prepare();
    update_can_post();
}

uint64_t submit_next_deadline_ns(uint64_t now_ns)
{
    if (submit.settling)
        return now_ns;
    uint64_t deadline_ns = session_next_deadline_ns(&submit.session);
    if (submit.session.state == SESSION_UP && (submit.ended || !submit.message || send_queue_waiting_count() > 0))
        deadline_ns = now_ns + NS_PER_MS;
    if (overdue_ns() < deadline_ns)
        deadline_ns = overdue_ns();
    if (submit.resume_ns != 0 && submit.resume_ns < deadline_ns)
        deadline_ns = submit.resume_ns;
    struct send_queue_entry *entry = send_queue_next();
    if (entry && entry->offered_ns + SUBMIT_EXPIRY_NS < deadline_ns)
        deadline_ns = entry->offered_ns + SUBMIT_EXPIRY_NS;
    return deadline_ns;
}
