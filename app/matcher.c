/* The matcher: which substrings of the stream are multiples of the constants.
 *
 * 1. The problem. A substring is an end j (a number of digits so far) and a start i < j at most N digits before it,
 *    whose first digit is not 0. Its value v(i, j) is to be a multiple of M. Nearly always there is none, so the path
 *    must rule out all starts of all ends of a burst as cheaply as possible; a pair that is left may cost more.
 *
 * 2. Fractions. v is a multiple of M exactly if the fraction of v / M is 0. The fraction is a sum over digits: the
 *    digit with t digits behind it contributes digit * 10^t / M, of which only the fraction counts. Fractions of
 *    10^t / M are tables ("weights"), rounded to 2^-27 or 2^-64. So M's size does not matter any more, and addition
 *    modulo M is the addition of a machine word, which wraps by itself. Each weight is off by half a unit at most, so
 *    a sum of N digits by 4.5 * N units: the tolerance of every comparison below. All starts are worked on at once:
 *    the sums from every start to one end are the partial sums of one series, taken from its end.
 *
 * 3. Looking ahead (MATCHER_LOOK). Take a position e. If (i, e + k] is a multiple of M for some k <= K, then
 *    v(i, e) * 10^K + x is one too, where x < 10^K stands for the k digits behind e and K - k zeros. So the fraction of
 *    v(i, e) * 10^K / M is within 10^K / M below 1 (or it is 0) - whatever the digits behind e are. With 10^K
 *    somewhat smaller than M (K is the digits of M less 4 or 5) hardly any start has such a fraction by chance, and
 *    one look at the N starts rules out K ends at once. A start that has it is "hot": step 5 tells which ends, if any.
 *    A start that is younger than the digits of M less K has no answer before e + K, and its digits ("skipped") are
 *    left out of the look. For e = the end of a burst the look is idle work. It finds the early answers, too.
 *
 * 4. Hashing (MATCHER_HASH) for constants too small for that. M = 2^a * 5^b * m with gcd(m, 10) = 1. With the prefix
 *    value y(j) = sum of digit(k) * 10^-k over all k <= j, v(i, j) = 10^j * (y(j) - y(i)) modulo m, and 10 has an
 *    inverse: m divides v(i, j) exactly if y(i) = y(j). As fractions of m, equal ones are equal up to the tolerance.
 *    The cells of a table, chosen by the first bits of y, remember the starts: an end whose cell is empty has no
 *    start. An end whose y is within the tolerance of its cell's edge counts as suspect, so that no start is missed.
 *    Behind a 0 the prefix value is the same as before it, but nothing begins with that 0: such starts stay out.
 *    The powers of 2 and 5 rule out ends by their last digit. The table is made anew in idle time, with positions
 *    counted from the window's first, so the weights 10^-k are tables too.
 *
 * 5. Following. y also tells the ends of a hot start: they have its y. One series of sums, from the start onwards.
 *
 * 6. Deciding. For a suspect end, the fractions of u * v / M for all its starts, to 64 bits; u is a number without a
 *    common factor with M, so that they are 0 for the same v, but not nearly 0 just because v is small. If M has 50
 *    bits or less, this decides. If not, a false 0 has the chance 2^-51 a pair, and after the burst exact arithmetic
 *    counts it (it has never been seen). Answers of all constants are united by length, and handed out.
 *
 * 7. The rest. Constants so small that most ends have an answer (MATCHER_EACH) skip the search: every end is decided,
 *    if the last digits admit it. Constants of more than N digits have no answer at all.
 *
 * Bounds, costs and measurements: docs/matcher.md. */
#include "app/matcher.h"

#include "app/matcher_state.h"
#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"
#include "kernel/base/log.h"

static struct matcher matchers[MATCHER_SEAT_COUNT];

/* What a burst of 100 digits touches, in whole cache lines: the window's and the burst's digits in the planes' rows and
 * as text, the weights, a cell a digit, and the state between them. An end that is decided touches the weights for
 * that, too: 12 bytes a digit of N. */
