/* The head of an HTTP/1.x request: one whole head in, its parts out where they lie. RFC 9112 §2, §3, §6; RFC 9110.
 *
 * Knows no connection and no page. A server collects bytes until http_request_head_bytes names the head's end, parses
 * the head, and then takes the body: `length` bytes, or chunks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct http_request {
    uint16_t refused;      /* 0: well formed; else the status of the refusal: 400, 501, 505 */
    uint8_t version_minor; /* the x of HTTP/1.x; 0 if the version is not known */
    struct bytes method, target;
    struct bytes path;     /* the target without scheme, authority and query; "/" if it has none */
    struct bytes query;    /* after the '?'; data NULL: there is none */
    bool keep_alive;       /* the connection may be used again (RFC 9112 §9.3) */
    bool chunked;          /* the body comes in chunks */
    bool expects_continue; /* the client waits for 100 before the body (RFC 9110 §10.1.1) */
    bool has_length;
    uint64_t length; /* the body's bytes, if has_length; without length and chunks none follow */
};

/* Returns the bytes of the head, with the empty line that ends it; 0: it is not complete. */
/*@ requires bytes == 0 || \valid_read(text + (0 .. bytes - 1));
    assigns \nothing;
    ensures \result <= bytes; */
size_t http_request_head_bytes(const uint8_t *text, size_t bytes);

/* Parses a complete head of `bytes`. The parts point into it. */
/*@ requires text != \null && \valid_read(text + (0 .. bytes - 1));
    assigns \nothing; */
struct http_request http_request_parse(const uint8_t *text, size_t bytes);

/* Returns the reason phrase of a status that our servers answer with. RFC 9110 §15. */
const char *http_reason_phrase(unsigned status);
