/* The variant for AVX-512 F, BW, VL, DQ. */
#include <immintrin.h>

#include "app/matcher/simd_ops.h"

/* Fractions to look ahead are modulo 2^27: vpmaddwd multiplies by two 16-bit factors in one instruction, where Intel's
 * vpmulld takes two. */
enum { LANES = 16, LANES64 = LANES / 2, SUM_BITS = 27, ROW_DIGITS = 1, HALVES = true };
typedef uint32_t v32 __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint64_t v64 __attribute__((vector_size(64), aligned(8), may_alias));
typedef __mmask16 least; /* lanes that have had no candidate so far */
static inline v32 v32_all(uint32_t value) { return (v32)_mm512_set1_epi32((int)value); }
static inline v32 v32_load(const void *at) { return *(const v32 *)at; }
static inline void v32_store(void *at, v32 value) { *(v32 *)at = value; }
static inline v32 v32_weigh(v32 digits, v32 weights)
{
    return (v32)_mm512_madd_epi16((__m512i)digits, (__m512i)weights);
}
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
/* Fills lanes of sixteen bits. */
static inline v32 v16_all(uint16_t value) { return (v32)_mm512_set1_epi16((short)value); }
static inline v32 v16_add(v32 a, v32 b) { return (v32)_mm512_add_epi16((__m512i)a, (__m512i)b); }
static inline v32 v16_min(v32 a, v32 b) { return (v32)_mm512_min_epu16((__m512i)a, (__m512i)b); }
static inline v32 v16_sub_saturated(v32 a, v32 b) { return (v32)_mm512_subs_epu16((__m512i)a, (__m512i)b); }
static inline uint32_t v16_zeros(v32 a) { return _mm512_testn_epi16_mask((__m512i)a, (__m512i)a); }
/* Returns the bits above the limits, each a power of 2 less 1: a lane stays cold while it has one of them. */
static inline v32 least_limits(v32 limits) { return v32_all((UINT32_C(1) << SUM_BITS) - 1) ^ limits; }
static inline least least_start(void) { return 0xffff; }
static inline least least_with(least cold, v32 a, v32 limits)
{
    return _mm512_mask_test_epi32_mask(cold, (__m512i)a, (__m512i)limits);
}
static inline least least_merge(least a, least b) { return a & b; }
static inline uint32_t least_hot(least cold, v32 limits)
{
    (void)limits;
    return cold ^ 0xffffu;
}
/* Puts d into the lower and d * 2^11 into the upper 16 bits: two factors for one multiply-add of 16-bit numbers. */
static inline v32 v32_word(v32 digits) { return digits | digits << 27; }
static inline v32 v32_widen(const uint8_t *digits)
{
    return (v32)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)digits));
}
static inline v64 v64_all(uint64_t value) { return (v64)_mm512_set1_epi64((long long)value); }
static inline v64 v64_load(const void *at) { return *(const v64 *)at; }
static inline v64 v64_load_bytes(const void *at) { return (v64)_mm512_cvtepu8_epi64(_mm_loadl_epi64(at)); }
static inline v64 v64_mul_low(v64 a, v64 b) { return (v64)_mm512_mul_epu32((__m512i)a, (__m512i)b); }
static inline v64 v64_prefix(v64 a)
{
    const __m512i zero = _mm512_setzero_si512();
    a += (v64)_mm512_alignr_epi32((__m512i)a, zero, LANES - 2);
    a += (v64)_mm512_alignr_epi32((__m512i)a, zero, LANES - 4);
    return a + (v64)_mm512_alignr_epi32((__m512i)a, zero, LANES - 8);
}
static inline v64 v64_all_last(v64 a)
{
    return (v64)_mm512_permutexvar_epi64(_mm512_set1_epi64(LANES64 - 1), (__m512i)a);
}
static inline uint32_t v64_at_most(v64 a, v64 b) { return _mm512_cmple_epu64_mask((__m512i)a, (__m512i)b); }
static inline uint64_t v64_total(v64 a) { return a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7]; }

#include "app/matcher/lanes.h"

const struct simd_ops simd_ops_avx512 = SIMD_OPS;
