/* Bodies in chunks. RFC 9112 §7.1. */
#include "net/http/chunks.h"

#include <stddef.h>

#include "base/assert.h"
#include "base/hot_section.h"
#include "base/text.h"
#include "net/http/token.h"

void http_chunks_begin(struct http_chunks *c, bool of_response)
{
    *c = (struct http_chunks){ .state = HTTP_CHUNK_SIZE_FIRST, .of_response = of_response };
}

void http_chunks_data_ended(struct http_chunks *c)
{
    ASSERT(c->state == HTTP_CHUNK_DATA);
    c->state = HTTP_CHUNK_DATA_CR;
    c->left = c->line_bytes = 0;
}

static uint8_t fail(struct http_chunks *c, const char *reason)
{
    ASSERT(reason != NULL);
    c->bad = reason;
    return HTTP_CHUNK_BAD;
}

static bool is_blank(uint8_t byte) { return byte == ' ' || byte == '\t'; }

/* Takes a byte of a chunk's size, or one after the size. §7.1: at least one digit, then extensions or the line's end.
 * White space stands before an extension alone (§7.1.1, BWS). */
static uint8_t size_take(struct http_chunks *c, uint8_t byte)
{
    const int digit = text_hex_digit(byte);
    ASSERT(c->state <= HTTP_CHUNK_BLANK);
    if (digit >= 0 && c->state != HTTP_CHUNK_BLANK) {
        if (c->left > INT64_MAX >> 4)
            return fail(c, "a chunk size past 2^63");
        c->left = c->left << 4 | (uint64_t)digit;
        return HTTP_CHUNK_SIZE;
    }
    if (c->state == HTTP_CHUNK_SIZE_FIRST)
        return fail(c, "no chunk size");
    if (byte == ';')
        return HTTP_CHUNK_EXTENSION;
    if (byte == '\r' && (c->state == HTTP_CHUNK_SIZE || c->of_response))
        return HTTP_CHUNK_SIZE_LF;
    return is_blank(byte) ? HTTP_CHUNK_BLANK : fail(c, "not a chunk size");
}

/* Takes the first byte of a line after the last chunk. RFC 9112 §5.2: a server refuses a folded line. */
static uint8_t trailer_first(struct http_chunks *c, uint8_t byte)
{
    if (byte == '\r')
        return HTTP_CHUNK_END_LF;
    if (is_blank(byte) && c->of_response && c->has_trailer)
        return HTTP_CHUNK_TRAILER_VALUE;
    if (is_blank(byte))
        return fail(c, "white space before the first field");
    c->has_trailer = true;
    return http_is_token(byte) ? HTTP_CHUNK_TRAILER_NAME : fail(c, "not a field line");
}

static uint8_t line_ends(struct http_chunks *c, uint8_t byte, uint8_t next)
{
    ASSERT(next != HTTP_CHUNK_BAD);
    return byte == '\n' ? next : fail(c, "a lone CR");
}

/* RFC 9110 §5.5: Returns true for HTAB and all that is no control character. */
static bool is_field_byte(uint8_t byte) { return byte == '\t' || (byte >= ' ' && byte != 0x7f); }

static uint8_t next_state(struct http_chunks *c, uint8_t byte)
{
    switch (c->state) {
    case HTTP_CHUNK_SIZE_FIRST:
    case HTTP_CHUNK_SIZE:
    case HTTP_CHUNK_BLANK:
        return size_take(c, byte);
    case HTTP_CHUNK_EXTENSION:
        if (byte == '\r')
            return HTTP_CHUNK_SIZE_LF;
        return is_field_byte(byte) ? HTTP_CHUNK_EXTENSION : fail(c, "a faulty chunk extension");
    case HTTP_CHUNK_SIZE_LF:
        c->line_bytes = 0;
        return line_ends(c, byte, c->left > 0 ? HTTP_CHUNK_DATA : HTTP_CHUNK_TRAILER);
    case HTTP_CHUNK_DATA_CR:
        return byte == '\r' ? HTTP_CHUNK_DATA_LF : fail(c, "a chunk longer than its size");
    case HTTP_CHUNK_DATA_LF:
        c->line_bytes = 0;
        return byte == '\n' ? HTTP_CHUNK_SIZE_FIRST : fail(c, "a chunk longer than its size");
    case HTTP_CHUNK_TRAILER:
        return trailer_first(c, byte);
    case HTTP_CHUNK_TRAILER_NAME:
        return byte == ':'           ? HTTP_CHUNK_TRAILER_VALUE
               : http_is_token(byte) ? HTTP_CHUNK_TRAILER_NAME
                                     : fail(c, "not a field line");
    case HTTP_CHUNK_TRAILER_VALUE:
        if (byte == '\r')
            return HTTP_CHUNK_TRAILER_LF;
        return is_field_byte(byte) ? HTTP_CHUNK_TRAILER_VALUE
                                   : fail(c, "a lone LF or a control character in a trailer");
    case HTTP_CHUNK_TRAILER_LF:
        return line_ends(c, byte, HTTP_CHUNK_TRAILER);
    default:
        ASSERT(c->state == HTTP_CHUNK_END_LF);
        return line_ends(c, byte, HTTP_CHUNK_DONE);
    }
}

NOT_HOT void http_chunks_take(struct http_chunks *c, uint8_t byte)
{
    ASSERT(c->state != HTTP_CHUNK_DATA && c->state < HTTP_CHUNK_DONE);
    if (++c->line_bytes > HTTP_CHUNK_LINE_BYTES_MAX)
        c->state = fail(c, c->state >= HTTP_CHUNK_TRAILER ? "trailers of more than 4096 bytes"
                                                          : "a chunk line of more than 4096 bytes");
    else
        c->state = next_state(c, byte);
    http_chunks_check(c);
}

void http_chunks_check(const struct http_chunks *c)
{
    ASSERT(c->state <= HTTP_CHUNK_BAD);
    ASSERT((c->state == HTTP_CHUNK_BAD) == (c->bad != NULL));
    ASSERT(c->state != HTTP_CHUNK_DATA || c->left > 0);
    ASSERT(c->left == 0 || c->state <= HTTP_CHUNK_DATA || c->state == HTTP_CHUNK_BAD);
    ASSERT(c->state == HTTP_CHUNK_BAD || c->line_bytes <= HTTP_CHUNK_LINE_BYTES_MAX);
}
