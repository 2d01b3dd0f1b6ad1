/* SHA-256, FIPS 180-4. Plain and small: it hashes control packets and random seeds, never the stream. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_BLOCK_BYTES = 64 };

extern const uint32_t sha256_k[64]; /* the constants of its 64 steps, §4.2.2 */

struct sha256 {
    uint32_t state[8];
    uint64_t bytes;                    /* taken so far */
    uint8_t block[SHA256_BLOCK_BYTES]; /* its last bytes % 64 bytes */
};

void sha256_begin(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *data, size_t bytes);
void sha256_finish(struct sha256 *hash, uint8_t digest[SHA256_BYTES]);
