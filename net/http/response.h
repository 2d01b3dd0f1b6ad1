/* HTTP/1.1 responses, read as they arrive: bytes in, body bytes out where they lie. RFC 9112 (framing), RFC 9110.
 *
 * Knows no connection, and no buffer of its own beyond one kept line. The input may be split at any byte, and the parts
 * of the body that come out point into it. HTTP/1.0 servers are understood too.
 *
 *     http_response_begin(&response);
 *     while ((step = http_response_step(&response, &at, end, &body)) != HTTP_MORE)    -- for each piece of input
 *         HTTP_HEAD: response.status is known; HTTP_BODY: `body` is; HTTP_DONE, HTTP_BAD: the response ends
 *     http_response_finish(&response);                                                -- when the peer ends the stream
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "net/http/chunks.h"

enum {
    HTTP_HEAD_BYTES_MAX = 64 * 1024, /* status line and fields, interim (1xx) heads included */
    HTTP_LINE_KEPT_BYTES = 256,      /* longer lines are skipped, unless they decide the framing */
};

enum http_step {
    HTTP_MORE, /* all input is used up, the response is not complete */
    HTTP_HEAD, /* the response is complete; further input is the next one's */
    HTTP_BODY, /* a part of the body, never empty */
    HTTP_DONE, /* the response is complete; input after it belongs to the next one */
    HTTP_BAD,  /* the response is no HTTP/1.x, or lacks framing, as `bad` says: close */
};

struct http_response {
    /* The parser's own; in the body that is all it looks at. */
    uint64_t remaining; /* bytes of the body or of the chunk */
    uint8_t state;
    bool in_fields;
    bool length_bad, says_close, says_keep_alive, coding_seen;
    struct http_chunks chunks;
    uint32_t head_bytes, line_bytes;

    /* Known from HTTP_HEAD on. */
    uint16_t status;       /* three digits; outside 100..599 a 5xx (RFC 9110 §15) */
    uint8_t version_minor; /* the x of HTTP/1.x */
    bool keep_alive;       /* the connection may be used again after HTTP_DONE (RFC 9112 §9.3) */
    bool closes;           /* the server acts on no request after this one (RFC 9112 §9.6) */
    bool until_close;      /* the body has no end but the connection's */
    bool chunked;
    bool has_length;
    uint64_t length; /* Content-Length, if has_length */
    bool has_retry_after;
    uint32_t retry_after_s; /* Retry-After, if has_retry_after; UINT32_MAX for that and more (RFC 9110 §10.2.3) */
    const char *bad;        /* after HTTP_BAD: the mistake, a literal */

    char line[HTTP_LINE_KEPT_BYTES];
};

/* Begins a response: the object needs no other preparation. */
void http_response_begin(struct http_response *response);

/* Advances *at towards `end` to the next event. May be called with no input left. After HTTP_DONE or HTTP_BAD the same
 * is returned again until http_response_begin. */
enum http_step http_response_step(struct http_response *response, const uint8_t **at, const uint8_t *end,
                                  struct bytes *body);

/* Ends the stream, because the peer has ended it. HTTP_DONE: the response is complete by that or was before;
 * HTTP_MORE: no byte of a response had come; HTTP_BAD: the response is cut short. */
enum http_step http_response_finish(struct http_response *response);

/* Asserts the invariant. */
void http_response_check(const struct http_response *response);

/* Writes `text` with every byte but RFC 3986's unreserved ones as %XX, and a NUL; returns the bytes without it. `out`
 * has room for 3 bytes each and the NUL. */
size_t http_percent_encode(char *out, const char *text, size_t bytes);
