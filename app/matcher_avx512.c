/* The kernels for AVX-512 F, BW, VL, DQ. */
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "app/matcher_kernel.h"

/* Fractions to look ahead are modulo 2^27: vpmaddwd multiplies by two 16-bit factors in one instruction, where Intel's
 * vpmulld takes two. */
enum { LANES = 16, LANES64 = LANES / 2, LOOK_BITS = 27, ROW_DIGITS = 1, DIGIT_WORDS = true };
typedef uint32_t v32 __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint64_t v64 __attribute__((vector_size(64), aligned(8), may_alias));
typedef __mmask16 look_state;   /* lanes without a hot start */

static inline v32 v32_all(uint32_t value) { return (v32)_mm512_set1_epi32((int)value); }
static inline v32 v32_load(const void *at) { return *(const v32 *)at; }
static inline void v32_store(void *at, v32 value) { *(v32 *)at = value; }
static inline v32 v32_mul(v32 a, v32 b) { return a * b; }
static inline v32 v32_weigh(v32 digits, v32 weights)
{
    return (v32)_mm512_madd_epi16((__m512i)digits, (__m512i)weights);
}
static inline v32 v32_min(v32 a, v32 b) { return (v32)_mm512_min_epu32((__m512i)a, (__m512i)b); }
static inline uint32_t v32_at_most(v32 a, uint32_t limit)
{
    return _mm512_cmple_epu32_mask((__m512i)a, (__m512i)v32_all(limit));
}
static inline uint32_t v32_first(v32 a) { return (uint32_t)_mm_cvtsi128_si32(_mm512_castsi512_si128((__m512i)a)); }

/* Sixteen bits a lane. */
static inline v32 v16_all(uint16_t value) { return (v32)_mm512_set1_epi16((short)value); }
static inline v32 v16_add(v32 a, v32 b) { return (v32)_mm512_add_epi16((__m512i)a, (__m512i)b); }
static inline v32 v16_min(v32 a, v32 b) { return (v32)_mm512_min_epu16((__m512i)a, (__m512i)b); }
static inline v32 v16_sub_saturated(v32 a, v32 b) { return (v32)_mm512_subs_epu16((__m512i)a, (__m512i)b); }
/* Which are 0. */
enum { V16_MASK_BITS = 1 };
static inline uint32_t v16_zeros(v32 a) { return _mm512_testn_epi16_mask((__m512i)a, (__m512i)a); }

static inline v32 v32_suffix(v32 a)
{
    const __m512i zero = _mm512_setzero_si512();
    a += (v32)_mm512_alignr_epi32(zero, (__m512i)a, 1);
    a += (v32)_mm512_alignr_epi32(zero, (__m512i)a, 2);
    a += (v32)_mm512_alignr_epi32(zero, (__m512i)a, 4);
    return a + (v32)_mm512_alignr_epi32(zero, (__m512i)a, 8);
}

/* A limit is a power of 2 less 1. A lane stays cold while it has a bit above it: one masked test a vector. */
static inline v32 look_limits(v32 limits) { return v32_all((UINT32_C(1) << LOOK_BITS) - 1) ^ limits; }
static inline look_state look_start(void) { return 0xffff; }
static inline look_state look_test(look_state cold, v32 a, v32 limits)
{
    return _mm512_mask_test_epi32_mask(cold, (__m512i)a, (__m512i)limits);
}
static inline look_state look_merge(look_state a, look_state b) { return a & b; }
static inline uint32_t look_hot(look_state cold, v32 limits)
{
    (void)limits;
    return cold ^ 0xffffu;
}
static inline void look_store(uint32_t *at, look_state cold) { *at = cold; }
static inline bool look_stored_hot(const uint32_t *at, uint32_t lane, uint32_t limit)
{
    (void)limit;
    return (*at >> lane & 1) == 0;
}
static inline bool look_sum_hot(uint32_t sum, uint32_t limit)
{
    return (sum & ((UINT32_C(1) << LOOK_BITS) - 1)) <= limit;
}
/* One lane of v32_weigh. */
static inline uint32_t word_weigh(uint32_t digit, uint32_t weight)
{
    return (uint32_t)((int16_t)digit * (int16_t)weight) + (uint32_t)((int16_t)(digit >> 16) * (int16_t)(weight >> 16));
}

static inline v32 v32_prefix(v32 a)
{
    const __m512i zero = _mm512_setzero_si512();
    a += (v32)_mm512_alignr_epi32((__m512i)a, zero, LANES - 1);
    a += (v32)_mm512_alignr_epi32((__m512i)a, zero, LANES - 2);
    a += (v32)_mm512_alignr_epi32((__m512i)a, zero, LANES - 4);
    return a + (v32)_mm512_alignr_epi32((__m512i)a, zero, LANES - 8);
}

static inline v32 v32_all_last(v32 a)
{
    return (v32)_mm512_permutexvar_epi32(_mm512_set1_epi32(LANES - 1), (__m512i)a);
}

static inline uint32_t v32_zeros(v32 a) { return _mm512_testn_epi32_mask((__m512i)a, (__m512i)a); }

static inline v32 v32_if_zero(v32 a, v32 then, v32 otherwise)
{
    return (v32)_mm512_mask_mov_epi32((__m512i)otherwise, (__mmask16)v32_zeros(a), (__m512i)then);
}

/* d in the lower and d * 2^11 in the upper 16 bits: two factors for one multiply-add of 16-bit numbers. */
static inline v32 v32_word(v32 digits) { return digits | digits << 27; }
static inline v32 v32_widen(const uint8_t *digits)
{
    return (v32)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)digits));
}

static inline v32 v32_pairs(v32 digits) { return digits; }      /* it has none */

static inline v64 v64_all(uint64_t value) { return (v64)_mm512_set1_epi64((long long)value); }
static inline v64 v64_load(const void *at) { return *(const v64 *)at; }
static inline v64 v64_load_bytes(const void *at)
{
    return (v64)_mm512_cvtepu8_epi64(_mm_loadl_epi64(at));
}
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
static inline uint64_t v64_sum(v64 a) { return (uint64_t)_mm512_reduce_add_epi64((__m512i)a); }

#include "app/matcher_lanes.h"

const struct matcher_kernel matcher_kernel_avx512 = MATCHER_KERNEL;
