/* The variant for AVX-512 F, BW, VL, DQ. */
#include <immintrin.h>

#include "app/matcher/simd_ops.h"

enum { LANES = 16 };
typedef uint32_t v32 __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint64_t v64 __attribute__((vector_size(64), aligned(8), may_alias));
typedef uint32_t v32_half __attribute__((vector_size(32), aligned(4), may_alias));
static inline v32_half v32_lower(v32 a) { return (v32_half)_mm512_castsi512_si256((__m512i)a); }
static inline v32 v32_of_lower(v32_half a) { return (v32)_mm512_castsi256_si512((__m256i)a); }
static inline v32 v32_min(v32 a, v32 b) { return (v32)_mm512_min_epu32((__m512i)a, (__m512i)b); }
static inline uint32_t v32_at_most(v32 a, v32 b) { return _mm512_cmple_epu32_mask((__m512i)a, (__m512i)b); }
static inline v32 v32_suffix(v32 a)
{
    const __m512i zero = _mm512_setzero_si512();
    a += (v32)_mm512_alignr_epi32(zero, (__m512i)a, 1);
    a += (v32)_mm512_alignr_epi32(zero, (__m512i)a, 2);
    a += (v32)_mm512_alignr_epi32(zero, (__m512i)a, 4);
    return a + (v32)_mm512_alignr_epi32(zero, (__m512i)a, 8);
}
static inline v32 v32_low_words(v32 a, v32 b) { return (v32)_mm512_unpacklo_epi32((__m512i)a, (__m512i)b); }
static inline v32 v32_high_words(v32 a, v32 b) { return (v32)_mm512_unpackhi_epi32((__m512i)a, (__m512i)b); }
static inline v32 v32_low_pairs(v32 a, v32 b) { return (v32)_mm512_unpacklo_epi64((__m512i)a, (__m512i)b); }
static inline v32 v32_high_pairs(v32 a, v32 b) { return (v32)_mm512_unpackhi_epi64((__m512i)a, (__m512i)b); }
static inline v32 v16_min(v32 a, v32 b) { return (v32)_mm512_min_epu16((__m512i)a, (__m512i)b); }
static inline bool v16_any_at_most(v32 a, v32 b) { return _mm512_cmple_epu16_mask((__m512i)a, (__m512i)b) != 0; }
static inline v32 v32_widen(const uint8_t *digits)
{
    return (v32)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)digits));
}
static inline v64 v64_widen(const uint8_t *digits)
{
    return (v64)_mm512_cvtepu8_epi64(_mm_loadl_epi64((const void *)digits));
}
static inline v64 v64_mul_low(v64 a, v64 b) { return (v64)_mm512_mul_epu32((__m512i)a, (__m512i)b); }

#define SIMD_OPS simd_ops_avx512
#include "app/matcher/lanes.h"
