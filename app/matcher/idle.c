/* Idle work: slice by slice the window, then a modulus that is added. Rehearsals keep the path warm. */
#include "app/matcher/state.h"
#include "base/assert.h"
#include "base/hot_section.h"

enum {
    REHEARSAL_ANSWERS = 16, /* at most: small moduli have many before the last */
    PLACES_A_SLICE = 16,    /* while a modulus is added: 4 us at 512 bits */
};

static bool can_rehearse(const struct matcher *m)
{
    bool room = true;
    for (uint32_t i = 0; i < m->modulus_count; i++)
        room &= (m->hash_moduli >> i & 1) != 0 ? hash_has_room(&m->table[i], MATCHER_REHEARSAL_DIGITS)
                                               : m->search.spent[i] + MATCHER_CREDIT_MAX / 2 <= m->search.earned;
    return room && m->rehearsal[0] != 0 && m->window_hashed == 0;
}

/* Searches a made-up burst and puts the state back. The path then finds its code, its tables and the predictions of its
 * branches as a burst leaves them. */
static void rehearse(struct matcher *m)
{
    static uint8_t head[offsetof(struct matcher, search) + offsetof(struct burst_search, queue)];
    static uint8_t tails[offsetof(struct tails, place)];
    const uint32_t cached = m->filter.cached;
    uint32_t next[MATCHER_MODULUS_COUNT_MAX], base[MATCHER_MODULUS_COUNT_MAX];
    struct matcher_answer answer;
    if (!can_rehearse(m))
        return;
    ASSERT(m->idle_step == IDLE_DONE && m->check_count == 0);
    memcpy(head, m, sizeof head);
    memcpy(tails, &m->tails, sizeof tails);
    for (uint32_t i = 0; i < m->modulus_count; i++) {
        next[i] = m->table[i].next;
        base[i] = m->run[i].base;
    }
    matcher_begin(m, m->rehearsal, MATCHER_REHEARSAL_DIGITS);
    for (uint32_t i = 0; i < REHEARSAL_ANSWERS && matcher_next(m, &answer) == MATCHER_ANSWER; i++)
        continue;
    const uint32_t overflowed = m->search.hashed & ~m->hash_moduli;
    memcpy(m, head, sizeof head);
    memcpy(&m->tails, tails, sizeof tails);
    for (uint32_t i = 0; i < m->modulus_count; i++) {
        if ((overflowed >> i & 1) != 0)
            m->table[i].next = 0;
        else
            hash_take_back(&m->table[i], m->table[i].next - next[i]);
        m->run[i].base = m->run[i].base == base[i] ? base[i] : 0;
    }
    m->filter.cached = cached;
    m->check_count = 0;
    ASSERT(!m->search.open && m->idle_step == IDLE_DONE);
}

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

void matcher_warm(struct matcher *m)
{
    if (m->idle_step != IDLE_DONE || m->search.open)
        return;
    hot_fetch(m, offsetof(struct matcher, search) + offsetof(struct burst_search, queue));
    hot_fetch(m->text + MATCHER_HISTORY, MATCHER_REHEARSAL_DIGITS + 64);
    for (uint32_t i = 0; i < m->modulus_count; i++) {
        const struct matcher_modulus *c = &m->moduli[i];
        if (c->method == MODULUS_HASH)
            hot_fetch(m->table[i].newest, sizeof m->table[i].newest);
        if (c->method != MODULUS_FILTER)
            continue;
        hot_fetch(&m->window[i], sizeof m->window[i]);
        hot_fetch(c, offsetof(struct matcher_modulus, probe.weights));
        hot_fetch(&c->probe.weights[MODULUS_AFTER - m->n], m->n * sizeof c->probe.weights[0]);
        hot_fetch(c->key_weights, m->n * sizeof c->key_weights[0]);
    }
    rehearse(m);
}
