#include "base/vectors.h"

#include <cpuid.h>

static uint64_t given_state;
static bool is_given;

void vectors_set_state(uint64_t xcr0)
{
    given_state = xcr0;
    is_given = true;
}

/* SDM vol. 1, "Enabling the XSAVE Feature Set": XGETBV may be executed where CPUID.1:ECX.OSXSAVE is set. */
static uint64_t vector_state(void)
{
    uint32_t eax, ebx, ecx, edx, low, high;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & bit_OSXSAVE) == 0 || (ecx & bit_AVX) == 0)
        return 0;
    if (is_given)
        return given_state;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Returns true if all bits are set in leaf 7's EBX, and the state is switched on. */
static bool has(uint32_t features, uint64_t state)
{
    uint32_t eax, ebx = 0, ecx, edx;
    __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx);
    return (vector_state() & state) == state && (ebx & features) == features;
}

/* Returns true if all bits are set in ECX of a leaf. */
static bool has_in_ecx(uint32_t leaf, uint32_t features)
{
    uint32_t eax, ebx, ecx = 0, edx;
    __get_cpuid_count(leaf, 0, &eax, &ebx, &ecx, &edx);
    return (ecx & features) == features;
}

/* Bits of XCR0: the registers that the system keeps. */
enum {
    SSE_STATE = 0x2,
    AVX_STATE = 0x6,     /* AVX and SSE registers */
    AVX512_STATE = 0xe6, /* AVX, SSE, opmask, upper halves of ZMM0-15, ZMM16-31 */
};

bool vectors_avx2(void) { return has(bit_AVX2 | bit_BMI2, AVX_STATE); }
bool vectors_avx512(void)
{
    return has(bit_AVX2 | bit_BMI2 | bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ, AVX512_STATE);
}
bool vectors_avx512_vbmi(void) { return vectors_avx512() && has_in_ecx(7, bit_AVX512VBMI); }
bool vectors_sha(void) { return has(bit_SHA, SSE_STATE) && has_in_ecx(1, bit_SSSE3 | bit_SSE4_1); }
bool vectors_aes(void) { return has(0, SSE_STATE) && has_in_ecx(1, bit_AES | bit_SSE4_1); }
bool vectors_vaes512(void) { return vectors_avx512() && vectors_aes() && has_in_ecx(7, bit_VAES); }