static size_t path_bytes(const struct matcher *m)
{
    enum { LINE = 64, BURST = 100 };
    size_t row = (m->n + BURST) / MATCHER_STEPS * sizeof(uint32_t) / LINE + 2;
    size_t bytes = 2 * MATCHER_STEPS * row * LINE + 2 * BURST + 2 * LINE + sizeof(struct matcher_kernel) +
                   offsetof(struct matcher, hit);
    for (uint32_t i = 0; i < m->constant_count; i++) {
        const struct matcher_constant *c = &m->constants[i];
        bytes += offsetof(struct matcher_constant, look_weights);
        if (c->method == MATCHER_LOOK)
            bytes += c->look.block_count * m->kernel->lanes * MATCHER_STEPS * sizeof(uint32_t);
        if (c->method == MATCHER_HASH)
            bytes += MATCHER_BLOCK_DIGITS_MAX * sizeof(uint32_t) + BURST * LINE;
        if (c->method == MATCHER_EACH)
            bytes += 12 * m->n;
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
    }
    matcher_early_init(m, &config->early_risk);
    m->stats.memory_bytes = sizeof *m;
    m->stats.path_bytes = path_bytes(m);
    matcher_idle_begin(m);
    matcher_idle_finish(m);
    *matcher = m;
    return NULL;
}

static void segment_open(struct matcher *m)
{
    m->segment_count = (uint32_t)min_size(m->burst_left, MATCHER_SEGMENT_DIGITS);
    m->burst_left -= m->segment_count;
    m->searched = m->end = 0;
    m->kernel->write(&m->planes, MATCHER_SEGMENT_AT, m->text + m->segment_text, m->segment_count);
    for (uint32_t i = 0; i < m->constant_count; i++)
        m->looked[i] = 0;
    for (uint32_t w = 0; w < (m->segment_count + 63) / 64; w++)
        for (uint32_t i = 0; i < m->constant_count; i++)
            m->suspect[i][w] = 0;
}

void matcher_begin(struct matcher *m, const uint8_t *digits, size_t count)
{
    ASSERT(count <= MATCHER_BURST_DIGITS_MAX);
    ASSERT(m->end == m->segment_count && m->burst_left == 0 && !m->hits_left);
    matcher_idle_finish(m);
    memcpy(m->text + MATCHER_HISTORY, digits, count);
    memset(m->text + MATCHER_HISTORY + count, '0', MATCHER_WRITE_DIGITS);   /* what is written and read beyond it */
    m->burst_left = m->burst_count = (uint32_t)count;
    m->stats.bursts++;
    m->stats.digits += count;
    segment_open(m);
}

/* The value of the last skip_digits digits, times its weight: eight digits in one word, the first in its lowest byte,
 * are added up in pairs, then pairs of pairs, then those. */
static inline uint32_t look_offset(const struct matcher *m, const struct matcher_constant *c, uint32_t known)
{
    uint64_t d = load_le64(m->text + m->segment_text + known - 8) & 0x0f0f0f0f0f0f0f0f;
    d = d >> c->skip_shift << c->skip_shift;
    d = (d * (1 + (10 << 8))) >> 8 & 0x00ff00ff00ff00ff;
    d = (d * (1 + (100 << 16))) >> 16 & 0x0000ffff0000ffff;
    d = (d * (1 + (UINT64_C(10000) << 32))) >> 32;
    return (uint32_t)(d * c->skip_weight >> 37) + c->look_offset;
}

bool matcher_look(const struct matcher *m, const struct matcher_constant *c, uint32_t known)
{
    return m->kernel->look(&m->planes, MATCHER_SEGMENT_AT + known - c->skip_digits, &c->look, look_offset(m, c, known));
}

void matcher_look_which(const struct matcher *m, const struct matcher_constant *c, uint32_t known,
                        uint64_t starts[MATCHER_POSITIONS / 64])
{
    memset(starts, 0, MATCHER_POSITIONS / 8);
    m->kernel->look_which(&m->planes, MATCHER_SEGMENT_AT + known - c->skip_digits, &c->look,
                          look_offset(m, c, known), starts);
}

static void suspect_set(uint64_t *ends, uint32_t end)
{
    ends[(end - 1) / 64] |= BIT((end - 1) % 64);
}

