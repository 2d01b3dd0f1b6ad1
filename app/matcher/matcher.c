/* The start, with the choice of a variant, the statistics and the invariant. app/matcher/README.md explains the
 * methods, with an example. */
#include "app/matcher/matcher.h"

#include "app/matcher/state.h"
#include "base/assert.h"
#include "base/cycles.h"
#include "base/format.h"
#include "base/vectors.h"

static struct matcher the_matcher;

static const struct {
    const char *name;
    const struct simd_ops *ops;
} variants[] = {
    [MATCHER_SIMD_AUTO] = { "auto", NULL },
    [MATCHER_SIMD_SCALAR] = { "scalar", &simd_ops_scalar },
    [MATCHER_SIMD_AVX2] = { "avx2", &simd_ops_avx2 },
    [MATCHER_SIMD_AVX512] = { "avx512", &simd_ops_avx512 },
};

enum matcher_simd matcher_simd_best(void)
{
    return vectors_avx512() ? MATCHER_SIMD_AVX512 : vectors_avx2() ? MATCHER_SIMD_AVX2 : MATCHER_SIMD_SCALAR;
}

bool matcher_simd_usable(enum matcher_simd simd) { return simd <= matcher_simd_best(); }

const char *matcher_simd_name(enum matcher_simd simd)
{
    ASSERT(simd < ARRAY_COUNT(variants));
    return variants[simd].name;
}

/* Writes a message if a bound is not kept, and returns its length, else 0. */
static size_t config_fault(const struct matcher_config *c, char *message, size_t bytes)
{
    if (c->n_digits_max < 1 || c->n_digits_max > MATCHER_N_DIGITS_MAX)
        return format(message, bytes, "n=%u: must be 1..%u", c->n_digits_max, MATCHER_N_DIGITS_MAX);
    if (c->modulus_count < 1 || c->modulus_count > MATCHER_MODULUS_COUNT_MAX)
        return format(message, bytes, "m: %u numbers, there must be 1..%u", c->modulus_count,
                      MATCHER_MODULUS_COUNT_MAX);
    if (!matcher_simd_usable(c->simd))
        return format(message, bytes, "simd=%s: this machine cannot run it", matcher_simd_name(c->simd));
    return 0;
}

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

enum { LENGTHS = 3, ROUNDS = 3, BURSTS = 24, LIMIT_MS = 2 };
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

/* Times the usable variants, and returns the one that is the fastest over all lengths of a burst. Goes in rounds, so
 * that one that an interruption has slowed down is timed again in the next round. */
static enum matcher_simd fastest(struct matcher *m, uint64_t tsc_khz, char *times, size_t bytes)
{
    const enum matcher_simd widest = matcher_simd_best();
    uint64_t least[MATCHER_SIMD_AVX512 + 1][LENGTHS], best_sum = UINT64_MAX;
    enum matcher_simd best = MATCHER_SIMD_SCALAR;
    size_t used = 0;
    ASSERT(tsc_khz > 0);
    memset(least, 0xff, sizeof least);
    for (uint32_t round = 0; round < ROUNDS; round++)
        for (enum matcher_simd simd = MATCHER_SIMD_SCALAR; simd <= widest; simd++) {
            matcher_setup(m, variants[simd].ops);
            time_bursts(m, LIMIT_MS * tsc_khz, least[simd]);
        }
    for (enum matcher_simd simd = MATCHER_SIMD_SCALAR; simd <= widest; simd++) {
        const uint64_t *t = least[simd], sum = t[0] + t[1] + t[2];
        used += format(times + used, bytes - used, "%s%s %llu, %llu, %llu ns",
                       used == 0 ? ", bursts of 32, 100 and 300 digits take " : "; ", matcher_simd_name(simd),
                       t[0] * 1000000ull / tsc_khz, t[1] * 1000000ull / tsc_khz, t[2] * 1000000ull / tsc_khz);
        ASSERT(used < bytes);
        if (sum < best_sum)
            best = simd;
        best_sum = (uint64_t)min_size(best_sum, sum);
    }
    return best;
}

