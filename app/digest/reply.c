#include "app/digest/reply.h"

#include "base/assert.h"
#include "base/format.h"
#include "base/text.h"
#include "net/http/request.h"

enum { CHUNK_HEAD_BYTES = 5 /* three digits and CRLF */, CHUNK_END_BYTES = 2 };

void digest_reply_add(struct reply *reply, struct bytes text)
{
    ASSERT(text.count <= sizeof reply->text - reply->bytes);
    memcpy(reply->text + reply->bytes, text.data, text.count);
    reply->bytes += text.count;
}

/* Appends a head with the length of the body, of one line. */
static void add_head(struct reply *reply, unsigned status, const char *fields, bool close, size_t line_bytes)
{
    char head[256];
    size_t bytes = format(head, sizeof head,
                          "HTTP/1.1 %u %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n%s%s\r\n", status,
                          http_reason_phrase(status), line_bytes + 1, fields, close ? "Connection: close\r\n" : "");
    ASSERT(bytes < sizeof head);
    digest_reply_add(reply, (struct bytes){ (const uint8_t *)head, bytes });
}

static void add_line(struct reply *reply, struct bytes line)
{
    digest_reply_add(reply, line);
    digest_reply_add(reply, text_of("\n"));
}

void digest_reply_add_result(struct reply *reply, struct bytes line, bool close)
{
    add_head(reply, 200, "", close, line.count);
    add_line(reply, line);
}

void digest_reply_add_error(struct reply *reply, unsigned status, const char *reason, bool head_only)
{
    const struct bytes line = text_of(reason);
    ASSERT(status >= 400);
    add_head(reply, status,
             status == 405   ? "Allow: POST\r\n"
             : status == 503 ? "Retry-After: 1\r\n"
                             : "",
             true, line.count);
    if (!head_only)
        add_line(reply, line);
}

void digest_reply_add_stream_head(struct reply *reply, bool chunked, bool close)
{
    ASSERT(chunked || close);
    digest_reply_add(reply, text_of("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"));
    digest_reply_add(reply, text_of(chunked ? "Transfer-Encoding: chunked\r\n" : ""));
    digest_reply_add(reply, text_of(close ? "Connection: close\r\n\r\n" : "\r\n"));
}

size_t digest_reply_stream_room(const struct reply *reply)
{
    size_t needed = reply->bytes + CHUNK_HEAD_BYTES + CHUNK_END_BYTES + REPLY_TAIL_BYTES;
    return needed < sizeof reply->text ? sizeof reply->text - needed : 0;
}

uint8_t *digest_reply_stream_begin(struct reply *reply) { return reply->text + reply->bytes + CHUNK_HEAD_BYTES; }

void digest_reply_stream_end(struct reply *reply, size_t bytes, bool chunked)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t *const head = reply->text + reply->bytes;
    ASSERT(bytes <= sizeof reply->text - reply->bytes - CHUNK_HEAD_BYTES - CHUNK_END_BYTES && bytes < 4096);
    if (bytes == 0)
        return;
    if (!chunked) {
        memmove(head, head + CHUNK_HEAD_BYTES, bytes);
        reply->bytes += bytes;
        return;
    }
    for (unsigned i = 0; i < 3; i++)
        head[i] = (uint8_t)digits[bytes >> (8 - 4 * i) & 15];
    memcpy(head + 3, "\r\n", 2);
    reply->bytes += CHUNK_HEAD_BYTES + bytes;
    digest_reply_add(reply, text_of("\r\n"));
}
