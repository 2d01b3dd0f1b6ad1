#include "app/page_response.h"

#include <assert.h>
#include <string.h>

#include "kernel/base/log.h"

enum {
    TEXTS_PER_STEP = 4,
    CHUNK_HEAD_BYTES = 6,               /* "0578\r\n": RFC 9112 §7.1 allows leading zeros */
    CHUNK_TAIL_BYTES = 2 + 5,           /* "\r\n", and perhaps the last chunk: "0\r\n\r\n" */
    HEAD_BYTES_MAX = 320,
};
static_assert((int)STATS_LINE_BYTES_MAX <= (int)METRICS_TEXT_BYTES_MAX, "one buffer for both");
static_assert(HEAD_BYTES_MAX + CHUNK_HEAD_BYTES + METRICS_TEXT_BYTES_MAX + CHUNK_TAIL_BYTES
              < TRANSPORT_MESSAGE_BYTES_MAX, "the head and a text fit a message");

void page_response_begin(struct page_response *r, struct page_request request, const struct stats_copy *from)
{
    r->request = request;
    r->from = from;
    r->metrics = (struct metrics_cursor){ .from = from };
    r->begun = r->over = false;
    r->line = r->bytes = r->chunk_at = 0;
}

void page_response_next(struct page_response *r) { r->bytes = r->chunk_at = 0; }

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
static void write_head(struct page_response *r)
{
    uint16_t status = r->request.status;
    r->bytes = format((char *)r->piece, HEAD_BYTES_MAX,
                      "HTTP/1.1 %u %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
                      "Cache-Control: no-store\r\n%s%sConnection: close\r\n\r\n",
                      status, reason_of(status), status == 405 ? "Allow: GET, HEAD\r\n" : "",
                      r->request.chunked ? "Transfer-Encoding: chunked\r\n" : "");
    r->begun = true;
}

static void begin_piece(struct page_response *r)
{
    if (!r->begun)
        write_head(r);
    r->chunk_at = r->bytes;
    if (r->request.chunked)
        r->bytes += CHUNK_HEAD_BYTES;
}

/* The next text of the body, which may be empty; false when there is none. */
static bool render(struct page_response *r, char text[METRICS_TEXT_BYTES_MAX], size_t *bytes)
{
    if (r->request.status != 200) {
        *bytes = r->line++ == 0 ? format(text, METRICS_TEXT_BYTES_MAX, "%u %s\n", r->request.status,
                                         reason_of(r->request.status)) : 0;
        return *bytes > 0;
    }
    if (r->request.page == PAGE_METRICS)
        return metrics_next(&r->metrics, text, bytes);
    *bytes = stats_copy_line(r->from, r->line++, text, STATS_LINE_BYTES_MAX);
    return *bytes > 0;
}

static bool is_complete(const struct page_response *r)
{
    return r->over || sizeof r->piece - r->bytes < METRICS_TEXT_BYTES_MAX + CHUNK_TAIL_BYTES;
}

static void fill_some(struct page_response *r)
{
    for (int i = 0; i < TEXTS_PER_STEP && !is_complete(r); i++) {
        char text[METRICS_TEXT_BYTES_MAX];
        size_t bytes = 0;
        r->over = r->request.head_only || !render(r, text, &bytes);
        memcpy(r->piece + r->bytes, text, bytes);
        r->bytes += bytes;
    }
}

/* Puts the frame of the chunk around what was filled in. An empty chunk would be the last one. */
static void end_piece(struct page_response *r)
{
    if (!r->request.chunked)
        return;
    size_t body_bytes = r->bytes - r->chunk_at - CHUNK_HEAD_BYTES;
    if (r->request.head_only || body_bytes == 0) {
        r->bytes = r->chunk_at;
    } else {
        char head[CHUNK_HEAD_BYTES + 1];
        format(head, sizeof head, "%04zx\r\n", body_bytes);
        memcpy(r->piece + r->chunk_at, head, CHUNK_HEAD_BYTES);
        memcpy(r->piece + r->bytes, "\r\n", 2);
        r->bytes += 2;
    }
    if (r->over && !r->request.head_only) {
        memcpy(r->piece + r->bytes, "0\r\n\r\n", 5);
        r->bytes += 5;
    }
}

bool page_response_step(struct page_response *r)
{
    if (r->bytes == 0)
        begin_piece(r);
    fill_some(r);
    if (!is_complete(r))
        return false;
    end_piece(r);
    return true;
}
