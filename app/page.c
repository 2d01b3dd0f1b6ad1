#include "app/page.h"

#include <assert.h>
#include <string.h>

#include "app/metrics.h"
#include "app/page_request.h"
#include "app/stats.h"
#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"
#include "kernel/base/log.h"

enum {
    TEXTS_PER_TURN = 4,
    CHUNK_HEAD_BYTES = 6,               /* "0578\r\n": RFC 9112 §7.1 allows leading zeros */
    CHUNK_TAIL_BYTES = 2 + 5,           /* "\r\n", and perhaps the last chunk: "0\r\n\r\n" */
    HEAD_BYTES_MAX = 320,
};
static_assert((int)STATS_LINE_BYTES_MAX <= (int)METRICS_TEXT_BYTES_MAX, "one buffer for both");
static_assert(HEAD_BYTES_MAX + CHUNK_HEAD_BYTES + METRICS_TEXT_BYTES_MAX + CHUNK_TAIL_BYTES < TRANSPORT_MESSAGE_BYTES_MAX,
              "the head and a text fit a message");

enum state {
    FREE,
    ASKING,                             /* the request is not complete */
    SENDING,
    LEAVING,                            /* all is sent, FIN too */
};

struct page_connection {
    enum state state;
    int id;
    uint64_t since_ns;                  /* the last time that it got on */
    char request_text[PAGE_REQUEST_BYTES_MAX];
    size_t request_bytes;

    /* The response under way. */
    struct page_request request;
    bool head_sent, body_over;
    struct metrics_cursor metrics;
    size_t line;                        /* of the plain page */
    uint8_t *message;                   /* being filled, or NULL */
    size_t message_bytes, chunk_at;     /* where the chunk's head stands */
};

static struct {
    uint16_t port;
    struct page_connection connections[PAGE_CONNECTION_COUNT_MAX];
    unsigned turn;                      /* whose turn it is */
} page;

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

bool page_init(uint16_t port)
{
    memset(&page, 0, sizeof page);
    memset(&page_counters, 0, sizeof page_counters);
    page.port = port;
    return port == 0 || transport_listen(port);
}

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
        if (c->state != FREE)
            continue;
        *c = (struct page_connection){ .state = ASKING, .id = id, .since_ns = now_ns };
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
    c->request = end > 0 ? page_request_parse(c->request_text, end)
                         : (struct page_request){ .status = 431 };     /* RFC 6585 §5 */
    c->state = SENDING;
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

static const char *reason_of(uint16_t status)
{
    switch (status) {
    case 200: return "OK";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 431: return "Request Header Fields Too Large";
    case 505: return "HTTP Version Not Supported";
    default: return "Bad Request";
    }
}

/* HTTP/1.0 has no chunks: there the body ends with the connection, which is closed in any case. */
static void write_head(struct page_connection *c)
{
    const struct page_request *r = &c->request;
    c->message_bytes = format((char *)c->message, HEAD_BYTES_MAX,
                              "HTTP/1.1 %u %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
                              "Cache-Control: no-store\r\n%s%sConnection: close\r\n\r\n",
                              r->status, reason_of(r->status), r->status == 405 ? "Allow: GET, HEAD\r\n" : "",
                              r->chunked ? "Transfer-Encoding: chunked\r\n" : "");
    c->head_sent = true;
}

static void begin_message(struct page_connection *c)
{
    c->message = transport_message(c->id);
    c->message_bytes = 0;
    if (!c->message)
        return;
    if (!c->head_sent)
        write_head(c);
    c->chunk_at = c->message_bytes;
    if (c->request.chunked)
        c->message_bytes += CHUNK_HEAD_BYTES;
}

