#include "app/player/stream_merger.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/hot_section.h"

/* Places of the history that a search compares. Among random digits a search compares one. */
enum { COMPARED_MAX = 64 };
static_assert((int)STREAM_MERGER_ANCHOR_DIGITS >= (int)sizeof(uint64_t), "find_place compares 8 digits first");

/* An input's place in the stream, or the digits by which it is searched for. */
struct stream_place {
    bool placed;
    uint64_t position; /* placed: that of the input's next digit */
    uint32_t kept;     /* while not placed: the number of `digits` */
    uint8_t digits[STREAM_MERGER_JOIN_DIGITS];
};

static struct {
    _Alignas(64) uint32_t input_count;
    uint32_t placed_count;
    uint64_t head; /* position after the stream's newest digit: the number of all digits */
    uint64_t base; /* position of history[0] */
    uint32_t kept; /* digits in history: head - base */
    uint8_t history[2 * STREAM_MERGER_HISTORY_DIGITS]; /* linear; moved down when full */
    struct stream_place inputs[STREAM_MERGER_INPUT_COUNT_MAX];
} merger;

struct stream_merger_counters stream_merger_counters;
const struct counter_group stream_merger_counter_group = COUNTER_GROUP(
    "stream_merger.", "Input streams merged into one", STREAM_MERGER_COUNTERS, stream_merger_counters);
#define DIGITS(X) X(COUNT, digits)
const struct counter_group stream_merger_digits_group = COUNTER_GROUP("stream_merger.", "Input streams merged into one",
                                                                      DIGITS, merger.head);

void stream_merger_init(uint32_t input_count)
{
    ASSERT(input_count >= 1 && input_count <= STREAM_MERGER_INPUT_COUNT_MAX);
    memset(&merger, 0, sizeof merger);
    memset(&stream_merger_counters, 0, sizeof stream_merger_counters);
    merger.input_count = input_count;
}

void stream_merger_check(void)
{
    uint32_t placed = 0;
    ASSERT(merger.input_count >= 1 && merger.input_count <= STREAM_MERGER_INPUT_COUNT_MAX);
    ASSERT(merger.kept <= sizeof merger.history);
    if (merger.input_count == 1)
        return;
    ASSERT(merger.base + merger.kept == merger.head);
    for (uint32_t i = 0; i < merger.input_count; i++) {
        const struct stream_place *place = &merger.inputs[i];
        ASSERT(place->kept <= STREAM_MERGER_JOIN_DIGITS);
        ASSERT(!place->placed || (place->position <= merger.head && place->kept == 0));
        placed += place->placed;
    }
    ASSERT(placed == merger.placed_count);
}

static struct stream_news no_news(const uint8_t *digits) { return (struct stream_news){ { digits, 0 }, false }; }

/* Moves the stream's end past these digits, which are new. */
static struct stream_news news_of(const uint8_t *digits, size_t count)
{
    merger.head += count;
    return (struct stream_news){ { digits, count }, false };
}

/* Appends new digits to the history, forgetting the oldest. */
static void remember(const uint8_t *digits, size_t count)
{
    ASSERT(merger.kept <= sizeof merger.history);
    if (count > STREAM_MERGER_HISTORY_DIGITS) {
        merger.base = merger.head - STREAM_MERGER_HISTORY_DIGITS;
        merger.kept = STREAM_MERGER_HISTORY_DIGITS;
        memcpy(merger.history, digits + count - STREAM_MERGER_HISTORY_DIGITS, STREAM_MERGER_HISTORY_DIGITS);
        return;
    }
    if (merger.kept + count > sizeof merger.history) {
        uint32_t surplus = merger.kept - (STREAM_MERGER_HISTORY_DIGITS - (uint32_t)count);
        memmove(merger.history, merger.history + surplus, merger.kept - surplus);
        merger.kept -= surplus;
        merger.base += surplus;
    }
    memcpy(merger.history + merger.kept, digits, count);
    merger.kept += (uint32_t)count;
}

/* Returns true if the digits from a position on agree with the stream, as far as both are there. */
static bool agrees(uint64_t position, const uint8_t *digits, size_t count)
{
    if (position < merger.base) {
        uint64_t too_old = merger.base - position;
        if (too_old >= count)
            return true;
        digits += too_old;
        count -= too_old;
        position = merger.base;
    }
    if (position >= merger.head)
        return true;
    size_t both = min_size(count, (size_t)(merger.head - position));
    return !memcmp(merger.history + (position - merger.base), digits, both);
}

/* Takes the digits of an input that has a place, and agrees with the stream. */
static struct stream_news push_placed(struct stream_place *input, const uint8_t *digits, size_t count)
{
    size_t old = input->position < merger.head ? (size_t)(merger.head - input->position) : 0;
    old = min_size(old, count);
    input->position += count;
    stream_merger_counters.repeated += old;
    if (old == count)
        return no_news(digits);
    struct stream_news news = news_of(digits + old, count - old);
    remember(news.digits.data, news.digits.count);
    return news;
}

