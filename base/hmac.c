/* HMAC with both halves of the key prepared. Keeps no secret beyond them. */
#include "base/hmac.h"

#include <string.h>

#include "base/assert.h"

enum { INNER_PAD = 0x36, OUTER_PAD = 0x5c }; /* RFC 2104 §2 */

void hmac_key_set(struct hmac_key *key, const void *secret, size_t bytes)
{
    ASSERT(secret != NULL || bytes == 0);
    uint8_t block[SHA256_BLOCK_BYTES] = { 0 };
    if (bytes > sizeof block) { /* RFC 2104 §2 */
        struct sha256 hash;
        sha256_begin(&hash);
        sha256_add(&hash, secret, bytes);
        sha256_finish(&hash, block);
    } else {
        memcpy(block, secret, bytes);
    }
    for (size_t i = 0; i < sizeof block; i++)
        block[i] ^= INNER_PAD;
    sha256_begin(&key->inner);
    sha256_add(&key->inner, block, sizeof block);
    for (size_t i = 0; i < sizeof block; i++)
        block[i] ^= INNER_PAD ^ OUTER_PAD;
    sha256_begin(&key->outer);
    sha256_add(&key->outer, block, sizeof block);
}

void hmac_begin(const struct hmac_key *key, struct sha256 *message) { *message = key->inner; }

void hmac_end(const struct hmac_key *key, struct sha256 *message, uint8_t mac[SHA256_BYTES])
{
    struct sha256 outer = key->outer;
    sha256_finish(message, mac);
    sha256_add(&outer, mac, SHA256_BYTES);
    sha256_finish(&outer, mac);
}

void hmac(const struct hmac_key *key, const void *data, size_t bytes, uint8_t mac[SHA256_BYTES])
{
    struct sha256 message;
    hmac_begin(key, &message);
    sha256_add(&message, data, bytes);
    hmac_end(key, &message, mac);
}

bool bytes_equal_constant_time(const void *a, const void *b, size_t bytes)
{
    const volatile uint8_t *x = a, *y = b;
    uint8_t differ = 0;
    for (size_t i = 0; i < bytes; i++)
        differ |= x[i] ^ y[i];
    return differ == 0;
}
