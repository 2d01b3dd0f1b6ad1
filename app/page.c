#include "app/page.h"

#include <string.h>

#include "app/page_request.h"
#include "app/page_response.h"
#include "app/stats.h"
#include "kernel/base/bytes.h"

enum state {
    FREE,                               /* but not to be had while its response is still being rendered */
    ASKING,                             /* the request is not complete */
    ASKED,                              /* it is; the statistics have not been published for it */
    SENDING,
    LEAVING,                            /* all is sent, FIN too */
};

struct page_connection {
    enum state state;
    int id;
    uint64_t since_ns;                  /* the last time that it got on */
    char request_text[PAGE_REQUEST_BYTES_MAX];
    size_t request_bytes;
    bool rendering;                     /* whose the response is: page_turn's, or else ours. Atomic */
    struct page_response response;
};

static struct {
    uint16_t port;
    bool elsewhere;                     /* another CPU calls page_turn */
    struct page_connection connections[PAGE_CONNECTION_COUNT_MAX];
    unsigned turn;                      /* whose turn it is */
    struct stats_copy copy;             /* page_turn's: what the pages tell */
} page;
static bool page_open;                      /* page_turn may look at all that. Atomic */

struct page_counters page_counters;
static const struct counter page_counter_table[] = {
    COUNTER("page.", page_counters, accepted),
    COUNTER("page.", page_counters, refused_busy),
    COUNTER("page.", page_counters, requests),
    COUNTER("page.", page_counters, responses_200),
    COUNTER("page.", page_counters, responses_refused),
    COUNTER("page.", page_counters, given_up),
};
const struct counter_group page_counter_group = { page_counter_table, ARRAY_COUNT(page_counter_table) };

bool page_init(uint16_t port, bool elsewhere)
{
    __atomic_store_n(&page_open, false, __ATOMIC_RELEASE);
    memset(&page, 0, sizeof page);
    memset(&page_counters, 0, sizeof page_counters);
    page.port = port;
    page.elsewhere = elsewhere;
    __atomic_store_n(&page_open, port != 0, __ATOMIC_RELEASE);
    return port == 0 || transport_listen(port);
}

/* Whether the response is being rendered: it belongs to page_turn until its piece is complete. */
static bool is_rendering(const struct page_connection *c) { return __atomic_load_n(&c->rendering, __ATOMIC_ACQUIRE); }

static void render_more(struct page_connection *c) { __atomic_store_n(&c->rendering, true, __ATOMIC_RELEASE); }

/* ---- events ---- */

static struct page_connection *connection_of(int id)
{
    for (size_t i = 0; i < PAGE_CONNECTION_COUNT_MAX; i++)
        if (page.connections[i].state != FREE && page.connections[i].id == id)
            return &page.connections[i];
    return NULL;
}

static void accept(int id, uint64_t now_ns)
{
    for (size_t i = 0; i < PAGE_CONNECTION_COUNT_MAX; i++) {
        struct page_connection *c = &page.connections[i];
        if (c->state != FREE || is_rendering(c))
            continue;
        c->state = ASKING;
        c->id = id;
        c->since_ns = now_ns;
        c->request_bytes = 0;
        page_counters.accepted++;
        return;
    }
    page_counters.refused_busy++;
    transport_abort(id, now_ns);
}

/* What follows the head, a body or a second request, is passed over. */
static void take_bytes(struct page_connection *c, const uint8_t *data, size_t bytes, uint64_t now_ns)
{
    if (c->state != ASKING)
        return;
    size_t part = min_size(bytes, sizeof c->request_text - c->request_bytes);
    memcpy(c->request_text + c->request_bytes, data, part);
    c->request_bytes += part;
    size_t end = page_request_end(c->request_text, c->request_bytes);
    if (end == 0 && c->request_bytes < sizeof c->request_text)
        return;
    page_counters.requests++;
    struct page_request request = { .status = 431 };        /* RFC 6585 §5 */
    if (end > 0)
        request = page_request_parse(c->request_text, end);
    page_response_begin(&c->response, request, &page.copy);
    c->state = ASKED;
    c->since_ns = now_ns;
}

void page_event(const struct transport_event *event, uint64_t now_ns)
{
    if (event->kind == TRANSPORT_ACCEPTED && event->port == page.port && page.port != 0) {
        accept(event->connection, now_ns);
        return;
    }
    struct page_connection *c = connection_of(event->connection);
    if (!c)
        return;
    if (event->kind == TRANSPORT_DATA)
        take_bytes(c, event->data, event->bytes, now_ns);
    else if (event->kind == TRANSPORT_ENDED && c->state == ASKING)
        transport_abort(c->id, now_ns);         /* it will never ask */
    else if (event->kind == TRANSPORT_CLOSED)
        c->state = FREE;
}

/* ---- responses ---- */

bool page_turn(void)
{
    if (!__atomic_load_n(&page_open, __ATOMIC_ACQUIRE))
        return false;
    for (size_t i = 0; i < PAGE_CONNECTION_COUNT_MAX; i++) {
        struct page_connection *c = &page.connections[i];
        if (!is_rendering(c))
            continue;
        if (!c->response.begun && !stats_copy_read(&page.copy))
            return true;                /* it met stats_publish: the next time */
        if (page_response_step(&c->response))
            __atomic_store_n(&c->rendering, false, __ATOMIC_RELEASE);
        return true;
    }
    return false;
}

/* The piece out, and the next one asked for. */
static void send_piece(struct page_connection *c, uint64_t now_ns)
{
    struct page_response *r = &c->response;
    if (r->bytes > 0) {
        uint8_t *message = transport_message(c->id);
        if (!message)
            return;
        memcpy(message, r->piece, r->bytes);
        if (!transport_send(c->id, 0, (uint32_t)r->bytes, now_ns))
            return;
    }
    c->since_ns = now_ns;
    if (!r->over) {
        page_response_next(r);
        render_more(c);
        return;
    }
    if (r->request.status == 200)
        page_counters.responses_200++;
    else
        page_counters.responses_refused++;
    c->state = LEAVING;
    transport_close(c->id, now_ns);
}

void page_tend(uint64_t now_ns)
{
    if (!page.elsewhere && page_turn())
        return;
    struct page_connection *c = &page.connections[page.turn++ % PAGE_CONNECTION_COUNT_MAX];
    if (c->state == FREE)
        return;
    if (now_ns - c->since_ns > PAGE_PATIENCE_NS) {
        page_counters.given_up++;
        transport_abort(c->id, now_ns);
        c->since_ns = now_ns;           /* until TRANSPORT_CLOSED says that it is gone */
    } else if (c->state == ASKED) {
        stats_publish();
        c->state = SENDING;
        render_more(c);
    } else if (c->state == SENDING && !is_rendering(c)) {
        send_piece(c, now_ns);
    }
}

uint64_t page_wake_ns(uint64_t now_ns)
{
    uint64_t wake_ns = UINT64_MAX;
    for (size_t i = 0; i < PAGE_CONNECTION_COUNT_MAX; i++) {
        const struct page_connection *c = &page.connections[i];
        bool busy = c->state == ASKED || c->state == SENDING || is_rendering(c);
        uint64_t due_ns = busy ? now_ns : c->state == FREE ? UINT64_MAX : c->since_ns + PAGE_PATIENCE_NS + 1;
        wake_ns = due_ns < wake_ns ? due_ns : wake_ns;
    }
    return wake_ns;
}