/* The next text of the body, which may be empty; false when there is none. */
static bool render(struct page_connection *c, char text[METRICS_TEXT_BYTES_MAX], size_t *bytes)
{
    if (c->request.status != 200) {
        *bytes = c->line++ == 0 ? format(text, METRICS_TEXT_BYTES_MAX, "%u %s\n", c->request.status,
                                         reason_of(c->request.status)) : 0;
        return *bytes > 0;
    }
    if (c->request.page == PAGE_METRICS)
        return metrics_next(&c->metrics, text, bytes);
    *bytes = stats_line(c->line++, text, STATS_LINE_BYTES_MAX);
    return *bytes > 0;
}

static void fill_some(struct page_connection *c)
{
    size_t room_needed = METRICS_TEXT_BYTES_MAX + CHUNK_TAIL_BYTES;
    for (int i = 0; i < TEXTS_PER_TURN && !c->body_over && TRANSPORT_MESSAGE_BYTES_MAX - c->message_bytes >= room_needed; i++) {
        char text[METRICS_TEXT_BYTES_MAX];
        size_t bytes = 0;
        c->body_over = c->request.head_only || !render(c, text, &bytes);
        memcpy(c->message + c->message_bytes, text, bytes);
        c->message_bytes += bytes;
    }
}

/* Puts the frame of the chunk around what was filled in. An empty chunk would be the last one. */
static void end_message(struct page_connection *c)
{
    size_t body_bytes = c->message_bytes - c->chunk_at - CHUNK_HEAD_BYTES;
    if (!c->request.chunked)
        return;
    if (c->request.head_only || body_bytes == 0) {
        c->message_bytes = c->chunk_at;
    } else {
        char head[CHUNK_HEAD_BYTES + 1];
        format(head, sizeof head, "%04zx\r\n", body_bytes);
        memcpy(c->message + c->chunk_at, head, CHUNK_HEAD_BYTES);
        memcpy(c->message + c->message_bytes, "\r\n", 2);
        c->message_bytes += 2;
    }
    if (c->body_over && !c->request.head_only) {
        memcpy(c->message + c->message_bytes, "0\r\n\r\n", 5);
        c->message_bytes += 5;
    }
}

static bool message_is_full(const struct page_connection *c)
{
    return c->body_over || TRANSPORT_MESSAGE_BYTES_MAX - c->message_bytes < METRICS_TEXT_BYTES_MAX + CHUNK_TAIL_BYTES;
}

static void send_some(struct page_connection *c, uint64_t now_ns)
{
    if (!c->message)
        begin_message(c);
    if (!c->message)
        return;
    if (!message_is_full(c)) {
        fill_some(c);
        if (message_is_full(c))
            end_message(c);
        return;                         /* sending is the next slice */
    }
    if (c->message_bytes > 0 && !transport_send(c->id, 0, (uint32_t)c->message_bytes, now_ns))
        return;
    c->message = NULL;
    c->since_ns = now_ns;
    if (!c->body_over)
        return;
    if (c->request.status == 200)
        page_counters.responses_200++;
    else
        page_counters.responses_refused++;
    c->state = LEAVING;
    transport_close(c->id, now_ns);
}

void page_tend(uint64_t now_ns)
{
    struct page_connection *c = &page.connections[page.turn++ % PAGE_CONNECTION_COUNT_MAX];
    if (c->state == FREE)
        return;
    if (now_ns - c->since_ns > PAGE_PATIENCE_NS) {
        page_counters.given_up++;
        transport_abort(c->id, now_ns);
        c->since_ns = now_ns;           /* until TRANSPORT_CLOSED says that it is gone */
    } else if (c->state == SENDING) {
        send_some(c, now_ns);
    }
}

uint64_t page_wake_ns(uint64_t now_ns)
{
    uint64_t wake_ns = UINT64_MAX;
    for (size_t i = 0; i < PAGE_CONNECTION_COUNT_MAX; i++) {
        const struct page_connection *c = &page.connections[i];
        uint64_t due_ns = c->state == FREE ? UINT64_MAX : c->state == SENDING ? now_ns : c->since_ns + PAGE_PATIENCE_NS + 1;
        wake_ns = due_ns < wake_ns ? due_ns : wake_ns;
    }
    return wake_ns;
}
