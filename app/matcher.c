/* The matcher: which substrings of the stream are multiples of the constants.
 *
 * 1. The problem. A substring is an end j (a number of digits so far) and a start i < j at most N digits before it,
 *    whose first digit is not 0. Its value v(i, j) is to be a multiple of M. Nearly always there is none, so the path
 *    must rule out all starts of all ends of a burst as cheaply as possible; a pair that is left may cost more.
 *
 * 2. Fractions. v is a multiple of M exactly if the fraction of v / M is 0. The fraction is a sum over digits: the
 *    digit with t digits behind it contributes digit * 10^t / M, of which only the fraction counts. Fractions of
 *    10^t / M are tables ("weights"), rounded to 2^-27, 2^-32 or 2^-64. So M's size does not matter any more, and
 *    addition modulo M is the addition of a machine word, which wraps by itself. Each weight is off by half a unit at
 *    most, so a sum of N digits by 4.5 * N units: the tolerance of every comparison below. All starts are worked on at
 *    once: the sums from every start to one end are the partial sums of one series, taken from its end.
 *
 * 3. Looking ahead (MATCHER_LOOK). Take a position e. If (i, e + k] is a multiple of M for some k <= K, then
 *    v(i, e) * 10^K + x is one too, where x < 10^K stands for the k digits behind e and K - k zeros. So the fraction of
 *    v(i, e) * 10^K / M is within 10^K / M below 1 (or it is 0) - whatever the digits behind e are. With 10^K
 *    somewhat smaller than M (K is the digits of M less 5 or 6) hardly any start has such a fraction by chance, and
 *    one look at the N starts rules out K ends at once. A start that has it is "hot": step 6 tells which ends, if any.
 *    For e = the end of a burst the look is idle work. It finds the early answers, too.
 *
 * 4. All looks of a burst, of all constants, are taken at once, when K, 2K, 3K, ... digits of it are known: each is a
 *    lane of a vector, and the digits of the burst are gone through once, backwards. A start i before the burst's
 *    beginning p comes to v(i, p) * 10^(e - p + K) / M + v(p, e) * 10^K / M: the first part is known before the burst,
 *    the second is what the look came to. So idle time writes the first parts down for each look, as 16 bits each (a
 *    "slot"), and the path compares them with the second: two instructions for 16 or 32 of them. If there are many, it
 *    asks a table first whether any is within reach (its "cells").
 *    In a long burst most starts are in the burst itself. There a vector's lanes are looks of one constant, all at the
 *    same distance from the next one (a "comb"): they share each weight, and all begin and end together.
 *
 * 5. Hashing (MATCHER_HASH) for constants too small for that. M = 2^a * 5^b * m with gcd(m, 10) = 1. With the prefix
 *    value y(j) = sum of digit(k) * 10^-k over all k <= j, v(i, j) = 10^j * (y(j) - y(i)) modulo m, and 10 has an
 *    inverse: m divides v(i, j) exactly if y(i) = y(j). As fractions of m, equal ones are equal up to the tolerance.
 *    The cells of a table, chosen by the first bits of y, remember the starts: an end whose cell is empty has no
 *    start. An end whose y is within the tolerance of its cell's edge counts as suspect, so that no start is missed.
 *    Behind a 0 the prefix value is the same as before it, but nothing begins with that 0: such starts stay out.
 *    The powers of 2 and 5 rule out ends by their last digit. The table is made anew in idle time, with positions
 *    counted from the window's first, so the weights 10^-k are tables too. For an end that is left, the prefix values
 *    themselves tell which starts it has ("partners"). In general registers it pays in long bursts for larger
 *    constants as well (hash_long): both are made ready in idle time, and the burst's length decides.
 *
 * 6. Following. y also tells the ends of a hot start: they have its y. Taken times u (step 7), it decides at once for
 *    an M whose factors 2 and 5 the last digit tells.
 *
 * 7. Deciding. For a start and an end that are left, the fraction of u * v / M to 64 bits; u is a number without a
 *    common factor with M, so that it is 0 for the same v, but not nearly 0 just because v is small. If M has 50
 *    bits or less, this decides. If not, a false 0 has the chance 2^-51 a pair, and after the burst exact arithmetic
 *    counts it (it has never been seen). A pair that is decided is handed out at once, before the search goes on
 *    (matcher_next); those of the segment are kept, so that what two constants divide is an answer once. Ends that the
 *    search could not decide are decided when it is through with the stretch.
 *
 * 8. The rest. Constants so small that most ends have an answer (MATCHER_EACH) skip the search: every start of every
 *    end is decided, if the last digits admit the end. Constants of more than N digits have no answer at all.
 *
 * Bounds, costs and measurements: docs/matcher.md. */
