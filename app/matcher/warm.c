/* Keeps the path warm: the search of a made-up burst, in idle time.
 *
 * The problem: bursts come milliseconds apart, and other work meanwhile pushes the path out of the caches. A burst then
 * takes five times as long.
 *
 * First idea: fetch the memory that a burst reads. But most lines are known only to the search: the rows of weights of
 * its probes, the partial sums, a table's cells. Nor does a fetch bring back code and predictions of branches.
 *
 * Second idea: search a made-up burst, and put the state back. It is as long as the bursts of late, and it ends in a
 * modulus, which is an answer; each rehearsal takes the next modulus. Memory that depends on the digits is fetched as
 * well, because a burst reads other lines of it.
 *
 * That breaks in two ways. A long burst and large moduli take 100 us: hence a rehearsal is cut. A slice begins the
 * burst again, goes on from where the slice before has stopped, and stops after REHEARSAL_WORK_MAX. And a modulus that
 * overflows would spoil its table: hence none does in a rehearsal, its candidates are only dropped. */
#include "app/matcher/state.h"
#include "base/assert.h"
#include "base/hot_section.h"

enum {
    REHEARSAL_WORK_MAX = 1500, /* work of a slice */
    REHEARSAL_STEPS = 8,       /* steps that each modulus can pay for in a slice */
    FETCHED_LINES_MAX = 384,   /* a slice begins no further piece of memory after these lines */
    PIECE_ENDS = 128,          /* ends whose bits for pairs are fetched as one piece */
};

/* Draws the burst of the next rehearsal. */
static void rehearsal_draw(struct matcher *m)
{
    struct rehearsal *r = &m->rehearsal;
    const struct matcher_modulus *c;
    uint32_t left = m->modulus_count;
    ASSERT(left > 0);
    do {
        r->modulus = (r->modulus + 1) % m->modulus_count;
        c = &m->moduli[r->modulus];
    } while (c->method == MODULUS_NONE && --left > 0);
    const uint32_t digits = c->method == MODULUS_NONE ? 0 : c->digits;
    r->digits = max_u32(digits, min_u32(r->digits_lately, sizeof r->text));
    for (uint32_t k = 0; k < r->digits - digits; k++)
        r->text[k] = (uint8_t)('1' + (r->random = r->random * 22695477 + 1) / 65536 % 9);
    memcpy(r->text + r->digits - digits, c->decimal, digits);
}

/* Searches a part of the made-up burst, and keeps where the next slice goes on. */
static void rehearsal_search(struct matcher *m)
{
    struct rehearsal *r = &m->rehearsal;
    struct burst_search *s = &m->search;
    struct matcher_answer answer;
    enum matcher_step step = MATCHER_WORKING;
    /* A rehearsal asks for no credit: it gets its own. */
    for (uint32_t i = 0; i < m->modulus_count; i++)
        s->spent[i] = s->earned - REHEARSAL_STEPS * MATCHER_CREDIT_STEP;
    m->work_slice = REHEARSAL_WORK_MAX;
    const uint64_t limit = s->work + REHEARSAL_WORK_MAX;
    matcher_begin(m, r->text, r->digits);
    if (r->from != 0)
        search_skip(m, r->from, r->to_hash, r->taken);
    do { /* up to a batch's end: the next slice goes on there */
        m->work_slice = limit > s->work ? limit - s->work : 1;
        step = matcher_next(m, &answer);
    } while (step != MATCHER_DONE && (s->work < limit || search_has_hits(m)));
    r->from = step == MATCHER_DONE ? 0 : s->from;
    r->to_hash = s->to_hash;
    r->taken = m->pass.taken;
}

/* Rehearses a slice, and puts the state back. */
static void rehearse(struct matcher *m)
{
    static uint8_t head[offsetof(struct matcher, search) + offsetof(struct burst_search, queue)];
    static uint8_t tails[offsetof(struct tails, place)];
    const uint32_t cached = m->filter.cached;
    uint32_t next[MATCHER_MODULUS_COUNT_MAX] = { 0 }, base[MATCHER_MODULUS_COUNT_MAX] = { 0 };
    ASSERT(m->idle_step == IDLE_DONE && m->check_count == 0 && !m->rehearses);
    memcpy(head, m, sizeof head);
    memcpy(tails, &m->tails, sizeof tails);
    for (uint32_t i = 0; i < m->modulus_count; i++) {
        next[i] = m->table[i].next;
        base[i] = m->run[i].base;
    }
    if (m->rehearsal.from == 0)
        rehearsal_draw(m);
    m->rehearses = true;
    rehearsal_search(m);
    memcpy(m, head, sizeof head);
    memcpy(&m->tails, tails, sizeof tails);
    for (uint32_t i = 0; i < m->modulus_count; i++) {
        hash_take_back(&m->table[i], m->table[i].next - next[i]);
        m->run[i].base = m->run[i].base == base[i] ? base[i] : 0;
    }
    m->filter.cached = cached;
    m->check_count = 0;
    m->stats.rehearsals += m->rehearsal.from == 0;
    ASSERT(!m->search.open && m->idle_step == IDLE_DONE && !m->rehearses);
}

static uint32_t fetch(const void *at, size_t bytes)
{
    hot_fetch(at, bytes);
    return (uint32_t)(bytes / HOT_LINE_BYTES) + 1;
}

/* Fetches what a burst may read of a modulus. Returns the number of lines. */
static uint32_t fetch_modulus(const struct matcher *m, uint32_t i)
{
    const struct matcher_modulus *c = &m->moduli[i];
    if (c->method == MODULUS_HASH)
        return fetch(m->table[i].newest, sizeof m->table[i].newest);
    if (c->method != MODULUS_FILTER)
        return 0;
    return fetch(&m->window[i], sizeof m->window[i]) + fetch(c, offsetof(struct matcher_modulus, probe.weights))
           + fetch(&c->probe.weights[MODULUS_AFTER - m->n], m->n * sizeof c->probe.weights[0])
           + fetch(c->key_weights, m->n * sizeof c->key_weights[0]);
}

/* Fetches the bits of some ends of a burst. Returns the number of lines. */
static uint32_t fetch_pairs(const struct matcher *m, uint32_t first_end)
{
    const uint32_t words = matcher_pair_words(m->n);
    return fetch(m->queued_pairs + (MATCHER_HISTORY + 1 + first_end) % MATCHER_QUEUED_ENDS * words,
                 PIECE_ENDS * words * sizeof m->queued_pairs[0]);
}

/* Fetches piece after piece, each at most once a slice. */
static void fetch_pieces(struct matcher *m)
{
    struct rehearsal *r = &m->rehearsal;
    const uint32_t ends = min_u32(r->digits_lately, MATCHER_QUEUED_ENDS / 2);
    const uint32_t pieces = m->modulus_count + (ends + PIECE_ENDS - 1) / PIECE_ENDS;
    for (uint32_t lines = 0, k = 0; k < pieces && lines < FETCHED_LINES_MAX; k++) {
        r->piece = (r->piece + 1) % pieces;
        lines += r->piece < m->modulus_count ? fetch_modulus(m, r->piece)
                                             : fetch_pairs(m, (r->piece - m->modulus_count) * PIECE_ENDS);
    }
}

bool matcher_warm(struct matcher *m)
{
    if (m->idle_step != IDLE_DONE || m->search.open)
        return false;
    hot_fetch(m, offsetof(struct matcher, search) + offsetof(struct burst_search, queue));
    hot_fetch(m->filter.needed, sizeof m->filter.needed);
    fetch_pieces(m);
    rehearse(m);
    return true;
}
