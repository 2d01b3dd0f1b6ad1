#include "app/service/status_page_response.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/format.h"
#include "base/text.h"
#include "net/http/request.h"

enum {
    TEXTS_PER_STEP = 4,
    CHUNK_HEAD_BYTES = 6,     /* "0578\r\n": RFC 9112 §7.1 allows leading zeros */
    CHUNK_TAIL_BYTES = 2 + 5, /* "\r\n", and perhaps the last chunk: "0\r\n\r\n" */
    HEAD_BYTES_MAX = 320,
};
static_assert((int)STATS_LINE_BYTES_MAX <= (int)METRICS_TEXT_BYTES_MAX, "one buffer for both");
static_assert(HEAD_BYTES_MAX + CHUNK_HEAD_BYTES + METRICS_TEXT_BYTES_MAX + CHUNK_TAIL_BYTES
                  < TRANSPORT_MESSAGE_BYTES_MAX,
              "the head and a text fit a message");

struct status_page_request status_page_request_parse(const uint8_t *text, size_t bytes)
{
    struct http_request http = http_request_parse(text, bytes);
    struct status_page_request request = {
        .status = http.refused,
        .head_only = text_is(http.method, "HEAD"),
        .chunked = http.version_minor != 0,
    };
    if (http.refused != 0)
        return request;
    request.page = text_is(http.path, "/metrics")   ? PAGE_METRICS
                   : text_is(http.path, "/capture") ? PAGE_CAPTURE
                                                    : PAGE_PLAIN;
    if (!request.head_only && !text_is(http.method, "GET"))
        request.status = 405;
    else
        request.status = request.page != PAGE_PLAIN || text_is(http.path, "/") ? 200 : 404;
    return request;
}

void status_page_response_begin(struct status_page_response *r, struct status_page_request request,
                                const struct stats_copy *from)
{
    ASSERT(request.status >= 200);
    r->request = request;
    r->from = from;
    r->metrics = (struct metrics_cursor){ .from = from };
    r->capture.position = r->capture.end = 0;
    r->capture.bytes = r->capture.at = 0;
    r->begun = r->over = false;
    r->line = r->bytes = r->chunk_at = 0;
}

void status_page_response_next(struct status_page_response *r) { r->bytes = r->chunk_at = 0; }

/* Writes the head. HTTP/1.0 has no chunks: its body ends with the connection, which is closed in any case. */
static void write_head(struct status_page_response *r)
{
    ASSERT(r->bytes == 0 && !r->begun);
    uint16_t status = r->request.status;
    bool is_capture = status == 200 && r->request.page == PAGE_CAPTURE;
    r->bytes = format((char *)r->piece, HEAD_BYTES_MAX,
                      "HTTP/1.1 %u %s\r\nContent-Type: %s\r\n"
                      "Cache-Control: no-store\r\n%s%sConnection: close\r\n\r\n",
                      status, http_reason_phrase(status),
                      is_capture ? "application/x-pcapng" : "text/plain; version=0.0.4; charset=utf-8",
                      status == 405 ? "Allow: GET, HEAD\r\n" : "",
                      r->request.chunked ? "Transfer-Encoding: chunked\r\n" : "");
    r->begun = true;
}

static void begin_piece(struct status_page_response *r)
{
    ASSERT(r->bytes == 0);
    if (!r->begun)
        write_head(r);
    r->chunk_at = r->bytes;
    if (r->request.chunked)
        r->bytes += CHUNK_HEAD_BYTES;
}

/* Hands out the next part of the capture's block, and goes on to the next block. */
static bool render_capture(struct status_page_response *r, char text[METRICS_TEXT_BYTES_MAX], size_t *bytes)
{
    ASSERT(r->capture.at <= r->capture.bytes);
    if (r->capture.at == r->capture.bytes) {
        r->capture.bytes = pcapng_next(&r->capture.position, r->capture.end, r->capture.block);
        r->capture.at = 0;
    }
    *bytes = min_size(r->capture.bytes - r->capture.at, METRICS_TEXT_BYTES_MAX);
    memcpy(text, r->capture.block + r->capture.at, *bytes);
    r->capture.at += *bytes;
    return *bytes > 0;
}

/* Renders the next text of the body, which may be empty; false when there is none. */
static bool render(struct status_page_response *r, char text[METRICS_TEXT_BYTES_MAX], size_t *bytes)
{
    ASSERT(!r->request.head_only);
    if (r->request.status != 200) {
        *bytes = r->line++ == 0 ? format(text, METRICS_TEXT_BYTES_MAX, "%u %s\n", r->request.status,
                                         http_reason_phrase(r->request.status))
                                : 0;
        return *bytes > 0;
    }
    if (r->request.page == PAGE_METRICS)
        return metrics_next(&r->metrics, text, bytes);
    if (r->request.page == PAGE_CAPTURE)
        return render_capture(r, text, bytes);
    *bytes = stats_copy_line(r->from, r->line++, text, STATS_LINE_BYTES_MAX);
    return *bytes > 0;
}

static bool is_complete(const struct status_page_response *r)
{
    return r->over || sizeof r->piece - r->bytes < METRICS_TEXT_BYTES_MAX + CHUNK_TAIL_BYTES;
}

static void fill_some(struct status_page_response *r)
{
    for (int i = 0; i < TEXTS_PER_STEP && !is_complete(r); i++) {
        char text[METRICS_TEXT_BYTES_MAX];
        size_t bytes = 0;
        r->over = r->request.head_only || !render(r, text, &bytes);
        ASSERT(r->bytes + bytes <= sizeof r->piece);
        memcpy(r->piece + r->bytes, text, bytes);
        r->bytes += bytes;
    }
}

/* Puts the frame of the chunk around what was filled in. An empty chunk would be the last one. */
static void end_piece(struct status_page_response *r)
{
    if (!r->request.chunked)
        return;
    ASSERT(r->bytes >= r->chunk_at + CHUNK_HEAD_BYTES);
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
    ASSERT(r->bytes <= sizeof r->piece);
}

bool status_page_response_step(struct status_page_response *r)
{
    if (r->bytes == 0)
        begin_piece(r);
    fill_some(r);
    if (!is_complete(r))
        return false;
    end_piece(r);
    return true;
}
