/* The variant in general registers, and the constants of all variants. The steps are base/sha256.h's. */
#include "app/digest/sha256_ops.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

/* sha256_k plus the schedule of the block 0x80, 0, ..., 512; tests/unit/digest_test.c computes it again. */
_Alignas(64) const uint32_t digest_sha256_second_wk[64] = {
    0xc28a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf374,
    0x649b69c1, 0xf0fe4786, 0x0fe1edc6, 0x240cf254, 0x4fe9346f, 0x6cc984be, 0x61b9411e, 0x16f988fa,
    0xf2c65152, 0xa88e5a6d, 0xb019fc65, 0xb9d99ec7, 0x9a1231c3, 0xe70eeaa0, 0xfdb1232b, 0xc7353eb0,
    0x3069bad5, 0xcb976d5f, 0x5a0f118f, 0xdc1eeefd, 0x0a35b689, 0xde0b7a04, 0x58f4ca9d, 0xe15d5b16,
    0x007f3e86, 0x37088980, 0xa507ea32, 0x6fab9537, 0x17406110, 0x0d8cd6f1, 0xcdaa3b6d, 0xc0bbbe37,
    0x83613bda, 0xdb48a363, 0x0b02e931, 0x6fd15ca7, 0x521afaca, 0x31338431, 0x6ed41a95, 0x6d437890,
    0xc39c91f2, 0x9eccabbd, 0xb5c9a0e6, 0x532fb63c, 0xd2c741c6, 0x07237ea3, 0xa4954b68, 0x4c191d76,
};

static void scalar_blocks(uint32_t state[8], const uint8_t *data, size_t count)
{
    ASSERT(data != NULL || count == 0);
    for (; count > 0; count--, data += SHA256_BLOCK_BYTES)
        sha256_block(state, data);
}

/* Spreads 16 bits into the four characters of their hexadecimal digits, the first in the highest byte. */
static uint32_t hex_of(uint32_t bits)
{
    uint32_t digits = (bits & 0xf) | (bits & 0xf0) << 4 | (bits & 0xf00) << 8 | (bits & 0xf000) << 12;
    uint32_t letters = (digits + 0x06060606) >> 4 & 0x01010101; /* a byte of 10 or more */
    return digits + 0x30303030 + letters * ('a' - '9' - 1);
}

static void scalar_rounds(uint32_t *const digests[], uint32_t rounds)
{
    uint32_t *const digest = digests[0];
    ASSERT(rounds > 0);
    for (; rounds > 0; rounds--) {
        uint32_t block[16], wk[64];
        for (int i = 0; i < 8; i++) {
            block[2 * i] = hex_of(digest[i] >> 16);
            block[2 * i + 1] = hex_of(digest[i] & 0xffff);
        }
        memcpy(digest, sha256_initial, sizeof sha256_initial);
        sha256_schedule(wk, block);
        sha256_compress(digest, wk);
        sha256_compress(digest, digest_sha256_second_wk);
    }
}

const struct sha256_ops digest_sha256_scalar = {
    .name = "scalar",
    .lanes = 1,
    .blocks = scalar_blocks,
    .rounds = scalar_rounds,
};
