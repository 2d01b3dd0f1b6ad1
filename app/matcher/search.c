/* The search of a burst: the window's candidates, then block by block the moduli that are hashed and the probes.
 *
 * The problem: hand out each answer at once and only once, and poll the ring often, whatever the digits are.
 *
 * First idea: take all probes through the burst, and verify their hits. A hit costs a list of its candidates, and each
 * candidate a sum for each of K ends. That breaks in three ways.
 *
 * Long bursts: one may have 65,536 digits. Therefore it is searched in blocks of 256 digits. Each step adds its price
 * to `work`. matcher_next returns when that has grown by MATCHER_WORK_MAX, and after each block.
 *
 * Late answers: most answers begin in the burst itself, but most of a probe's starts are in the window. Therefore a
 * batch with partial sums is searched in two parts. Answers of the first part leave before the second part begins:
 *
 *                           window                            |           block
 *     ----------------------------------------------+---------+---------------+----------+---------+------
 *                                                    4 digits                 p          q         r
 *     block's part    the digits are taken           <----------------------------------------------
 *     window's part   partial sums, for  <----------
 *                     starts further back                         p, q, r: probes of the batch
 *
 * A batch without partial sums goes on through the window's digits, in one part: the whole.
 *
 * Hits without end: zeros, nines, or digits that somebody has chosen. Therefore a modulus pays for each hit with
 * credit, and earns one credit with each digit (`pay`). Without credit it overflows: the hash searches the block again,
 * and the rest of the burst. Bits for each end show which pairs have been queued, so no pair is handed out twice
 * (`matcher_pair_add`). That serves several moduli that divide one pair, too.
 *
 * The bound: a step costs 64 credits and at most 140 ns at N = 256. So hits cost 2.2 ns for each digit and modulus, and
 * the hash, which replaces them, has a bound of its own (README, "Tails"). */
#include <assert.h>

#include "app/matcher/state.h"
#include "base/assert.h"
#include "base/hot_section.h"

/* The most work of each kind of step that begins before work_max. A step of a hit is the list of candidates, or a
 * candidate up to its next multiple. A table goes through a block, or begins with the window. */
enum {
    STEP_PROBES = FILTER_BATCH * FILTER_LANES_MAX * (MATCHER_N_DIGITS_MAX + FILTER_BLOCK_DIGITS) / WORK_PROBED,
    STEP_HIT = MATCHER_N_DIGITS_MAX / WORK_SUMMED + WORK_TAIL + MATCHER_MODULUS_BITS_MAX / WORK_TAIL_DIGITS + WORK_PAIR,
    STEP_TABLE = WORK_MODULUS + WORK_CLEARED + WORK_DIGIT * (MATCHER_N_DIGITS_MAX + 2 * FILTER_BLOCK_DIGITS),
    STEP_TAILS = HASH_BLOCK_DIGITS * (2 + TAIL_PRIMES * TAIL_WORDS_MAX),
    STEP_START = HASH_WALK_WORK_MAX + WORK_TAIL + TAIL_WORK_MAX + MATCHER_MODULUS_BITS_MAX / WORK_MOVED,
    STEP_MAX = MATCHER_CALL_MAX - MATCHER_WORK_MAX,
};
static_assert((int)STEP_PROBES <= (int)STEP_MAX && (int)STEP_HIT <= (int)STEP_MAX && (int)STEP_TABLE <= (int)STEP_MAX
                  && (int)STEP_TAILS <= (int)STEP_MAX && (int)STEP_START <= (int)STEP_MAX,
              "a call stays within MATCHER_CALL_MAX");
static_assert(WORK_BURST
                      + (MATCHER_HISTORY + MATCHER_N_DIGITS_MAX + MATCHER_BURST_DIGITS_MAX + FILTER_BLOCK_DIGITS)
                            / WORK_WRITTEN
                      + MATCHER_MODULUS_COUNT_MAX * MATCHER_N_DIGITS_MAX / WORK_SUMMED
                      + MATCHER_PENDING_MAX * WORK_PENDING
                  <= MATCHER_BEGIN_MAX,
              "matcher_begin stays within MATCHER_BEGIN_MAX");

/* Pays for a list of candidates, for candidates, or for a tail that refuses one. Returns false if there is not enough
 * credit. */