#include "app/matcher.h"

#include "app/matcher_state.h"
#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"
#include "kernel/base/hot.h"
#include "kernel/base/log.h"

static struct matcher matchers[MATCHER_SEAT_COUNT];

enum { LINE = 64 };

/* Of so many lines, those that some random ones are likely to be. */
static size_t lines_touched(size_t lines, size_t count)
{
    size_t untouched = lines << 16;
    for (; count > 0; count--)
        untouched -= untouched / lines;
    return lines - (untouched >> 16);
}

static size_t hash_bytes(const struct matcher_kernel *kernel, size_t count)
{
    const struct matcher_hash *hash;
    if (kernel->lanes == 1)
        return count * (sizeof hash->plain.weights[0] + sizeof hash->plain.keys[0]) +
               LINE * lines_touched(sizeof hash->plain.last / LINE, count);
    return count * (sizeof hash->lanes.weights[0] + sizeof hash->lanes.keys[0]) +
           LINE * lines_touched(sizeof hash->lanes.taken / LINE, count);
}

/* What a burst of 100 digits without an answer touches: its digits as text and in the forms that the kernels want, the
 * tables, a cell a digit, and the state between them. An end that is decided touches up to 8 bytes for each of N digits
 * besides. */
static size_t path_bytes(const struct matcher *m)
{
    enum { BURST = 100 };
    const size_t end_words = BURST / 64 + 1;
    size_t bytes = 2 * BURST + 2 * LINE + sizeof(struct matcher_kernel) + offsetof(struct matcher, pair) +
                   end_words * sizeof m->zeros[0];
    bytes += matcher_sweep_bytes(m, BURST);
    bytes += m->kernel->lanes > 1 ? BURST * sizeof m->digits.word[0] : BURST;
    for (uint32_t i = 0; i < m->constant_count; i++) {
        bytes += offsetof(struct matcher_constant, match_weights) - sizeof(struct matcher_look);
        if (m->constants[i].method == MATCHER_HASH)
            bytes += hash_bytes(m->kernel, BURST);
        if (m->constants[i].method == MATCHER_EACH)
            bytes += 8 * m->n;
    }
    return bytes;
}

const char *matcher_init(struct matcher **matcher, const struct matcher_config *config)
{
    static char message[256];
    ASSERT(config->seat < MATCHER_SEAT_COUNT);
    struct matcher *m = &matchers[config->seat];
    if (config->n_digits_max < 1 || config->n_digits_max > MATCHER_N_DIGITS_MAX) {
        format(message, sizeof message, "n=%u: must be 1..%u", config->n_digits_max, MATCHER_N_DIGITS_MAX);
        return message;
    }
    if (config->constant_count < 1 || config->constant_count > MATCHER_CONSTANT_COUNT_MAX) {
        format(message, sizeof message, "m: %u constants, there must be 1..%u", config->constant_count,
               MATCHER_CONSTANT_COUNT_MAX);
        return message;
    }
    enum matcher_simd simd = config->simd == MATCHER_SIMD_AUTO ? matcher_simd_best() : config->simd;
    if (!matcher_simd_usable(simd)) {
        format(message, sizeof message, "simd=%s: this machine cannot run it", matcher_simd_name(simd));
        return message;
    }
    *m = (struct matcher){
        .n = config->n_digits_max,
        .constant_count = config->constant_count,
        .kernel = simd == MATCHER_SIMD_AVX512 ? &matcher_kernel_avx512
                  : simd == MATCHER_SIMD_AVX2 ? &matcher_kernel_avx2 : &matcher_kernel_scalar,
        .early = config->early,
        .segment_text = MATCHER_HISTORY,
    };
    memset(m->text, '0', MATCHER_HISTORY);
    for (uint32_t i = 0; i < config->constant_count; i++) {
        if (!matcher_constant_read(&m->constants[i], config->constants[i])) {
            format(message, sizeof message, "m: not a number of 1..2^512-1 without leading zeros: %.200s",
                   config->constants[i] == NULL ? "(none)" : config->constants[i]);
            return message;
        }
        matcher_constant_prepare(&m->constants[i], m->n, m->kernel);
        m->hashes |= m->constants[i].method == MATCHER_HASH || m->constants[i].hash_long;
        m->eaches |= m->constants[i].method == MATCHER_EACH;
    }
    matcher_sweep_prepare(m);
    matcher_comb_prepare(m);
    matcher_early_init(m, &config->early_risk);
    m->stats.memory_bytes = sizeof *m;
    m->stats.path_bytes = path_bytes(m);
    matcher_idle_begin(m);
    matcher_idle_finish(m);
    *matcher = m;
    return NULL;
}

