/* All looks of a stretch in one sweep over its digits: the tables, and what follows where a look finds a hot start. */
#include "app/matcher_state.h"
#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"
#include "kernel/base/hot.h"

/* Whether a constant may have a look at this end. Sums from starts too young for an answer are no harm, but one of
 * nothing but zeros is 0, that is hot. Therefore a lane is cold up to the last beginning of a group before its end:
 * which must be reached before the starts get old enough, and not before there is a digit. */
static bool look_may_end(const struct matcher_look *look, uint32_t end)
{
    uint32_t into_group = (end + MATCHER_GROUP_BEFORE) % MATCHER_GROUP;
    return into_group >= 1 && into_group <= look->young_digits;
}

/* The group before which a lane ceases to be cold. */
static int32_t look_first_group(uint32_t end)
{
    return (int32_t)(end + MATCHER_GROUP_BEFORE) / MATCHER_GROUP - 1;
}

/* Each constant's looks: at most K digits apart, and one at the end of the stretch. What is looked ahead for in short
 * bursts only has none there. */
static void sweep_place_looks(struct matcher *m, struct matcher_sweep *sweep)
{
    const bool is_short = sweep == &m->sweep[1];
    const uint32_t last = is_short ? MATCHER_SHORT_DIGITS : m->kernel->stretch;
    for (uint32_t i = 0; i < m->constant_count; i++) {
        const struct matcher_look *look = &m->constants[i].look;
        if (m->constants[i].method != MATCHER_LOOK || m->constants[i].hash_long != is_short)
            continue;
        uint32_t first = sweep->look_count;
        for (uint32_t end = 0; end < last;) {
            uint32_t next = (uint32_t)min_size(end + look->digits, last);
            while (!look_may_end(look, next))
                next--;
            ASSERT(next > end && sweep->look_count < MATCHER_LOOKS_MAX);
            if (end > 0)
                sweep->look[sweep->look_count - 1].next = (uint16_t)next;
            sweep->look[sweep->look_count++] =
                (struct matcher_sweep_look){.end = (uint16_t)next, .constant = (uint16_t)i};
            end = next;
        }
        sweep->first[i] = sweep->look[first].end;
        sweep->look[sweep->look_count - 1].next = (uint16_t)(last + sweep->first[i]);
        sweep->look_count -= is_short;
    }
}

static void sweep_sort_looks(struct matcher_sweep *sweep)
{
    for (uint32_t k = 1; k < sweep->look_count; k++) {
        struct matcher_sweep_look look = sweep->look[k];
        uint32_t at = k;
        for (; at > 0 && sweep->look[at - 1].end > look.end; at--)
            sweep->look[at] = sweep->look[at - 1];
        sweep->look[at] = look;
    }
    for (uint32_t left = 0; left < ARRAY_COUNT(sweep->needed); left++)
        for (uint32_t k = 0; k < sweep->look_count; k++)
            sweep->needed[left] += sweep->look[k].end < left;
}

/* The weight of a digit (counted from the stretch's first) for a look. If it shares one with the digit behind the end,
 * that one counts as well: the look is then one from there, K - 1 digits ahead. (It is known if the look is needed.) */
static uint32_t sweep_weight(const struct matcher *m, const struct matcher_sweep_look *look, int32_t digit)
{
    if (digit >= look->end + look->end % (int32_t)m->kernel->row_digits)
        return 0;
    uint32_t position = (uint32_t)(MATCHER_SEGMENT_AT + digit - look->end);
    const union matcher_planes *weights = &m->constants[look->constant].look.weights;
    return m->kernel->lanes == 1 ? weights->word[position]
                                 : weights->row[position % MATCHER_STEPS][position / MATCHER_STEPS];
}

/* Two lanes in a 64-bit word: a lower one that is negative there takes 1 from the upper one. */
static void row_pair(uint32_t row[2]) { row[1] -= row[0] >> 31; }

static const void *stretch_digits(const struct matcher *m, uint32_t from)
{
    if (m->kernel->lanes == 1)
        return m->digits.planes.digit + MATCHER_SEGMENT_AT + from;
    return (m->kernel->row_digits == 2 ? m->digits.pair : m->digits.word) + MATCHER_SEGMENT_AT + from;
}

/* The starts before group 0 that a look reaches, in blocks. */
static uint32_t sweep_old_blocks(const struct matcher *m, uint32_t end)
{
    uint32_t young = end + 1 + MATCHER_GROUP_BEFORE, block = m->kernel->block;
    return m->n > young ? (m->n - young + block - 1) / block : 0;
}

/* The group of the oldest start that a look at this end reaches. */
static int32_t sweep_bottom(const struct matcher *m, int32_t end)
{
    int32_t oldest = end + 1 - (int32_t)m->n + MATCHER_GROUP_BEFORE;
    return (oldest + MATCHER_WINDOW_DIGITS) / MATCHER_GROUP - MATCHER_WINDOW_DIGITS / MATCHER_GROUP;
}

