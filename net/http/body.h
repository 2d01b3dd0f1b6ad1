/* The body of an HTTP/1.1 request as it comes: by length, or in chunks. RFC 9112 §6, §7.1.
 *
 * Knows no connection and keeps no bytes of the body. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "net/http/chunks.h"
#include "net/http/request.h"

enum http_body_state {
    HTTP_BODY_DATA, /* `left` bytes of the body, or of a chunk, are to come */
    HTTP_BODY_FRAMING,
    HTTP_BODY_DONE,
    HTTP_BODY_BAD, /* the chunks are malformed: nothing after them can be understood */
};

struct http_body {
    enum http_body_state state;
    bool chunked;
    uint64_t left;
    struct http_chunks chunks;
};

/* Begins the body of a well-formed request. A request without length and chunks has no body. */
void http_body_begin(struct http_body *body, const struct http_request *request);

/* Takes the framing at the beginning of `text`, and finds the run of the body's own bytes that follows. Returns the
 * bytes taken: framing and, at their end, the run. The run is at most `run_bytes_max` long; the caller takes all of
 * it. */
size_t http_body_step(struct http_body *body, const uint8_t *text, size_t bytes, size_t run_bytes_max,
                      struct bytes *run);

/* Asserts the invariant. */
void http_body_check(const struct http_body *body);