/* Keeps the newest digits of an input without a place, and gives the others up. */
static void keep(struct stream_place *input, const uint8_t *digits, size_t count)
{
    ASSERT(input->kept <= STREAM_MERGER_JOIN_DIGITS && !input->placed);
    if (count > STREAM_MERGER_JOIN_DIGITS) {
        stream_merger_counters.unplaced += count - STREAM_MERGER_JOIN_DIGITS;
        digits += count - STREAM_MERGER_JOIN_DIGITS;
        count = STREAM_MERGER_JOIN_DIGITS;
    }
    if (input->kept + count > STREAM_MERGER_JOIN_DIGITS) {
        size_t surplus = input->kept + count - STREAM_MERGER_JOIN_DIGITS;
        stream_merger_counters.unplaced += surplus;
        memmove(input->digits, input->digits + surplus, input->kept - surplus);
        input->kept -= (uint32_t)surplus;
    }
    memcpy(input->digits + input->kept, digits, count);
    input->kept += (uint32_t)count;
}

/* Returns the position of a digit of the history. */
static uint64_t position_of(const uint8_t *at)
{
    ASSERT(at >= merger.history && at < merger.history + merger.kept);
    return merger.base + (uint64_t)(at - merger.history);
}

/* Finds the one place where the kept digits fit; false if there is none, or more than one, or if too many look like it.
 * Takes some 10 us with each push of an input without a place, whatever the digits. */
static bool find_place(const struct stream_place *input, uint64_t *position)
{
    if (input->kept < STREAM_MERGER_ANCHOR_DIGITS || merger.kept < STREAM_MERGER_ANCHOR_DIGITS)
        return false;
    const uint8_t *last = merger.history + merger.kept - STREAM_MERGER_ANCHOR_DIGITS;
    const uint8_t *place = NULL;
    const uint64_t first_digits = load_le64(input->digits);
    uint32_t found = 0, compared = 0;
    for (const uint8_t *at = merger.history; at <= last && found < 2 && compared < COMPARED_MAX; at++) {
        if (load_le64(at) != first_digits)
            continue;
        compared++;
        if (memcmp(at, input->digits, STREAM_MERGER_ANCHOR_DIGITS)
            || !agrees(position_of(at), input->digits, input->kept))
            continue;
        place = at;
        found++;
    }
    if (found > 1 || compared == COMPARED_MAX) {
        stream_merger_counters.ambiguous++;
        return false;
    }
    if (!place)
        return false;
    *position = position_of(place);
    return true;
}

/* Lets the input without a place supply the stream from here on: nobody else does. */
static struct stream_news begin_stream(struct stream_place *input, const uint8_t *digits, size_t count)
{
    ASSERT(merger.placed_count == 0);
    struct stream_news news = news_of(digits, count);
    news.gap = merger.head > news.digits.count;
    stream_merger_counters.gaps += news.gap;
    merger.base = merger.head - news.digits.count;
    merger.kept = 0;
    remember(news.digits.data, news.digits.count);
    input->placed = true;
    input->position = merger.head;
    input->kept = 0;
    merger.placed_count = 1;
    return news;
}

/* Gives an input its place, and takes the digits that were kept until now. */
static struct stream_news join(struct stream_place *input, uint64_t position)
{
    ASSERT(!input->placed && position <= merger.head);
    uint32_t kept = input->kept;
    input->placed = true;
    input->position = position;
    input->kept = 0;
    merger.placed_count++;
    stream_merger_counters.placed++;
    return push_placed(input, input->digits, kept);
}

/* Takes the digits of one of several inputs. */
NOT_HOT static struct stream_news push_beside_others(uint32_t index, const uint8_t *digits, size_t count)
{
    struct stream_place *input = &merger.inputs[index];
    if (input->placed) {
        if (agrees(input->position, digits, count))
            return push_placed(input, digits, count);
        stream_merger_counters.disagreed++;
        stream_merger_disconnect(index);
    }
    if (merger.placed_count == 0 && input->kept == 0)
        return begin_stream(input, digits, count);
    keep(input, digits, count);
    if (merger.placed_count == 0)
        return begin_stream(input, input->digits, input->kept);
    uint64_t position;
    return find_place(input, &position) ? join(input, position) : no_news(digits);
}

HOT struct stream_news stream_merger_push(uint32_t index, const uint8_t *digits, size_t count)
{
    ASSERT(index < merger.input_count);
    if (count == 0)
        return no_news(digits);
    if (merger.input_count > 1)
        return push_beside_others(index, digits, count);

    struct stream_news news = news_of(digits, count);
    if (__builtin_expect(merger.placed_count == 0, 0)) {
        merger.placed_count = 1;
        news.gap = merger.head > count;
        stream_merger_counters.gaps += news.gap;
    }
    return news;
}

void stream_merger_disconnect(uint32_t index)
{
    ASSERT(index < merger.input_count);
    struct stream_place *input = &merger.inputs[index];
    if (merger.input_count == 1)
        merger.placed_count = 0;
    else if (input->placed)
        merger.placed_count--;
    stream_merger_counters.unplaced += input->kept;
    input->placed = false;
    input->kept = 0;
    stream_merger_check();
}
