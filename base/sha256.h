/* SHA-256, FIPS 180-4. Plain and small: it hashes control packets and random seeds. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_BLOCK_BYTES = 64 };

extern const uint32_t sha256_k[64];      /* the constants of its 64 steps, §4.2.2 */
extern const uint32_t sha256_initial[8]; /* §5.3.3: from the square roots of the first 8 primes */

struct sha256 {
    uint32_t state[8];
    uint64_t bytes;                    /* taken so far */
    uint8_t block[SHA256_BLOCK_BYTES]; /* the last bytes % 64 bytes */
};

/* Hashes a message in pieces: begin, add any number of times, finish. */
void sha256_begin(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *data, size_t bytes);
void sha256_finish(struct sha256 *hash, uint8_t digest[SHA256_BYTES]);

/* ---- for the service, and for implementations beside this one ---- */

/* Completes the schedule of a block's 16 words, and adds the constants: §6.2.2, step 1. */
void sha256_schedule(uint32_t wk[64], const uint32_t block[16]);
/* Takes a block's schedule into the state: §6.2.2, steps 2 to 4. */
void sha256_compress(uint32_t state[8], const uint32_t wk[64]);
/* Takes a block into the state. */
void sha256_block(uint32_t state[8], const uint8_t block[SHA256_BLOCK_BYTES]);
