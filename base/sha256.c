/* The block function and the padding, in the document's names. */
#include "base/sha256.h"

#include "base/assert.h"
#include "base/bytes.h"

/* FIPS 180-4 §4.2.2: the first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
_Alignas(64) const uint32_t sha256_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

_Alignas(32) const uint32_t sha256_initial[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

static uint32_t rotate(uint32_t x, unsigned n) { return x >> n | x << (32 - n); }

void sha256_schedule(uint32_t wk[64], const uint32_t block[16])
{
    uint32_t w[64];
    for (int t = 0; t < 64; t++) {
        if (t < 16) {
            w[t] = block[t];
        } else {
            uint32_t s0 = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ w[t - 15] >> 3;
            uint32_t s1 = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ w[t - 2] >> 10;
            w[t] = s1 + w[t - 7] + s0 + w[t - 16];
        }
        wk[t] = w[t] + sha256_k[t];
    }
}

void sha256_compress(uint32_t state[8], const uint32_t wk[64])
{
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int t = 0; t < 64; t++) {
        uint32_t t1 = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + wk[t];
        uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + t2;
    }
    const uint32_t add[8] = { a, b, c, d, e, f, g, h };
    for (int i = 0; i < 8; i++)
        state[i] += add[i];
}

void sha256_block(uint32_t state[8], const uint8_t block[SHA256_BLOCK_BYTES])
{
    uint32_t words[16], wk[64];
    for (int i = 0; i < 16; i++)
        words[i] = load_be32(block + 4 * i);
    sha256_schedule(wk, words);
    sha256_compress(state, wk);
}

void sha256_begin(struct sha256 *hash)
{
    *hash = (struct sha256){ 0 };
    memcpy(hash->state, sha256_initial, sizeof sha256_initial);
}

void sha256_add(struct sha256 *hash, const void *data, size_t bytes)
{
    const uint8_t *from = data;
    while (bytes > 0) {
        size_t filled = hash->bytes % SHA256_BLOCK_BYTES;
        size_t step = min_size(bytes, SHA256_BLOCK_BYTES - filled);
        ASSERT(step > 0 && filled + step <= SHA256_BLOCK_BYTES);
        memcpy(hash->block + filled, from, step);
        hash->bytes += step;
        from += step;
        bytes -= step;
        if (filled + step == SHA256_BLOCK_BYTES)
            sha256_block(hash->state, hash->block);
    }
}

/* FIPS 180-4 §5.1.1: Adds a one bit, zeros, and the length in bits as the last eight bytes of a block. */
void sha256_finish(struct sha256 *hash, uint8_t digest[SHA256_BYTES])
{
    static const uint8_t padding[SHA256_BLOCK_BYTES] = { 0x80 };
    uint8_t length_bits[8];
    store_be64(length_bits, hash->bytes * 8);
    size_t filled = hash->bytes % SHA256_BLOCK_BYTES;
    sha256_add(hash, padding, (filled < 56 ? 56 : 120) - filled);
    sha256_add(hash, length_bits, sizeof length_bits);
    ASSERT(hash->bytes % SHA256_BLOCK_BYTES == 0);
    for (int i = 0; i < 8; i++)
        store_be32(digest + 4 * i, hash->state[i]);
}
