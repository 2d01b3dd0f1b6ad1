#include "app/copilot.h"

#include <string.h>

#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"
#include "kernel/base/seqlock.h"
#include "kernel/base/spsc.h"

enum {
    DIGITS_RING_BYTES = 256 * 1024,     /* some 1000 bursts */
    ANSWERS_RING_BYTES = 64 * 1024,     /* 60 of the longest */
};

struct digits_header {
    uint32_t count;
    bool gap;
};

struct answer_header {
    uint32_t count, constant, ahead;
    uint64_t end;
};

/* Counted by the second CPU, read by the first. */
struct copilot_work {
    uint64_t digits, bursts, answers_lost, early_right, early_wrong;
};
enum { WORK_WORDS = sizeof(struct copilot_work) / sizeof(uint64_t) };

/* Written by the first CPU. */
static struct {
    bool gap;                           /* digits were lost: the next ones do not continue what was sent */
    uint8_t answer[MATCHER_N_DIGITS_MAX];
} first;

/* Written by the second CPU. */
static struct {
    struct matcher *matcher;
    bool busy;                          /* the matcher has more to prepare */
    struct copilot_work work;
    uint8_t digits[MATCHER_BURST_DIGITS_MAX];
} second;

/* Between them. */
static struct spsc digits_ring, answers_ring;
static uint8_t digits_bytes[DIGITS_RING_BYTES], answers_bytes[ANSWERS_RING_BYTES];
static struct seqlock work_lock;
static uint64_t work_shared[WORK_WORDS];

static struct {
    uint64_t digits, digits_lost, bursts, answers, answers_lost, early_right, early_wrong;
} counters;
static const struct counter counter_table[] = {
    COUNTER("copilot.", counters, digits),
    COUNTER("copilot.", counters, digits_lost),
    COUNTER("copilot.", counters, bursts),
    COUNTER("copilot.", counters, answers),
    COUNTER("copilot.", counters, answers_lost),
    COUNTER("copilot.", counters, early_right),
    COUNTER("copilot.", counters, early_wrong),
};
const struct counter_group copilot_counter_group = { counter_table, ARRAY_COUNT(counter_table) };

const char *copilot_init(struct matcher_config *path)
{
    struct matcher_config config = *path;
    config.seat = 1;
    path->early = false;
    memset(&first, 0, sizeof first);
    memset(&second, 0, sizeof second);
    memset(&digits_ring, 0, sizeof digits_ring);
    memset(&answers_ring, 0, sizeof answers_ring);
    memset(&work_lock, 0, sizeof work_lock);
    memset(work_shared, 0, sizeof work_shared);
    memset(&counters, 0, sizeof counters);
    return matcher_init(&second.matcher, &config);
}

/* The first CPU. */

void copilot_digits(const uint8_t *digits, size_t count, bool gap)
{
    ASSERT(count <= MATCHER_BURST_DIGITS_MAX);
    struct digits_header header = { (uint32_t)count, gap || first.gap };
    first.gap = !spsc_put(&digits_ring, digits_bytes, sizeof digits_bytes, &header, sizeof header, digits, count);
    if (first.gap)
        counters.digits_lost += count;
}

bool copilot_answer(struct matcher_answer *answer)
{
    struct answer_header header;
    if (!spsc_peek(&answers_ring, answers_bytes, sizeof answers_bytes, &header, sizeof header))
        return false;
    spsc_take(&answers_ring, answers_bytes, sizeof answers_bytes, sizeof header, first.answer, header.count);
    *answer = (struct matcher_answer){ first.answer, header.count, header.constant, header.ahead, header.end };
    counters.answers++;
    return true;
}

void copilot_counters_refresh(void)
{
    struct copilot_work work;
    if (!seqlock_read(&work_lock, work_shared, (uint64_t *)&work, WORK_WORDS))
        return;                         /* the next time, then */
    counters.digits = work.digits;
    counters.bursts = work.bursts;
    counters.answers_lost = work.answers_lost;
    counters.early_right = work.early_right;
    counters.early_wrong = work.early_wrong;
}

/* The second CPU. */

static bool take_digits(void)
{
    struct digits_header header;
    if (!spsc_peek(&digits_ring, digits_bytes, sizeof digits_bytes, &header, sizeof header))
        return false;
    spsc_take(&digits_ring, digits_bytes, sizeof digits_bytes, sizeof header, second.digits, header.count);
    if (header.gap)
        matcher_restart(second.matcher);
    struct matcher_answer known;
    matcher_begin(second.matcher, second.digits, header.count);
    while (matcher_next(second.matcher, &known)) {
    }
    second.busy = true;
    second.work.digits += header.count;
    second.work.bursts++;
    return true;
}

static void give_answers(void)
{
    struct matcher_answer answer;
    while (matcher_next_early(second.matcher, &answer)) {
        struct answer_header header = { answer.count, answer.constant, answer.ahead, answer.end };
        if (!spsc_put(&answers_ring, answers_bytes, sizeof answers_bytes, &header, sizeof header, answer.digits, answer.count))
            second.work.answers_lost++;
    }
}

static void tell_work(void)
{
    const struct matcher_stats *stats = matcher_stats(second.matcher);
    second.work.early_right = stats->early_right;
    second.work.early_wrong = stats->early_wrong;
    seqlock_write(&work_lock, work_shared, (const uint64_t *)&second.work, WORK_WORDS);
}

bool copilot_turn(void)
{
    if (take_digits())
        return true;
    if (!second.busy)
        return false;
    second.busy = matcher_prepare(second.matcher);
    give_answers();
    if (!second.busy)
        tell_work();
    return true;
}