static bool pay(struct matcher *m, uint32_t i, uint32_t count)
{
    struct burst_search *s = &m->search;
    const uint64_t price = count * MATCHER_CREDIT_STEP, least = s->earned - MATCHER_CREDIT_MAX;
    ASSERT(s->earned >= MATCHER_CREDIT_MAX && s->spent[i] <= s->earned);
    s->spent[i] = max_size(s->spent[i], least);
    if (s->spent[i] + price > s->earned)
        return false;
    s->spent[i] += price;
    return true;
}

/* Leaves a modulus with too many candidates to the hash, from this block on to the burst's end. A rehearsal only drops
 * the candidates, because the hash would leave another table. */
static NOT_HOT void overflow(struct matcher *m, uint32_t i)
{
    if (m->rehearses)
        return;
    ASSERT((m->search.hashed >> i & 1) == 0);
    m->search.hashed |= UINT32_C(1) << i;
    m->search.to_hash |= UINT32_C(1) << i;
    m->stats.filter_overflows++;
}

/* Begins to verify listed candidates for the ends after + 1 .. last. The modulus overflows if they are too many, if the
 * queue may not hold their answers, or if it cannot pay. */
HOT static void hit_begin(struct matcher *m, uint32_t i, const struct candidates *list, uint32_t after, uint32_t last)
{
    const uint32_t count = list->count;
    ASSERT(m->search.hit.left == 0 && after <= last);
    if (count > CANDIDATES_MAX || m->search.queued + count * (last - after) > MATCHER_QUEUE_MAX || !pay(m, i, count))
        overflow(m, i);
    else
        m->search.hit = (struct hit){ count, list->before, i, after, last, 0, 0 };
}

/* Returns the work of deciding a substring by the tail. */
static inline uint32_t tail_price(const struct matcher_modulus *c, uint32_t length)
{
    return WORK_TAIL + (c->tail_digits > 1 ? min_u32(length, c->tail_digits) / WORK_TAIL_DIGITS : 0);
}

/* Goes on with the hit's next candidate: queues the answers that begin there, up to work_max.
 *
 * A multiple v of m ends the loop if the tail has at most one digit, so that M is m times 1, 2, 5 or 10. With k more
 * digits d the number is 10^k v + d. If m divides that, then also d. As d < 10^K < M / 10 <= m, d is 0. So only zeros
 * make further answers. */
HOT static void verify(struct matcher *m, struct hit *h)
{
    struct burst_search *s = &m->search;
    const struct matcher_modulus *c = &m->moduli[h->modulus];
    const uint32_t start = h->after - *h->before, last = min_u32(h->last, start + m->n);
    uint32_t end = h->end != 0 ? h->end : h->after;
    uint64_t sum = h->sum;
    ASSERT(start < end && end <= last);
    if (h->end == 0) {
        s->work += (last - start) / WORK_SUMMED;
        sum = m->ops->sum(m->text + start, c->key_weights, end - start);
    }
    while (end < last && !(sum <= c->tolerance && c->tail_digits <= 1 && m->text[end] != '0')) {
        if (__builtin_expect(s->work >= s->work_max, 0)) {
            h->end = end;
            h->sum = sum;
            return;
        }
        do
            sum += (uint64_t)(m->text[end] - '0') * c->key_weights[end - start];
        while (++end < last && sum > c->tolerance);
        if (sum > c->tolerance)
            break;
        s->work += tail_price(c, end - start);
        if (!modulus_may_end_in(c, m->text[end - 1]))
            continue;
        if (c->tail_digits <= 1 || modulus_tail_divides(c, m->text + end, end - start)) {
            matcher_pair_add(m, h->modulus, start, end);
        } else if (!pay(m, h->modulus, 1)) {
            h->left = 0;
            overflow(m, h->modulus);
            return;
        }
    }
    h->left--;
    h->before++;
    h->end = 0;
}

/* Begins with a modulus' candidates that idle time has found in the window, for the ends before its first probe. */
static NOT_HOT void window_hit(struct matcher *m, uint32_t i)
{
    const uint32_t last = MATCHER_HISTORY + min_u32(m->filter.first[i], m->burst_count);
    hit_begin(m, i, &m->window[i], MATCHER_HISTORY, last);
}

