/* Long bursts: looks of one constant at equal distances, each a lane of a comb (struct matcher_comb). */
#include "app/matcher_state.h"
#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"

/* Where each constant's first comb ends: the look before it reaches so far. */
static uint32_t comb_first_end(const struct matcher *m, uint32_t i)
{
    return (uint32_t)min_size(m->sweep[0].first[i], m->comb.pitch);
}

/* Constants with few looks first: their answers need not wait for those that have many. */
void matcher_comb_prepare(struct matcher *m)
{
    struct matcher_comb *comb = &m->comb;
    for (uint32_t i = 0; i < m->constant_count; i++) {
        if (m->constants[i].method != MATCHER_LOOK)
            continue;
        uint32_t at = comb->order_count++;
        for (; at > 0 && m->constants[comb->order[at - 1]].look.digits < m->constants[i].look.digits; at--)
            comb->order[at] = comb->order[at - 1];
        comb->order[at] = i;
    }
}

/* Goes on to a constant's first comb; order_count: there is none. */
static void comb_open(struct matcher *m, uint32_t at)
{
    m->comb_state.at = at;
    if (at < m->comb.order_count)
        m->comb_state.next = comb_first_end(m, m->comb.order[at]);
}

void matcher_comb_begin(struct matcher *m)
{
    struct matcher_comb *comb = &m->comb;
    const uint32_t lanes = m->kernel->lanes, left = m->segment_count - m->stretch_from, block = MATCHER_COMB_BLOCK;
    comb->from = m->stretch_from;
    comb->text = m->text + m->segment_text + comb->from;
    comb->pitch = (uint32_t)max_size((left + lanes - 1) / lanes, MATCHER_COMB_YOUNG);
    comb->blocks = (m->n - MATCHER_COMB_YOUNG + block - 1) / block;
    const uint32_t before = comb->blocks * block, rows = before + (comb->pitch + block - 1) / block * block;
    ASSERT(rows * lanes <= ARRAY_COUNT(comb->row));
    comb->row0 = comb->row + before * lanes;
    m->kernel->comb_write(comb->row, comb->text - before, comb->pitch, rows);
    comb_open(m, 0);
}

/* Goes on to the next combs of a constant, up to four (of five, three: one alone would wait for itself); false: there
 * are none. */
static bool comb_next(struct matcher *m)
{
    struct matcher_comb_state *state = &m->comb_state;
    if (state->at == m->comb.order_count)
        return false;
    const uint32_t i = m->comb.order[state->at], pitch = m->comb.pitch;
    const struct matcher_look *look = &m->constants[i].look;
    const uint32_t left = (pitch - state->next + look->digits - 1) / look->digits + 1;
    state->count = left == MATCHER_COMB_VECTORS + 1 ? left - 2 : (uint32_t)min_size(left, MATCHER_COMB_VECTORS);
    state->constant = i;
    state->look = look;
    for (uint32_t j = 0; j < state->count; j++, state->next += look->digits)
        state->end[j] = (uint32_t)min_size(state->next, pitch);
    if (left == state->count)
        comb_open(m, state->at + 1);
    return true;
}

/* The combs at work have hot starts. */
static __attribute__((noinline)) void comb_follow(struct matcher *m)
{
    const struct matcher_comb_state *state = &m->comb_state;
    const uint32_t i = state->constant, pitch = m->comb.pitch;
    for (uint64_t hot = state->hot; hot != 0; hot &= hot - 1) {
        const uint32_t k = (uint32_t)__builtin_ctzll(hot), end = state->end[k / m->kernel->lanes];
        const size_t next = end == pitch ? pitch + comb_first_end(m, i) : min_size(end + state->look->digits, pitch);
        const uint32_t lane = m->comb.from + k % m->kernel->lanes * pitch, after = lane + end;
        const uint32_t to = (uint32_t)min_size(lane + next, m->segment_count);
        if (after >= to)
            continue;       /* a look from behind the last digit */
        int32_t starts[MATCHER_HOT_MAX];
        uint32_t count = m->kernel->comb_starts(&m->comb, state, k, 1 - (int32_t)m->n, starts, MATCHER_HOT_MAX);
        matcher_follow(m, i, after, starts, count, after, to);
    }
}

bool matcher_comb_search(struct matcher *m)
{
    while (comb_next(m))
        if (m->kernel->comb(&m->comb, &m->comb_state)) {
            comb_follow(m);
            if (m->pair_given < m->pair_count)
                return true;
        }
    m->sweep_at = m->sweep_count;
    return false;
}
