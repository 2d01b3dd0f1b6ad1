/* The hash's search through a block for one modulus. app/matcher/README.md, "Hash" and "Tails".
 *
 *     each end that shares its cell with a start      hash_search_next_end
 *       each start with the end's residue             hash_walk_next
 *         no tail: an answer                          matcher_pair_add
 *         the first start, with a tail                hash_search_tail: lists starts of the end's run, by phase
 *           the listed starts that are ready,
 *           then the walk's longer ones: answers      run_next */
#include <assert.h>

#include "app/matcher/state.h"
#include "base/assert.h"

/* An answer ends in the block, or at most K digits after that. */
static_assert(FILTER_BLOCK_DIGITS + MATCHER_MODULUS_DIGITS_MAX <= MATCHER_QUEUED_ENDS, "each end has an entry");

void matcher_hash_to(struct matcher *m, uint32_t i, uint32_t text_index, uint32_t room)
{
    struct matcher_hash *hash = &m->table[i];
    const uint64_t to = m->burst_at + text_index, from = to - m->n;
    uint64_t at = hash->place + (hash->next - hash->first);
    ASSERT(text_index >= MATCHER_HISTORY && i < m->modulus_count);
    if (hash->next == 0 || at < from || !hash_has_room(hash, (uint32_t)(to - at) + room)) {
        hash_restart(hash, from);
        m->run[i].base = 0;
        at = from;
    }
    ASSERT(at <= to);
    m->search.work += WORK_DIGIT * (to - at);
    for (uint32_t part; at < to; at += part) {
        part = (uint32_t)min_size(to - at, HASH_BLOCK_DIGITS);
        hash_take(hash, &m->moduli[i], m->text + (at - m->burst_at), part, m->n);
    }
}

/* Takes the block's digits into the tails, and those of the window that are not there. */
static void tails_to_block(struct matcher *m)
{
    const struct burst_search *s = &m->search;
    const uint64_t at = m->burst_at, oldest = at + s->from - m->n, to = at + s->to;
    struct tails *t = &m->tails;
    if (t->first > oldest || t->next < oldest)
        tails_restart(t, oldest);
    if (t->next >= to)
        return;
    m->search.work += (to - t->next) * (1 + t->words[0] + t->words[1]);
    tails_take(t, m->text + (t->next - at), (uint32_t)(to - t->next));
}

void matcher_pair_add(struct matcher *m, uint32_t i, uint32_t start, uint32_t end)
{
    struct burst_search *s = &m->search;
    const uint32_t words = 1 + (m->n + 255) / 256 * 4; /* a mark, then bits */
    uint64_t *of_end = &m->queued_pairs[end % MATCHER_QUEUED_ENDS * words];
    uint64_t *word = &of_end[1 + (end - start - 1) / 64];
    const uint64_t mark = m->burst_mark + end, bit = BIT((end - start - 1) % 64);
    ASSERT(start < end && end <= MATCHER_HISTORY + m->burst_count && end - start <= m->n);
    ASSERT(end > s->from && end <= s->from + FILTER_BLOCK_DIGITS + MATCHER_MODULUS_DIGITS_MAX);
    ASSERT(m->text[start] != '0' && s->queued < MATCHER_QUEUE_MAX);
    s->work += WORK_PAIR;
    if (*of_end != mark) {
        *of_end = mark;
        for (uint32_t w = 1; w < words; w += 4)
            memset(of_end + w, 0, 4 * sizeof *of_end);
    }
    if ((*word & bit) != 0)
        return;
    *word |= bit;
    s->queue[s->queued++] = (struct matcher_pair){ start, end, i };
}

/* Drops the ends whose tail admits no answer, if many ends have a start: tails take time of their own. */
static void hash_search_drop(struct matcher *m, struct hash_search *h)
{
    const struct matcher_modulus *c = &m->moduli[h->modulus];
    const uint32_t from = m->search.from, to = m->search.to;
    uint32_t found = 0;
    for (uint32_t w = 0; w * HASH_BLOCK_DIGITS < to - from; w++)
        found += (uint32_t)__builtin_popcountll(h->found[w]);
    if (found <= (to - from) / 4)
        return;
    tails_to_block(m);
    m->search.work += to - from;
    for (uint32_t at = from, w = 0; at < to; w++) {
        uint64_t admitted = 0;
        for (uint32_t k = 0; k < HASH_BLOCK_DIGITS && at < to; k++)
            admitted |= (uint64_t)tails_admit(tails_at(&m->tails, m->burst_at + ++at), c->needs) << k;
        h->found[w] &= admitted;
    }
}

