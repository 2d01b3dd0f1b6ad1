/* Between bursts: everything the next one needs, so that its path only adds and compares. */
#include "app/matcher_state.h"
#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"
#include "kernel/base/hot.h"

void matcher_idle_begin(struct matcher *m)
{
    m->idle_step = MATCHER_IDLE_CONFIRM;
    m->idle_constant = m->idle_slot = 0;
    m->idle_hot = 0;
    m->sweep[0].cells_filled = 0;
    m->first_hot = m->first_hot_by_zeros = false;
    m->early_done = m->confirm_done = 0;
    m->early_complete = false;
}

/* What was the end of the burst becomes the window. In the middle of a burst its text stays where it is. */
static void idle_shift(struct matcher *m)
{
    if (m->burst_left == 0) {
        memmove(m->text, m->text + m->burst_count, MATCHER_HISTORY);
        m->burst_at += m->burst_count;
        m->segment_text = MATCHER_HISTORY;
        m->burst_count = m->segment_count = m->stretch_to = 0;
        matcher_early_settle(m);
    }
    const uint32_t window = matcher_window(m->n), begin = MATCHER_SEGMENT_AT - window;
    const uint8_t *text = m->text + m->segment_text - window;
    m->kernel->write(&m->digits, begin, text, window, m->hashes);
    if (m->kernel->write_planes != NULL)
        m->kernel->write_planes(&m->digits.planes, begin, text, window);
}

static void idle_look(struct matcher *m, uint32_t i)
{
    const struct matcher_constant *c = &m->constants[i];
    m->hot[i].count = 0;
    uint64_t starts[MATCHER_POSITIONS / 64] = {0};
    if (!m->kernel->look(&m->digits.planes, &c->look, starts))
        return;
    for (uint32_t w = 0; w <= MATCHER_SEGMENT_AT / 64; w++)
        for (uint64_t left = starts[w]; left != 0; left &= left - 1) {
            uint32_t start = 64 * w + (uint32_t)__builtin_ctzll(left);
            if (start + m->n <= MATCHER_SEGMENT_AT || start + c->look.young_digits >= MATCHER_SEGMENT_AT ||
                !matcher_may_begin(m, matcher_text_index(m, start)))
                continue;       /* too old, too young, or no start */
            if (m->hot[i].count == MATCHER_HOT_MAX) {
                m->hot[i].count++;
                return;         /* more than can be followed */
            }
            uint32_t k = m->hot[i].count++;
            m->hot[i].start[k] = start;
            m->hot[i].fraction[k] = m->kernel->fraction(m->text + matcher_text_index(m, start), c->follow_weights,
                                                        MATCHER_SEGMENT_AT - start);
            bool by_zeros = matcher_is_zero(c, m->hot[i].fraction[k]) && matcher_last_digit_tells(c);
            *(by_zeros ? &m->first_hot_by_zeros : &m->first_hot) = true;
        }
}

enum { LOOKS_A_SLICE = 16 };     /* 0.3 us at N = 256 */

/* Fills some slots; true while there are more. */
static bool idle_slots(struct matcher *m, uint32_t i)
{
    const struct matcher_constant *c = &m->constants[i];
    struct matcher_sweep *sweep = &m->sweep[0];
    if (m->kernel->remember_vector != NULL)
        return i == m->constant_count - 1 && matcher_sweep_remember(m);     /* for all constants at once */
    for (uint32_t left = LOOKS_A_SLICE; m->idle_slot < sweep->look_count; m->idle_slot++) {
        uint32_t k = m->idle_slot;
        if (sweep->look[k].constant != i)
            continue;
        if (left-- == 0)
            return true;
        m->kernel->remember(&m->digits.planes, &c->look, sweep->look[k].end, sweep->old_blocks[k],
                            sweep->slots + k * sweep->slot_words);
    }
    m->idle_slot = 0;
    return false;
}

/* One slice; true while there is more. */
static bool idle_constant(struct matcher *m, uint32_t i)
{
    struct matcher_constant *c = &m->constants[i];
    if (idle_slots(m, i))
        return true;
    if (c->method == MATCHER_HASH || c->hash_long)
        m->kernel->insert(&m->digits, &c->hash, matcher_window(m->n));
    c->hit_before |= c->hash_long;      /* the last burst may not have asked */
    if (c->method == MATCHER_LOOK || (m->early && m->early_digits[i] > 0))
        idle_look(m, i);
    return false;
}

/* One slice; true while the path needs more, or early answers may still be found. */
bool matcher_prepare(struct matcher *m)
{
    if (m->open)
        return false;       /* answers of the burst are still to be taken */
    switch (m->idle_step) {
    case MATCHER_IDLE_CONFIRM:
        if (m->confirm_count > 0 && matcher_confirm_step(m))
            return true;
        m->idle_step = MATCHER_IDLE_SHIFT;
        return true;
    case MATCHER_IDLE_SHIFT:
        idle_shift(m);
        m->idle_step = MATCHER_IDLE_CONSTANT;
        return true;
    case MATCHER_IDLE_CONSTANT:
        if (idle_constant(m, m->idle_constant))
            return true;
        if (++m->idle_constant == m->constant_count) {
            m->idle_constant = 0;
            m->idle_step = m->early ? MATCHER_IDLE_EARLY : MATCHER_IDLE_CELLS;
        }
        return true;
    case MATCHER_IDLE_EARLY:
        if (!matcher_early_step(m))
            m->idle_step = MATCHER_IDLE_CELLS;
        return true;
    case MATCHER_IDLE_CELLS:
        if (!matcher_sweep_remember_cells(m))
            m->idle_step = MATCHER_IDLE_WARM;
        return true;
    case MATCHER_IDLE_WARM:
        matcher_sweep_warm(m);      /* what else is cold by then is matcher_warm's business */
        m->idle_step = MATCHER_IDLE_DONE;
        return false;
    case MATCHER_IDLE_DONE:
        break;
    }
    return false;
}

void matcher_warm(struct matcher *m)
{
    enum { BURST = 128 };
    if (m->idle_step != MATCHER_IDLE_DONE || m->burst_count > 0)
        return;
    hot_fetch(m, offsetof(struct matcher, hit_constant));
    hot_fetch(m->text + MATCHER_HISTORY, BURST + MATCHER_WRITE_DIGITS);
    for (uint32_t i = 0; i < m->constant_count; i++) {
        hot_fetch(&m->hot[i], sizeof m->hot[i]);
        hot_fetch(m->constants[i].follow_weights, m->n * sizeof m->constants[i].follow_weights[0]);
    }
    matcher_sweep_warm(m);
}

void matcher_idle_finish(struct matcher *m)
{
    if (m->idle_step == MATCHER_IDLE_CONFIRM)
        m->idle_step = MATCHER_IDLE_SHIFT;      /* what waits for confirmation goes on waiting */
    if (m->idle_step == MATCHER_IDLE_SHIFT) {
        idle_shift(m);
        m->idle_step = MATCHER_IDLE_CONSTANT;
    }
    if (m->idle_step == MATCHER_IDLE_CONSTANT)
        for (; m->idle_constant < m->constant_count; m->idle_constant++)
            while (idle_constant(m, m->idle_constant))
                continue;
    m->idle_step = MATCHER_IDLE_DONE;
}