HOT static void segment_open(struct matcher *m)
{
    m->segment_count = (uint32_t)min_size(m->burst_left, MATCHER_SEGMENT_DIGITS);
    m->burst_left -= m->segment_count;
    m->stretch_to = 0;
    m->sweep_at = m->sweep_count;
    if (m->hashes || !matcher_combs(m, 0))
        m->kernel->write(&m->digits, MATCHER_SEGMENT_AT, m->text + m->segment_text, m->segment_count, m->hashes);
    m->pair_count = m->pair_given = 0;
    if (m->undecided)
        memset(m->suspect, 0, sizeof m->suspect);
    m->undecided = false;
}

HOT void matcher_begin(struct matcher *m, const uint8_t *digits, size_t count)
{
    ASSERT(count <= MATCHER_BURST_DIGITS_MAX);
    ASSERT(!m->open);
    if (m->idle_step != MATCHER_IDLE_DONE)
        matcher_idle_finish(m);
    m->open = true;
    copy_here(m->text + MATCHER_HISTORY, digits, count);
    memset(m->text + MATCHER_HISTORY + count, '0', MATCHER_WRITE_DIGITS);   /* what is written and read beyond it */
    m->burst_left = m->burst_count = (uint32_t)count;
    m->long_burst = count > MATCHER_SHORT_DIGITS;
    m->stats.bursts++;
    m->stats.digits += count;
    segment_open(m);
}

/* The digits behind which the prefix value was the same as at an end in text: partners of the last digit that is not 0,
 * and not only among the last N digits, but before zeros that stand there, too. Behind a partner, a start is the first
 * digit that is not 0. */
static uint32_t hash_partners(const struct matcher *m, uint32_t i, uint32_t end,
                              uint16_t partners[MATCHER_PARTNERS_MAX])
{
    uint32_t last = end - 1, oldest = end - m->n, window = m->segment_text - matcher_window(m->n);
    while (last > oldest && m->text[last] == '0')
        last--;
    if (m->text[last] == '0')
        return 0;
    uint32_t from = (uint32_t)max_size(oldest, window + 1) - 1;
    while (from > window && m->text[from] == '0')
        from--;
    return m->kernel->partners(&m->constants[i].hash, last - window, from - window, partners, MATCHER_PARTNERS_MAX);
}

/* Decides a suspect end of a constant that is hashed: the starts that have its prefix value are answers, or not. */
static void decide_by_hash(struct matcher *m, uint32_t i, uint32_t end)
{
    const struct matcher_constant *c = &m->constants[i];
    const uint32_t end_text = m->segment_text + end, window = m->segment_text - matcher_window(m->n);
    uint16_t partners[MATCHER_PARTNERS_MAX];
    uint32_t count = hash_partners(m, i, end_text, partners);
    if (count > MATCHER_PARTNERS_MAX) {
        matcher_suspect(m, i, end);
        return;
    }
    for (uint32_t k = 0; k < count; k++) {
        uint32_t start = window + (uint16_t)(partners[k] + 1);
        while (m->text[start] == '0')
            start++;
        uint32_t length = end_text - start;
        uint64_t fraction = m->kernel->fraction(m->text + start, c->match_weights + m->n - length, length);
        if (length <= m->n && matcher_is_zero(c, fraction) &&
            !matcher_pair(m, i, MATCHER_SEGMENT_AT + end - length, end))
            matcher_suspect(m, i, end);
    }
}

