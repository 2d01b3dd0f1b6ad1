/* Exact arithmetic, in idle time: answers confirmed, and early answers found. */
#include "app/matcher_state.h"
#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"

enum { DIGITS_A_SLICE = 256 };      /* about 2 us of exact arithmetic on 512-bit constants */

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
        while (m->early_digits[i] + 1 < m->constants[i].look_digits && matcher_big_compare(&next, &allowed) <= 0) {
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

/* The completion of what begins at text[begin], as text; its length, 0 if there is none that the risk allows. */
static uint32_t early_complete(struct matcher *m, uint32_t i, struct matcher_big *residue, uint8_t *digits)
{
    const struct matcher_constant *c = &m->constants[i];
    if (matcher_big_is_zero(residue))
        return 0;       /* it is a multiple already */
    struct matcher_big completion = c->value;
    matcher_big_sub(&completion, residue);
    uint32_t count = c->look_digits;
    for (; count > 0; count--) {        /* zeros at its end are further answers: they are found when they come */
        struct matcher_big shorter = completion;
        if (matcher_big_div(&shorter, 10) != 0)
            break;
        completion = shorter;
    }
    if (count > m->early_digits[i] + 1 ||
        (count == m->early_digits[i] + 1 && matcher_big_compare(&completion, &m->early_bound[i]) >= 0))
        return 0;
    for (uint32_t k = count; k-- > 0;)
        digits[k] = (uint8_t)('0' + matcher_big_div(&completion, 10));
    return matcher_big_is_zero(&completion) ? count : 0;    /* else more than look_digits digits */
}

static void early_offer(struct matcher *m, uint32_t i, uint32_t begin)
{
    uint8_t digits[MATCHER_CONSTANT_DIGITS_MAX];
    uint32_t so_far = MATCHER_HISTORY - begin, ahead = early_complete(m, i, &m->exact, digits);
    uint64_t start = matcher_stream_position(m, begin), end = start + so_far + ahead;
    if (ahead == 0 || so_far + ahead > m->n || m->promise_count == MATCHER_EARLY_MAX)
        return;
    for (uint32_t k = 0; k < m->promise_count; k++)
        if (m->promise[k].start == start && m->promise[k].end == end)
            return;
    m->promise[m->promise_count++] = (struct matcher_promise){.start = start, .end = end};
    memcpy(m->early_text, m->text + begin, so_far);
    memcpy(m->early_text + so_far, digits, ahead);
    m->early_constant = i;
    m->early_count = so_far + ahead;
    m->early_ahead = ahead;
    m->early_ready = true;
    m->stats.early_answers++;
}

/* Works off the hot starts, constant after constant: the residue of start's digits * 10^look_digits, exactly. */
bool matcher_early_step(struct matcher *m)
{
    if (m->early_ready)
        return true;        /* nobody has taken it yet */
    while (m->idle_hot == m->hot[m->idle_constant].count || m->idle_hot == MATCHER_HOT_MAX ||
           m->early_digits[m->idle_constant] == 0) {
        m->idle_hot = 0;
        if (++m->idle_constant == m->constant_count)
            return false;
    }
    uint32_t i = m->idle_constant, begin = matcher_text_index(m, m->hot[i].start[m->idle_hot]);
    uint32_t so_far = MATCHER_HISTORY - begin;
    if (m->early_done == 0)
        m->exact = (struct matcher_big){{0}};
    if (m->early_done < so_far) {
        uint32_t count = (uint32_t)min_size(so_far - m->early_done, DIGITS_A_SLICE);
        matcher_big_append_mod(&m->exact, m->text + begin + m->early_done, count, &m->constants[i].value);
        m->early_done += count;
        return true;
    }
    static const uint8_t zeros[MATCHER_CONSTANT_DIGITS_MAX] = {[0 ... MATCHER_CONSTANT_DIGITS_MAX - 1] = '0'};
    matcher_big_append_mod(&m->exact, zeros, m->constants[i].look_digits, &m->constants[i].value);
    early_offer(m, i, begin);
    m->early_done = 0;
    m->idle_hot++;
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
