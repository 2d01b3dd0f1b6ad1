/* The variant for VAES with AVX-512: the four lanes are one vector. */
#include <immintrin.h>

#include "app/digest/nabhash_ops.h"
#include "base/assert.h"

static void vaes_blocks(uint8_t lanes[64], const uint8_t *data, size_t count)
{
    __m512i all = _mm512_loadu_si512(lanes);
    ASSERT(data != NULL || count == 0);
    for (; count > 0; count--, data += 64)
        all = _mm512_aesenc_epi128(all, _mm512_loadu_si512(data));
    _mm512_storeu_si512(lanes, all);
}

static void vaes_join(uint8_t lanes[64]) { digest_nabhash_aesni.join(lanes); }

const struct nabhash_ops digest_nabhash_vaes = { .name = "vaes", .blocks = vaes_blocks, .join = vaes_join };
