/* One response of the status page, piece after piece: a piece is what goes out as one message. Bytes only; knows no
 * connection, and runs on whichever CPU it is called. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/service/metrics.h"
#include "app/service/stats.h"
#include "net/capture/pcapng.h"
#include "net/transport.h"

enum status_page_name { PAGE_PLAIN, PAGE_METRICS, PAGE_CAPTURE }; /* "/", "/metrics", "/capture" */

/* A request, and how to answer it. */
struct status_page_request {
    uint16_t status;            /* 200, or why not: 400, 404, 405, 431, 501, 505 */
    enum status_page_name page; /* for a status of 200 */
    bool head_only;             /* HEAD */
    bool chunked;               /* the client understands chunks: HTTP/1.1 */
};

/* Chooses the answer to a complete head of `bytes`. */
struct status_page_request status_page_request_parse(const uint8_t *text, size_t bytes);

struct status_page_response {
    struct status_page_request request;
    bool begun, over; /* the first piece has its head; the last one its end */
    const struct stats_copy *from;
    struct metrics_cursor metrics;
    struct {
        uint64_t position, end; /* pcapng_next's */
        size_t bytes, at;       /* the block's; those that are in a piece */
        uint8_t block[PCAPNG_BLOCK_BYTES_MAX];
    } capture;
    size_t line;            /* the plain page's */
    size_t bytes, chunk_at; /* the piece's; the place of its chunk's head */
    uint8_t piece[TRANSPORT_MESSAGE_BYTES_MAX];
};

/* Begins a response. `from` is borrowed until its last piece, and filled in before the first; so is `capture.end`. */
void status_page_response_begin(struct status_page_response *response, struct status_page_request request,
                                const struct stats_copy *from);

/* Adds a few lines; true when the piece is complete. It may be empty if it is the last. */
bool status_page_response_step(struct status_page_response *response);

/* Begins the next piece: one has been sent and was not the last. */
void status_page_response_next(struct status_page_response *response);
