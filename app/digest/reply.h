/* Responses as text, in a buffer of one message. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "net/transport.h"

struct reply {
    size_t bytes;
    uint8_t text[TRANSPORT_MESSAGE_BYTES_MAX];
};

enum { REPLY_TAIL_BYTES = 32 /* the last chunk, and the one that ends the body */ };

/* Appends text. */
void digest_reply_add(struct reply *reply, struct bytes text);

/* Appends a whole response; `close`: the connection ends with it. With `head_only` the body is left out: the request
 * was a HEAD (RFC 9110 §9.3.2). */
void digest_reply_add_result(struct reply *reply, struct bytes line, bool close);
void digest_reply_add_error(struct reply *reply, unsigned status, const char *reason, bool head_only);

/* Appends the head of a response whose body comes in chunks, or without framing up to the end of the connection. */
void digest_reply_add_stream_head(struct reply *reply, bool chunked, bool close);

/* Returns the bytes of a stream for which there is room, between a chunk's head and its end. */
size_t digest_reply_stream_room(const struct reply *reply);

/* Returns the place of a stream's next bytes, and then takes their count: a chunk, unless it is 0. */
uint8_t *digest_reply_stream_begin(struct reply *reply);
void digest_reply_stream_end(struct reply *reply, size_t bytes, bool chunked);
