/* The AVX-512 instructions that app/matcher/avx512.c names, spelled out in C. The makefile compiles that file with this
 * one in front, to test its logic on a machine without them. SDM vol. 2 has each by its instruction's name. GCC's code
 * for the real ones is not tested by this. */
#pragma once

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

typedef uint32_t emulated_u32 __attribute__((vector_size(64)));
typedef uint64_t emulated_u64 __attribute__((vector_size(64)));
typedef uint16_t emulated_u16 __attribute__((vector_size(64)));
typedef uint8_t emulated_u8x8 __attribute__((vector_size(8)));

#define LANE(i, count) for (int i = 0; i < (count); i++)

static inline __m512i emulated_set1_epi32(int value)
{
    emulated_u32 r;
    LANE(i, 16) r[i] = (uint32_t)value;
    return (__m512i)r;
}
static inline __m512i emulated_set1_epi64(long long value)
{
    emulated_u64 r;
    LANE(i, 8) r[i] = (uint64_t)value;
    return (__m512i)r;
}
static inline __m512i emulated_min_epu16(__m512i a, __m512i b) /* VPMINUW */
{
    emulated_u16 x = (emulated_u16)a, y = (emulated_u16)b;
    LANE(i, 32) x[i] = x[i] < y[i] ? x[i] : y[i];
    return (__m512i)x;
}
static inline __mmask32 emulated_cmple_epu16_mask(__m512i a, __m512i b) /* VPCMPUW */
{
    emulated_u16 x = (emulated_u16)a, y = (emulated_u16)b;
    __mmask32 r = 0;
    LANE(i, 32) r |= (__mmask32)(x[i] <= y[i]) << i;
    return r;
}
static inline __m512i emulated_setzero_si512(void) { return emulated_set1_epi32(0); }
static inline __m512i emulated_min_epu32(__m512i a, __m512i b) /* VPMINUD */
{
    emulated_u32 x = (emulated_u32)a, y = (emulated_u32)b;
    LANE(i, 16) x[i] = x[i] < y[i] ? x[i] : y[i];
    return (__m512i)x;
}
static inline __mmask16 emulated_cmple_epu32_mask(__m512i a, __m512i b) /* VPCMPUD */
{
    emulated_u32 x = (emulated_u32)a, y = (emulated_u32)b;
    unsigned r = 0;
    LANE(i, 16) r |= (unsigned)(x[i] <= y[i]) << i;
    return (__mmask16)r;
}
static inline __m512i emulated_alignr_epi32(__m512i a, __m512i b, int shift) /* VALIGND: a above b, shifted down */
{
    emulated_u32 x = (emulated_u32)a, y = (emulated_u32)b, r;
    LANE(i, 16) r[i] = i + shift < 16 ? y[i + shift] : x[i + shift - 16];
    return (__m512i)r;
}
static inline __m512i emulated_cvtepu8_epi32(__m128i a) /* VPMOVZXBD */
{
    uint8_t x[16];
    emulated_u32 r;
    memcpy(x, &a, sizeof x);
    LANE(i, 16) r[i] = x[i];
    return (__m512i)r;
}
static inline __m512i emulated_cvtepu8_epi64(__m128i a) /* VPMOVZXBQ */
{
    emulated_u8x8 x;
    emulated_u64 r;
    memcpy(&x, &a, sizeof x);
    LANE(i, 8) r[i] = x[i];
    return (__m512i)r;
}
static inline __m512i emulated_mul_epu32(__m512i a, __m512i b) /* VPMULUDQ */
{
    return (__m512i)(((emulated_u64)a & UINT32_MAX) * ((emulated_u64)b & UINT32_MAX));
}
static inline __m256i emulated_castsi512_si256(__m512i a)
{
    __m256i r;
    memcpy(&r, &a, sizeof r);
    return r;
}
static inline __m512i emulated_castsi256_si512(__m256i a) /* the upper half may be anything */
{
    __m512i r = emulated_set1_epi32(0x1234567);
    memcpy(&r, &a, sizeof a);
    return r;
}
/* VPUNPCKLDQ, VPUNPCKHDQ, VPUNPCKLQDQ, VPUNPCKHQDQ: within each 128 bits */
#define EMULATED_UNPACK(name, type, lanes, part, high)                                                                 \
    static inline __m512i name(__m512i a, __m512i b)                                                                   \
    {                                                                                                                  \
        type x = (type)a, y = (type)b, r = x;                                                                          \
        LANE(i, lanes) r[i] = (i % 2 == 0 ? x : y)[i / (part) * (part) + (high) * (part) / 2 + i % (part) / 2];        \
        return (__m512i)r;                                                                                             \
    }
EMULATED_UNPACK(emulated_unpacklo_epi32, emulated_u32, 16, 4, 0)
EMULATED_UNPACK(emulated_unpackhi_epi32, emulated_u32, 16, 4, 1)
EMULATED_UNPACK(emulated_unpacklo_epi64, emulated_u64, 8, 2, 0)
EMULATED_UNPACK(emulated_unpackhi_epi64, emulated_u64, 8, 2, 1)

#undef LANE

#define _mm512_min_epu16       emulated_min_epu16
#define _mm512_min_epu32       emulated_min_epu32
#define _mm512_cvtepu8_epi32   emulated_cvtepu8_epi32
#define _mm512_set1_epi32      emulated_set1_epi32
#define _mm512_set1_epi64      emulated_set1_epi64
#define _mm512_setzero_si512   emulated_setzero_si512
#define _mm512_castsi512_si256 emulated_castsi512_si256
#define _mm512_castsi256_si512 emulated_castsi256_si512
#undef _mm512_cmple_epu16_mask
#undef _mm512_cmple_epu32_mask
#define _mm512_cmple_epu16_mask emulated_cmple_epu16_mask
#define _mm512_cmple_epu32_mask emulated_cmple_epu32_mask
#undef _mm512_alignr_epi32
#define _mm512_alignr_epi32   emulated_alignr_epi32
#define _mm512_cvtepu8_epi64  emulated_cvtepu8_epi64
#define _mm512_mul_epu32      emulated_mul_epu32
#define _mm512_unpacklo_epi32 emulated_unpacklo_epi32
#define _mm512_unpackhi_epi32 emulated_unpackhi_epi32
#define _mm512_unpacklo_epi64 emulated_unpacklo_epi64
#define _mm512_unpackhi_epi64 emulated_unpackhi_epi64
