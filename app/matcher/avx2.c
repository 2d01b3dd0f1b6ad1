/* The variant for AVX2: 32-bit sums, and a row of weights serves two digits, as one number. */
#include <immintrin.h>
#include <string.h>

#include "app/matcher/simd_ops.h"

enum { LANES = 8, LANES64 = LANES / 2, SUM_BITS = 32, ROW_DIGITS = 2, HALVES = false };
typedef uint32_t v32 __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint64_t v64 __attribute__((vector_size(32), aligned(8), may_alias));
typedef v32 least; /* the least sum so far */
static inline v32 v32_all(uint32_t value) { return (v32)_mm256_set1_epi32((int)value); }
static inline v32 v32_load(const void *at) { return *(const v32 *)at; }
static inline void v32_store(void *at, v32 value) { *(v32 *)at = value; }
static inline v32 v32_weigh(v32 digits, v32 weights) { return digits * weights; }
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
/* Fills lanes of sixteen bits. */
static inline v32 v16_all(uint16_t value) { return (v32)_mm256_set1_epi16((short)value); }
static inline v32 v16_add(v32 a, v32 b) { return (v32)_mm256_add_epi16((__m256i)a, (__m256i)b); }
static inline v32 v16_min(v32 a, v32 b) { return (v32)_mm256_min_epu16((__m256i)a, (__m256i)b); }
static inline v32 v16_sub_saturated(v32 a, v32 b) { return (v32)_mm256_subs_epu16((__m256i)a, (__m256i)b); }
static inline uint32_t v16_zeros(v32 a)
{
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi16((__m256i)a, _mm256_setzero_si256()));
}
static inline v32 least_limits(v32 limits) { return limits; }
static inline least least_start(void) { return v32_all(UINT32_MAX); }
static inline least least_with(least state, v32 a, v32 limits)
{
    (void)limits;
    return v32_min(state, a);
}
static inline least least_merge(least a, least b) { return v32_min(a, b); }
static inline uint32_t least_hot(least state, v32 limits) { return v32_at_most(state, limits); }
static inline v32 v32_widen(const uint8_t *digits)
{
    return (v32)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)digits));
}
/* Makes at even places one number of a digit and the next one. */
static inline v32 v32_word(v32 digits)
{
    const v32 tens = { 10, 1, 10, 1, 10, 1, 10, 1 };
    return digits * tens + (v32)_mm256_srli_epi64((__m256i)digits, 32);
}
static inline v64 v64_all(uint64_t value) { return (v64)_mm256_set1_epi64x((long long)value); }
static inline v64 v64_load(const void *at) { return *(const v64 *)at; }
static inline v64 v64_load_bytes(const void *at)
{
    int four;
    memcpy(&four, at, sizeof four);
    return (v64)_mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four));
}
static inline v64 v64_mul_low(v64 a, v64 b) { return (v64)_mm256_mul_epu32((__m256i)a, (__m256i)b); }
static inline v64 v64_prefix(v64 a)
{
    a += (v64)_mm256_slli_si256((__m256i)a, 8);
    __m256i lower = _mm256_permute2x128_si256((__m256i)a, (__m256i)a, 0x08); /* lower half above, zeros below */
    return a + (v64)_mm256_unpackhi_epi64(lower, lower);
}
static inline v64 v64_all_last(v64 a) { return (v64)_mm256_permute4x64_epi64((__m256i)a, 0xff); }
static inline uint32_t v64_at_most(v64 a, v64 b)
{
    return ~(uint32_t)_mm256_movemask_pd((__m256d)(a > b)) & ((1u << LANES64) - 1);
}
static inline uint64_t v64_total(v64 a) { return a[0] + a[1] + a[2] + a[3]; }

#include "app/matcher/lanes.h"

const struct simd_ops simd_ops_avx2 = SIMD_OPS;
