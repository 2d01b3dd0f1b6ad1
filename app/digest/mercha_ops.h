/* ChaCha20 (RFC 8439, counter from 0) and a Merkle tree over the blocks of the cipher text, as the variants do it:
 * README.md has the definition. */
#pragma once

#include <stdint.h>

#include "app/digest/method.h"

enum { MERCHA_GROUP_BLOCKS = MERCHA_GROUP_BYTES / 64 };

struct mercha_ops {
    const char *name;
    /* Ciphers a group of blocks, whose first has the number `counter`. Returns the root of their tree, and the root's
     * left child, which may lie in the job's nodes. */
    void (*group)(const struct mercha_job *job, uint32_t counter, const uint8_t data[MERCHA_GROUP_BYTES],
                  uint32_t root[16], uint32_t left[16]);
};

extern const struct mercha_ops digest_mercha_scalar, digest_mercha_avx2, digest_mercha_avx512;
/* Every variant that is built, ended by NULL; the scalar one comes first. */
extern const struct mercha_ops *const digest_mercha_all[];

/* RFC 8439 §2.3: "expand 32-byte k". */
extern const uint32_t digest_mercha_constants[4];

/* Ciphers one block into 16 words. */
void digest_mercha_block(const struct mercha_job *job, uint32_t counter, const uint8_t data[64], uint32_t words[16]);

/* Joins two nodes into their parent, which may be one of them. */
void digest_mercha_join(const uint32_t left[16], const uint32_t right[16], uint32_t parent[16]);
