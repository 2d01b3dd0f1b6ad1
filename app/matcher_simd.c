/* Which instruction sets the matcher may use on this machine. */
#include "app/matcher.h"

#include <cpuid.h>

/* SDM vol. 1 §13.3: XGETBV may be executed where CPUID.1:ECX.OSXSAVE is set. */
static uint64_t simd_xcr0(void)
{
    uint32_t eax, ebx, ecx, edx, low, high;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & bit_OSXSAVE) == 0 || (ecx & bit_AVX) == 0)
        return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

bool matcher_simd_usable(enum matcher_simd simd)
{
    /* SDM vol. 1 §13.3 and §15.2: SSE and AVX state, then opmask, upper halves of ZMM0-15, and ZMM16-31. */
    const uint64_t avx_state = 0x6, avx512_state = 0xe6;
    const uint32_t avx2 = bit_AVX2 | bit_BMI2;
    const uint32_t avx512 = avx2 | bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ;
    uint32_t eax, ebx = 0, ecx, edx;
    __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx);
    switch (simd) {
    case MATCHER_SIMD_AUTO:
    case MATCHER_SIMD_SCALAR:
        return true;
    case MATCHER_SIMD_AVX2:
        return (simd_xcr0() & avx_state) == avx_state && (ebx & avx2) == avx2;
    case MATCHER_SIMD_AVX512:
        return (simd_xcr0() & avx512_state) == avx512_state && (ebx & avx512) == avx512;
    }
    return false;
}

enum matcher_simd matcher_simd_best(void)
{
    if (matcher_simd_usable(MATCHER_SIMD_AVX512))
        return MATCHER_SIMD_AVX512;
    return matcher_simd_usable(MATCHER_SIMD_AVX2) ? MATCHER_SIMD_AVX2 : MATCHER_SIMD_SCALAR;
}

const char *matcher_simd_name(enum matcher_simd simd)
{
    switch (simd) {
    case MATCHER_SIMD_AUTO: return "auto";
    case MATCHER_SIMD_SCALAR: return "scalar";
    case MATCHER_SIMD_AVX2: return "avx2";
    case MATCHER_SIMD_AVX512: return "avx512";
    }
    return "unknown";
}
