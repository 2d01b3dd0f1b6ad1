/* The variants: which ones this machine can run, and which is the fastest. */
#include "app/matcher/matcher.h"

#include "app/matcher/state.h"
#include "base/assert.h"
#include "base/cycles.h"
#include "base/format.h"
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

const struct simd_ops *simd_ops_of(enum matcher_simd simd)
{
    static const struct simd_ops *const ops[] = {
        [MATCHER_SIMD_SCALAR] = &simd_ops_scalar,
        [MATCHER_SIMD_AVX2] = &simd_ops_avx2,
        [MATCHER_SIMD_AVX512] = &simd_ops_avx512,
    };
    ASSERT(simd > MATCHER_SIMD_AUTO && simd < ARRAY_COUNT(ops));
    return ops[simd];
}

uint64_t matcher_time_burst(struct matcher *m, uint64_t *state)
{
    uint8_t digits[MATCHER_TIMED_DIGITS];
    for (uint32_t k = 0; k < MATCHER_TIMED_DIGITS; k++) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        digits[k] = (uint8_t)('0' + (*state >> 33) % 10);
    }
    struct matcher_answer answer;
    const uint64_t from = cycles_now_serialised();
    matcher_begin(m, digits, MATCHER_TIMED_DIGITS);
    while (matcher_next(m, &answer) != MATCHER_DONE)
        continue;
    const uint64_t cycles = cycles_now_serialised() - from;
    while (matcher_prepare(m))
        continue;
    ASSERT(cycles > 0);
    return cycles;
}

/* Returns the least time of a burst of 100 digits, among as many as limit_cycles allow, at most 64. */
static uint64_t time_bursts(struct matcher *m, uint64_t limit_cycles)
{
    enum { BURSTS = 64 };
    const uint64_t begin = cycles_now();
    uint64_t least = UINT64_MAX, state = 1;
    for (uint32_t i = 0; i < BURSTS && (i == 0 || cycles_now() - begin < limit_cycles); i++) {
        const uint64_t cycles = matcher_time_burst(m, &state);
        least = cycles < least ? cycles : least;
    }
    return least;
}

enum matcher_simd simd_fastest(struct matcher *m, uint64_t tsc_khz)
{
    enum { LIMIT_MS = 5 };
    enum matcher_simd best = MATCHER_SIMD_SCALAR;
    uint64_t best_cycles = UINT64_MAX;
    size_t used = 0;
    ASSERT(tsc_khz > 0);
    for (enum matcher_simd simd = MATCHER_SIMD_SCALAR; simd <= MATCHER_SIMD_AVX512; simd++) {
        if (!matcher_simd_usable(simd))
            continue;
        matcher_use(m, simd_ops_of(simd));
        const uint64_t cycles = time_bursts(m, LIMIT_MS * tsc_khz);
        used += format(m->stats.simd_times + used, sizeof m->stats.simd_times - used, "%s%s %llu ns",
                       used == 0 ? ", a burst of 100 digits takes " : ", ", matcher_simd_name(simd),
                       (unsigned long long)(cycles * 1000000 / tsc_khz));
        ASSERT(used < sizeof m->stats.simd_times);
        if (cycles < best_cycles)
            best = simd;
        best_cycles = cycles < best_cycles ? cycles : best_cycles;
    }
    return best;
}
