/* Cuts a fuzzer's input into datagrams: for each a byte of flags, its length, its bytes. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

struct fuzz_datagram {
    uint8_t flags;
    size_t bytes;
    uint8_t *data; /* the caller frees the bytes, which end where their memory ends */
};

/* Takes the next datagram from the input. Returns false at the input's end. */
static inline bool fuzz_datagram_take(struct fuzz_datagram *datagram, const uint8_t **input, size_t *input_bytes)
{
    if (*input_bytes < 2)
        return false;
    datagram->flags = (*input)[0];
    datagram->bytes = min_size((*input)[1], *input_bytes - 2);
    datagram->data = malloc(datagram->bytes ? datagram->bytes : 1);
    memcpy(datagram->data, *input + 2, datagram->bytes);
    *input += 2 + datagram->bytes;
    *input_bytes -= 2 + datagram->bytes;
    return true;
}