void hash_search_begin(struct matcher *m, uint32_t i)
{
    struct hash_search *h = &m->search.hashing;
    struct matcher_hash *hash = &m->table[i];
    const uint32_t from = m->search.from, to = m->search.to;
    ASSERT(from <= to && to - from <= FILTER_BLOCK_DIGITS && !h->active);
    matcher_hash_to(m, i, from, to - from);
    m->search.work += WORK_DIGIT * (to - from);
    h->active = true;
    h->walking = false;
    h->modulus = i;
    for (uint32_t at = from, w = 0; at < to; at += HASH_BLOCK_DIGITS, w++)
        h->found[w] = hash_take(hash, &m->moduli[i], m->text + at, min_u32(to - at, HASH_BLOCK_DIGITS), m->n);
    if (m->moduli[i].tail_digits > 1)
        hash_search_drop(m, h);
}

/* Goes to the next end that may have a start and whose last digit admits an answer. Returns false if there is none. */
static bool hash_search_next_end(struct matcher *m, struct hash_search *h)
{
    const struct matcher_hash *hash = &m->table[h->modulus];
    for (uint32_t w = 0; w * HASH_BLOCK_DIGITS < m->search.to - m->search.from; w++)
        while (h->found[w] != 0) {
            const uint32_t end = m->search.from + w * HASH_BLOCK_DIGITS + (uint32_t)__builtin_ctzll(h->found[w]) + 1;
            ASSERT(end <= m->search.to);
            h->found[w] &= h->found[w] - 1;
            m->search.work += WORK_END;
            if (!modulus_may_end_in(&m->moduli[h->modulus], m->text[end - 1]))
                continue;
            h->walk = hash_walk_begin(hash, (uint32_t)(m->burst_at + end - hash->place));
            h->tail_known = false;
            h->walking = true;
            h->end = end;
            return true;
        }
    return false;
}

/* Puts a start that has the end's residue into the run's list. */
static void run_add(struct matcher *m, struct hash_search *h, uint32_t length)
{
    struct tail_run *run = &m->run[h->modulus];
    const uint32_t missing = tails_missing(&m->tails, m->moduli[h->modulus].exponents, m->text + h->end - length,
                                           length, m->burst_at + h->end);
    const uint32_t ready = h->walk.end + missing;
    uint32_t k = run->count++;
    ASSERT(run->count <= ARRAY_COUNT(run->list));
    for (; k > 0 && run->list[k - 1].ready < ready; k--)
        run->list[k] = run->list[k - 1];
    run->list[k].start = h->walk.end - length;
    run->list[k].ready = ready;
    m->search.work += WORK_TAIL;
}

/* Lists the starts of an end whose tail admits every long start: those that are shorter than the tail. */
static void run_list_short(struct matcher *m, struct hash_search *h)
{
    const struct matcher_modulus *c = &m->moduli[h->modulus];
    struct tail_run *run = &m->run[h->modulus];
    for (;;) {
        run->longer = h->walk;
        const uint32_t length = hash_walk_next(&m->table[h->modulus], &h->walk, c->tolerance, m->n);
        m->search.work += WORK_START;
        if (length == 0 || length >= c->tail_digits)
            return;
        run_add(m, h, length);
    }
}

/* The starts on one level, at most. From one to the next, g digits on, the factors grow by g > 0.43 times their number:
 * 0, 1, 2, 3, 5, 8, ... 483 are 17 below 512. README, "Tails". */
enum { RUN_LEVEL_MAX = 17 };

/* Lists the starts of an end whose tail lacks factors of a prime. Only a start on the end's level can be an answer: the
 * factors before it and the digits in between add up to the factors before the end. */
