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
 *    one look at the N starts rules out K ends at once. A start that has it is "hot": step 5 tells which ends, if any.
 *    A start that is younger than the digits of M less K has no answer before e + K, and its digits ("skipped") are
 *    left out of the look. For e = the end of a burst the look is idle work. It finds the early answers, too.
 *
 * 4. Old starts. The looks of a burst are taken when K, 2K, 3K, ... digits of it are known. A start i before some point
 *    p before the burst comes to v(i, p) * 10^(e - p + K) / M + v(p, e) * 10^K / M: the first part is known before the
 *    burst, the second is the same for all such starts, and the look finds it on its way from e back to p. So idle time
 *    writes the first parts down for each look, as 16 bits each (a "slot"), and the path compares them with the second:
 *    two instructions for 16 or 32 of them. The starts in the burst itself are left to be looked at.
 *
 * 5. Hashing (MATCHER_HASH) for constants too small for that. M = 2^a * 5^b * m with gcd(m, 10) = 1. With the prefix
 *    value y(j) = sum of digit(k) * 10^-k over all k <= j, v(i, j) = 10^j * (y(j) - y(i)) modulo m, and 10 has an
 *    inverse: m divides v(i, j) exactly if y(i) = y(j). As fractions of m, equal ones are equal up to the tolerance.
 *    The cells of a table, chosen by the first bits of y, remember the starts: an end whose cell is empty has no
 *    start. An end whose y is within the tolerance of its cell's edge counts as suspect, so that no start is missed.
 *    Behind a 0 the prefix value is the same as before it, but nothing begins with that 0: such starts stay out.
 *    The powers of 2 and 5 rule out ends by their last digit. The table is made anew in idle time, with positions
 *    counted from the window's first, so the weights 10^-k are tables too. For an end that is left, the prefix values
 *    themselves tell which starts it has ("partners").
 *
 * 6. Following. y also tells the ends of a hot start: they have its y.
 *
 * 7. Deciding. For a start and an end that are left, the fraction of u * v / M to 64 bits; u is a number without a
 *    common factor with M, so that it is 0 for the same v, but not nearly 0 just because v is small. If M has 50
 *    bits or less, this decides. If not, a false 0 has the chance 2^-51 a pair, and after the burst exact arithmetic
 *    counts it (it has never been seen). Answers of all constants are united by length, and handed out.
 *
 * 8. The rest. Constants so small that most ends have an answer (MATCHER_EACH) skip the search: every start of every
 *    end is decided, if the last digits admit the end. Constants of more than N digits have no answer at all.
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
            bytes += c->look.block_count * m->kernel->block * sizeof(uint32_t) + BURST / c->look.digits * 2 * LINE;
        if (c->method == MATCHER_HASH)
            bytes += MATCHER_BLOCK_DIGITS_MAX * 2 * sizeof(uint64_t) + BURST * LINE;
        if (c->method == MATCHER_EACH)
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
        m->hashes |= m->constants[i].method == MATCHER_HASH;
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
        m->looks[i] = 0;
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

bool matcher_look_which(const struct matcher *m, const struct matcher_constant *c, uint32_t number,
                        uint64_t starts[MATCHER_POSITIONS / 64])
{
    const uint8_t *digits = m->text + m->segment_text;
    if (!m->kernel->look(&m->planes, digits, &c->look, number))
        return false;
    memset(starts, 0, MATCHER_POSITIONS / 8);
    m->kernel->look_which(&m->planes, digits, &c->look, number, starts);
    return true;
}

static void suspect_set(uint64_t *ends, uint32_t end)
{
    ends[(end - 1) / 64] |= BIT((end - 1) % 64);
}

static bool is_zero(const struct matcher_constant *c, uint64_t fraction)
{
    return fraction + c->tolerance <= 2 * c->tolerance;
}

