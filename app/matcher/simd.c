/* The variants' names, and which ones this machine can run. */
#include "app/matcher/matcher.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/vectors.h"

bool matcher_simd_usable(enum matcher_simd simd)
{
    return simd <= MATCHER_SIMD_SCALAR || (simd == MATCHER_SIMD_AVX2 && vectors_avx2())
           || (simd == MATCHER_SIMD_AVX512 && vectors_avx512());
}

enum matcher_simd matcher_simd_best(void)
{
    enum matcher_simd best = MATCHER_SIMD_AVX512;
    while (!matcher_simd_usable(best))
        best--;
    return best;
}

const char *matcher_simd_name(enum matcher_simd simd)
{
    static const char *const names[] = { "auto", "scalar", "avx2", "avx512" };
    ASSERT(simd < ARRAY_COUNT(names));
    return names[simd];
}
