/* Exact arithmetic, in idle time: answers confirmed, and early answers found. */
#include "app/matcher_state.h"
#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"

enum {
    DIGITS_A_SLICE = 256,       /* about 2 us of exact arithmetic on 512-bit constants */
    EARLY_ZEROS_MAX = 4,        /* more at the end of a completion are not tried */
    EARLY_APART_DIGITS = 8,     /* a shorter completion makes a longer one doubtful */
};

void matcher_confirm_push(struct matcher *m, uint32_t constant, const uint8_t *digits, uint32_t count)
{
    while (m->confirm_count == MATCHER_CONFIRM_MAX)
        matcher_confirm_step(m);
    struct matcher_confirm *entry = &m->confirm[m->confirm_count++];
    entry->constant = constant;
    entry->count = count;
    memcpy(entry->digits, digits, count);
    m->confirm_done = 0;
}

bool matcher_confirm_step(struct matcher *m)
{
    ASSERT(m->confirm_count > 0);
    const struct matcher_confirm *entry = &m->confirm[m->confirm_count - 1];
    if (m->confirm_done == 0)
        m->exact = (struct matcher_big){{0}};
    uint32_t count = (uint32_t)min_size(entry->count - m->confirm_done, DIGITS_A_SLICE);
    matcher_big_append_mod(&m->exact, entry->digits + m->confirm_done, count, &m->constants[entry->constant].value);
    m->confirm_done += count;
    if (m->confirm_done == entry->count) {
        m->stats.candidates_refuted += !matcher_big_is_zero(&m->exact);
        m->confirm_count--;
        m->confirm_done = 0;
    }
    return m->confirm_count > 0;
}

enum { CHANCE_BITS = 40 };

/* The chance in units of 2^-40, at most 1, from the bits of the double (IEEE 754-2019 §3.4): the kernel converts
 * without the FPU, which a hypervisor that emulates us may not know. */
static uint64_t chance_scaled(const double *chance)
{
    uint64_t bits = load_le64(chance);
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    uint64_t mantissa = (bits & (BIT(52) - 1)) | BIT(52);
    if (bits >> 63 || exponent < -CHANCE_BITS)
        return 0;
    return exponent >= 0 ? BIT(CHANCE_BITS) : mantissa >> (52 - CHANCE_BITS - exponent);
}

/* A completion of k digits or less exists for one start in M / 10^k by chance. With `constants` sharing the risk and
 * n starts, those counted are to be at most M * risk / (constants * n): all of k digits, and of k + 1 digits those
 * below a bound. */
void matcher_early_init(struct matcher *m, const double *risk)
{
    uint64_t scaled = chance_scaled(risk);
    for (uint32_t i = 0; i < m->constant_count; i++) {
        m->early_digits[i] = 0;
        if (!m->early || m->constants[i].method == MATCHER_NEVER || scaled == 0)
            continue;
        struct matcher_big allowed = m->constants[i].value;
        matcher_big_mul_add(&allowed, scaled, 0);
        matcher_big_div(&allowed, BIT(CHANCE_BITS));
        matcher_big_div(&allowed, (uint64_t)m->constant_count * m->n);
        struct matcher_big all = {{1}}, next = {{10}};
        while (m->early_digits[i] + 1 < m->constants[i].look.digits && matcher_big_compare(&next, &allowed) <= 0) {
            all = next;
            matcher_big_mul_add(&next, 10, 0);
            m->early_digits[i]++;
        }
        matcher_big_sub(&allowed, matcher_big_compare(&all, &allowed) < 0 ? &all : &allowed);
        m->early_bound[i] = allowed;
    }
}

bool matcher_early_take(struct matcher *m, uint64_t start, uint64_t end)
{
    for (uint32_t k = 0; k < m->promise_count; k++)
        if (m->promise[k].start == start && m->promise[k].end == end) {
            m->stats.early_right += !m->promise[k].kept;
            m->promise[k].kept = true;
            return true;
        }
    return false;
}

void matcher_early_settle(struct matcher *m)
{
    uint32_t open = 0;
    for (uint32_t k = 0; k < m->promise_count; k++) {
        if (m->promise[k].end > m->burst_at)
            m->promise[open++] = m->promise[k];
        else
            m->stats.early_wrong += !m->promise[k].kept;
    }
    m->promise_count = open;
}

static const uint8_t zeros[MATCHER_CONSTANT_DIGITS_MAX] = {[0 ... MATCHER_CONSTANT_DIGITS_MAX - 1] = '0'};

/* Whether value * 10^count + completion is M, or rather its next multiple. */
static bool early_is_completed(const struct matcher_constant *c, struct matcher_big value,
                               const struct matcher_big *completion, uint32_t count)
{
    matcher_big_append_mod(&value, zeros, count, &c->value);
    matcher_big_add(&value, completion);
    return matcher_big_compare(&value, &c->value) == 0;
}