static void run_list_level(struct matcher *m, struct hash_search *h, uint32_t prime, uint32_t factors)
{
    const struct matcher_modulus *c = &m->moduli[h->modulus];
    struct tail_run *run = &m->run[h->modulus];
    const struct matcher_hash *hash = &m->table[h->modulus];
    const uint64_t end = m->burst_at + h->end, *key = &hash->key[end - hash->place];
    uint32_t length = min_u32(m->n, h->walk.end - run->judged);
    for (; length >= c->digits; length--) {
        const uint32_t start = h->end - length;
        m->search.work++;
        if (tails_at(&m->tails, end - length)->factors[prime] + length == factors && m->text[start] != '0'
            && *key - *(key - length) <= c->tolerance)
            run_add(m, h, length);
    }
    run->judged = max_u32(run->judged, h->walk.end - c->digits + 1);
    ASSERT(run->count <= RUN_LEVEL_MAX);
}

/* Finds out which starts the tail of the walk's end admits, now that the walk has found the first one, `length` digits
 * back. Returns false if it admits none. */
static bool hash_search_tail(struct matcher *m, struct hash_search *h, uint32_t length)
{
    const struct matcher_modulus *c = &m->moduli[h->modulus];
    struct tail_run *run = &m->run[h->modulus];
    tails_to_block(m);
    m->search.work += WORK_TAIL;
    const struct tail_place *end = tails_at(&m->tails, m->burst_at + h->end);
    if (!tails_admit(end, c->needs))
        return false;
    enum run_phase phase = RUN_LACKS_2;
    while (phase < RUN_ADMITS && end->factors[phase] >= c->exponents[phase])
        phase++;
    h->walk.start = h->walk.end - length; /* looked at again, by the run */
    if (run->base != h->walk.end - end->zeros || run->phase != phase) {
        run->base = h->walk.end - end->zeros;
        run->phase = phase;
        run->count = 0;
        if (phase == RUN_ADMITS)
            run_list_short(m, h);
        else
            run->judged = h->walk.end - end->factors[phase]; /* F(i) + L = F(j): L is F(j) at most */
    }
    if (phase == RUN_ADMITS) {
        h->walk.start = run->longer.start;
        h->walk.other_cell = run->longer.other_cell;
    } else {
        run_list_level(m, h, phase, end->factors[phase]);
    }
    h->tail_known = true;
    h->listed = run->count;
    return true;
}

/* Goes to the next start that the end's tail admits: those of the run's list that are ready, then the longer ones.
 * Returns the number of digits from there to the end, 0 if there is none. */
static uint32_t run_next(struct matcher *m, struct hash_search *h)
{
    const struct matcher_modulus *c = &m->moduli[h->modulus];
    const struct tail_run *run = &m->run[h->modulus];
    for (; h->listed > 0 && run->list[h->listed - 1].ready <= h->walk.end; m->search.work++) {
        const uint32_t length = h->walk.end - run->list[--h->listed].start;
        if (length <= m->n)
            return length;
    }
    h->listed = 0;
    uint32_t length = 0;
    if (run->phase < RUN_ADMITS)
        return 0;
    do /* the cell below may begin with short starts again */
        length = hash_walk_next(&m->table[h->modulus], &h->walk, c->tolerance, m->n);
    while (length != 0 && length < c->tail_digits
           && tails_missing(&m->tails, c->exponents, m->text + h->end - length, length, m->burst_at + h->end) != 0);
    return length;
}

void hash_search_continue(struct matcher *m)
{
    struct hash_search *h = &m->search.hashing;
    struct burst_search *s = &m->search;
    const struct matcher_modulus *c = &m->moduli[h->modulus];
    while (s->queued < MATCHER_QUEUE_MAX && (h->walking || s->queued == 0)) {
        if (s->work >= s->work_max)
            return;
        if (!h->walking && !hash_search_next_end(m, h)) {
            h->active = false;
            return;
        }
        s->work += WORK_START;
        const uint32_t length = h->tail_known ? run_next(m, h)
                                              : hash_walk_next(&m->table[h->modulus], &h->walk, c->tolerance, m->n);
        if (length != 0 && (h->tail_known || c->tail_digits <= 1))
            matcher_pair_add(m, h->modulus, h->end - length, h->end);
        else if (length == 0 || !hash_search_tail(m, h, length))
            h->walking = false;
    }
}
