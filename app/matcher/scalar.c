/* The variant in general registers: it hashes every modulus, and its filter has no probes. The compiler uses no other
 * registers (tools/workshop/make/flags.mk). */
#include "app/matcher/simd_ops.h"

#include "base/assert.h"
#include "base/bytes.h"

static const uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;

static void scalar_write(uint32_t *row, const uint8_t *digits, size_t count)
{
    (void)row; /* this variant's sums read the text */
    uint64_t bad = 0;
    for (size_t i = 0; i < count; i += 8) {
        uint64_t digit = load_le64(digits + i) ^ '0' * ones;
        bad |= digit | (digit + (128 - 10) * ones); /* sets the top bit of a byte of 10 or more */
    }
    ASSERT((bad & tops) == 0);
}

static void scalar_candidates(const struct modulus_probe *probe, const uint8_t *at, uint32_t least, uint32_t n,
                              struct candidates *list)
{
    ASSERT(n <= MATCHER_N_DIGITS_MAX && probe->digits > 0);
    uint32_t sum = probe->offset;
#pragma GCC unroll 8
    for (uint32_t t = 1; t < n; t++) {
        const uint32_t digit = (uint32_t)(at[-(ptrdiff_t)t] - '0');
        sum += digit * probe->weights[MODULUS_AFTER - t];
        if (__builtin_expect((digit == 0) | (sum > probe->limit), 1) || t < least || t <= MODULUS_YOUNG_DIGITS)
            continue;
        if (list->count++ == CANDIDATES_MAX)
            return;
        list->before[list->count - 1] = t;
    }
}

const struct simd_ops simd_ops_scalar = {
    .lanes = FILTER_LANES_MIN,
    .write = scalar_write,
    .candidates = scalar_candidates,
};
