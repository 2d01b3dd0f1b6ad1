/* The choice of the fastest variant on this machine. */
#include "app/matcher/state.h"
#include "base/assert.h"
#include "base/cycles.h"
#include "base/format.h"

uint64_t matcher_time_burst(struct matcher *m, uint64_t *state, uint32_t count)
{
    uint8_t digits[MATCHER_TIMED_DIGITS];
    ASSERT(count <= MATCHER_TIMED_DIGITS);
    for (uint32_t k = 0; k < count; k++) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        digits[k] = (uint8_t)('0' + (*state >> 33) % 10);
    }
    struct matcher_answer answer;
    const uint64_t from = cycles_now_serialised();
    matcher_begin(m, digits, count);
    while (matcher_next(m, &answer) != MATCHER_DONE)
        continue;
    const uint64_t cycles = cycles_now_serialised() - from;
    while (matcher_prepare(m))
        continue;
    ASSERT(cycles > 0);
    return cycles;
}

enum { LENGTHS = 3, ROUNDS = 3, BURSTS = 24 };
static const uint32_t lengths[LENGTHS] = { 32, 100, 300 };

/* Lowers the least time of a burst of each length. Takes bursts while the time lasts, one of each length at least. All
 * variants get the same digits. */
static void time_bursts(struct matcher *m, uint64_t limit_cycles, uint64_t least[LENGTHS])
{
    const uint64_t begin = cycles_now();
    uint64_t state = 1;
    for (uint32_t i = 0; i < BURSTS && (i == 0 || cycles_now() - begin < limit_cycles); i++)
        for (uint32_t k = 0; k < LENGTHS; k++)
            least[k] = (uint64_t)min_size(least[k], matcher_time_burst(m, &state, lengths[k]));
}

/* Times the variants in rounds, so that one that an interruption has slowed down is timed again in the next round. */
enum matcher_simd matcher_simd_fastest(struct matcher *m, uint64_t tsc_khz)
{
    enum { LIMIT_MS = 2 };
    uint64_t least[MATCHER_SIMD_AVX512 + 1][LENGTHS], best_sum = UINT64_MAX;
    enum matcher_simd best = MATCHER_SIMD_SCALAR;
    size_t used = 0;
    ASSERT(tsc_khz > 0);
    memset(least, 0xff, sizeof least);
    for (uint32_t round = 0; round < ROUNDS; round++)
        for (enum matcher_simd simd = MATCHER_SIMD_SCALAR; simd <= MATCHER_SIMD_AVX512; simd++) {
            if (!matcher_simd_usable(simd))
                continue;
            matcher_setup(m, simd_ops_of(simd));
            time_bursts(m, LIMIT_MS * tsc_khz, least[simd]);
        }
    for (enum matcher_simd simd = MATCHER_SIMD_SCALAR; simd <= MATCHER_SIMD_AVX512; simd++) {
        if (!matcher_simd_usable(simd))
            continue;
        uint64_t sum = 0, ns[LENGTHS];
        for (uint32_t k = 0; k < LENGTHS; k++) {
            sum += least[simd][k];
            ns[k] = least[simd][k] * 1000000 / tsc_khz;
        }
        used += format(m->stats.simd_times + used, sizeof m->stats.simd_times - used, "%s%s %llu, %llu, %llu ns",
                       used == 0 ? ", bursts of 32, 100 and 300 digits take " : "; ", matcher_simd_name(simd),
                       (unsigned long long)ns[0], (unsigned long long)ns[1], (unsigned long long)ns[2]);
        ASSERT(used < sizeof m->stats.simd_times);
        if (sum < best_sum)
            best = simd;
        best_sum = (uint64_t)min_size(best_sum, sum);
    }
    return best;
}
