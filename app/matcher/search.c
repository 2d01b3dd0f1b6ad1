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
 * The bound: a step costs 64 credits and at most 80 ns at N = 256. So hits cost 1.3 ns for each digit and modulus, and
 * the hash, which replaces them, has a bound of its own (README, "Tails"). */
#include <assert.h>

#include "app/matcher/state.h"
#include "base/assert.h"
#include "base/hot_section.h"

/* The most work of each kind of step that begins before work_max. A hit has a list of candidates, their answers, and
 * tails that refuse. A table goes through a block, or begins with the window. */
enum {
    STEP_PROBES = FILTER_BATCH * FILTER_LANES_MAX * MATCHER_N_DIGITS_MAX / WORK_PROBED,
    STEP_HIT = (1 + CANDIDATES_MAX) * MATCHER_N_DIGITS_MAX / WORK_SUMMED + MATCHER_QUEUE_MAX * (WORK_TAIL + WORK_PAIR)
               + MATCHER_CREDIT_MAX / MATCHER_CREDIT_STEP * (WORK_TAIL + MATCHER_MODULUS_BITS_MAX),
    STEP_TABLE = WORK_MODULUS + WORK_DIGIT * (MATCHER_N_DIGITS_MAX + 2 * FILTER_BLOCK_DIGITS),
    STEP_TAILS = HASH_BLOCK_DIGITS * (2 + TAIL_PRIMES * TAIL_WORDS_MAX),
    STEP_START = WORK_START + WORK_TAIL + TAIL_STEPS_MAX / WORK_COUNTED + MATCHER_MODULUS_BITS_MAX / WORK_MOVED,
    STEP_MAX = MATCHER_CALL_MAX - MATCHER_WORK_MAX,
};
static_assert((int)STEP_PROBES <= (int)STEP_MAX && (int)STEP_HIT <= (int)STEP_MAX && (int)STEP_TABLE <= (int)STEP_MAX
                  && (int)STEP_TAILS <= (int)STEP_MAX && (int)STEP_START <= (int)STEP_MAX,
              "a call stays within MATCHER_CALL_MAX");

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

/* Queues the answers that begin at a candidate and end in after + 1 .. last. Returns false if the tail has refused more
 * ends than the modulus can pay for.
 *
 * A multiple v of m ends the loop if the tail has at most one digit, so that M is m times 1, 2, 5 or 10. With k more
 * digits d the number is 10^k v + d. If m divides that, then also d. As d < 10^K < M / 10 <= m, d is 0. So only zeros
 * make further answers. */
