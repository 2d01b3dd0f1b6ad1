/* HTTP/1.x responses: a state machine that takes heads and chunk lines byte by byte, and bodies in whole pieces.
 * RFC 9112. */
#include "net/http/response.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/hot_section.h"
#include "net/http/token.h"

enum {
    STATE_START,     /* before the status line; one empty line is skipped */
    STATE_START_LF,  /* ... after its CR */
    STATE_LINE,      /* in the status line or a field line */
    STATE_LINE_LF,   /* after a line's CR */
    STATE_LINE_NEXT, /* after a line's LF: white space here would fold the line */
    STATE_HEAD_LF,   /* after the CR of the empty line */
    STATE_HEAD_DONE, /* HTTP_HEAD has been reported; the framing of the body is decided next */
    STATE_BODY_LENGTH,
    STATE_BODY_UNTIL_CLOSE,
    STATE_CHUNK_DATA, /* the last of the three in which the input is body */
    STATE_CHUNK_FRAMING,
    STATE_DONE,
    STATE_BAD,
};

static enum http_step fail(struct http_response *r, const char *reason)
{
    ASSERT(reason != NULL);
    r->state = STATE_BAD;
    r->bad = reason;
    return HTTP_BAD;
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }
static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Compares text[from, to) with a name, which does not mind case. Inlined, it knows the name's length. */
static inline __attribute__((always_inline)) bool equals(const char *text, size_t from, size_t to,
                                                         const char *lower_case)
{
    size_t bytes = strlen(lower_case);
    if (from + bytes != to)
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (lower(text[from + i]) != lower_case[i])
            return false;
    return true;
}

/* Finds the next element of a comma-separated list in text[*at, bytes), without the white space around it; false at the
 * end. */
static bool list_next(const char *text, size_t bytes, size_t *at, size_t *from, size_t *to)
{
    if (*at > bytes)
        return false;
    size_t first = *at, end = first;
    while (end < bytes && text[end] != ',')
        end++;
    *at = end + 1;
    while (first < end && is_blank(text[first]))
        first++;
    while (end > first && is_blank(text[end - 1]))
        end--;
    *from = first;
    *to = end;
    return true;
}

