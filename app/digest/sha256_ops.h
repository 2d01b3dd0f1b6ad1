/* SHA-256, FIPS 180-4, as the variants do it. A round of a chain is SHA-256 of the 64 lower-case hexadecimal characters
 * of the digest before. Its second block is the same in every round: 0x80, zeros, the length of 512 bits. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/sha256.h"

enum { SHA256_LANES_MAX = 16 };

struct sha256_ops {
    const char *name;
    uint32_t lanes;

    /* Takes whole blocks into a state. */
    void (*blocks)(uint32_t state[8], const uint8_t *data, size_t count);
    /* Runs rounds, at least one, of `lanes` chains at once. */
    void (*rounds)(uint32_t *const digests[], uint32_t rounds);
};

extern const struct sha256_ops digest_sha256_scalar, digest_sha256_shani, digest_sha256_shani2, digest_sha256_avx2,
    digest_sha256_avx512;
/* Every variant that is built, ended by NULL; the scalar one comes first. */
extern const struct sha256_ops *const digest_sha256_all[];

/* The constants plus the message schedule of a round's second block. */
extern const uint32_t digest_sha256_second_wk[64];
