/* The variant for AVX2: eight blocks at once. */
#include <immintrin.h>
#include <stdint.h>

enum { LANES = 8 };
typedef uint32_t v32 __attribute__((vector_size(32)));

/* Rotates by whole bytes in one instruction. */
static inline v32 rotate16(v32 x)
{
    const __m256i order = _mm256_set_epi64x(0x0d0c0f0e09080b0a, 0x0504070601000302, 0x0d0c0f0e09080b0a,
                                            0x0504070601000302);
    return (v32)_mm256_shuffle_epi8((__m256i)x, order);
}
static inline v32 rotate8(v32 x)
{
    const __m256i order = _mm256_set_epi64x(0x0e0d0c0f0a09080b, 0x0605040702010003, 0x0e0d0c0f0a09080b,
                                            0x0605040702010003);
    return (v32)_mm256_shuffle_epi8((__m256i)x, order);
}

/* Exchanges rows and columns: of single words, of pairs, of fours. */
static inline __attribute__((always_inline)) void transpose(v32 rows[LANES])
{
    __m256i one[LANES], two[LANES];
#pragma GCC unroll 4
    for (int i = 0; i < LANES; i += 2) {
        one[i] = _mm256_unpacklo_epi32((__m256i)rows[i], (__m256i)rows[i + 1]);
        one[i + 1] = _mm256_unpackhi_epi32((__m256i)rows[i], (__m256i)rows[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < LANES; i += 4) {
        two[i] = _mm256_unpacklo_epi64(one[i], one[i + 2]);
        two[i + 1] = _mm256_unpackhi_epi64(one[i], one[i + 2]);
        two[i + 2] = _mm256_unpacklo_epi64(one[i + 1], one[i + 3]);
        two[i + 3] = _mm256_unpackhi_epi64(one[i + 1], one[i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < LANES / 2; i++) {
        rows[i] = (v32)_mm256_permute2x128_si256(two[i], two[i + 4], 0x20);
        rows[i + 4] = (v32)_mm256_permute2x128_si256(two[i], two[i + 4], 0x31);
    }
}

#include "app/digest/mercha_lanes.h"

const struct mercha_ops digest_mercha_avx2 = { .name = "avx2", .group = lanes_group };
