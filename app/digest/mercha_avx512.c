/* The variant for AVX-512: sixteen blocks at once. */
#include <immintrin.h>
#include <stdint.h>

enum { LANES = 16 };
typedef uint32_t v32 __attribute__((vector_size(64)));

static inline v32 rotate16(v32 x) { return x << 16 | x >> 16; }
static inline v32 rotate8(v32 x) { return x << 8 | x >> 24; }

/* Exchanges rows and columns of LANES vectors: in step `bit` the halves of each pair that differ in this bit change
 * places. */
static inline __attribute__((always_inline)) void transpose(v32 rows[LANES])
{
#pragma GCC unroll 4
    for (int bit = 1; bit < LANES; bit <<= 1) {
        v32 low = { 0 }, high = { 0 };
#pragma GCC unroll 16
        for (int lane = 0; lane < LANES; lane++) {
            low[lane] = (uint32_t)((lane & bit) ? LANES + (lane ^ bit) : lane);
            high[lane] = (uint32_t)((lane & bit) ? LANES + lane : lane ^ bit);
        }
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) {
            if (i & bit)
                continue;
            v32 a = rows[i], b = rows[i | bit];
            rows[i] = (v32)_mm512_permutex2var_epi32((__m512i)a, (__m512i)low, (__m512i)b);
            rows[i | bit] = (v32)_mm512_permutex2var_epi32((__m512i)a, (__m512i)high, (__m512i)b);
        }
    }
}

#include "app/digest/mercha_lanes.h"

const struct mercha_ops digest_mercha_avx512 = { .name = "avx512", .group = lanes_group };
