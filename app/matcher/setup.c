/* Making ready for a variant: each modulus' method, the filter, an empty window. */
#include "app/matcher/state.h"
#include "base/assert.h"

void matcher_setup_modulus(struct matcher *m, uint32_t i)
{
    struct matcher_modulus *c = &m->moduli[i];
    ASSERT(i < m->modulus_count);
    c->method = c->digits > m->n ? MODULUS_NONE : c->probe.digits >= m->ops->digits_min ? MODULUS_FILTER : MODULUS_HASH;
    m->hash_moduli |= (uint32_t)(c->method == MODULUS_HASH) << i;
    for (uint32_t p = 0; p < TAIL_PRIMES && c->tail_digits > 1; p++)
        tails_provide(&m->tails, p, c->exponents[p]);
    m->search.spent[i] = 0;
    m->table[i].next = 0;
    matcher_hash_to(m, i, MATCHER_HISTORY, 0);
}

void matcher_setup(struct matcher *m, const struct simd_ops *ops)
{
    m->ops = ops;
    m->hash_moduli = m->burst_count = 0;
    m->burst_at = 0;
    memset(&m->search, 0, offsetof(struct burst_search, queue));
    m->search.earned = MATCHER_CREDIT_MAX;
    memset(&m->tails, 0, sizeof m->tails);
    memset(m->run, 0, sizeof m->run);
    memset(m->text, '0', sizeof m->text);
    memset(m->row, 0, sizeof m->row);
    for (uint32_t i = 0; i < m->modulus_count; i++)
        matcher_setup_modulus(m, i);
    filter_begin(&m->filter, ops->lanes, m->moduli, m->modulus_count, m->n);
    while (filter_fill(&m->filter, m->moduli))
        continue;
    m->stats.digits = m->stats.bursts = m->stats.answers = m->stats.filter_overflows = 0;
    m->stats.candidates_unchecked = m->stats.candidates_refuted = 0;
    matcher_window_begin(m);
    matcher_window_finish(m);
}
