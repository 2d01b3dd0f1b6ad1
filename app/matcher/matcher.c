/* The start, the statistics and the invariant. app/matcher/README.md explains the methods, with an example. */
#include "app/matcher/matcher.h"

#include "app/matcher/state.h"
#include "base/assert.h"
#include "base/format.h"

static struct matcher the_matcher;

static const char *config_fault(const struct matcher_config *config, char *message, size_t bytes)
{
    if (config->n_digits_max < 1 || config->n_digits_max > MATCHER_N_DIGITS_MAX)
        format(message, bytes, "n=%u: must be 1..%u", config->n_digits_max, MATCHER_N_DIGITS_MAX);
    else if (config->modulus_count < 1 || config->modulus_count > MATCHER_MODULUS_COUNT_MAX)
        format(message, bytes, "m: %u numbers, there must be 1..%u", config->modulus_count, MATCHER_MODULUS_COUNT_MAX);
    else if (!matcher_simd_usable(config->simd))
        format(message, bytes, "simd=%s: this machine cannot run it", matcher_simd_name(config->simd));
    else
        return NULL;
    return message;
}

const char *matcher_init(struct matcher **matcher, const struct matcher_config *config)
{
    static char message[256];
    struct matcher *m = &the_matcher;
    const char *fault = config_fault(config, message, sizeof message);
    if (fault != NULL)
        return fault;
    memset(m, 0, sizeof *m);
    m->n = config->n_digits_max;
    m->modulus_count = config->modulus_count;
    m->early = config->early;
    m->early_risk = config->early_risk;
    memcpy(m->seed, config->seed, sizeof m->seed);
    m->stats.moduli = m->modulus_count;
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
        simd = config->tsc_khz > 0 ? matcher_simd_fastest(m, config->tsc_khz) : matcher_simd_best();
    matcher_setup(m, simd_ops_of(simd));
    matcher_rehearsal_init(m, config->moduli);
    m->stats.simd = matcher_simd_name(simd);
    early_init(m, config->early_risk);
    *matcher = m;
    return NULL;
}

const struct matcher_stats *matcher_stats(const struct matcher *m) { return &m->stats; }

void matcher_check_state(const struct matcher *m)
{
    const struct burst_search *s = &m->search;
    ASSERT(m->n >= 1 && m->n <= MATCHER_N_DIGITS_MAX);
    ASSERT(m->modulus_count >= 1 && m->modulus_count <= MATCHER_MODULUS_COUNT_MAX);
    ASSERT(m->burst_count <= MATCHER_BURST_DIGITS_MAX);
    ASSERT(s->given <= s->queued && s->queued <= MATCHER_QUEUE_MAX);
    ASSERT(m->checks.count <= MATCHER_CHECKS_MAX);
    ASSERT(!s->hashing.active || s->open);
    ASSERT(filter_ready(&m->filter) || m->adding);
    for (uint32_t i = 0; i < MATCHER_HISTORY + m->burst_count + 64; i++)
        ASSERT(m->text[i] >= '0' && m->text[i] <= '9');
    for (uint32_t i = 0; i < m->modulus_count; i++) {
        ASSERT(m->window[i].count <= MATCHER_CANDIDATES_MAX + 1);
        hash_check(&m->table[i]);
        /* A table that is always kept ends where the window does. */
        const uint64_t reached = m->table[i].place + (m->table[i].next - m->table[i].first);
        ASSERT(s->open || m->idle_step <= IDLE_MODULI || (m->hash_moduli >> i & 1) == 0
               || reached == m->burst_at + MATCHER_HISTORY);
    }
    filter_check(&m->filter);
    for (uint32_t k = 0; k < m->filter.probe_count; k++) {
        const struct filter_probe *probe = &m->filter.probe[k];
        ASSERT((uint32_t)(probe->reach - probe->at) <= m->moduli[probe->modulus].probe.digits);
    }
    early_check(m);
}
