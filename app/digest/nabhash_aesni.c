/* The variant for AES-NI: the four lanes side by side hide each other's latency. */
#include <immintrin.h>

#include "app/digest/nabhash_ops.h"
#include "base/assert.h"

static inline __m128i load(const uint8_t *at) { return _mm_loadu_si128((const __m128i *)at); }

static void aesni_blocks(uint8_t lanes[64], const uint8_t *data, size_t count)
{
    __m128i a = load(lanes), b = load(lanes + 16), c = load(lanes + 32), d = load(lanes + 48);
    ASSERT(data != NULL || count == 0);
    for (; count > 0; count--, data += 64) {
        a = _mm_aesenc_si128(a, load(data));
        b = _mm_aesenc_si128(b, load(data + 16));
        c = _mm_aesenc_si128(c, load(data + 32));
        d = _mm_aesenc_si128(d, load(data + 48));
    }
    _mm_storeu_si128((__m128i *)lanes, a);
    _mm_storeu_si128((__m128i *)(lanes + 16), b);
    _mm_storeu_si128((__m128i *)(lanes + 32), c);
    _mm_storeu_si128((__m128i *)(lanes + 48), d);
}

static void aesni_join(uint8_t lanes[64])
{
    __m128i hash = _mm_aesenc_si128(load(lanes), load(lanes + 16));
    hash = _mm_aesenc_si128(hash, _mm_aesenc_si128(load(lanes + 32), load(lanes + 48)));
    for (int i = 0; i < 3; i++)
        hash = _mm_aesenc_si128(hash, hash);
    _mm_storeu_si128((__m128i *)lanes, hash);
}

const struct nabhash_ops digest_nabhash_aesni = { .name = "aes-ni", .blocks = aesni_blocks, .join = aesni_join };
