/* Request bodies. RFC 9112. */
#include "net/http/body.h"

#include "base/assert.h"

void http_body_begin(struct http_body *body, const struct http_request *request)
{
    ASSERT(request->refused == 0 && !(request->chunked && request->has_length));
    *body = (struct http_body){ .chunked = request->chunked, .left = request->has_length ? request->length : 0 };
    body->state = body->chunked ? HTTP_BODY_FRAMING : body->left > 0 ? HTTP_BODY_DATA : HTTP_BODY_DONE;
    http_chunks_begin(&body->chunks, false);
}

/* Takes one byte that is not the body's own. */
static void framing_take(struct http_body *body, uint8_t byte)
{
    struct http_chunks *chunks = &body->chunks;
    ASSERT(body->state == HTTP_BODY_FRAMING);
    http_chunks_take(chunks, byte);
    if (chunks->state == HTTP_CHUNK_DATA) {
        body->state = HTTP_BODY_DATA;
        body->left = chunks->left;
    } else if (chunks->state >= HTTP_CHUNK_DONE) {
        body->state = chunks->state == HTTP_CHUNK_DONE ? HTTP_BODY_DONE : HTTP_BODY_BAD;
    }
}

size_t http_body_step(struct http_body *body, const uint8_t *text, size_t bytes, size_t run_bytes_max,
                      struct bytes *run)
{
    size_t at = 0;
    ASSERT(run_bytes_max > 0);
    *run = (struct bytes){ text, 0 };
    while (at < bytes && body->state == HTTP_BODY_FRAMING)
        framing_take(body, text[at++]);
    if (body->state != HTTP_BODY_DATA || at == bytes)
        return at;
    size_t count = min_size(min_size(bytes - at, run_bytes_max), (size_t)body->left);
    *run = (struct bytes){ text + at, count };
    body->left -= count;
    if (body->left == 0) {
        body->state = body->chunked ? HTTP_BODY_FRAMING : HTTP_BODY_DONE;
        if (body->chunked)
            http_chunks_data_ended(&body->chunks);
    }
    ASSERT(at + count <= bytes && count > 0);
    return at + count;
}

void http_body_check(const struct http_body *body)
{
    ASSERT(body->state <= HTTP_BODY_BAD);
    ASSERT(body->chunked || body->state == HTTP_BODY_DATA || body->state == HTTP_BODY_DONE);
    ASSERT((body->state == HTTP_BODY_DATA) == (body->left > 0));
    http_chunks_check(&body->chunks);
}