static uint32_t sweep_group_rows(const struct matcher *m) { return 1 + MATCHER_GROUP / m->kernel->row_digits; }

/* Fills one vector's rows from a place on, returns the place behind them. The vectors of a bundle have the groups that
 * its first one has. */
static uint32_t *sweep_fill_vector(const struct matcher *m, struct matcher_sweep *sweep, uint32_t index, uint32_t *row)
{
    const uint32_t lanes = m->kernel->sweep_lanes, cold = UINT32_C(1) << (m->kernel->look_bits - 2);
    struct matcher_sweep_vector *v = &sweep->vector[index];
    const struct matcher_sweep_look *look = &sweep->look[index * lanes];
    uint32_t used = (uint32_t)min_size(sweep->look_count - index * lanes, lanes);
    const int32_t bottom = sweep_bottom(m, sweep->look[index / MATCHER_BUNDLE * MATCHER_BUNDLE * lanes].end);
    v->top = (look[used - 1].end + MATCHER_GROUP_BEFORE - 1) / MATCHER_GROUP;
    v->bottom = sweep_bottom(m, look[0].end);
    v->group0 = row + v->top * (int32_t)(sweep_group_rows(m) * lanes);
    for (uint32_t l = used; l < lanes; l++)
        v->start[l] = cold;
    for (uint32_t l = 0; l < used; l++) {
        const struct matcher_look *of = &m->constants[look[l].constant].look;
        v->start[l] = of->offset + cold;
        v->limit[l] = of->limit;
        uint32_t slot_limit = (of->limit << (32 - m->kernel->look_bits) >> 16) + 1;
        sweep->slot_limit = (uint32_t)max_size(sweep->slot_limit, slot_limit * (1 + (1 << 16)));
        sweep->old_blocks[index * lanes + l] = (uint8_t)sweep_old_blocks(m, look[l].end);
    }
    for (int32_t group = v->top; group >= bottom; group--) {
        for (uint32_t l = 0; l < used; l++)
            row[l] = group == look_first_group(look[l].end) ? 0 - cold : 0;
        if (m->kernel->lanes == 1)
            row_pair(row);
        row += lanes;
        for (int32_t s = (int32_t)m->kernel->row_digits - 1; s < MATCHER_GROUP; s += (int32_t)m->kernel->row_digits) {
            for (uint32_t l = 0; l < used; l++)
                row[l] = sweep_weight(m, &look[l], MATCHER_GROUP * group - MATCHER_GROUP_BEFORE + s);
            if (m->kernel->lanes == 1)
                row_pair(row);
            row += lanes;
        }
    }
    return row;
}

static uint32_t *sweep_fill(struct matcher *m, struct matcher_sweep *sweep, uint32_t *row)
{
    sweep_place_looks(m, sweep);
    sweep_sort_looks(sweep);
    for (uint32_t index = 0; index * m->kernel->sweep_lanes < sweep->look_count; index++)
        row = sweep_fill_vector(m, sweep, index, row);
    sweep->slot_words = sweep->old_blocks[0] * m->kernel->block / 2;
    if (m->kernel->remember_cells != NULL && m->n > MATCHER_CELLS_N)
        sweep->cells_count = (uint32_t)min_size(sweep->needed[MATCHER_SHORT_DIGITS], MATCHER_CELLS_LOOKS_MAX);
    return row;
}

void matcher_sweep_prepare(struct matcher *m)
{
    uint32_t *row = m->sweep_rows;
    for (uint32_t at = 0; at < MATCHER_SWEEPS; at++)
        row = sweep_fill(m, &m->sweep[at], row);
    m->sweep_count = m->sweep[1].look_count > 0 ? 2 : 1;
    ASSERT(row <= m->sweep_rows + ARRAY_COUNT(m->sweep_rows));
}

static size_t sweep_bytes(const struct matcher *m, const struct matcher_sweep *sweep, uint32_t count)
{
    const uint32_t lanes = m->kernel->sweep_lanes, needed = sweep->needed[min_size(count, m->kernel->stretch + 1)];
    const bool cells = m->kernel->lanes == 1 || needed <= sweep->cells_count;   /* a line of them for each look */
    size_t words = needed * (cells ? 64 / sizeof(uint32_t) : sweep->slot_words);
    for (uint32_t index = 0; index * lanes < needed; index++) {
        const struct matcher_sweep_vector *v = &sweep->vector[index];
        size_t groups = min_size((uint32_t)v->top + 1, (count + MATCHER_GROUP_BEFORE - 1) / MATCHER_GROUP + 1);
        words += groups * sweep_group_rows(m) * lanes + sizeof *v / sizeof(uint32_t);
    }
    return words * sizeof(uint32_t) + needed * sizeof sweep->old_blocks[0];
}

