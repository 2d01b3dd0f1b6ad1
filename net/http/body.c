/* Request bodies. RFC 9112. */
#include "net/http/body.h"

#include "base/assert.h"
#include "base/text.h"

enum { CHUNK_SIZE_BITS = 60 }; /* a chunk is shorter than 2^60 bytes */

void http_body_begin(struct http_body *body, const struct http_request *request)
{
    ASSERT(request->refused == 0 && !(request->chunked && request->has_length));
    *body = (struct http_body){ .chunked = request->chunked, .left = request->has_length ? request->length : 0 };
    body->state = body->chunked ? HTTP_BODY_SIZE : body->left > 0 ? HTTP_BODY_DATA : HTTP_BODY_DONE;
}

/* Takes a byte of a chunk's size, up to its extension or the end of the line. RFC 9112 §7.1: at least one digit. */
static void size_take(struct http_body *body, uint8_t c)
{
    int digit = text_hex_digit(c);
    bool is_end = c == '\r' || c == ';' || c == ' ' || c == '\t';
    if (digit >= 0 && body->left >> (CHUNK_SIZE_BITS - 4) == 0) {
        body->left = body->left << 4 | (uint64_t)digit;
        body->has_digit = true;
    } else if (is_end && body->has_digit) {
        body->state = HTTP_BODY_EXTENSION;
    } else {
        body->state = HTTP_BODY_BAD;
    }
    ASSERT(body->left >> CHUNK_SIZE_BITS == 0);
}

/* Begins the next chunk's size. */
static void size_begin(struct http_body *body)
{
    ASSERT(body->left == 0);
    body->state = HTTP_BODY_SIZE;
    body->has_digit = false;
}

/* Takes the end of a line. Two line ends in a row end the trailers. */
static void line_end(struct http_body *body)
{
    ASSERT(body->chunked);
    if (body->state == HTTP_BODY_EXTENSION) {
        body->line_has_text = false;
        body->line_bytes = 0;
        body->state = body->left > 0 ? HTTP_BODY_DATA : HTTP_BODY_TRAILER;
    } else if (body->state == HTTP_BODY_CHUNK_END) {
        size_begin(body);
    } else if (body->state == HTTP_BODY_TRAILER) {
        body->state = body->line_has_text ? HTTP_BODY_TRAILER : HTTP_BODY_DONE;
        body->line_has_text = false;
    }
}

/* Takes one byte that is not the body's own. Only CRLF ends a line: requests were smuggled past proxies that read a
 * lone LF or CR unlike their servers. */
static void framing_take(struct http_body *body, uint8_t c)
{
    ASSERT(body->state != HTTP_BODY_DATA && body->state < HTTP_BODY_DONE);
    bool after_cr = body->after_cr;
    body->after_cr = c == '\r';
    if (body->state == HTTP_BODY_SIZE)
        size_take(body, c);
    if (after_cr != (c == '\n')) {
        body->state = HTTP_BODY_BAD;
    } else if (c == '\n') {
        line_end(body);
    } else if (c != '\r' && body->state != HTTP_BODY_BAD) {
        body->line_has_text = true;
        body->line_bytes++;
        if (body->state == HTTP_BODY_CHUNK_END || body->line_bytes > HTTP_BODY_LINE_BYTES_MAX)
            body->state = HTTP_BODY_BAD;
    }
}

size_t http_body_step(struct http_body *body, const uint8_t *text, size_t bytes, size_t run_bytes_max,
                      struct bytes *run)
{
    size_t at = 0;
    ASSERT(run_bytes_max > 0);
    *run = (struct bytes){ text, 0 };
    while (at < bytes && body->state != HTTP_BODY_DATA && body->state < HTTP_BODY_DONE)
        framing_take(body, text[at++]);
    if (body->state != HTTP_BODY_DATA || at == bytes)
        return at;
    size_t count = min_size(min_size(bytes - at, run_bytes_max), (size_t)body->left);
    *run = (struct bytes){ text + at, count };
    body->left -= count;
    if (body->left == 0)
        body->state = body->chunked ? HTTP_BODY_CHUNK_END : HTTP_BODY_DONE;
    ASSERT(at + count <= bytes && count > 0);
    return at + count;
}

void http_body_check(const struct http_body *body)
{
    ASSERT(body->state <= HTTP_BODY_BAD);
    ASSERT(body->chunked || body->state == HTTP_BODY_DATA || body->state == HTTP_BODY_DONE);
    ASSERT(!body->chunked || body->left >> CHUNK_SIZE_BITS == 0);
    ASSERT(body->state != HTTP_BODY_DATA || body->left > 0);
    ASSERT(body->left == 0 || body->state <= HTTP_BODY_EXTENSION || body->state == HTTP_BODY_BAD);
    ASSERT(body->state >= HTTP_BODY_DONE || body->line_bytes <= HTTP_BODY_LINE_BYTES_MAX);
}
