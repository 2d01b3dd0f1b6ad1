/* The framing of a body in chunks, byte by byte. RFC 9112 §7.1. One parser for requests and responses.
 *
 * Only CRLF ends a line: requests were smuggled past proxies that read a lone LF or CR unlike their servers. Extensions
 * and trailers are checked and ignored (§7.1.1, §7.1.2). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { HTTP_CHUNK_LINE_BYTES_MAX = 4096 /* a chunk's size and extensions, or all trailers */ };

enum http_chunk_state {
    HTTP_CHUNK_SIZE_FIRST,
    HTTP_CHUNK_SIZE,
    HTTP_CHUNK_BLANK, /* white space after the size */
    HTTP_CHUNK_EXTENSION,
    HTTP_CHUNK_SIZE_LF,
    HTTP_CHUNK_DATA, /* `left` bytes of the body are to come: the caller's */
    HTTP_CHUNK_DATA_CR,
    HTTP_CHUNK_DATA_LF,
    HTTP_CHUNK_TRAILER, /* at the beginning of a line after the last chunk */
    HTTP_CHUNK_TRAILER_NAME,
    HTTP_CHUNK_TRAILER_VALUE,
    HTTP_CHUNK_TRAILER_LF,
    HTTP_CHUNK_END_LF,
    HTTP_CHUNK_DONE,
    HTTP_CHUNK_BAD, /* `bad` says why; nothing that follows can be understood */
};

struct http_chunks {
    uint64_t left;   /* the chunk's bytes, once its size is read */
    const char *bad; /* a literal */
    uint32_t line_bytes;
    uint8_t state;
    bool of_response; /* some servers pad sizes; a folded trailer is legal (§5.2) */
    bool has_trailer; /* a line came before, which white space may fold */
};

/* Begins a body. */
void http_chunks_begin(struct http_chunks *chunks, bool of_response);

/* Takes one byte that is not the body's own: in any state but HTTP_CHUNK_DATA, _DONE and _BAD. */
void http_chunks_take(struct http_chunks *chunks, uint8_t byte);

/* Goes on after a chunk's data. */
void http_chunks_data_ended(struct http_chunks *chunks);

/* Asserts the invariant. */
void http_chunks_check(const struct http_chunks *chunks);
