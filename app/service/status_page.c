#include "app/service/status_page.h"

#include <string.h>

#include "app/service/stats.h"
#include "app/service/status_page_response.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/text.h"
#include "base/trace.h"
#include "net/capture/capture.h"
#include "net/http/request.h"

enum state {
    /* FREE: there is no connection. The place is not given out while the last response is still being rendered. */
    FREE,
    ASKING, /* the request is not complete */
    ASKED,  /* the request is complete; the statistics have not been published for it */
    SENDING,
    LEAVING, /* everything has been sent, FIN too */
};

/* More than this unacknowledged holds the next piece back: four visitors must leave transmit buffers to the program. */
enum { UNACKED_BYTES_MAX = 32 * 1024 };

struct status_page_connection {
    enum state state;
    int id;
    uint64_t since_ns; /* when it last made progress */
    uint8_t request_text[STATUS_PAGE_REQUEST_BYTES_MAX];
    size_t request_bytes;
    bool rendering; /* atomic. True: what follows belongs to status_page_render; false: to status_page_poll */
    struct status_page_response response;
    struct stats_copy copy; /* the values on the page */
};

static struct {
    uint16_t port;
    bool elsewhere; /* another CPU calls status_page_render */
    bool capture;   /* "/capture" is served */
    struct status_page_connection connections[STATUS_PAGE_CONNECTION_COUNT_MAX];
    unsigned turn; /* the next connection */
} page;
static bool page_open; /* atomic: status_page_render may read `page` */

struct status_page_counters status_page_counters;
const struct counter_group status_page_counter_group = COUNTER_GROUP("status_page.", "Status page",
                                                                     STATUS_PAGE_COUNTERS, status_page_counters);

bool status_page_init(uint16_t port, bool elsewhere, bool capture)
{
    __atomic_store_n(&page_open, false, __ATOMIC_RELEASE);
    memset(&page, 0, sizeof page);
    memset(&status_page_counters, 0, sizeof status_page_counters);
    page.port = port;
    page.elsewhere = elsewhere;
    page.capture = capture;
    ASSERT(!capture || capture_bytes() != 0);
    __atomic_store_n(&page_open, port != 0, __ATOMIC_RELEASE);
    return port == 0 || transport_listen(port);
}

/* Returns true while the response is being rendered: it belongs to status_page_render until its piece is complete. */
static bool is_rendering(const struct status_page_connection *c)
{
    return __atomic_load_n(&c->rendering, __ATOMIC_ACQUIRE);
}

/* Gives the response to status_page_render for one more piece. */
static void render_more(struct status_page_connection *c) { __atomic_store_n(&c->rendering, true, __ATOMIC_RELEASE); }

void status_page_check(void)
{
    for (size_t i = 0; i < STATUS_PAGE_CONNECTION_COUNT_MAX; i++) {
        const struct status_page_connection *c = &page.connections[i];
        ASSERT(c->state <= LEAVING);
        ASSERT(c->request_bytes <= sizeof c->request_text);
        ASSERT(c->state == FREE || (c->id >= 0 && c->id < TRANSPORT_CONNECTION_COUNT_LIMIT));
        ASSERT(c->state == FREE || page.port != 0);
    }
}

/* ---- events ---- */

static struct status_page_connection *connection_of(int id)
{
    for (size_t i = 0; i < STATUS_PAGE_CONNECTION_COUNT_MAX; i++)
        if (page.connections[i].state != FREE && page.connections[i].id == id)
            return &page.connections[i];
    return NULL;
}

/* Returns a free place. If there is none, resets the connection that has stood still the longest, a second at least;
 * NULL: there is none. A place whose page is rendered is neither. */
static struct status_page_connection *place_take(uint64_t now_ns)
{
    struct status_page_connection *oldest = NULL;
    for (size_t i = 0; i < STATUS_PAGE_CONNECTION_COUNT_MAX; i++) {
        struct status_page_connection *c = &page.connections[i];
        if (is_rendering(c))
            continue;
        if (c->state == FREE)
            return c;
        if (now_ns - c->since_ns >= NS_PER_S && (oldest == NULL || c->since_ns < oldest->since_ns))
            oldest = c;
    }
    if (oldest == NULL)
        return NULL;
    status_page_counters.evicted++;
    transport_abort(oldest->id, now_ns);
    return oldest;
}

static void accept(int id, uint64_t now_ns)
{
    ASSERT(id >= 0 && id < TRANSPORT_CONNECTION_COUNT_LIMIT);
    struct status_page_connection *c = place_take(now_ns);
    if (c == NULL) {
        status_page_counters.refused_busy++;
        transport_abort(id, now_ns);
        return;
    }
    c->state = ASKING;
    c->id = id;
    c->since_ns = now_ns;
    c->request_bytes = 0;
    status_page_counters.accepted++;
}

