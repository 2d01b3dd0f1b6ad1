/* The request of the status page: one whole head in, what to answer out. RFC 9112 §2, §3; RFC 9110 §15 for the status.
 * Bytes only; knows no connection. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum page_name { PAGE_PLAIN, PAGE_METRICS };    /* "/" and "/metrics" */

struct page_request {
    uint16_t status;            /* 200, or why not: 400, 404, 405, 505 */
    enum page_name page;        /* of a 200 */
    bool head_only;             /* HEAD */
    bool chunked;               /* the client understands chunks: HTTP/1.1 */
};

/* Where the head ends, the empty line included; 0: it is not complete. */
size_t page_request_end(const char *text, size_t bytes);

/* `text` is a complete head of `bytes`. */
struct page_request page_request_parse(const char *text, size_t bytes);