/* A 0 does not change the prefix value: it has occurred exactly if the one before the 0 has. Added to the first bit of
 * a run of zeros, a carry runs through them all. */
static void search_by_hash(struct matcher *m, uint32_t i)
{
    struct matcher_constant *c = &m->constants[i];
    const uint32_t from = m->stretch_from, to = m->stretch_to;
    uint64_t found[MATCHER_SEGMENT_DIGITS / 64];
    m->kernel->probe(&m->digits, &c->hash, matcher_window(m->n) + from, to - from, found);
    uint64_t before = c->hit_before;
    for (uint32_t w = 0; w < (to - from + 63) / 64; w++) {
        uint64_t zeros = m->zeros[from / 64 + w], hit = found[w] & ~zeros;
        if (hit != 0 && m->kernel->confirm != NULL)
            hit = m->kernel->confirm(&c->hash, matcher_window(m->n) + from + 64 * w, hit);
        uint64_t first = (hit << 1 | before) & zeros;
        hit |= zeros & ~(zeros + first);
        before = hit >> (min_size(to - from - 64 * w, 64) - 1) & 1;
        if (c->last_digits == 1)
            hit &= zeros;
        if (to - from - 64 * w < 64)
            hit &= BIT(to - from - 64 * w) - 1;
        for (; hit != 0; hit &= hit - 1) {
            uint32_t end = from + 64 * w + (uint32_t)__builtin_ctzll(hit) + 1;
            if ((c->last_digits >> (m->text[m->segment_text + end - 1] - '0') & 1) != 0)
                decide_by_hash(m, i, end);
        }
    }
    c->hit_before = before;
}

static void search_each(struct matcher *m, uint32_t i)
{
    const struct matcher_constant *c = &m->constants[i];
    const uint32_t from = m->stretch_from, to = m->stretch_to;
    const uint8_t *digits = m->text + m->segment_text;
    uint64_t tail = 0;
    for (ptrdiff_t t = c->tail_digits; t > 0; t--)
        tail = tail * 10 + (uint64_t)(digits[(ptrdiff_t)from - t] - '0');
    for (uint32_t end = from + 1; end <= to; end++) {
        if (c->tail_digits > 0)
            tail = (tail * 10 + (uint64_t)(digits[end - 1] - '0')) % c->tail_scale;
        if (c->tail_power == 1 || tail % c->tail_power == 0)
            matcher_suspect(m, i, end);
    }
}

static void hit_set(struct matcher *m, uint32_t i, uint32_t length)
{
    uint32_t w = length / 64;
    if ((m->hit[w] >> length % 64 & 1) != 0)
        return;
    m->hit[w] |= BIT(length % 64);
    m->hit_words |= UINT32_C(1) << w;
    m->hit_constant[length] = (uint8_t)i;
}

static void hit_clear(struct matcher *m, uint32_t length)
{
    uint32_t w = length / 64;
    m->hit[w] &= ~BIT(length % 64);
    if (m->hit[w] == 0)
        m->hit_words &= ~(UINT32_C(1) << w);
}

static void decide_all(struct matcher *m, uint32_t i, uint32_t end)
{
    const struct matcher_constant *c = &m->constants[i];
    uint64_t fraction = 0;
    for (uint32_t length = 1; length <= m->n; length++) {
        fraction += (uint64_t)(m->text[end - length] - '0') * c->match_weights[m->n - length];
        if (matcher_is_zero(c, fraction))
            hit_set(m, i, length);
    }
}

/* Collects the answers that the search has left undecided at an end: their lengths, but those it has found. */
static void decide(struct matcher *m, uint32_t end)
{
    for (uint32_t i = 0; i < m->constant_count; i++)
        if ((m->suspect[(end - 1) / 64][i] >> (end - 1) % 64 & 1) != 0)
            decide_all(m, i, m->segment_text + end);
    for (uint32_t k = 0; m->hit_words != 0 && k < m->pair_count; k++)
        if (m->pair[k].end == MATCHER_SEGMENT_AT + end)
            hit_clear(m, m->pair[k].end - m->pair[k].start);
}

