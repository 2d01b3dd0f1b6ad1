/* The functions that several methods need. */
#include "app/digest/method.h"

#include "base/assert.h"
#include "base/text.h"

struct bytes digest_method_query_value(struct bytes query, const char *key)
{
    struct bytes part;
    ASSERT(key[0] != '\0');
    while (text_split(&query, '&', &part)) {
        struct bytes name;
        if (text_split(&part, '=', &name) && text_is(name, key) && part.data != NULL)
            return part;
    }
    return (struct bytes){ NULL, 0 };
}

bool digest_method_rest_fill(struct method_rest *rest, struct bytes *data)
{
    size_t filled = rest->bytes % METHOD_BLOCK_BYTES;
    if (filled == 0)
        return false;
    size_t part = min_size(data->count, METHOD_BLOCK_BYTES - filled);
    memcpy(rest->block + filled, data->data, part);
    rest->bytes += part;
    *data = (struct bytes){ data->data + part, data->count - part };
    ASSERT(filled + part <= METHOD_BLOCK_BYTES);
    return filled + part == METHOD_BLOCK_BYTES;
}

void digest_method_rest_keep(struct method_rest *rest, struct bytes data)
{
    size_t kept = data.count % METHOD_BLOCK_BYTES;
    ASSERT(data.count == 0 || rest->bytes % METHOD_BLOCK_BYTES == 0);
    rest->bytes += data.count;
    if (kept > 0)
        memcpy(rest->block, data.data + data.count - kept, kept);
}

uint8_t *digest_method_hex_write(uint8_t *out, const void *data, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *from = data;
    ASSERT(bytes <= METHOD_RESULT_BYTES_MAX / 2);
    for (size_t i = 0; i < bytes; i++) {
        *out++ = (uint8_t)digits[from[i] >> 4];
        *out++ = (uint8_t)digits[from[i] & 15];
    }
    return out;
}