/* Collects the request's head. A body or a second request after the head is passed over. */
static void take_bytes(struct status_page_connection *c, const uint8_t *data, size_t bytes, uint64_t now_ns)
{
    if (c->state != ASKING)
        return;
    size_t part = min_size(bytes, sizeof c->request_text - c->request_bytes);
    memcpy(c->request_text + c->request_bytes, data, part);
    c->request_bytes += part;
    size_t end = http_request_head_bytes(c->request_text, c->request_bytes);
    ASSERT(end <= c->request_bytes);
    if (end == 0 && c->request_bytes < sizeof c->request_text)
        return;
    status_page_counters.requests++;
    const struct bytes text = { c->request_text, c->request_bytes };
    struct status_page_request request = { .status = 431, .head_only = text_starts(text, "HEAD ") }; /* RFC 6585 §5 */
    if (end > 0)
        request = status_page_request_parse(c->request_text, end);
    if (request.status == 200 && request.page == PAGE_CAPTURE && !page.capture)
        request.status = 404;
    status_page_response_begin(&c->response, request, &c->copy);
    c->state = ASKED;
    c->since_ns = now_ns;
}

void status_page_event(const struct transport_event *event, uint64_t now_ns)
{
    if (event->kind == TRANSPORT_ACCEPTED && event->port == page.port && page.port != 0) {
        accept(event->connection, now_ns);
        return;
    }
    struct status_page_connection *c = connection_of(event->connection);
    if (!c)
        return;
    if (event->kind == TRANSPORT_DATA)
        take_bytes(c, event->payload.data, event->payload.count, now_ns);
    else if (event->kind == TRANSPORT_ENDED && c->state == ASKING)
        transport_abort(c->id, now_ns); /* the request can no longer be completed */
    else if (event->kind == TRANSPORT_CLOSED)
        c->state = FREE;
    status_page_check();
}

/* ---- responses ---- */

bool status_page_render(void)
{
    if (!__atomic_load_n(&page_open, __ATOMIC_ACQUIRE))
        return false;
    ASSERT(page.port != 0);
    for (size_t i = 0; i < STATUS_PAGE_CONNECTION_COUNT_MAX; i++) {
        struct status_page_connection *c = &page.connections[i];
        if (!is_rendering(c))
            continue;
        if (!c->response.begun && !stats_copy_read(&c->copy))
            return true; /* stats_publish came in between: read again next time */
        if (status_page_response_step(&c->response))
            __atomic_store_n(&c->rendering, false, __ATOMIC_RELEASE);
        return true;
    }
    return false;
}

/* Sends the piece, and asks for the next one. */
static void send_piece(struct status_page_connection *c, uint64_t now_ns)
{
    struct status_page_response *r = &c->response;
    ASSERT(c->state == SENDING && r->bytes <= sizeof r->piece);
    if (r->bytes > 0) {
        uint8_t *message = transport_unacked_bytes(c->id) <= UNACKED_BYTES_MAX ? transport_message(c->id) : NULL;
        if (!message)
            return;
        memcpy(message, r->piece, r->bytes);
        capture_mute(r->request.page == PAGE_CAPTURE);
        bool sent = transport_send(c->id, 0, (uint32_t)r->bytes, now_ns);
        capture_mute(false);
        if (!sent)
            return;
    }
    c->since_ns = now_ns;
    if (!r->over) {
        status_page_response_next(r);
        render_more(c);
        return;
    }
    if (r->request.status == 200)
        status_page_counters.responses_200++;
    else
        status_page_counters.responses_refused++;
    c->state = LEAVING;
    transport_close(c->id, now_ns);
}

void status_page_poll(uint64_t now_ns)
{
    if (!page.elsewhere && status_page_render()) {
        trace_work(TRACE_WORK_PAGE);
        return;
    }
    struct status_page_connection *c = &page.connections[page.turn++ % STATUS_PAGE_CONNECTION_COUNT_MAX];
    if (c->state == FREE)
        return;
    trace_work(TRACE_WORK_PAGE);
    if (now_ns - c->since_ns > STATUS_PAGE_PATIENCE_NS) {
        status_page_counters.given_up++;
        transport_abort(c->id, now_ns);
        c->since_ns = now_ns; /* until TRANSPORT_CLOSED says that it is gone */
    } else if (c->state == ASKED) {
        stats_publish();
        if (c->response.request.page == PAGE_CAPTURE) {
            capture_flush();
            c->response.capture.end = capture_newest();
        }
        c->state = SENDING;
        render_more(c);
    } else if (c->state == SENDING && !is_rendering(c)) {
        send_piece(c, now_ns);
    }
    status_page_check();
}

uint64_t status_page_next_deadline_ns(uint64_t now_ns)
{
    uint64_t deadline_ns = UINT64_MAX;
    for (size_t i = 0; i < STATUS_PAGE_CONNECTION_COUNT_MAX; i++) {
        const struct status_page_connection *c = &page.connections[i];
        bool busy = c->state == ASKED || c->state == SENDING || is_rendering(c);
        uint64_t due_ns = busy ? now_ns : c->state == FREE ? UINT64_MAX : c->since_ns + STATUS_PAGE_PATIENCE_NS + 1;
        deadline_ns = due_ns < deadline_ns ? due_ns : deadline_ns;
    }
    return deadline_ns;
}