/* Goes on to the next end of the stretch that has answers of these; false if there is none. */
static __attribute__((noinline)) bool decide_next(struct matcher *m)
{
    while (m->end < m->stretch_to) {
        decide(m, ++m->end);
        if (m->hit_words != 0)
            return true;
    }
    return false;
}

/* Goes on to the next stretch; false at the end of the burst. */
HOT static bool stretch_open(struct matcher *m)
{
    if (m->stretch_to == m->segment_count) {
        if (m->burst_left == 0)
            return false;
        m->segment_text += m->segment_count;
        matcher_idle_begin(m);
        m->idle_step = MATCHER_IDLE_SHIFT;
        matcher_idle_finish(m);
        segment_open(m);
    }
    m->stretch_from = m->end = m->stretch_to;
    matcher_sweep_begin(m);
    for (uint32_t at = m->stretch_from; m->hashes && at < m->stretch_to; at += 64)
        m->zeros[at / 64] = m->kernel->zeros(m->text + m->segment_text + at);
    return true;
}

/* What there is besides looks. */
HOT static __attribute__((noinline)) void search_rest(struct matcher *m)
{
    for (uint32_t i = 0; i < m->constant_count; i++) {
        if (matcher_hashes(m, &m->constants[i]))
            search_by_hash(m, i);
        if (m->constants[i].method == MATCHER_EACH)
            search_each(m, i);
    }
}

/* Goes on with the search by a step, which may have found answers or not; false at the end of the burst. */
HOT static bool search(struct matcher *m)
{
    if (m->sweep_at < m->sweep_count) {
        if (!matcher_sweep_search(m) && (m->hashes || m->eaches))
            search_rest(m);
        return true;
    }
    return (m->undecided && decide_next(m)) || stretch_open(m);
}

/* Hands out the digits from text[begin] on, unless they were given early. */
HOT static bool answer_give(struct matcher *m, struct matcher_answer *answer, uint32_t constant, uint32_t begin,
                        uint32_t length)
{
    if (!matcher_may_begin(m, begin))
        return false;
    m->stats.candidates++;
    uint64_t at = matcher_stream_position(m, begin);
    if (m->promise_count > 0 && matcher_early_take(m, at, at + length))
        return false;
    *answer = (struct matcher_answer){
        .digits = m->text + begin, .count = length, .constant = constant, .end = at + length,
    };
    m->stats.answers++;
    m->confirm_text = begin;
    m->confirm_constant = constant;
    m->confirm_length = m->constants[constant].sure ? 0 : length;
    return true;
}

/* The next one of those that the search has decided. */
static inline bool pair_take(struct matcher *m, struct matcher_answer *answer)
{
    while (m->pair_given < m->pair_count) {
        const struct matcher_pair *pair = &m->pair[m->pair_given++];
        if (answer_give(m, answer, pair->constant, matcher_text_index(m, pair->start), pair->end - pair->start))
            return true;
    }
    return false;
}

/* The longest one of those at `end`. */
static bool hit_take(struct matcher *m, struct matcher_answer *answer)
{
    while (m->hit_words != 0) {
        uint32_t w = 31 - (uint32_t)__builtin_clz(m->hit_words);
        uint32_t length = 64 * w + 63 - (uint32_t)__builtin_clzll(m->hit[w]);
        hit_clear(m, length);
        if (answer_give(m, answer, m->hit_constant[length], m->segment_text + m->end - length, length))
            return true;
    }
    return false;
}

HOT bool matcher_next(struct matcher *m, struct matcher_answer *answer)
{
    if (m->confirm_length > 0) {
        matcher_confirm_push(m, m->confirm_constant, m->text + m->confirm_text, m->confirm_length);
        m->confirm_length = 0;
    }
    do
        if (pair_take(m, answer) || hit_take(m, answer))
            return true;
    while (search(m));
    if (m->open && m->burst_count > 0)
        matcher_idle_begin(m);
    m->open = false;
    return false;
}

void matcher_restart(struct matcher *m)
{
    ASSERT(!m->open);
    matcher_idle_finish(m);
    m->gap = m->burst_at;
    memset(m->text, '0', MATCHER_HISTORY);
    m->promise_count = 0;
    m->early_ready = false;
    matcher_idle_begin(m);
}

const struct matcher_stats *matcher_stats(const struct matcher *m)
{
    return &m->stats;
}