/* Suspects the ends after..to of what begins at a hot start: where the prefix value is the start's. */
static void hot_follow(struct matcher *m, uint32_t i, uint32_t start, uint32_t after, uint32_t to)
{
    const struct matcher_constant *c = &m->constants[i];
    const uint8_t *digits = m->text + matcher_text_index(m, start);
    uint32_t known = MATCHER_SEGMENT_AT + after - start, last = (uint32_t)min_size(MATCHER_SEGMENT_AT + to - start, m->n);
    uint64_t fraction = m->kernel->fraction(digits, c->follow_weights, known);
    for (uint32_t length = known + 1; length <= last; length++) {
        fraction += (uint64_t)(digits[length - 1] - '0') * c->follow_weights[length - 1];
        if (is_zero(c, fraction))
            suspect_set(m->suspect[i], start + length - MATCHER_SEGMENT_AT);
    }
}

/* Follows the starts that are hot by the look of this number, and keeps them for `decide`. */
static __attribute__((noinline)) void look_handle_hot(struct matcher *m, uint32_t i, uint32_t number)
{
    const struct matcher_constant *c = &m->constants[i];
    struct matcher_hot *hot = &m->hot[i];
    uint64_t starts[MATCHER_POSITIONS / 64] = {0};
    m->kernel->look_which(&m->planes, m->text + m->segment_text, &c->look, number, starts);
    uint32_t known = number * c->look.digits, to = (uint32_t)min_size(known + c->look.digits, m->segment_count);
    uint32_t newest = MATCHER_SEGMENT_AT + known, oldest = newest + 1 - m->n;
    for (uint32_t w = oldest / 64; w <= newest / 64; w++)
        for (uint64_t left = starts[w]; left != 0; left &= left - 1) {
            uint32_t start = 64 * w + (uint32_t)__builtin_ctzll(left), k = 0;
            if (start < oldest || start >= newest || !matcher_may_begin(m, matcher_text_index(m, start)))
                continue;
            hot_follow(m, i, start, known, to);
            while (k < hot->count && k < MATCHER_HOT_MAX && hot->start[k] != start)
                k++;
            if (k < MATCHER_HOT_MAX)
                hot->start[k] = start;
            hot->count = (uint32_t)max_size(hot->count, k + 1);
        }
}

/* The look of number 0 was taken in idle time. */
static void look_handle_first(struct matcher *m, uint32_t i)
{
    uint32_t to = (uint32_t)min_size(m->constants[i].look.digits, m->segment_count);
    if (m->hot[i].count > MATCHER_HOT_MAX)
        for (uint32_t end = 1; end <= to; end++)
            suspect_set(m->suspect[i], end);
    else
        for (uint32_t k = 0; k < m->hot[i].count; k++)
            hot_follow(m, i, m->hot[i].start[k], 0, to);
}

/* One look suffices for the next look.digits ends. */
static void search_by_look(struct matcher *m, uint32_t i, uint32_t to)
{
    const struct matcher_look *look = &m->constants[i].look;
    uint32_t number = m->looks[i];
    if (number == 0) {
        look_handle_first(m, i);
        number++;
    }
    for (; number * look->digits < to; number++)
        if (m->kernel->look(&m->planes, m->text + m->segment_text, look, number))
            look_handle_hot(m, i, number);
    m->looks[i] = number;
}

/* The digits behind which the prefix value was the same as at an end in text: partners of the last digit that is not 0,
 * and not only among the last N digits, but before zeros that stand there, too. Behind a partner, a start is the first
 * digit that is not 0. */
static uint32_t hash_partners(const struct matcher *m, uint32_t i, uint32_t end, uint16_t partners[MATCHER_PARTNERS_MAX])
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

/* A 0 does not change the prefix value: it has occurred exactly if the one before the 0 has. Added to the first bit of
 * a run of zeros, a carry runs through them all. */
