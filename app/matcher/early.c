/* Early answers, and exact arithmetic in idle time. app/matcher/README.md, "Early answers". */
#include "app/matcher/state.h"
#include "base/assert.h"

enum {
    RISK_BITS = 40,
    EARLY_ZEROS_MAX = 4,    /* more at the end of a completion are not tried */
    EARLY_APART_DIGITS = 8, /* a shorter completion makes a longer one doubtful */
    EARLY_RUN_DIGITS = 6,   /* equal digits at the end that are no chance any more */
};

static const uint8_t zeros[MATCHER_MODULUS_DIGITS_MAX] = { [0 ... MATCHER_MODULUS_DIGITS_MAX - 1] = '0' };

void exact_check_step(struct matcher *m)
{
    ASSERT(m->check_count > 0 && m->check_count <= MATCHER_CHECKS_MAX);
    const struct matcher_pair *pair = &m->check[--m->check_count];
    const uint32_t count = pair->end - pair->start;
    struct big remainder = { { 0 } };
    ASSERT(pair->modulus < m->modulus_count && pair->start < pair->end && count <= m->n);
    big_append_mod(&remainder, m->text + pair->start, count, &m->moduli[pair->modulus].value);
    m->stats.candidates_refuted += !big_is_zero(&remainder);
}

/* Computes how many completions count. One random start in M / 10^k has one of k digits or less. C moduli of n starts
 * share the risk: M risk / (C n) completions count, by their digits, then by their value. */
void early_init(struct matcher *m)
{
    struct early_answers *e = &m->early_answers;
    ASSERT(m->early_risk <= BIT(RISK_BITS));
    for (uint32_t i = 0; i < m->modulus_count; i++) {
        e->allowed[i] = m->moduli[i].value;
        big_mul_add(&e->allowed[i], m->moduli[i].method != MODULUS_NONE ? m->early_risk : 0, 0);
        big_div(&e->allowed[i], BIT(RISK_BITS));
        big_div(&e->allowed[i], (uint64_t)m->modulus_count * m->n);
    }
}

/* Returns true if the digits of an early answer have come. */
static bool pending_has_come(const struct matcher *m, const struct early_pending *p)
{
    ASSERT(p->end <= m->burst_at + m->burst_count);
    const uint64_t text_index = p->end - p->ahead + MATCHER_HISTORY - m->burst_at;
    ASSERT(text_index < MATCHER_HISTORY + m->burst_count);
    return memcmp(m->text + text_index, p->digits, p->ahead) == 0;
}

bool early_was_given(const struct matcher *m, const struct matcher_pair *pair)
{
    const uint64_t start = matcher_stream_position(m, pair->start), end = matcher_stream_position(m, pair->end);
    const struct early_answers *e = &m->early_answers;
    ASSERT(e->pending_count <= MATCHER_PENDING_MAX);
    for (uint32_t k = 0; k < e->pending_count; k++)
        if (e->pending[k].start == start && e->pending[k].end == end && pending_has_come(m, &e->pending[k]))
            return true;
    return false;
}

void early_settle(struct matcher *m)
{
    struct early_answers *e = &m->early_answers;
    uint32_t open = 0;
    ASSERT(e->offered.count == 0); /* matcher_next_early has taken it, or it would be lost */
    for (uint32_t k = 0; k < e->pending_count; k++) {
        if (e->pending[k].end > m->burst_at + m->burst_count)
            e->pending[open++] = e->pending[k];
        else if (pending_has_come(m, &e->pending[k]))
            m->stats.early_right++;
        else
            m->stats.early_wrong++;
    }
    ASSERT(open <= e->pending_count);
    e->pending_count = open;
}

/* Finds the shortest completion of some digits, of at most K digits. */
static struct early_completion find_completion(const struct matcher_modulus *c, const uint8_t *begin, uint32_t count)
{
    const uint32_t digits = c->probe.digits;
    struct early_completion found = { .count = digits, .value = c->value };
    struct big value = { { 0 } }, limit = { { 1 } };
    ASSERT(digits > 0 && count > 0 && count <= MATCHER_N_DIGITS_MAX);
    big_append_mod(&value, begin, count, &c->value);
    struct big residue = value;
    big_append_mod(&residue, zeros, digits, &c->value);
    big_sub(&found.value, &residue);
    big_append_mod(&limit, zeros, digits, &c->value);
    /* There is none if the candidate was one by rounding alone, or if zeros alone make it a multiple. */
    if (big_compare(&found.value, &limit) >= 0)
        return (struct early_completion){ 0 };