/* RFC 9112 §4: HTTP-version SP status-code SP [ reason-phrase ]. The second space is not insisted on. */
static const char *take_status_line(struct http_response *r, const char *line, size_t bytes)
{
    if (bytes < 12 || memcmp(line, "HTTP/", 5) || line[6] != '.' || line[8] != ' ' || !is_digit(line[5])
        || !is_digit(line[7]))
        return "not a status line";
    if (line[5] != '1')
        return "not HTTP/1.x";
    if (!is_digit(line[9]) || !is_digit(line[10]) || !is_digit(line[11]) || (bytes > 12 && line[12] != ' '))
        return "not a status line";
    r->version_minor = (uint8_t)(line[7] - '0');
    r->status = (uint16_t)((line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0'));
    return NULL;
}

/* RFC 9110 §8.6, RFC 9112 §6.3: decimal digits; the same value repeated counts as one; all else is faulty. Values past
 * 2^63 - 1 are too. */
static void take_content_length(struct http_response *r, const char *line, size_t bytes, size_t at)
{
    size_t from = at, to = at;
    ASSERT(at <= sizeof r->line);
    while (list_next(line, bytes, &at, &from, &to)) {
        int64_t length = 0;
        bool good = from < to;
        for (size_t i = from; i < to && good; i++)
            good = is_digit(line[i]) && !__builtin_mul_overflow(length, 10, &length)
                   && !__builtin_add_overflow(length, line[i] - '0', &length);
        if (!good || (r->has_length && (uint64_t)length != r->length)) {
            r->length_bad = true;
            return;
        }
        r->has_length = true;
        r->length = (uint64_t)length;
    }
}

/* RFC 9112 §6.1, §7: we can decode `chunked` and nothing else. `identity`, gone since RFC 7230, still means nothing. */
static const char *take_transfer_encoding(struct http_response *r, const char *line, size_t bytes, size_t at)
{
    size_t from = at, to = at;
    r->coding_seen = true;
    ASSERT(at <= sizeof r->line);
    while (list_next(line, bytes, &at, &from, &to)) {
        if (from == to || equals(line, from, to, "identity"))
            continue;
        if (!equals(line, from, to, "chunked"))
            return "a transfer coding other than chunked";
        if (r->chunked)
            return "chunked twice"; /* RFC 9112 §6.1: MUST NOT */
        r->chunked = true;
    }
    return NULL;
}

/* RFC 9110 §10.2.3: delay-seconds. A date, which needs a clock, and all else count as if the field were absent. */
static void take_retry_after(struct http_response *r, const char *line, size_t bytes, size_t at)
{
    uint64_t seconds = 0;
    ASSERT(at <= bytes);
    while (at < bytes && is_blank(line[at]))
        at++;
    while (bytes > at && is_blank(line[bytes - 1]))
        bytes--;
    r->has_retry_after = false;
    for (size_t i = at; i < bytes; i++) {
        if (!is_digit(line[i]))
            return;
        seconds = min_size(seconds * 10 + (uint64_t)(line[i] - '0'), UINT32_MAX);
    }
    r->has_retry_after = at < bytes;
    r->retry_after_s = (uint32_t)seconds;
}

static void take_connection(struct http_response *r, const char *line, size_t bytes, size_t at)
{
    size_t from = at, to = at;
    ASSERT(at <= sizeof r->line);
    while (list_next(line, bytes, &at, &from, &to)) {
        if (equals(line, from, to, "close"))
            r->says_close = true;
        else if (equals(line, from, to, "keep-alive"))
            r->says_keep_alive = true;
    }
}

/* RFC 9112 §5: field-name ":" OWS field-value OWS. White space before the colon is refused (§5.1). */
static const char *take_field(struct http_response *r, const char *line, size_t bytes, bool whole)
{
    size_t name_bytes = 0;
    ASSERT(bytes <= sizeof r->line);
    while (name_bytes < bytes && http_is_token((uint8_t)line[name_bytes]))
        name_bytes++;
    /* A name that goes on beyond what was kept is none of those below. */
    if (name_bytes == bytes && !whole)
        return NULL;
    if (name_bytes == 0 || name_bytes >= bytes || line[name_bytes] != ':')
        return "not a field line";

    const size_t value_at = name_bytes + 1;
    bool is_length = equals(line, 0, name_bytes, "content-length");
    bool is_coding = equals(line, 0, name_bytes, "transfer-encoding");
    if ((is_length || is_coding) && !whole)
        return "a framing field of more than 256 bytes";
    if (is_length)
        take_content_length(r, line, bytes, value_at);
    else if (is_coding)
        return take_transfer_encoding(r, line, bytes, value_at);
    else if (equals(line, 0, name_bytes, "connection"))
        take_connection(r, line, bytes, value_at);
    else if (equals(line, 0, name_bytes, "retry-after") && whole)
        take_retry_after(r, line, bytes, value_at);
    return NULL;
}

/* Takes the kept line, which is complete. */
static const char *take_line(struct http_response *r)
{
    ASSERT(r->line_bytes != 0);
    bool whole = r->line_bytes <= sizeof r->line;
    size_t bytes = min_size(r->line_bytes, sizeof r->line);
    r->line_bytes = 0;
    if (r->in_fields)
        return take_field(r, r->line, bytes, whole);
    r->in_fields = true;
    return take_status_line(r, r->line, bytes);
}

static void keep(struct http_response *r, char c)
{
    if (r->line_bytes < sizeof r->line)
        r->line[r->line_bytes] = c;
    r->line_bytes++;
}

/* Keeps a line's bytes at once, up to the first one that head_byte has to look at. */
NOT_HOT static void keep_run(struct http_response *r, const uint8_t **at, const uint8_t *end)
{
    const uint8_t *p = *at, *last = p + min_size((size_t)(end - p), HTTP_HEAD_BYTES_MAX - r->head_bytes);
    ASSERT(r->state == STATE_LINE && p <= end);
    for (; p < last && *p != '\r' && *p != '\n' && *p != '\0'; p++)
        keep(r, (char)*p);
    r->head_bytes += (uint32_t)(p - *at);
    *at = p;
}

static void begin_head(struct http_response *r)
{
    uint32_t head_bytes = r->head_bytes;
    memset(r, 0, offsetof(struct http_response, line));
    r->head_bytes = head_bytes;
    r->state = STATE_START;
}

void http_response_begin(struct http_response *r)
{
    r->head_bytes = 0;
    begin_head(r);
}

/* RFC 9112 §6.3, in its order, for a response to GET or POST. */
static enum http_step head_done(struct http_response *r)
{
    if (!r->in_fields)
        return fail(r, "not a status line");
    if (r->status >= 100 && r->status < 200) {
        if (r->status == 101)
            return fail(r, "switched protocols unasked");
        begin_head(r); /* RFC 9110 §15.2: interim, the final response follows */
        return HTTP_MORE;
    }
    r->keep_alive = !r->says_close && (r->version_minor >= 1 || r->says_keep_alive);
    r->closes = !r->keep_alive;
    if (r->coding_seen && (r->has_length || r->length_bad || r->version_minor == 0))
        r->keep_alive = false; /* RFC 9112 §6.1: the coding wins, but the peer is not trusted */
    if (!r->coding_seen && r->length_bad)
        return fail(r, "a faulty Content-Length");
    r->has_length = r->has_length && !r->coding_seen;
    bool no_body = r->status == 204 || r->status == 304;
    r->until_close = !no_body && !r->chunked && !r->has_length;
    if (r->until_close) {
        r->keep_alive = false;
        r->closes = true;
    }
    r->remaining = r->has_length ? r->length : 0;
    r->state = STATE_HEAD_DONE;
    return HTTP_HEAD;
}

NOT_HOT static void begin_body(struct http_response *r)
{
    ASSERT(r->state == STATE_HEAD_DONE);
    if (r->status == 204 || r->status == 304)
        r->state = STATE_DONE;
    else if (r->chunked)
        r->state = STATE_CHUNK_FRAMING;
    else if (r->until_close)
        r->state = STATE_BODY_UNTIL_CLOSE;
    else
        r->state = r->remaining ? STATE_BODY_LENGTH : STATE_DONE;
    http_chunks_begin(&r->chunks, true);
    ASSERT(r->state != STATE_HEAD_DONE);
}

/* Takes one byte of a head. RFC 9112 §2.2: a lone LF ends a line too; a lone CR is refused. HTTP_MORE: go
 * on. */
NOT_HOT static enum http_step head_byte(struct http_response *r, char c)
{
    ASSERT(r->state <= STATE_HEAD_LF);
    if (++r->head_bytes > HTTP_HEAD_BYTES_MAX)
        return fail(r, "a head of more than 64 KiB");
    if (c == '\0')
        return fail(r, "a NUL in the head");
    switch (r->state) {
    case STATE_START:
        if (c == '\r' || c == '\n') {
            if (r->head_bytes > 1)
                return fail(r, "not a status line");
            r->state = c == '\r' ? STATE_START_LF : STATE_START;
            return HTTP_MORE;
        }
        r->state = STATE_LINE;
        keep(r, c);
        return HTTP_MORE;
    case STATE_START_LF:
        r->state = STATE_START;
        return c == '\n' ? HTTP_MORE : fail(r, "a lone CR");
    case STATE_LINE:
        if (c == '\r')
            r->state = STATE_LINE_LF;
        else if (c == '\n')
            r->state = STATE_LINE_NEXT;
        else
            keep(r, c);
        return HTTP_MORE;
    case STATE_LINE_LF:
        r->state = STATE_LINE_NEXT;
        return c == '\n' ? HTTP_MORE : fail(r, "a lone CR");
    case STATE_LINE_NEXT:
        if (is_blank(c)) {
            /* RFC 9112 §5.2: a folded line continues the one before, after a space. None comes before the first. */
            if (r->line_bytes == 0 || !r->in_fields)
                return fail(r, "white space before the first field");
            r->state = STATE_LINE;
            keep(r, ' ');
            return HTTP_MORE;
        }
        if (r->line_bytes) {
            const char *reason = take_line(r);
            if (reason)
                return fail(r, reason);
        }
        if (c == '\n')
            return head_done(r);
        r->state = c == '\r' ? STATE_HEAD_LF : STATE_LINE;
        if (c != '\r')
            keep(r, c);
        return HTTP_MORE;
    default:
        ASSERT(r->state == STATE_HEAD_LF);
        return c == '\n' ? head_done(r) : fail(r, "a lone CR");
    }
}

/* Takes one byte between chunks. */
static enum http_step chunk_byte(struct http_response *r, char byte)
{
    ASSERT(r->state == STATE_CHUNK_FRAMING);
    http_chunks_take(&r->chunks, (uint8_t)byte);
    if (r->chunks.state == HTTP_CHUNK_DATA) {
        r->state = STATE_CHUNK_DATA;
        r->remaining = r->chunks.left;
    } else if (r->chunks.state == HTTP_CHUNK_DONE) {
        r->state = STATE_DONE;
        return HTTP_DONE;
    } else if (r->chunks.state == HTTP_CHUNK_BAD) {
        return fail(r, r->chunks.bad);
    }
    return HTTP_MORE;
}

static inline int hex_digit(char c)
{
    return is_digit(c) ? c - '0' : lower(c) >= 'a' && lower(c) <= 'f' ? lower(c) - 'a' + 10 : -1;
}

/* Takes the usual bytes between two chunks at once: CRLF after the data, and a size line without extension. Returns
 * false and changes nothing if they are not all there; then they are taken byte by byte. */
static bool chunk_bytes_usual(struct http_response *r, const uint8_t **at, const uint8_t *end)
{
    const uint8_t *p = *at, *const last = end - 1; /* there is a byte: *at < end */
    if (r->state != STATE_CHUNK_FRAMING)
        return false;
    if (r->chunks.state == HTTP_CHUNK_DATA_CR) {
        if (p >= last || p[0] != '\r' || p[1] != '\n')
            return false;
        p += 2;
    } else if (r->chunks.state != HTTP_CHUNK_SIZE_FIRST) {
        return false;
    }
    const uint8_t *first = p;
    uint64_t size = 0;
    int digit;
    while (p < end && (digit = hex_digit((char)*p)) >= 0) {
        size = size << 4 | (uint64_t)digit;
        p++;
    }
    if (p - first > 15 || p >= last || p[0] != '\r' || p[1] != '\n' || size == 0)
        return false;
    r->remaining = r->chunks.left = size;
    r->chunks.line_bytes = 0;
    r->chunks.state = HTTP_CHUNK_DATA;
    r->state = STATE_CHUNK_DATA;
    *at = p + 2;
    return true;
}

static bool in_body(const struct http_response *r)
{
    return r->state >= STATE_BODY_LENGTH && r->state <= STATE_CHUNK_DATA;
}

/* Takes bytes that are not body, until the body begins (HTTP_BODY) or there is something to report. This function is
 * on the answer's path: it reads the line before each chunk. */
HOT __attribute__((noinline)) static enum http_step step_to_body(struct http_response *r, const uint8_t **at,
                                                                 const uint8_t *end)
{
    while (!in_body(r)) {
        switch (r->state) {
        case STATE_HEAD_DONE:
            begin_body(r);
            continue;
        case STATE_DONE:
            return HTTP_DONE;
        case STATE_BAD:
            return HTTP_BAD;
        default:
            if (r->state == STATE_LINE)
                keep_run(r, at, end);
            if (*at >= end)
                return HTTP_MORE;
            if (chunk_bytes_usual(r, at, end))
                continue;
            char c = (char)*(*at)++;
            enum http_step step = r->state <= STATE_HEAD_LF ? head_byte(r, c) : chunk_byte(r, c);
            if (step != HTTP_MORE)
                return step;
        }
    }
    ASSERT(in_body(r));
    return HTTP_BODY;
}

HOT enum http_step http_response_step(struct http_response *r, const uint8_t **at, const uint8_t *end,
                                      struct bytes *body)
{
    if (__builtin_expect(!in_body(r), 0)) {
        enum http_step step = step_to_body(r, at, end);
        if (step != HTTP_BODY)
            return step;
    }
    size_t bytes = (size_t)(end - *at);
    if (bytes == 0)
        return HTTP_MORE;
    if (r->state != STATE_BODY_UNTIL_CLOSE) {
        bytes = (size_t)(r->remaining < bytes ? r->remaining : bytes);
        r->remaining -= bytes;
        if (r->remaining == 0 && r->state == STATE_CHUNK_DATA)
            http_chunks_data_ended(&r->chunks);
        if (r->remaining == 0)
            r->state = r->state == STATE_CHUNK_DATA ? STATE_CHUNK_FRAMING : STATE_DONE;
    }
    *body = (struct bytes){ *at, bytes };
    *at += bytes;
    return HTTP_BODY;
}

enum http_step http_response_finish(struct http_response *r)
{
    ASSERT(r->state <= STATE_BAD);
    if (r->state == STATE_HEAD_DONE)
        begin_body(r);
    switch (r->state) {
    case STATE_START:
        /* Nothing came, or only interim responses. */
        return r->head_bytes == 0 ? HTTP_MORE : fail(r, "cut short");
    case STATE_BODY_UNTIL_CLOSE:
        r->state = STATE_DONE;
        return HTTP_DONE;
    case STATE_DONE:
        return HTTP_DONE;
    case STATE_BAD:
        return HTTP_BAD;
    default:
        return fail(r, "cut short");
    }
}

void http_response_check(const struct http_response *r)
{
    bool is_bad = r->state == STATE_BAD;
    ASSERT(r->state <= STATE_BAD);
    ASSERT(is_bad == (r->bad != NULL));
    ASSERT(is_bad || r->head_bytes <= HTTP_HEAD_BYTES_MAX);
    ASSERT(r->line_bytes <= r->head_bytes);
    ASSERT(r->chunked || r->state < STATE_CHUNK_DATA || r->state >= STATE_DONE);
    if (r->state == STATE_CHUNK_DATA || r->state == STATE_CHUNK_FRAMING)
        http_chunks_check(&r->chunks);
    ASSERT(r->remaining > 0 || (r->state != STATE_BODY_LENGTH && r->state != STATE_CHUNK_DATA));
    ASSERT(r->until_close == (r->state == STATE_BODY_UNTIL_CLOSE) || !in_body(r));
    ASSERT(!r->until_close || (r->closes && !r->chunked && !r->has_length));
    ASSERT(!r->closes || !r->keep_alive);
}

size_t http_percent_encode(char *out, const char *text, size_t bytes)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t used = 0;
    for (size_t i = 0; i < bytes; i++) {
        uint8_t c = (uint8_t)text[i];
        /* RFC 3986 §2.3 */
        if (is_digit(text[i]) || (lower(text[i]) >= 'a' && lower(text[i]) <= 'z') || (c && strchr("-._~", c))) {
            out[used++] = text[i];
        } else {
            out[used++] = '%';
            out[used++] = hex[c >> 4];
            out[used++] = hex[c & 15];
        }
    }
    ASSERT(used <= 3 * bytes);
    out[used] = '\0';
    return used;
}