size_t matcher_sweep_bytes(const struct matcher *m, uint32_t count)
{
    const size_t groups = (count + MATCHER_GROUP_BEFORE - 1) / MATCHER_GROUP + 1;
    const size_t marks = groups * MATCHER_BUNDLE * 2 * m->kernel->sweep_lanes * sizeof m->sweep_state.marks[0];
    size_t bytes = (m->kernel->lanes == 1 ? 0 : marks) + offsetof(struct matcher_sweep_state, marks);
    for (uint32_t at = 0; at < MATCHER_SWEEPS; at++)
        bytes += sweep_bytes(m, &m->sweep[at], count);
    return bytes;
}

/* What begins at a hot start makes a multiple of m at an end. */
static void hot_end(struct matcher *m, uint32_t i, uint32_t start, uint32_t end)
{
    const struct matcher_constant *c = &m->constants[i];
    const uint32_t begin = matcher_text_index(m, start), length = MATCHER_SEGMENT_AT + end - start;
    if ((c->last_digits >> (m->text[begin + length - 1] - '0') & 1) == 0)
        return;
    if (!matcher_last_digit_tells(c) &&
        !matcher_is_zero(c, m->kernel->fraction(m->text + begin, c->match_weights + m->n - length, length)))
        return;
    if (!matcher_pair(m, i, start, end))
        matcher_suspect(m, i, end);
}

/* Finds the ends after..to of what begins at a hot start: where the prefix value is the start's, given what that is at
 * `after`. Behind a multiple of M, the next K digits make one only if they are zeros. */
HOT static void hot_follow(struct matcher *m, uint32_t i, uint32_t start, uint64_t fraction, uint32_t after, uint32_t to)
{
    const struct matcher_constant *c = &m->constants[i];
    const uint32_t last = (uint32_t)min_size(to, start + m->n - MATCHER_SEGMENT_AT);
    const uint64_t *weights = c->follow_weights + MATCHER_SEGMENT_AT - start;
    const uint8_t *digits = m->text + m->segment_text;
    bool zero = matcher_is_zero(c, fraction);
    for (uint32_t end = after; end < last && !(zero && matcher_last_digit_tells(c) && digits[end] != '0');) {
        uint32_t taken = m->kernel->follow(digits + end, weights + end, last - end, c->tolerance, &fraction);
        if (taken == 0)
            return;
        end += taken;
        zero = true;
        hot_end(m, i, start, end);
    }
}

/* More starts are hot than can be followed: every end after..to is suspect. */
static void hot_lose(struct matcher *m, uint32_t i, uint32_t after, uint32_t to)
{
    m->stats.looks_lost++;
    for (uint32_t end = after + 1; end <= to; end++)
        matcher_suspect(m, i, end);
}

/* The look from the segment's beginning was taken in idle time. */
static __attribute__((noinline)) void sweep_follow_first(struct matcher *m)
{
    for (uint32_t i = 0; i < m->constant_count; i++) {
        if (!matcher_looks(m, &m->constants[i]))
            continue;
        const struct matcher_sweep *sweep = &m->sweep[m->constants[i].hash_long];
        uint32_t to = (uint32_t)min_size(sweep->first[i], m->segment_count), count = m->hot[i].count;
        if (count > MATCHER_HOT_MAX)
            hot_lose(m, i, 0, to);
        else
            for (uint32_t k = 0; k < count; k++)
                hot_follow(m, i, m->hot[i].start[k], m->hot[i].fraction[k], 0, to);
    }
}

HOT void matcher_follow(struct matcher *m, uint32_t constant, uint32_t begin, const int32_t *starts, uint32_t count,
                        uint32_t after, uint32_t to)
{
    if (count > MATCHER_HOT_MAX) {
        hot_lose(m, constant, after, to);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t start = MATCHER_SEGMENT_AT + begin + (uint32_t)starts[i];
        const uint8_t *digits = m->text + matcher_text_index(m, start);
        if (start >= MATCHER_SEGMENT_AT + after || !matcher_may_begin(m, matcher_text_index(m, start)))
            continue;
        hot_follow(m, constant, start,
                   m->kernel->fraction(digits, m->constants[constant].follow_weights,
                                       MATCHER_SEGMENT_AT + after - start), after, to);
    }
}

