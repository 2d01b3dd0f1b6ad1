/* Idle work: slice by slice the window, then a modulus that is added. */
#include "app/matcher/state.h"
#include "base/assert.h"

enum {
    PLACES_A_SLICE = 16, /* while a modulus is added: 4 us at 512 bits */
};

const char *matcher_add(struct matcher *m, const char *decimal)
{
    ASSERT(decimal != NULL && m->modulus_count <= MATCHER_MODULUS_COUNT_MAX);
    if (m->adding)
        return "a modulus is being added; try again in a second";
    if (m->modulus_count == MATCHER_MODULUS_COUNT_MAX)
        return "there are 8 moduli; no more can be added";
    struct matcher_modulus *c = &m->moduli[m->modulus_count];
    if (!modulus_read(c, decimal))
        return "not a number of 1..2^512-1 without leading zeros";
    for (uint32_t i = 0; i < m->modulus_count; i++)
        if (big_compare(&m->moduli[i].value, &c->value) == 0)
            return NULL;
    m->making = modulus_prepare_begin(c, m->n, m->seed);
    m->adding = true;
    m->stats.moduli_pending = 1;
    return NULL;
}

/* Lets the search know the new modulus. Until the filter is made again, bursts are hashed. */
static void commit(struct matcher *m)
{
    const uint32_t i = m->modulus_count++;
    ASSERT(i < MATCHER_MODULUS_COUNT_MAX && !m->search.open && m->burst_count == 0);
    matcher_setup_modulus(m, i);
    for (uint32_t k = 0; k <= i; k++)
        m->run[k].base = 0; /* the tails may begin again: places that were judged get other factors */
    filter_begin(&m->filter, m->ops->lanes, m->moduli, m->modulus_count, m->n);
    early_init(m);
    m->rehearsal.from = 0; /* the probes are others now */
    m->stats.moduli = m->modulus_count;
    matcher_window_begin(m);
}

/* Does one slice of the tables of a modulus that is added. They are made next to those that are in use. Then the filter
 * is made again, vector by vector. */
static void add_step(struct matcher *m)
{
    if (m->making.places < MODULUS_PLACES) {
        if (!modulus_prepare_some(&m->moduli[m->modulus_count], &m->making, PLACES_A_SLICE))
            commit(m);
    } else if (!filter_ready(&m->filter)) {
        filter_fill(&m->filter, m->moduli);
    } else {
        m->adding = false;
        m->stats.moduli_pending = 0;
        matcher_window_begin(m);
    }
}

bool matcher_prepare(struct matcher *m)
{
    if (m->search.open) /* answers of the burst are still to be taken */
        return false;
    if (m->idle_step < IDLE_DONE)
        matcher_window_step(m);
    else if (m->adding)
        add_step(m);
    return m->idle_step < IDLE_DONE || m->adding;
}