/* Suspects the ends after..to of what begins at a hot start. */
static void hot_follow(struct matcher *m, const struct matcher_constant *c, uint64_t *suspect, uint32_t start,
                       uint32_t after, uint32_t to)
{
    if (!matcher_may_begin(m, matcher_text_index(m, start)))
        return;
    uint64_t lengths[MATCHER_LENGTH_WORDS + 1] = {0};
    m->kernel->follow(&m->planes, start, &c->follow, lengths);
    for (uint32_t w = 0; w < MATCHER_LENGTH_WORDS; w++)
        for (uint64_t left = lengths[w]; left != 0; left &= left - 1) {
            uint32_t length = 64 * w + (uint32_t)__builtin_ctzll(left), end = start + length - MATCHER_SEGMENT_AT;
            if (start + length > MATCHER_SEGMENT_AT + after && end <= to && length <= m->n)
                suspect_set(suspect, end);
        }
}

static void look_handle_hot(struct matcher *m, uint32_t i, uint32_t known, uint32_t to)
{
    const struct matcher_constant *c = &m->constants[i];
    if (known > 0) {
        uint64_t starts[MATCHER_POSITIONS / 64];
        matcher_look_which(m, c, known, starts);
        uint32_t newest = MATCHER_SEGMENT_AT + known, oldest = newest - m->n;
        for (uint32_t w = oldest / 64; w <= newest / 64; w++)
            for (uint64_t left = starts[w]; left != 0; left &= left - 1)
                hot_follow(m, c, m->suspect[i], 64 * w + (uint32_t)__builtin_ctzll(left), known, to);
    } else if (m->hot[i].count > MATCHER_HOT_MAX) {
        for (uint32_t end = 1; end <= to; end++)
            suspect_set(m->suspect[i], end);
    } else {
        for (uint32_t k = 0; k < m->hot[i].count; k++)
            hot_follow(m, c, m->suspect[i], m->hot[i].start[k], 0, to);
    }
}

/* Every look_digits digits one look suffices for the next look_digits ends; the first was taken in idle time. */
static void search_by_look(struct matcher *m, uint32_t i, uint32_t to)
{
    const struct matcher_constant *c = &m->constants[i];
    for (; m->looked[i] < to; m->looked[i] += c->look_digits) {
        uint32_t known = m->looked[i];
        if (known == 0 ? m->hot[i].count > 0 : matcher_look(m, c, known))
            look_handle_hot(m, i, known, (uint32_t)min_size(known + c->look_digits, m->segment_count));
    }
}

static void search_by_hash(struct matcher *m, uint32_t i, uint32_t from, uint32_t to)
{
    struct matcher_constant *c = &m->constants[i];
    uint32_t block = MATCHER_STEPS * m->kernel->lanes;
    uint32_t window = (m->n + MATCHER_BLOCK_DIGITS_MAX - 1) / MATCHER_BLOCK_DIGITS_MAX * MATCHER_BLOCK_DIGITS_MAX;
    for (; from < to; from += block)
        c->hit_before = m->kernel->probe(&m->planes, MATCHER_SEGMENT_AT + from, m->text + m->segment_text + from,
                                         (uint32_t)min_size(block, to - from), c->key_weights + window + from,
                                         &c->keys, &c->window_carry, c->hit_before, c->taken,
                                         m->suspect[i] + from / 64);
}

static void search_each(struct matcher *m, uint32_t i, uint32_t from, uint32_t to)
{
    const struct matcher_constant *c = &m->constants[i];
    const uint8_t *digits = m->text + m->segment_text;
    uint64_t tail = 0;
    for (ptrdiff_t t = c->tail_digits; t > 0; t--)
        tail = tail * 10 + (uint64_t)(digits[(ptrdiff_t)from - t] - '0');
    for (uint32_t end = from + 1; end <= to; end++) {
        if (c->tail_digits > 0)
            tail = (tail * 10 + (uint64_t)(digits[end - 1] - '0')) % c->tail_scale;
        if (c->tail_power == 1 || tail % c->tail_power == 0)
            suspect_set(m->suspect[i], end);
    }
}

/* Finds the suspect ends of the next stretch. */
static void search(struct matcher *m)
{
    uint32_t from = m->searched, to = (uint32_t)min_size(from + MATCHER_STRETCH_DIGITS, m->segment_count);
    for (uint32_t i = 0; i < m->constant_count; i++)
        switch (m->constants[i].method) {
        case MATCHER_NEVER: break;
        case MATCHER_LOOK: search_by_look(m, i, to); break;
        case MATCHER_HASH: search_by_hash(m, i, from, to); break;
        case MATCHER_EACH: search_each(m, i, from, to); break;
        }
    for (uint32_t w = from / 64; w < (to + 63) / 64; w++) {
        uint64_t any = 0;
        for (uint32_t i = 0; i < m->constant_count; i++)
            any |= m->suspect[i][w];
        m->suspect_any[w] = to < 64 * (w + 1) ? any & (BIT(to - 64 * w) - 1) : any;
    }
    m->searched = to;
}