const char *matcher_init(struct matcher **matcher, const struct matcher_config *config)
{
    static char message[256], times[192];
    struct matcher *m = &the_matcher;
    if (config_fault(config, message, sizeof message) > 0)
        return message;
    memset(m, 0, sizeof *m);
    times[0] = '\0';
    m->n = config->n_digits_max;
    m->modulus_count = config->modulus_count;
    m->early_risk = config->early ? config->early_risk : 0;
    memcpy(m->seed, config->seed, sizeof m->seed);
    for (uint32_t i = 0; i < m->modulus_count; i++) {
        const char *decimal = config->moduli[i];
        if (!modulus_read(&m->moduli[i], decimal)) {
            format(message, sizeof message, "m: not a number of 1..2^512-1 without leading zeros: %.200s",
                   decimal == NULL ? "(none)" : decimal);
            return message;
        }
        m->making = modulus_prepare_begin(&m->moduli[i], m->n, m->seed);
        modulus_prepare_some(&m->moduli[i], &m->making, MODULUS_PLACES);
        if (config->beat != NULL)
            config->beat();
    }
    enum matcher_simd simd = config->simd;
    if (simd == MATCHER_SIMD_AUTO)
        simd = config->tsc_khz > 0 ? fastest(m, config->tsc_khz, times, sizeof times) : matcher_simd_best();
    matcher_setup(m, variants[simd].ops);
    m->rehearsal.digits_lately = MATCHER_REHEARSAL_DIGITS;
    m->stats = (struct matcher_stats){ .moduli = m->modulus_count,
                                       .simd = matcher_simd_name(simd),
                                       .simd_times = times };
    early_init(m);
    *matcher = m;
    return NULL;
}

const struct matcher_stats *matcher_stats(const struct matcher *m) { return &m->stats; }

void matcher_check_state(const struct matcher *m)
{
    const struct burst_search *s = &m->search;
    const struct early_answers *e = &m->early_answers;
    ASSERT(m->n >= 1 && m->n <= MATCHER_N_DIGITS_MAX);
    ASSERT(m->modulus_count >= 1 && m->modulus_count <= MATCHER_MODULUS_COUNT_MAX);
    ASSERT(m->burst_count <= MATCHER_BURST_DIGITS_MAX);
    ASSERT(s->given <= s->queued && s->queued <= MATCHER_QUEUE_MAX);
    ASSERT(m->check_count <= MATCHER_CHECKS_MAX);
    ASSERT(!s->hashing.active || s->open);
    ASSERT(filter_ready(&m->filter) || m->adding);
    for (uint32_t i = 0; i < MATCHER_HISTORY + m->burst_count + 64; i++)
        ASSERT(m->text[i] >= '0' && m->text[i] <= '9');
    for (uint32_t i = 0; i < m->modulus_count; i++) {
        ASSERT(m->window[i].count <= CANDIDATES_MAX + 1);
        hash_check(&m->table[i]);
        /* A table that is always kept ends where the window does. */
        const uint64_t reached = m->table[i].place + (m->table[i].next - m->table[i].first);
        ASSERT(s->open || m->idle_step <= IDLE_MODULI || (m->hash_moduli >> i & 1) == 0
               || reached == m->burst_at + MATCHER_HISTORY);
    }
    filter_check(&m->filter, m->moduli);
    ASSERT(e->pending_count <= MATCHER_PENDING_MAX);
    ASSERT(e->modulus <= m->modulus_count && e->step <= 2 * CANDIDATES_MAX);
    for (uint32_t k = 0; k < e->pending_count; k++) {
        const struct early_pending *p = &e->pending[k];
        ASSERT(p->ahead > 0 && p->ahead <= sizeof p->digits && p->end - p->start <= m->n);
        ASSERT(p->end > p->start + p->ahead);
    }
}