    /* Zeros at the end are further answers, found when they come - unless the factors 2 and 5 of M need them. */
    for (struct big shorter = found.value; found.count > 1 && big_div(&shorter, 10) == 0; found.count--)
        found.value = shorter;
    for (uint32_t most = found.count + EARLY_ZEROS_MAX; found.count <= min_size(most, digits); found.count++) {
        struct big whole = value; /* with the completion this becomes M itself */
        big_append_mod(&whole, zeros, found.count, &c->value);
        big_add(&whole, &found.value);
        if (big_compare(&whole, &c->value) == 0)
            return found;
        big_mul_add(&found.value, 10, 0);
    }
    return (struct early_completion){ 0 };
}

/* Returns true if the risk allows a completion. If M is close to a short number times a power of 10, the starts of a
 * planted answer are not independent: the completion must be the shortest by far. */
static bool completion_is_allowed(const struct matcher *m, uint32_t i, uint32_t k)
{
    const struct early_answers *e = &m->early_answers;
    const struct early_completion *own = &e->completion[k];
    struct big rank = { { 1 } };
    if (own->count == 0)
        return false;
    big_append_mod(&rank, zeros, own->count - 1, &m->moduli[i].value);
    big_add(&rank, &own->value);
    if (big_compare(&rank, &e->allowed[i]) >= 0)
        return false;
    for (uint32_t other = 0; other < m->window[i].count; other++) {
        const struct early_completion *its = &e->completion[other];
        if (its->count > 0 && its->count < own->count + EARLY_APART_DIGITS
            && (its->count != own->count || big_compare(&its->value, &own->value) != 0))
            return false;
    }
    return true;
}

/* Returns true if the digits end in a run of zeros or nines: some M then have completions by structure. */
static bool ends_in_a_run(const struct matcher *m)
{
    const uint8_t *end = m->text + MATCHER_HISTORY;
    for (uint32_t i = 2; i <= EARLY_RUN_DIGITS; i++)
        if (end[-(ptrdiff_t)i] != end[-1])
            return false;
    return end[-1] == '0' || end[-1] == '9';
}

static void offer(struct matcher *m, uint32_t i, uint32_t k)
{
    struct early_answers *e = &m->early_answers;
    const uint32_t so_far = m->window[i].before[k], begin = MATCHER_HISTORY - so_far;
    const uint32_t ahead = e->completion[k].count;
    if (so_far + ahead > m->n || e->pending_count == MATCHER_PENDING_MAX || !completion_is_allowed(m, i, k))
        return;
    struct early_pending *p = &e->pending[e->pending_count];
    p->start = matcher_stream_position(m, begin);
    p->end = p->start + so_far + ahead;
    p->ahead = ahead;
    for (const struct early_pending *other = e->pending; other < p; other++)
        if (other->start == p->start && other->end == p->end)
            return; /* given before */
    struct big rest = e->completion[k].value;
    ASSERT(ahead <= sizeof p->digits);
    for (uint32_t at = ahead; at-- > 0;)
        p->digits[at] = (uint8_t)('0' + big_div(&rest, 10));
    ASSERT(big_is_zero(&rest));
    memcpy(e->text, m->text + begin, so_far);
    memcpy(e->text + so_far, p->digits, ahead);
    e->offered = (struct matcher_answer){ e->text, so_far + ahead, i, ahead, p->end };
    e->pending_count++;
    m->stats.early_answers++;
}

/* Computes each candidate's completion by exact arithmetic, one a slice, then makes the offers. */
bool early_step(struct matcher *m)
{
    struct early_answers *e = &m->early_answers;
    if (e->offered.count > 0)
        return true; /* nobody has taken it yet */
    if (e->modulus == m->modulus_count || ends_in_a_run(m))
        return false;
    const struct candidates *list = &m->window[e->modulus];
    const uint32_t i = e->modulus, k = e->step++;
    if (big_is_zero(&e->allowed[i]) || list->count > CANDIDATES_MAX || k == 2 * list->count) {
        e->modulus++;
        e->step = 0;
    } else if (k < list->count) {
        const uint8_t *begin = m->text + MATCHER_HISTORY - list->before[k];
        e->completion[k] = find_completion(&m->moduli[i], begin, list->before[k]);
    } else {
        offer(m, i, k - list->count);
    }
    return true;
}

bool matcher_next_early(struct matcher *m, struct matcher_answer *answer)
{
    struct early_answers *e = &m->early_answers;
    if (e->offered.count == 0)
        return false;
    *answer = e->offered;
    e->offered.count = 0;
    return true;
}
