/* The kernels for AVX2. */
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "app/matcher_kernel.h"

enum { LANES = 8 };
typedef uint32_t v32 __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint64_t v64 __attribute__((vector_size(32), aligned(8), may_alias));
typedef struct { v32 least; } look_state;

static inline v32 v32_all(uint32_t value) { return (v32)_mm256_set1_epi32((int)value); }
static inline v32 v32_load(const void *at) { return *(const v32 *)at; }
static inline void v32_store(void *at, v32 value) { *(v32 *)at = value; }
static inline v32 v32_madd(v32 a, v32 b) { return (v32)_mm256_madd_epi16((__m256i)a, (__m256i)b); }
static inline v32 v32_mul(v32 a, v32 b) { return a * b; }
static inline uint32_t v32_first(v32 a) { return a[0]; }

static inline v32 v32_suffix(v32 a)
{
    a += (v32)_mm256_srli_si256((__m256i)a, 4);
    a += (v32)_mm256_srli_si256((__m256i)a, 8);
    __m256i upper = _mm256_permute2x128_si256((__m256i)a, (__m256i)a, 0x81);    /* upper half below, zeros above */
    return a + (v32)_mm256_shuffle_epi32(upper, 0);
}

static inline uint32_t v32_zero_under(v32 a, uint32_t mask)
{
    return (uint32_t)_mm256_movemask_ps((__m256)((a & v32_all(mask)) == 0));
}

/* Fractions are modulo 2^27: without the upper 5 bits, the least one tells. */
static inline look_state look_start(void) { return (look_state){v32_all(UINT32_MAX)}; }
static inline void look_test(look_state *state, v32 a, uint32_t mask)
{
    (void)mask;
    state->least = (v32)_mm256_min_epu32((__m256i)state->least, (__m256i)(a << 5));
}
static inline bool look_hot(const look_state state[4], uint32_t mask)
{
    v32 least = (v32)_mm256_min_epu32(_mm256_min_epu32((__m256i)state[0].least, (__m256i)state[1].least),
                                      _mm256_min_epu32((__m256i)state[2].least, (__m256i)state[3].least));
    return !_mm256_testz_si256((__m256i)((least & v32_all(mask << 5)) == 0), _mm256_set1_epi32(-1));
}

static inline v32 v32_if_zero(v32 a, uint32_t then, v32 otherwise)
{
    return (v32)_mm256_blendv_epi8((__m256i)otherwise, (__m256i)v32_all(then), (__m256i)(a == 0));
}

static inline v32 v32_add_bit_where_zero_under(v32 bits, v32 a, uint32_t mask, int bit)
{
    return bits | ((v32)((a & v32_all(mask)) == 0) & v32_all(1u << bit));
}

typedef uint8_t vbytes __attribute__((vector_size(32)));
enum { COLUMNS = 8 };
static inline vbytes columns_load(const uint8_t *digits, int i)
{
    __m256i low = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(digits + 16 * i)));
    return (vbytes)_mm256_inserti128_si256(low, _mm_loadu_si128((const __m128i *)(digits + 64 + 16 * i)), 1);
}
static inline vbytes vbytes_low(vbytes a, vbytes b) { return (vbytes)_mm256_unpacklo_epi8((__m256i)a, (__m256i)b); }
static inline vbytes vbytes_high(vbytes a, vbytes b) { return (vbytes)_mm256_unpackhi_epi8((__m256i)a, (__m256i)b); }
static inline vbytes vwords_low(vbytes a, vbytes b) { return (vbytes)_mm256_unpacklo_epi16((__m256i)a, (__m256i)b); }
static inline vbytes vwords_high(vbytes a, vbytes b) { return (vbytes)_mm256_unpackhi_epi16((__m256i)a, (__m256i)b); }
static inline vbytes vbytes_times_8(vbytes a) { return (vbytes)_mm256_slli_epi16((__m256i)a, 3); }
static inline bool vbytes_none(vbytes a) { return _mm256_movemask_epi8((__m256i)a) == 0; }

static inline v64 v64_all(uint64_t value) { return (v64)_mm256_set1_epi64x((long long)value); }
static inline v64 v64_load(const void *at) { return *(const v64 *)at; }
static inline v64 v64_load_digits(const void *at)
{
    return (v64)_mm256_cvtepu32_epi64(_mm_loadu_si128((const __m128i *)at));
}

/* digits < 2^32: two products. */
static inline v64 v64_mul(v64 digits, v64 weights)
{
    v64 low = (v64)_mm256_mul_epu32((__m256i)digits, (__m256i)weights);
    v64 high = (v64)_mm256_mul_epu32((__m256i)digits, (__m256i)(weights >> 32));
    return low + (high << 32);
}

static inline v64 v64_suffix(v64 a)
{
    a += (v64)_mm256_srli_si256((__m256i)a, 8);
    __m256i upper = _mm256_permute2x128_si256((__m256i)a, (__m256i)a, 0x81);
    return a + (v64)_mm256_unpacklo_epi64(upper, upper);
}

static inline uint64_t v64_first(v64 a) { return a[0]; }

static inline uint32_t v64_near_zero(v64 a, uint64_t tolerance)
{
    /* Unsigned comparison by signed: move both by 2^63. */
    v64 moved = a + v64_all(tolerance + (UINT64_C(1) << 63));
    __m256i beyond = _mm256_cmpgt_epi64((__m256i)moved, (__m256i)v64_all(2 * tolerance + (UINT64_C(1) << 63)));
    return ~(uint32_t)_mm256_movemask_pd((__m256d)beyond) & 15;
}

#include "app/matcher_lanes.h"

const struct matcher_kernel matcher_kernel_avx2 = MATCHER_KERNEL;