static void search_by_hash(struct matcher *m, uint32_t i, uint32_t from, uint32_t to)
{
    struct matcher_constant *c = &m->constants[i];
    uint64_t *found = m->suspect[i] + from / 64;
    m->kernel->probe(&m->planes, &c->hash, matcher_window(m->n) + from, to - from, found);
    uint64_t before = c->hit_before;
    for (uint32_t w = 0; w < (to - from + 63) / 64; w++) {
        struct matcher_digit_sets sets = m->digit_sets[from / 64 + w];
        uint64_t hit = found[w] & ~sets.zero, first = (hit << 1 | before) & sets.zero;
        hit |= sets.zero & ~(sets.zero + first);
        before = hit >> (min_size(to - from - 64 * w, 64) - 1) & 1;
        if (c->even)
            hit &= ~sets.odd;
        if (c->five)
            hit &= sets.five | sets.zero;
        /* Many cells are shared by chance. */
        if (to - from - 64 * w < 64)
            hit &= BIT(to - from - 64 * w) - 1;
        for (uint64_t left = hit; left != 0; left &= left - 1) {
            uint16_t partners[MATCHER_PARTNERS_MAX];
            uint32_t bit = (uint32_t)__builtin_ctzll(left);
            if (hash_partners(m, i, m->segment_text + from + 64 * w + bit + 1, partners) == 0)
                hit &= ~BIT(bit);
        }
        found[w] = hit;
    }
    c->hit_before = before;
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
    if (m->hashes)
        for (uint32_t at = from; at < to; at += 64)
            m->digit_sets[at / 64] = m->kernel->digit_sets(m->text + m->segment_text + at);
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

static void hit_set(struct matcher *m, uint32_t i, uint32_t length)
{
    m->hit[i][length / 64] |= BIT(length % 64);
    m->hit_any[length / 64] |= BIT(length % 64);
}

/* Sets a hit if the `length` digits before text[end] are a multiple. */
static void decide_one(struct matcher *m, uint32_t i, uint32_t end, uint32_t length)
{
    const struct matcher_constant *c = &m->constants[i];
    if (length <= m->n && is_zero(c, m->kernel->fraction(m->text + end - length, c->match_weights + m->n - length, length)))
        hit_set(m, i, length);
}

static void decide_all(struct matcher *m, uint32_t i, uint32_t end)
{
    const struct matcher_constant *c = &m->constants[i];
    uint64_t fraction = 0;
    for (uint32_t length = 1; length <= m->n; length++) {
        fraction += (uint64_t)(m->text[end - length] - '0') * c->match_weights[m->n - length];
        if (is_zero(c, fraction))
            hit_set(m, i, length);
    }
}

/* Without starts that have the end's prefix value, there is nothing to decide. */
static void decide_by_hash(struct matcher *m, uint32_t i, uint32_t end)
{
    uint16_t partners[MATCHER_PARTNERS_MAX];
    uint32_t count = hash_partners(m, i, end, partners), window = m->segment_text - matcher_window(m->n);
    if (count > MATCHER_PARTNERS_MAX) {
        decide_all(m, i, end);
        return;
    }
    for (uint32_t k = 0; k < count; k++) {
        uint32_t start = window + (uint16_t)(partners[k] + 1);
        while (m->text[start] == '0')
            start++;
        decide_one(m, i, end, end - start);
    }
}

/* Decides which lengths make answers at a suspect end. */
static void decide(struct matcher *m, uint32_t suspect)
{
    uint32_t words = m->n / 64 + 1, end = m->segment_text + suspect;
    memset(m->hit_any, 0, words * sizeof m->hit_any[0]);
    for (uint32_t i = 0; i < m->constant_count; i++) {
        memset(m->hit[i], 0, words * sizeof m->hit[i][0]);
        if ((m->suspect[i][(suspect - 1) / 64] >> (suspect - 1) % 64 & 1) == 0)
            continue;
        if (m->constants[i].method == MATCHER_HASH)
            decide_by_hash(m, i, end);
        else if (m->constants[i].method == MATCHER_EACH || m->hot[i].count > MATCHER_HOT_MAX)
            decide_all(m, i, end);
        else
            for (uint32_t k = 0; k < m->hot[i].count; k++)
                if (m->hot[i].start[k] < MATCHER_SEGMENT_AT + suspect)
                    decide_one(m, i, end, MATCHER_SEGMENT_AT + suspect - m->hot[i].start[k]);
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
            if (!matcher_may_begin(m, begin))
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