/* Begins with the candidates of a probe of the batch at work. */
HOT static void probe_hit(struct matcher *m, const struct filter_probe *probe)
{
    struct burst_search *s = &m->search;
    const uint32_t i = probe->modulus, after = s->from + probe->at;
    const uint32_t last = min_u32(s->from + probe->reach, MATCHER_HISTORY + m->burst_count);
    /* The parts meet here: the block's lists starts up to at + FILTER_GROUP_BEFORE before, the window's the rest. */
    const uint32_t in_block = probe->at + FILTER_GROUP_BEFORE + 1u;
    const uint32_t least = m->pass.part == FILTER_WINDOW ? in_block : 1;
    const uint32_t n = m->pass.part == FILTER_BLOCK ? min_u32(m->n, in_block) : m->n;
    if (after >= last || (s->hashed >> i & 1) != 0)
        return;
    if (!pay(m, i, 1)) {
        overflow(m, i);
        return;
    }
    s->work += n / WORK_SUMMED;
    s->listed.count = 0;
    m->ops->candidates(&m->moduli[i].probe, m->text + after, least, n, &s->listed);
    hit_begin(m, i, &s->listed, after, last);
}

/* Verifies the hits, candidate by candidate, up to work_max. */
HOT static __attribute__((noinline)) void verify_hits(struct matcher *m)
{
    struct burst_search *s = &m->search;
    while (s->work < s->work_max) {
        if (s->hit.left > 0) {
            verify(m, &s->hit);
        } else if (s->window != 0) {
            window_hit(m, (uint32_t)__builtin_ctz(s->window));
            s->window &= s->window - 1;
        } else if (m->pass.hits != 0) {
            probe_hit(m, &m->filter.probe[m->pass.first + (uint32_t)__builtin_ctzll(m->pass.hits)]);
            m->pass.hits &= m->pass.hits - 1;
        } else {
            return;
        }
    }
}

/* Returns the work of comparing the partial sums of some probes. */
static inline uint32_t compare_price(const struct matcher *m, uint32_t probes) { return probes * m->n / WORK_COMPARED; }

/* Takes the next batch of the pass, or the window's part of the batch at work. */
HOT static void probe_batch(struct matcher *m)
{
    struct burst_search *s = &m->search;
    struct filter_pass *pass = &m->pass;
    const bool first_block = s->from == MATCHER_HISTORY;
    uint32_t window = 0;
    if (pass->part == FILTER_BLOCK) {
        s->work += compare_price(m, pass->taken - pass->first);
    } else {
        const uint32_t ready = first_block ? m->filter.cached * m->filter.lanes : 0;
        const bool cached = pass->taken < ready;
        const uint32_t end = cached ? min_u32(pass->needed, ready) : pass->needed;
        const uint32_t probes = min_u32(end - pass->taken, FILTER_BATCH * m->filter.lanes);
        window = cached ? compare_price(m, probes) : 0;
        s->work += window + probes * (cached ? s->to - s->from : m->n) / WORK_PROBED;
    }
    m->ops->probe(&m->filter, m->row + s->from, first_block, pass);
    if (__builtin_expect(pass->hits == 0, 1))
        return;
    if (pass->part == FILTER_BLOCK)
        s->work -= window; /* still to be compared */
    verify_hits(m);
}

HOT static void block_begin(struct matcher *m, uint32_t from)
{
    struct burst_search *s = &m->search;
    const uint32_t left = MATCHER_HISTORY + m->burst_count - from;
    s->from = from;
    s->to = from + min_u32(left, FILTER_BLOCK_DIGITS);
    s->earned += s->to - from;
    s->to_hash = s->hashed;
    s->work += (s->to - from) / WORK_WRITTEN;
    m->ops->write(m->row + from, m->text + from, min_size(left, FILTER_BLOCK_DIGITS + 32));
    m->pass.needed = filter_ready(&m->filter) ? m->filter.needed[min_u32(left, FILTER_BLOCK_DIGITS + 1)] : 0;
    m->pass.taken = 0;
    m->pass.hits = 0;
    m->pass.part = FILTER_WHOLE;
}