/* The bundle at work has hot starts. */
HOT static __attribute__((noinline)) void
sweep_follow(struct matcher *m, const struct matcher_sweep *sweep, uint32_t from)
{
    const struct matcher_sweep_state *state = &m->sweep_state;
    for (uint64_t hot = state->young | state->old; hot != 0; hot &= hot - 1) {
        uint32_t k = (uint32_t)__builtin_ctzll(hot);
        const struct matcher_sweep_look *look = &sweep->look[state->first + k];
        uint32_t after = from + look->end, to = (uint32_t)min_size(from + look->next, m->segment_count);
        if (after >= to)
            continue;       /* a look from behind the last digit */
        int32_t starts[MATCHER_HOT_MAX];
        uint32_t count = m->kernel->starts(sweep, stretch_digits(m, from), state, k,
                                           look->end + 1 - (int32_t)m->n, starts, MATCHER_HOT_MAX);
        matcher_follow(m, look->constant, from, starts, count, after, to);
    }
}

/* Goes on to a sweep; sweep_count: there is none. */
static void sweep_open(struct matcher *m, uint32_t at)
{
    m->sweep_at = at;
    if (at == m->sweep_count)
        return;
    const uint32_t left = (uint32_t)min_size(m->segment_count - m->stretch_from, m->kernel->stretch + 1);
    m->sweep_state.needed = at == 1 && m->long_burst ? 0 : m->sweep[at].needed[left];
    m->sweep_state.next = 0;
    m->sweep_state.slots_due = false;
}

HOT void matcher_sweep_begin(struct matcher *m)
{
    const uint32_t from = m->stretch_from;
    m->combs = matcher_combs(m, from);
    m->stretch_to = m->combs ? m->segment_count : (uint32_t)min_size(from + m->kernel->stretch, m->segment_count);
    sweep_open(m, 0);
    if (m->combs)
        matcher_comb_begin(m);
    if (from == 0 && (m->first_hot || (m->first_hot_by_zeros && m->text[m->segment_text] == '0')))
        sweep_follow_first(m);
}

HOT bool matcher_sweep_search(struct matcher *m)
{
    const uint32_t from = m->stretch_from, left = m->segment_count - from;
    const void *stretch = stretch_digits(m, from);
    if (m->combs)
        return matcher_comb_search(m);
    while (m->sweep_at < m->sweep_count) {
        const struct matcher_sweep *sweep = &m->sweep[m->sweep_at];
        while (m->kernel->sweep(sweep, stretch, left, from == 0, &m->sweep_state)) {
            sweep_follow(m, sweep, from);
            if (m->pair_given < m->pair_count)
                return true;
        }
        sweep_open(m, m->sweep_at + 1);
    }
    return false;
}

enum { VECTORS_A_SLICE = 2 };     /* 0.4 us at N = 256, 3 us at N = 1024 */

/* Fills the cells of some vectors; true while there are more. */
bool matcher_sweep_remember(struct matcher *m)
{
    const uint32_t lanes = m->kernel->sweep_lanes, vectors = (m->sweep[0].look_count + lanes - 1) / lanes,
                   all = vectors + (m->sweep[1].look_count + lanes - 1) / lanes;
    for (uint32_t left = VECTORS_A_SLICE; m->idle_slot < all && left > 0; m->idle_slot++, left--)
        if (m->idle_slot < vectors)
            m->kernel->remember_vector(&m->sweep[0], stretch_digits(m, 0), m->idle_slot);
        else
            m->kernel->remember_vector(&m->sweep[1], stretch_digits(m, 0), m->idle_slot - vectors);
    if (m->idle_slot < all)
        return true;
    m->idle_slot = 0;
    return false;
}

/* Fills the cells of some looks; true while there are more. What the burst finds unfilled, it does without. */
bool matcher_sweep_remember_cells(struct matcher *m)
{
    enum { LOOKS_A_SLICE = 2 };     /* 2 us at N = 1024 */
    struct matcher_sweep *sweep = &m->sweep[0];
    for (uint32_t left = LOOKS_A_SLICE; sweep->cells_filled < sweep->cells_count && left > 0; left--) {
        const uint32_t k = sweep->cells_filled;
        m->kernel->remember_cells(&m->digits.planes, &m->constants[sweep->look[k].constant].look, sweep->look[k].end,
                                  sweep->old_blocks[k], &sweep->old[k]);
        sweep->cells_filled++;
    }
    return sweep->cells_filled < sweep->cells_count;
}

/* Runs over the digits that are there, for nothing but to have code and tables in the caches nearest to the CPU. */
void matcher_sweep_warm(struct matcher *m)
{
    const uint32_t burst = m->kernel->lanes == 1 ? 64 : 128;    /* 64 warm it as well there, in 0.2 us less */
    for (uint32_t at = 0; at < m->sweep_count; at++) {
        m->sweep_state.needed = m->sweep[at].needed[burst];
        m->sweep_state.next = 0;
        m->sweep_state.slots_due = false;
        while (m->kernel->sweep(&m->sweep[at], stretch_digits(m, 0), burst, true, &m->sweep_state))
            continue;       /* zeros behind the last burst's digits are hot */
    }
}
