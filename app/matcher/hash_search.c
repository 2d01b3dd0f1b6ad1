/* The hash's search through a block for one modulus. app/matcher/README.md, "Hash" and "Tails".
 *
 *     each end that shares its cell with a start      hash_search_ends
 *       each start with the end's residue             hash_search_starts
 *         no tail: an answer                          matcher_pair_add
 *         the first start, with a tail                hash_search_tail
 *           the starts of the end's run are listed    run_list_short or run_list_level
 *           the listed starts that are ready,
 *           then the walk's longer ones: answers      run_next
 *
 * Each step adds to `work` before it is done, and may be the last before matcher_next returns. */
#include <assert.h>

#include "app/matcher/state.h"
#include "base/assert.h"
#include "base/hot_section.h"

/* If a word has more ends with a start than this, the tails look at all its ends first. */
enum { DROP_ENDS = 16 };

/* An answer ends in the block, or at most K digits after that. */
static_assert(FILTER_BLOCK_DIGITS + MATCHER_MODULUS_DIGITS_MAX <= MATCHER_QUEUED_ENDS, "each end has an entry");

void matcher_hash_to(struct matcher *m, uint32_t i, uint32_t text_index, uint32_t room)
{
    struct matcher_hash *hash = &m->table[i];
    const uint64_t to = m->burst_at + text_index, from = to - m->n;
    uint64_t at = hash->place + (hash->next - hash->first);
    ASSERT(text_index >= MATCHER_HISTORY && i < m->modulus_count);
    const bool gap = at < from && !m->rehearses; /* a rehearsal goes on with the table that it puts back */
    if (hash->next == 0 || gap || !hash_has_room(hash, (uint32_t)(to - at) + room)) {
        ASSERT(!m->rehearses); /* idle work has left room */
        m->search.work += hash_restart_clears(hash) ? WORK_CLEARED : 0;
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

bool matcher_tails_to(struct matcher *m, uint32_t from, uint32_t to)
{
    const uint64_t at = m->burst_at, oldest = at + from - m->n, end = at + to;
    struct tails *t = &m->tails;
    ASSERT(from <= to && to - from <= FILTER_BLOCK_DIGITS);
    if (t->first > oldest || t->next < oldest)
        tails_restart(t, oldest);
    if (t->next >= end)
        return false;
    const uint32_t count = min_u32((uint32_t)(end - t->next), HASH_BLOCK_DIGITS);
    m->search.work += count * (1 + t->words[0] + t->words[1]);
    tails_take(t, m->text + (t->next - at), count);
    return t->next < end;
}

HOT void matcher_pair_add(struct matcher *m, uint32_t i, uint32_t start, uint32_t end)
{
    struct burst_search *s = &m->search;
    const uint32_t words = matcher_pair_words(m->n);
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

/* Drops the ends of a word whose tail admits no answer. Returns false if the tails have first to take more digits. */
static bool hash_search_drop(struct matcher *m, struct hash_search *h, uint32_t w)
{
    const struct matcher_modulus *c = &m->moduli[h->modulus];
    const uint32_t from = m->search.from + w * HASH_BLOCK_DIGITS, to = min_u32(from + HASH_BLOCK_DIGITS, m->search.to);
    uint64_t admitted = 0;
    if (matcher_tails_to(m, m->search.from, to))
        return false;
    m->search.work += to - from;
    for (uint32_t at = from; at < to; at++)
        admitted |= (uint64_t)tails_admit(tails_at(&m->tails, m->burst_at + at + 1), c->needs) << (at - from);
    h->found[w] &= admitted;
    return true;
}

void hash_search_begin(struct matcher *m, uint32_t i)
{
    struct hash_search *h = &m->search.hashing;
    struct matcher_hash *hash = &m->table[i];
    const uint32_t from = m->search.from, to = m->search.to;
    ASSERT(from <= to && to - from <= FILTER_BLOCK_DIGITS && !h->active);
    m->search.work += WORK_MODULUS + WORK_DIGIT * (to - from);
    matcher_hash_to(m, i, from, to - from);
    h->active = true;
    h->step = HASH_ENDS;
    h->modulus = i;
    h->dropped = 0;
    for (uint32_t at = from, w = 0; at < to; at += HASH_BLOCK_DIGITS, w++)
        h->found[w] = hash_take(hash, &m->moduli[i], m->text + at, min_u32(to - at, HASH_BLOCK_DIGITS), m->n);
}

/* Goes towards the next end that may have a start and whose last digit admits an answer. Returns false if there is
 * none. */
static bool hash_search_ends(struct matcher *m, struct hash_search *h)
{
    const struct matcher_modulus *c = &m->moduli[h->modulus];
    const struct matcher_hash *hash = &m->table[h->modulus];
    for (uint32_t w = 0; w * HASH_BLOCK_DIGITS < m->search.to - m->search.from; w++) {
        if (h->found[w] == 0)
            continue;
        if (h->dropped <= w && c->tail_digits > 1 && __builtin_popcountll(h->found[w]) > DROP_ENDS) {
            h->dropped = w + hash_search_drop(m, h, w);
            return true;
        }
        m->search.work += WORK_END;
        const uint32_t end = m->search.from + w * HASH_BLOCK_DIGITS + (uint32_t)__builtin_ctzll(h->found[w]) + 1;
        ASSERT(end <= m->search.to);
        h->found[w] &= h->found[w] - 1;
        if (!modulus_may_end_in(c, m->text[end - 1]))
            return true;
        h->walk = hash_walk_begin(hash, (uint32_t)(m->burst_at + end - hash->place));
        h->step = HASH_STARTS;
        h->end = end;
        return true;
    }
    return false;
}

/* Puts a start that has the end's residue into the run's list. */
static void run_add(struct matcher *m, struct hash_search *h, uint32_t length)
{
    struct tail_run *run = &m->run[h->modulus];
    m->search.work += WORK_TAIL;
    const uint32_t missing = tails_missing(&m->tails, m->moduli[h->modulus].exponents, m->text + h->end - length,
                                           length, m->burst_at + h->end, &m->search.work);
    const uint32_t ready = h->walk.end + missing;
    uint32_t k = run->count, moved;
    while (k > 0 && run->list[k - 1].ready < ready)
        k--;
    moved = run->count++ - k;
    ASSERT(run->count <= ARRAY_COUNT(run->list));
    m->search.work += moved / WORK_MOVED;
    for (uint32_t from = k + moved; from > k; from--)
        run->list[from] = run->list[from - 1];
    run->list[k].start = h->walk.end - length;
    run->list[k].ready = ready;
}

/* Goes on to list the starts of an end whose tail admits every long start: those that are shorter than the tail. */
static void run_list_short(struct matcher *m, struct hash_search *h)
{
    const struct matcher_modulus *c = &m->moduli[h->modulus];
    struct tail_run *run = &m->run[h->modulus];
    while (m->search.work < m->search.work_max) {
        run->longer = h->walk;
        m->search.work += WORK_START;
        const uint32_t length = hash_walk_next(&m->table[h->modulus], &h->walk, c->tolerance, m->n, &m->search.work);
        if (length == 0 || length >= c->tail_digits) {
            h->step = HASH_RUN_BEGIN;
            return;
        }
        run_add(m, h, length);
    }
}

/* The starts on one level, at most. From one to the next, g digits on, the factors grow by g > 0.43 times their number:
 * 0, 1, 2, 3, 5, 8, ... 483 are 17 below 512. README, "Tails". */
enum { RUN_LEVEL_MAX = 17 };

/* Goes on to list the starts of an end whose tail lacks factors of a prime, from the longest one on. Only a start on
 * the end's level can be an answer: the factors before it and the digits in between add up to the factors before the
 * end. */
static void run_list_level(struct matcher *m, struct hash_search *h)
{
    const struct matcher_modulus *c = &m->moduli[h->modulus];
    struct tail_run *run = &m->run[h->modulus];
    const struct matcher_hash *hash = &m->table[h->modulus];
    const uint64_t end = m->burst_at + h->end, *key = &hash->key[end - hash->place];
    const uint32_t prime = run->phase, factors = tails_at(&m->tails, end)->factors[prime];
    for (; h->length >= c->digits && m->search.work < m->search.work_max; h->length--) {
        const uint32_t length = h->length, start = h->end - length;
        m->search.work++;
        if (tails_at(&m->tails, end - length)->factors[prime] + length == factors && m->text[start] != '0'
            && *key - *(key - length) <= c->tolerance)
            run_add(m, h, length);
    }
    if (h->length >= c->digits)
        return;
    run->judged = max_u32(run->judged, h->walk.end - c->digits + 1);
    ASSERT(run->count <= RUN_LEVEL_MAX);
    h->step = HASH_RUN_BEGIN;
}

/* Begins to find out which starts the tail of the walk's end admits. The walk has found that there is one. */
static void hash_search_tail(struct matcher *m, struct hash_search *h)
{
    const struct matcher_modulus *c = &m->moduli[h->modulus];
    const struct burst_search *s = &m->search;
    struct tail_run *run = &m->run[h->modulus];
    /* The tails take whole words, up to the block's end. */
    const uint32_t digits = (h->end - s->from + HASH_BLOCK_DIGITS - 1) / HASH_BLOCK_DIGITS * HASH_BLOCK_DIGITS;
    if (matcher_tails_to(m, s->from, min_u32(s->from + digits, s->to)))
        return;
    m->search.work += WORK_TAIL;
    const struct tail_place *end = tails_at(&m->tails, m->burst_at + h->end);
    if (!tails_admit(end, c->needs)) {
        h->step = HASH_ENDS;
        return;
    }
    enum run_phase phase = RUN_LACKS_2;
    while (phase < RUN_ADMITS && end->factors[phase] >= c->exponents[phase])
        phase++;
    const bool same = run->base == h->walk.end - end->zeros && run->phase == phase;
    if (!same) {
        run->base = h->walk.end - end->zeros;
        run->phase = phase;
        run->count = 0;
        if (phase < RUN_ADMITS)
            run->judged = h->walk.end - end->factors[phase]; /* F(i) + L = F(j): L is F(j) at most */
    }
    h->length = min_u32(m->n, h->walk.end - run->judged);
    h->step = phase < RUN_ADMITS ? HASH_LEVEL : same ? HASH_RUN_BEGIN : HASH_SHORT;
}

/* Begins to hand out the starts that the end's tail admits. */
static void run_begin(struct matcher *m, struct hash_search *h)
{
    const struct tail_run *run = &m->run[h->modulus];
    if (run->phase == RUN_ADMITS) {
        h->walk.start = run->longer.start;
        h->walk.other_cell = run->longer.other_cell;
    }
    h->step = HASH_RUN;
    h->listed = run->count;
}

/* Queues the next start that the end's tail admits: of those of the run's list that are ready, then of the longer
 * ones. */
static void run_next(struct matcher *m, struct hash_search *h)
{
    const struct matcher_modulus *c = &m->moduli[h->modulus];
    const struct tail_run *run = &m->run[h->modulus];
    uint32_t length = 0;
    m->search.work += WORK_START;
    if (h->listed > 0 && run->list[h->listed - 1].ready <= h->walk.end) {
        length = h->walk.end - run->list[--h->listed].start;
        if (length <= m->n)
            matcher_pair_add(m, h->modulus, h->end - length, h->end);
        return;
    }
    h->listed = 0;
    if (run->phase == RUN_ADMITS)
        length = hash_walk_next(&m->table[h->modulus], &h->walk, c->tolerance, m->n, &m->search.work);
    if (length == 0)
        h->step = HASH_ENDS;
    /* The cell below may begin with short starts again. */
    else if (length >= c->tail_digits
             || tails_missing(&m->tails, c->exponents, m->text + h->end - length, length, m->burst_at + h->end,
                              &m->search.work)
                    == 0)
        matcher_pair_add(m, h->modulus, h->end - length, h->end);
}

/* Goes to the end's next start: an answer, unless the modulus has a tail. */
static void hash_search_starts(struct matcher *m, struct hash_search *h)
{
    const struct matcher_modulus *c = &m->moduli[h->modulus];
    m->search.work += WORK_START;
    const uint32_t length = hash_walk_next(&m->table[h->modulus], &h->walk, c->tolerance, m->n, &m->search.work);
    if (length == 0) {
        h->step = HASH_ENDS;
    } else if (c->tail_digits <= 1) {
        matcher_pair_add(m, h->modulus, h->end - length, h->end);
    } else {
        h->walk.start = h->walk.end - length; /* looked at again, by the run */
        h->step = HASH_TAIL;
    }
}

void hash_search_continue(struct matcher *m)
{
    struct hash_search *h = &m->search.hashing;
    struct burst_search *s = &m->search;
    while (s->queued < MATCHER_QUEUE_MAX && (h->step != HASH_ENDS || s->queued == 0)) {
        if (s->work >= s->work_max)
            return;
        switch (h->step) {
        case HASH_ENDS:
            h->active = hash_search_ends(m, h);
            if (!h->active)
                return;
            break;
        case HASH_STARTS:
            hash_search_starts(m, h);
            break;
        case HASH_TAIL:
            hash_search_tail(m, h);
            break;
        case HASH_SHORT:
            run_list_short(m, h);
            break;
        case HASH_LEVEL:
            run_list_level(m, h);
            break;
        case HASH_RUN_BEGIN:
            run_begin(m, h);
            break;
        case HASH_RUN:
            run_next(m, h);
            break;
        }
    }
}
