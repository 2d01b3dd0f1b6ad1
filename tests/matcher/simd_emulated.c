/* For a check whose AVX-512 is emulated: every variant is usable (linked with --wrap). */
#include "app/matcher/matcher.h"

bool __wrap_matcher_simd_usable(enum matcher_simd simd);
bool __wrap_matcher_simd_usable(enum matcher_simd simd)
{
    (void)simd;
    return true;
}
