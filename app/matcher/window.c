/* The window between bursts: everything that the next burst needs, so that its path only adds and compares. A variant
 * begins with an empty one. */
#include "app/matcher/state.h"
#include "base/assert.h"

void matcher_window_begin(struct matcher *m)
{
    m->idle_step = IDLE_CHECK;
    m->filter.cached = 0;
    m->window_any = m->window_multiple = false;
    m->window_hashed = 0;
    for (uint32_t i = 0; i < m->modulus_count && !filter_ready(&m->filter); i++)
        m->window_hashed |= (uint32_t)(m->moduli[i].method == MODULUS_FILTER) << i;
}

/* Makes the end of the burst the window. */
static void shift_window(struct matcher *m)
{
    struct rehearsal *r = &m->rehearsal;
    m->search.work += (MATCHER_HISTORY + m->n) / WORK_WRITTEN + m->early_answers.pending_count * WORK_PENDING;
    early_settle(m);
    if (m->burst_count > 0)
        r->digits_lately = max_u32(m->burst_count, r->digits_lately - r->digits_lately / 16);
    memmove(m->text, m->text + m->burst_count, MATCHER_HISTORY);
    m->burst_at += m->burst_count;
    m->burst_count = 0;
    const uint32_t digits = min_u32((m->n + 63) / 32 * 32, MATCHER_HISTORY);
    m->ops->write(m->row + MATCHER_HISTORY - digits, m->text + MATCHER_HISTORY - digits, digits);
    m->early_answers.modulus = m->early_answers.step = 0;
    m->idle_modulus = 0;
    m->idle_step = IDLE_MODULI;
}

/* Lists a modulus' candidates in the window, by a probe from the burst's beginning. Early answers want those of a
 * hashed modulus, too. Takes the window into the table of residues if the next burst begins with that. If the burst is
 * there already, its search does that, and verifies all candidates. */
static void prepare_modulus(struct matcher *m, uint32_t i, bool burst_waits)
{
    const struct matcher_modulus *c = &m->moduli[i];
    struct candidates *w = &m->window[i];
    const uint8_t *burst = m->text + MATCHER_HISTORY;
    w->count = 0;
    if (c->probe.digits > 0 && c->method != MODULUS_NONE) {
        m->search.work += m->n / WORK_SUMMED;
        m->ops->candidates(&c->probe, burst, 1, m->n, w);
    }
    if (c->method == MODULUS_FILTER && w->count > CANDIDATES_MAX) {
        m->window_hashed |= UINT32_C(1) << i;
        m->stats.filter_overflows++;
    }
    if (((m->window_hashed | m->hash_moduli) >> i & 1) != 0) {
        if (!burst_waits)
            matcher_hash_to(m, i, MATCHER_HISTORY, MATCHER_ROOM_DIGITS);
        return;
    }
    m->window_any |= burst_waits && w->count > 0;
    for (uint32_t k = 0; k < w->count && !burst_waits; k++) {
        const uint64_t sum = m->ops->sum(burst - w->before[k], c->key_weights, w->before[k]);
        const bool multiple = sum <= c->tolerance && c->tail_digits <= 1;
        m->window_any |= !multiple;
        m->window_multiple |= multiple;
    }
}

/* Returns true if the next burst hashes a modulus with a tail. */
static bool hashes_tails(const struct matcher *m)
{
    bool has_tail = false;
    for (uint32_t i = 0; i < m->modulus_count; i++)
        has_tail |= ((m->hash_moduli | m->window_hashed) >> i & 1) != 0 && m->moduli[i].tail_digits > 1;
    return has_tail;
}

void matcher_window_step(struct matcher *m)
{
    ASSERT(!m->search.open && m->idle_step < IDLE_DONE);
    if (m->idle_step == IDLE_CHECK) {
        if (m->check_count > 0)
            exact_check_step(m);
        else
            shift_window(m);
    } else if (m->idle_step == IDLE_MODULI) {
        if (m->idle_modulus < m->modulus_count)
            prepare_modulus(m, m->idle_modulus++, false);
        else
            m->idle_step = IDLE_CACHE;
    } else if (m->idle_step == IDLE_CACHE) {
        if (filter_ready(&m->filter) && m->filter.cached < m->filter.cache_vectors)
            m->ops->fill_cache(&m->filter, m->row + MATCHER_HISTORY, m->filter.cached++);
        else
            m->idle_step = IDLE_TAILS;
    } else if (m->idle_step == IDLE_TAILS) {
        if (!hashes_tails(m) || !matcher_tails_to(m, MATCHER_HISTORY, MATCHER_HISTORY))
            m->idle_step = m->early_risk > 0 ? IDLE_EARLY : IDLE_DONE;
    } else if (!early_step(m)) {
        m->idle_step = IDLE_DONE;
    }
}

void matcher_window_finish(struct matcher *m)
{
    m->stats.candidates_unchecked += m->check_count;
    m->check_count = 0;
    while (m->idle_step < IDLE_CACHE)
        if (m->idle_step == IDLE_MODULI && m->idle_modulus < m->modulus_count)
            prepare_modulus(m, m->idle_modulus++, true);
        else
            matcher_window_step(m);
}

void matcher_setup_modulus(struct matcher *m, uint32_t i)
{
    struct matcher_modulus *c = &m->moduli[i];
    ASSERT(i < m->modulus_count);
    const bool probed = m->ops->probe != NULL && c->probe.digits >= FILTER_DIGITS_MIN;
    c->method = c->digits > m->n ? MODULUS_NONE : probed ? MODULUS_FILTER : MODULUS_HASH;
    m->hash_moduli |= (uint32_t)(c->method == MODULUS_HASH) << i;
    for (uint32_t p = 0; p < TAIL_PRIMES && c->tail_digits > 1; p++)
        tails_provide(&m->tails, p, c->exponents[p]);
    m->search.spent[i] = 0;
    m->table[i].next = 0;
}

void matcher_setup(struct matcher *m, const struct simd_ops *ops)
{
    m->ops = ops;
    m->hash_moduli = m->burst_count = 0;
    m->burst_at = 0;
    m->work_slice = MATCHER_WORK_MAX;
    memset(&m->search, 0, offsetof(struct burst_search, queue));
    m->search.earned = MATCHER_CREDIT_MAX;
    memset(&m->tails, 0, sizeof m->tails);
    memset(m->run, 0, sizeof m->run);
    memset(m->text, '0', sizeof m->text);
    memset(m->row, 0, sizeof m->row);
    for (uint32_t i = 0; i < m->modulus_count; i++)
        matcher_setup_modulus(m, i);
    filter_begin(&m->filter, ops->lanes, m->moduli, m->modulus_count, m->n);
    while (!filter_ready(&m->filter))
        filter_fill(&m->filter, m->moduli);
    matcher_window_begin(m);
    while (m->idle_step < IDLE_CACHE)
        matcher_window_step(m);
}

void matcher_restart(struct matcher *m)
{
    ASSERT(!m->search.open);
    matcher_window_finish(m);
    memset(m->text, '0', MATCHER_HISTORY);
    for (uint32_t i = 0; i < m->modulus_count; i++)
        m->table[i].next = 0;
    m->tails.next = 0;
    m->early_answers.pending_count = 0;
    m->early_answers.offered.count = 0;
    matcher_window_begin(m);
}