/* Decides which lengths make answers at a suspect end. */
static void decide(struct matcher *m, uint32_t end)
{
    uint64_t since_gap = matcher_stream_position(m, m->segment_text + end) - m->gap;
    uint32_t longest = (uint32_t)min_size(m->n, since_gap), words = m->n / 64 + 1;
    memset(m->hit_any, 0, words * sizeof m->hit_any[0]);
    for (uint32_t i = 0; i < m->constant_count; i++) {
        uint64_t *hit = m->hit[i];
        memset(hit, 0, (words + 2) * sizeof hit[0]);
        const struct matcher_constant *c = &m->constants[i];
        if ((m->suspect[i][(end - 1) / 64] >> (end - 1) % 64 & 1) == 0)
            continue;
        if (c->method == MATCHER_HASH &&
            !m->kernel->look(&m->planes, MATCHER_SEGMENT_AT + end, &c->sift, c->sift_offset))
            continue;
        m->kernel->match(&m->planes, MATCHER_SEGMENT_AT + end, &c->match, hit);
        for (uint32_t w = 0; w < words; w++) {
            if (longest < 64 * w + 63)
                hit[w] &= longest < 64 * w ? 0 : (UINT64_C(2) << (longest - 64 * w)) - 1;
            m->hit_any[w] |= hit[w];
        }
    }
    m->hits_left = true;
}

/* Hands out the longest answer at `end` that is left. */
static bool hit_take(struct matcher *m, struct matcher_answer *answer)
{
    for (uint32_t w = m->n / 64 + 1; w-- > 0;)
        while (m->hit_any[w] != 0) {
            uint32_t bit = 63 - (uint32_t)__builtin_clzll(m->hit_any[w]), length = 64 * w + bit;
            m->hit_any[w] &= ~BIT(bit);
            uint32_t begin = m->segment_text + m->end - length;
            if (m->text[begin] == '0')
                continue;
            m->stats.candidates++;
            uint64_t at = matcher_stream_position(m, begin);
            if (m->promise_count > 0 && matcher_early_take(m, at, at + length))
                continue;
            uint32_t divisor = 0;
            while ((m->hit[divisor][w] >> bit & 1) == 0)
                divisor++;
            *answer = (struct matcher_answer){
                .digits = m->text + begin, .count = length, .constant = divisor, .end = at + length,
            };
            m->stats.answers++;
            if (!m->constants[divisor].sure)
                matcher_confirm_push(m, divisor, answer->digits, length);
            return true;
        }
    m->hits_left = false;
    return false;
}

/* Moves `end` on to the next suspect end; false at the end of the burst. */
static bool end_advance(struct matcher *m)
{
    for (;;) {
        while (m->end < m->searched) {
            uint64_t left = m->suspect_any[m->end / 64] >> m->end % 64;
            if (left == 0) {
                m->end = (uint32_t)min_size((m->end / 64 + 1) * 64, m->searched);
                continue;
            }
            m->end += (uint32_t)__builtin_ctzll(left) + 1;
            return true;
        }
        if (m->searched < m->segment_count) {
            search(m);
        } else if (m->burst_left > 0) {
            m->segment_text += m->segment_count;
            matcher_idle_begin(m);
            m->idle_step = MATCHER_IDLE_SHIFT;
            matcher_idle_finish(m);
            segment_open(m);
        } else {
            return false;
        }
    }
}

bool matcher_next(struct matcher *m, struct matcher_answer *answer)
{
    while (!m->hits_left || !hit_take(m, answer)) {
        if (!end_advance(m)) {
            if (m->idle_step == MATCHER_IDLE_DONE && m->burst_count > 0)
                matcher_idle_begin(m);
            return false;
        }
        decide(m, m->end);
    }
    return true;
}

void matcher_restart(struct matcher *m)
{
    ASSERT(m->end == m->segment_count && m->burst_left == 0 && !m->hits_left);
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
