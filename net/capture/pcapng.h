/* The capture as a pcapng file, draft-ietf-opsawg-pcapng: one section, one interface, a packet for each frame. A packet
 * has its time in nanoseconds, its direction, and as a comment the counter of its drop. Written in whole blocks. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "net/capture/capture.h"

enum {
    PCAPNG_COMMENT_BYTES_MAX = 64,
    /* Head and tail of a packet's block, its bytes, and the options: flags, comment, end. */
    PCAPNG_BLOCK_BYTES_MAX = 32 + (CAPTURE_BYTES_MAX + 3) / 4 * 4 + 8 + 4 + PCAPNG_COMMENT_BYTES_MAX + 4,
};

/* Writes the next block, and moves the position past it: at 0 the section's and interface's, then the packets from the
 * oldest on, up to frame `end`. Returns its bytes; 0: there are no more. Frames that are not there are left out. */
size_t pcapng_next(uint64_t *position, uint64_t end, uint8_t block[PCAPNG_BLOCK_BYTES_MAX]);

/* Writes block `index` of a record: 0 is that of section and interface, then come the packets, the newest first, as far
 * as capture_public_bytes lets them be shown. Each record begins at 0. Returns its bytes; 0: there are no more, or the
 * next one has no room in `bytes`. */
size_t pcapng_record(size_t index, char *out, size_t bytes);
