/* The variant for AVX2. */
#include <immintrin.h>

#include "app/matcher/simd_ops.h"

enum { LANES = 8 };
typedef uint32_t v32 __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint64_t v64 __attribute__((vector_size(32), aligned(8), may_alias));
typedef v32 v32_half;
static inline v32_half v32_lower(v32 a) { return a; }
static inline v32 v32_of_lower(v32_half a) { return a; }
static inline v32 v32_min(v32 a, v32 b) { return (v32)_mm256_min_epu32((__m256i)a, (__m256i)b); }
static inline uint32_t v32_at_most(v32 a, v32 b) { return (uint32_t)_mm256_movemask_ps((__m256)(v32_min(a, b) == a)); }
static inline v32 v32_suffix(v32 a)
{
    a += (v32)_mm256_srli_si256((__m256i)a, 4);
    a += (v32)_mm256_srli_si256((__m256i)a, 8);
    const __m256i upper = _mm256_permute2x128_si256((__m256i)a, (__m256i)a, 0x81); /* upper half below, zeros above */
    return a + (v32)_mm256_shuffle_epi32(upper, 0);
}
static inline v32 v32_low_words(v32 a, v32 b) { return (v32)_mm256_unpacklo_epi32((__m256i)a, (__m256i)b); }
static inline v32 v32_high_words(v32 a, v32 b) { return (v32)_mm256_unpackhi_epi32((__m256i)a, (__m256i)b); }
static inline v32 v32_low_pairs(v32 a, v32 b) { return (v32)_mm256_unpacklo_epi64((__m256i)a, (__m256i)b); }
static inline v32 v32_high_pairs(v32 a, v32 b) { return (v32)_mm256_unpackhi_epi64((__m256i)a, (__m256i)b); }
static inline v32 v16_min(v32 a, v32 b) { return (v32)_mm256_min_epu16((__m256i)a, (__m256i)b); }
static inline bool v16_any_at_most(v32 a, v32 b)
{
    return _mm256_movemask_epi8(_mm256_cmpeq_epi16((__m256i)v16_min(a, b), (__m256i)a)) != 0;
}
static inline v32 v32_widen(const uint8_t *digits)
{
    return (v32)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)digits));
}
static inline v64 v64_widen(const uint8_t *digits)
{
    return (v64)_mm256_cvtepu8_epi64(_mm_cvtsi32_si128((int)load_le32(digits)));
}
static inline v64 v64_mul_low(v64 a, v64 b) { return (v64)_mm256_mul_epu32((__m256i)a, (__m256i)b); }

#define SIMD_OPS simd_ops_avx2
#include "app/matcher/lanes.h"
