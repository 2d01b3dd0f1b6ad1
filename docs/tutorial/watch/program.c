/* Watches an HTTP service: asks for `path=` of `server=` each `interval=`, counts what comes of it, and asks less
 * often while it fails. */
#include "app/program.h"

#include <string.h>

#include "app/service/rehearsal.h"
#include "app/service/service.h"
#include "app/service/stats.h"
#include "base/assert.h"
#include "base/format.h"
#include "base/histogram.h"
#include "base/log.h"
#include "base/siphash.h"
#include "base/time.h"
#include "net/http/response.h"
#include "net/transport.h"

enum { EVENTS_PER_TURN_MAX = 16, PATH_BYTES_MAX = 255, JITTER_PERCENT = 10, NO_CONNECTION = -1 };

static struct watch_settings {
    struct endpoint server;
    char path[PATH_BYTES_MAX + 1];
    uint64_t interval_ns, timeout_ns, backoff_max_ns;
} settings;

#define WATCH_COUNTERS(X)                                                                                              \
    X(COUNT, requests), X(COUNT, answers), X(COUNT, errors), X(COUNT, wrong), X(COUNT, lost), X(COUNT, timeouts)
static struct watch_counters {
    uint64_t WATCH_COUNTERS(COUNTER_MEMBER);
} counters;

static struct {
    struct siphash_key key;
    uint64_t draws;    /* random numbers so far */
    int connection;    /* the request's; NO_CONNECTION: none */
    bool sent, over;   /* the request has been sent; its outcome has been counted */
    bool answers;      /* the last outcome was an answer */
    uint64_t begun_ns; /* the request's time */
    uint64_t next_ns;  /* the next request's time */
    uint64_t wait_ns;  /* between the two, without jitter */
    struct http_response response, rehearsed;
    struct histogram answer_ns;
} state;

/* Returns a mistake; NULL: the settings are usable. */
static const char *check_settings(void)
{
    if (settings.backoff_max_ns < settings.interval_ns)
        return "backoff.max=: shorter than interval=";
    return settings.path[0] == '/' ? NULL : "path=: begins with /";
}

static const struct setting rows[] = {
    { "server", SETTING_ENDPOINT, SETTING_AT(struct watch_settings, server), .required = true,
      .help = "the HTTP service" },
    { "path", SETTING_TEXT, SETTING_AT(struct watch_settings, path), .min = 1, .max = PATH_BYTES_MAX, .initial = "/",
      .noun = "a path", .help = "what is asked for" },
    { "interval", SETTING_TIME, SETTING_AT(struct watch_settings, interval_ns), .min = NS_PER_MS,
      .max = 3600 * NS_PER_S, .initial = "1", .help = "from one request to the next" },
    { "timeout", SETTING_TIME, SETTING_AT(struct watch_settings, timeout_ns), .min = NS_PER_MS, .max = 60 * NS_PER_S,
      .initial = "2", .help = "how long an answer may take" },
    { "backoff.max", SETTING_TIME, SETTING_AT(struct watch_settings, backoff_max_ns), .min = NS_PER_MS,
      .max = 3600 * NS_PER_S, .initial = "60", .help = "the longest interval after failures" },
};
static const struct settings_table settings_table = { rows,           ARRAY_COUNT(rows),
                                                      &settings,      sizeof settings,
                                                      check_settings, NULL };

static const struct counter_group counter_group = COUNTER_GROUP("watch.", "Watch", WATCH_COUNTERS, counters);

/* ---- one request ---- */

/* Returns a time up to JITTER_PERCENT longer: watchers that lost their server together do not come back together. */
static uint64_t with_jitter(uint64_t ns)
{
    const uint64_t count = state.draws++;
    return ns + siphash(state.key, &count, sizeof count) % (ns * JITTER_PERCENT / 100 + 1);
}

/* Counts the outcome of a request, and sets the time of the next. Each failure in a row doubles the wait. */
static void finish(uint64_t *outcome, uint64_t now_ns)
{
    const bool is_answer = outcome == &counters.answers;
    ASSERT(!state.over && now_ns >= state.begun_ns);
    ++*outcome;
    state.over = true;
    if (is_answer) {
        histogram_add(&state.answer_ns, now_ns - state.begun_ns);
        state.wait_ns = settings.interval_ns;
        state.next_ns = state.begun_ns + state.wait_ns;
    } else {
        state.wait_ns = min_ns(state.wait_ns * 2, settings.backoff_max_ns);
        state.next_ns = now_ns + with_jitter(state.wait_ns);
    }
    if (is_answer != state.answers)
        log_line("watch: the service %s", is_answer ? "answers" : "fails");
    state.answers = is_answer;
}