HOT static bool verify(struct matcher *m, uint32_t i, uint32_t start, uint32_t after, uint32_t last)
{
    const struct matcher_modulus *c = &m->moduli[i];
    ASSERT(start < after && after <= last);
    last = min_u32(last, start + m->n);
    m->search.work += (last - start) / WORK_SUMMED;
    uint64_t sum = m->ops->sum(m->text + start, c->key_weights, after - start);
    for (uint32_t end = after; end < last && !(sum <= c->tolerance && c->tail_digits <= 1 && m->text[end] != '0');) {
        do
            sum += (uint64_t)(m->text[end] - '0') * c->key_weights[end - start];
        while (++end < last && sum > c->tolerance);
        if (sum > c->tolerance)
            return true;
        m->search.work += WORK_TAIL;
        if (!modulus_may_end_in(c, m->text[end - 1]))
            continue;
        if (c->tail_digits <= 1 || modulus_tail_divides(c, m->text + end, end - start))
            matcher_pair_add(m, i, start, end);
        else if (m->search.work += c->tail_digits, !pay(m, i, 1))
            return false;
    }
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

/* Verifies listed candidates for the ends after + 1 .. last. Returns false if they are too many, if the queue may not
 * hold their answers, or if the modulus cannot pay. */
HOT static bool verify_list(struct matcher *m, uint32_t i, const struct candidates *list, uint32_t after, uint32_t last)
{
    const uint32_t count = list->count;
    if (count > CANDIDATES_MAX || m->search.queued + count * (last - after) > MATCHER_QUEUE_MAX || !pay(m, i, count))
        return false;
    ASSERT(count <= ARRAY_COUNT(list->before));
    for (uint32_t k = 0; k < count; k++)
        if (!verify(m, i, after - list->before[k], after, last))
            return false;
    return true;
}

/* Verifies the candidates that idle time has found in the window, for the ends before each modulus' first probe. */
static NOT_HOT void verify_window(struct matcher *m)
{
    const struct burst_search *s = &m->search;
    for (uint32_t i = 0; i < m->modulus_count; i++) {
        const uint32_t last = MATCHER_HISTORY + min_u32(m->filter.first[i], m->burst_count);
        if (m->moduli[i].method != MODULUS_FILTER || (s->hashed >> i & 1) != 0)
            continue;
        if (s->work >= s->work_max || !verify_list(m, i, &m->window[i], MATCHER_HISTORY, last))
            overflow(m, i);
    }
}

/* Verifies the candidates of one probe of the batch at work. Returns false if the modulus cannot pay for them. */
HOT static bool verify_probe(struct matcher *m, const struct filter_probe *probe)
{
    const struct burst_search *s = &m->search;
    const uint32_t i = probe->modulus, after = s->from + probe->at;
    const uint32_t last = min_u32(s->from + probe->reach, MATCHER_HISTORY + m->burst_count);
    /* The parts meet here: the block's lists starts up to at + FILTER_GROUP_BEFORE before, the window's the rest. */
    const uint32_t in_block = probe->at + FILTER_GROUP_BEFORE + 1u;
    const uint32_t least = m->pass.part == FILTER_WINDOW ? in_block : 1;
    const uint32_t n = m->pass.part == FILTER_BLOCK ? min_u32(m->n, in_block) : m->n;
    struct candidates list = { .count = 0 };
    if (after >= last || (s->hashed >> i & 1) != 0)
        return true;
    if (!pay(m, i, 1))
        return false;
    m->search.work += m->n / WORK_SUMMED;
    m->ops->candidates(&m->moduli[i].probe, m->text + after, least, n, &list);
    return verify_list(m, i, &list, after, last);
}

/* Verifies the candidates of the batch at work, hit by hit, up to work_max. */
HOT static __attribute__((noinline)) void verify_batch(struct matcher *m)
{
    for (; m->pass.hits != 0 && m->search.work < m->search.work_max; m->pass.hits &= m->pass.hits - 1) {
        const uint32_t k = (uint32_t)__builtin_ctzll(m->pass.hits);
        const struct filter_probe *probe = &m->filter.probe[m->pass.first + k];
        if (!verify_probe(m, probe))
            overflow(m, probe->modulus);
    }
}

HOT static void block_begin(struct matcher *m, uint32_t from)
{
    struct burst_search *s = &m->search;
    const uint32_t left = MATCHER_HISTORY + m->burst_count - from;
    s->from = from;
    s->to = from + min_u32(left, FILTER_BLOCK_DIGITS);
    s->earned += s->to - from;
    s->to_hash = s->hashed;
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
    m->pass.taken = min_u32(taken, m->pass.needed);
}

HOT void matcher_begin(struct matcher *m, const uint8_t *digits, size_t count)
{
    struct burst_search *s = &m->search;
    ASSERT(count <= MATCHER_BURST_DIGITS_MAX);
    ASSERT(!s->open);
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
    s->work += WORK_BURST;
    s->work_max = s->work + m->work_slice / 2; /* the ring waits for the first matcher_next as well */
    block_begin(m, MATCHER_HISTORY);
    if (m->window_any || (m->window_multiple && m->text[MATCHER_HISTORY] == '0'))
        verify_window(m);
}

/* Goes on with the search by a step, which may find answers. Returns false if the burst has been searched. */
HOT static bool search_step(struct matcher *m)
{
    struct burst_search *s = &m->search;
    if (__builtin_expect(s->hashing.active, 0)) {
        hash_search_continue(m);
    } else if (__builtin_expect(m->pass.hits != 0, 0)) {
        verify_batch(m);
    } else if (__builtin_expect(s->to_hash != 0, 0)) {
        hash_search_begin(m, (uint32_t)__builtin_ctz(s->to_hash));
        s->to_hash &= s->to_hash - 1;
    } else if (m->pass.taken < m->pass.needed || m->pass.part == FILTER_BLOCK) {
        const uint32_t taken = m->pass.taken;
        m->ops->probe(&m->filter, m->row + s->from, MATCHER_HISTORY + m->burst_count - s->from,
                      s->from == MATCHER_HISTORY, &m->pass);
        s->work += (m->pass.taken - taken) * m->n / WORK_PROBED;
        if (__builtin_expect(m->pass.hits != 0, 0))
            verify_batch(m);
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
    if (__builtin_expect(m->early_answers.pending_count > 0, 0) && early_was_given(m, pair))
        return false;
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
