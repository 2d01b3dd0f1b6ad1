/* The variant in general registers. */
#include "app/digest/base64_ops.h"

#include "base/assert.h"
#include "base/bytes.h"

const char digest_base64_alphabet[64 + 1] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void scalar_encode(uint8_t *out, const uint8_t *data, size_t triples)
{
    ASSERT(data != NULL || triples == 0);
    for (; triples > 0; triples--, data += 3, out += 4) {
        uint32_t bits = (uint32_t)data[0] << 16 | (uint32_t)data[1] << 8 | data[2];
        for (unsigned i = 0; i < 4; i++)
            out[i] = (uint8_t)digest_base64_alphabet[bits >> (18 - 6 * i) & 63];
    }
}

const struct base64_ops digest_base64_scalar = { .name = "scalar", .encode = scalar_encode };