void search_skip(struct matcher *m, uint32_t from, uint32_t to_hash, uint32_t taken)
{
    ASSERT(m->rehearses && from >= MATCHER_HISTORY && from < MATCHER_HISTORY + m->burst_count);
    block_begin(m, from);
    m->search.to_hash &= to_hash;
    m->search.window = 0;
    m->pass.taken = min_u32(taken, m->pass.needed);
}

/* Has the window's candidates verified. */
static NOT_HOT void begin_window(struct matcher *m)
{
    for (uint32_t i = 0; i < m->modulus_count; i++)
        m->search.window |= (uint32_t)(m->moduli[i].method == MODULUS_FILTER && m->window[i].count > 0) << i;
    m->search.window &= ~m->search.hashed;
}

HOT void matcher_begin(struct matcher *m, const uint8_t *digits, size_t count)
{
    struct burst_search *s = &m->search;
    ASSERT(count <= MATCHER_BURST_DIGITS_MAX);
    ASSERT(!s->open);
    if (__builtin_expect(m->idle_step < IDLE_CACHE || m->check_count > 0, 0))
        matcher_window_finish(m);
    copy_here(m->text + MATCHER_HISTORY, digits, count);
    memset(m->text + MATCHER_HISTORY + count, '0', 64);
    s->open = true;
    s->queued = s->given = 0;
    s->hashed = m->hash_moduli | m->window_hashed;
    m->burst_mark += MATCHER_TEXT_DIGITS;
    m->burst_count = (uint32_t)count;
    m->stats.bursts++;
    m->stats.digits += count;
    s->work += WORK_BURST + count / WORK_WRITTEN;
    s->window = 0;
    block_begin(m, MATCHER_HISTORY);
    if (m->window_any || (m->window_multiple && m->text[MATCHER_HISTORY] == '0'))
        begin_window(m);
}

/* Goes on with the search by a step, which may find answers. Returns false if the burst has been searched. */
HOT static bool search_step(struct matcher *m)
{
    struct burst_search *s = &m->search;
    if (__builtin_expect(s->hashing.active, 0)) {
        hash_search_continue(m);
    } else if (__builtin_expect(search_has_hits(m), 0)) {
        verify_hits(m);
    } else if (__builtin_expect(s->to_hash != 0, 0)) {
        hash_search_begin(m, (uint32_t)__builtin_ctz(s->to_hash));
        s->to_hash &= s->to_hash - 1;
    } else if (m->pass.taken < m->pass.needed || m->pass.part == FILTER_BLOCK) {
        probe_batch(m);
    } else if (s->to < MATCHER_HISTORY + m->burst_count) {
        block_begin(m, s->to);
        s->work_max = s->work; /* matcher_next returns after each block */
    } else {
        return false;
    }
    return true;
}

/* Hands out the next pair of the queue, unless it was given early. */
HOT static inline bool pair_give(struct matcher *m, struct matcher_answer *answer)
{
    const struct matcher_pair *pair = &m->search.queue[m->search.given++];
    if (__builtin_expect(m->early_answers.pending_count > 0, 0)) {
        m->search.work += m->early_answers.pending_count * WORK_PENDING;
        if (early_was_given(m, pair))
            return false;
    }
    *answer = (struct matcher_answer){
        .digits = m->text + pair->start,
        .count = pair->end - pair->start,
        .modulus = pair->modulus,
        .end = matcher_stream_position(m, pair->end),
    };
    m->stats.answers++;
    if (m->moduli[pair->modulus].sure)
        return true;
    if (m->check_count < MATCHER_CHECKS_MAX)
        m->check[m->check_count++] = *pair;
    else
        m->stats.candidates_unchecked++;
    return true;
}

HOT enum matcher_step matcher_next(struct matcher *m, struct matcher_answer *answer)
{
    struct burst_search *s = &m->search;
    if (!s->open)
        return MATCHER_DONE;
    s->work_max = s->work + m->work_slice;
    for (;;) {
        while (s->given < s->queued)
            if (pair_give(m, answer))
                return MATCHER_ANSWER;
        s->given = s->queued = 0;
        if (!search_step(m))
            break;
        if (s->queued == 0 && s->work >= s->work_max)
            return MATCHER_WORKING;
    }
    s->open = false;
    matcher_window_begin(m);
    return MATCHER_DONE;
}