static void begin(uint64_t now_ns)
{
    counters.requests++;
    state.begun_ns = now_ns;
    state.sent = state.over = false;
    http_response_begin(&state.response);
    state.connection = transport_connect(settings.server.address, settings.server.port, now_ns);
    if (state.connection == NO_CONNECTION)
        finish(&counters.lost, now_ns);
}

/* Sends the request, if the connection is open. */
static void send_request(uint64_t now_ns)
{
    uint8_t *message = transport_message(state.connection);
    if (!message)
        return;
    const size_t bytes = format((char *)message, TRANSPORT_MESSAGE_BYTES_MAX,
                                "GET %s HTTP/1.1\r\nHost: %pI4h:%u\r\nConnection: close\r\n\r\n", settings.path,
                                &settings.server.address, settings.server.port);
    state.sent = transport_send(state.connection, 0, (uint32_t)bytes, now_ns);
}

/* Reads a piece of a response: its body is of no interest. */
static enum http_step read_response(struct http_response *response, struct bytes piece)
{
    const uint8_t *at = piece.data;
    struct bytes body;
    enum http_step step;
    do
        step = http_response_step(response, &at, piece.data + piece.count, &body);
    while (step == HTTP_HEAD || step == HTTP_BODY);
    return step;
}

/* Ends the request if its response has come to an end. */
static void conclude(enum http_step step, uint64_t now_ns)
{
    if (step != HTTP_DONE && step != HTTP_BAD)
        return;
    if (step == HTTP_BAD)
        finish(&counters.wrong, now_ns);
    else
        finish(state.response.status / 100 == 2 ? &counters.answers : &counters.errors, now_ns);
    transport_close(state.connection, now_ns);
}

/* Takes an event of the request's connection. */
static void take_event(const struct transport_event *event, uint64_t now_ns)
{
    ASSERT(state.connection != NO_CONNECTION);
    if (event->kind == TRANSPORT_DATA && !state.over)
        conclude(read_response(&state.response, event->payload), now_ns);
    if (event->kind == TRANSPORT_ENDED && !state.over)
        conclude(http_response_finish(&state.response), now_ns);
    if (event->kind == TRANSPORT_ENDED)
        transport_close(state.connection, now_ns);
    if (event->kind != TRANSPORT_CLOSED)
        return;
    if (!state.over)
        finish(&counters.lost, now_ns); /* refused, reset, or ended without a response */
    state.connection = NO_CONNECTION;
}

static void poll_request(uint64_t now_ns)
{
    if (state.connection == NO_CONNECTION) {
        if (now_ns >= state.next_ns && transport_network()->up)
            begin(now_ns);
        return;
    }
    if (!state.sent)
        send_request(now_ns);
    if (now_ns - state.begun_ns < settings.timeout_ns)
        return;
    if (!state.over)
        finish(&counters.timeouts, now_ns);
    transport_abort(state.connection, now_ns); /* nobody waits for its TRANSPORT_CLOSED */
    state.connection = NO_CONNECTION;
}

/* ---- turns ---- */

static enum program_verdict turn(uint64_t now_ns)
{
    struct transport_event event;
    unsigned events = 0;
    for (; events < EVENTS_PER_TURN_MAX && transport_poll(now_ns, &event); events++)
        if (event.kind != TRANSPORT_DATAGRAM && event.connection == state.connection)
            take_event(&event, now_ns);
        else
            service_event(&event, now_ns);
    poll_request(now_ns);
    transport_idle(now_ns);
    return service_poll(events == 0, now_ns);
}

/* Returns the time of the program's timer: of the next request, or of the end of the one under way. */
static uint64_t next_deadline_ns(uint64_t now_ns)
{
    const bool is_open = state.connection != NO_CONNECTION;
    const uint64_t own_ns = is_open ? state.begun_ns + settings.timeout_ns : state.next_ns;
    return min_ns(own_ns, service_next_deadline_ns(now_ns));
}

/* Reads a made-up response in idle time, into an object of its own. */
static bool rehearse(uint64_t now_ns)
{
    static const char response[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    (void)now_ns;
    http_response_begin(&state.rehearsed);
    return read_response(&state.rehearsed, text_of(response)) == HTTP_DONE;
}

static const char *init(const struct program_machine *machine, uint64_t now_ns)
{
    memset(&state, 0, sizeof state);
    memset(&counters, 0, sizeof counters);
    state.key = siphash_key_from(machine->secret);
    state.connection = NO_CONNECTION;
    state.next_ns = now_ns;
    state.wait_ns = settings.interval_ns;
    stats_add_counters(&counter_group);
    stats_add_histogram("watch.answer", &state.answer_ns);
    rehearsal_add_work(rehearse);
    return NULL;
}

const struct program program = { .name = "watch",
                                 .settings = &settings_table,
                                 .connection_count = 2, /* one that was aborted has its place for a while */
                                 .init = init,
                                 .turn = turn,
                                 .next_deadline_ns = next_deadline_ns };
