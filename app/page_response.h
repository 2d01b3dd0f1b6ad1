/* One response of the status page, piece after piece: a piece is what goes out as one message. Bytes only; knows no
 * connection, and runs on whichever CPU it is called. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/metrics.h"
#include "app/page_request.h"
#include "app/stats.h"
#include "net/transport.h"

struct page_response {
    struct page_request request;
    bool begun, over;                   /* the first piece has its head; the last one its end */
    const struct stats_copy *from;
    struct metrics_cursor metrics;
    size_t line;                        /* of the plain page */
    size_t bytes, chunk_at;             /* of the piece; where its chunk's head stands */
    uint8_t piece[TRANSPORT_MESSAGE_BYTES_MAX];
};

/* The values are those that `from` holds when a piece is made. */
void page_response_begin(struct page_response *response, struct page_request request, const struct stats_copy *from);

/* Adds a few lines; true when the piece is complete. It may be empty if it is the last. */
bool page_response_step(struct page_response *response);

/* The piece has been sent and was not the last. */
void page_response_next(struct page_response *response);