/* The shortest completion of a value, given modulo M, of at most look.digits digits. */
static struct matcher_completion early_find(const struct matcher_constant *c, const struct matcher_big *value)
{
    const struct matcher_completion none = {0};
    struct matcher_completion found = {.count = c->look.digits, .value = c->value};
    struct matcher_big residue = *value, limit = {{1}};
    matcher_big_append_mod(&residue, zeros, c->look.digits, &c->value);
    if (matcher_big_is_zero(&residue))
        return none;    /* a multiple already, or it becomes one by zeros alone: not worth a guess */
    matcher_big_sub(&found.value, &residue);
    for (uint32_t k = 0; k < c->look.digits; k++)
        matcher_big_mul_add(&limit, 10, 0);
    if (matcher_big_compare(&found.value, &limit) >= 0)
        return none;    /* hot within the tolerance only */

    /* Zeros at the end are further answers, found when they come - unless the factors 2 and 5 of M need them. */
    for (struct matcher_big shorter = found.value; found.count > 1 && matcher_big_div(&shorter, 10) == 0; found.count--)
        found.value = shorter;
    for (int needed = 0; !early_is_completed(c, *value, &found.value, found.count); needed++) {
        if (needed == EARLY_ZEROS_MAX || found.count == c->look.digits)
            return none;
        matcher_big_mul_add(&found.value, 10, 0);
        found.count++;
    }
    return found;
}

/* Whether the risk allows a completion. The bound on its chance takes the fractions of different starts for
 * independent. In a planted answer they are not, if M is close to a short number times a power of 10: then the starts
 * behind its own are hot as well. Its own completion is the shortest of them by far, else none is believed. */
static bool early_allowed(const struct matcher *m, uint32_t i, uint32_t k)
{
    const struct matcher_completion *own = &m->completion[k];
    if (own->count == 0 || own->count > m->early_digits[i] + 1 ||
        (own->count == m->early_digits[i] + 1 && matcher_big_compare(&own->value, &m->early_bound[i]) >= 0))
        return false;
    for (uint32_t other = 0; other < m->hot[i].count; other++)
        if (m->completion[other].count > 0 && m->completion[other].count < own->count + EARLY_APART_DIGITS &&
            (m->completion[other].count != own->count ||
             matcher_big_compare(&m->completion[other].value, &own->value) != 0))
            return false;
    return true;
}

static void early_offer(struct matcher *m, uint32_t i, uint32_t k)
{
    uint32_t begin = matcher_text_index(m, m->hot[i].start[k]);
    uint32_t so_far = MATCHER_HISTORY - begin, ahead = m->completion[k].count;
    uint64_t start = matcher_stream_position(m, begin), end = start + so_far + ahead;
    if (so_far + ahead > m->n || m->promise_count == MATCHER_EARLY_MAX || !early_allowed(m, i, k))
        return;
    for (uint32_t p = 0; p < m->promise_count; p++)
        if (m->promise[p].start == start && m->promise[p].end == end)
            return;
    m->promise[m->promise_count++] = (struct matcher_promise){.start = start, .end = end};
    memcpy(m->early_text, m->text + begin, so_far);
    struct matcher_big rest = m->completion[k].value;
    for (uint32_t at = so_far + ahead; at-- > so_far;)
        m->early_text[at] = (uint8_t)('0' + matcher_big_div(&rest, 10));
    m->early_constant = i;
    m->early_count = so_far + ahead;
    m->early_ahead = ahead;
    m->early_ready = true;
    m->stats.early_answers++;
}

/* Goes through the hot starts, constant after constant: first the exact value of each modulo M, in slices, and its
 * completion; then, when all are known, what may be offered. */
bool matcher_early_step(struct matcher *m)
{
    if (m->early_ready)
        return true;        /* nobody has taken it yet */
    uint32_t i = m->idle_constant;
    if (m->idle_hot == m->hot[i].count || m->hot[i].count > MATCHER_HOT_MAX || m->early_digits[i] == 0) {
        bool offer = !m->early_complete && m->idle_hot > 0;
        m->idle_hot = 0;
        m->early_complete = offer;
        if (!offer)
            m->idle_constant++;
        return m->idle_constant < m->constant_count;
    }
    if (m->early_complete) {
        early_offer(m, i, m->idle_hot++);
        return true;
    }
    uint32_t begin = matcher_text_index(m, m->hot[i].start[m->idle_hot]), so_far = MATCHER_HISTORY - begin;
    if (m->early_done == 0)
        m->exact = (struct matcher_big){{0}};
    if (m->early_done < so_far) {
        uint32_t count = (uint32_t)min_size(so_far - m->early_done, DIGITS_A_SLICE);
        matcher_big_append_mod(&m->exact, m->text + begin + m->early_done, count, &m->constants[i].value);
        m->early_done += count;
        return true;
    }
    m->completion[m->idle_hot++] = early_find(&m->constants[i], &m->exact);
    m->early_done = 0;
    return true;
}

bool matcher_next_early(struct matcher *m, struct matcher_answer *answer)
{
    if (!m->early_ready)
        return false;
    *answer = (struct matcher_answer){
        .digits = m->early_text, .count = m->early_count, .constant = m->early_constant, .ahead = m->early_ahead,
        .end = m->promise[m->promise_count - 1].end,
    };
    m->early_ready = false;
    return true;
}
