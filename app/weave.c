#include "app/weave.h"

#include <string.h>

#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"
#include "kernel/base/hot.h"

struct feed_place {
    bool placed;
    uint64_t position;                  /* placed: of its next digit in the stream */
    uint32_t kept;                      /* not placed: digits in `digits` */
    uint8_t digits[WEAVE_JOIN_DIGITS];
};

static struct {
    _Alignas(64) uint32_t feed_count;
    uint32_t placed_count;
    uint64_t head;                      /* position just past the stream's newest digit; all digits so far */
    uint64_t base;                      /* position of history[0] */
    uint32_t kept;                      /* digits in history: head - base */
    uint8_t history[2 * WEAVE_HISTORY_DIGITS];      /* linear; moved down when full */
    struct feed_place feeds[WEAVE_FEED_COUNT_MAX];
} weave;

struct weave_counters weave_counters;
static const struct counter weave_counter_table[] = {
    { "weave.digits", &weave.head },
    COUNTER("weave.", weave_counters, repeated),
    COUNTER("weave.", weave_counters, unplaced),
    COUNTER("weave.", weave_counters, placed),
    COUNTER("weave.", weave_counters, ambiguous),
    COUNTER("weave.", weave_counters, disagreed),
    COUNTER("weave.", weave_counters, gaps),
};
const struct counter_group weave_counter_group = { weave_counter_table, ARRAY_COUNT(weave_counter_table) };

void weave_init(uint32_t feed_count)
{
    ASSERT(feed_count >= 1 && feed_count <= WEAVE_FEED_COUNT_MAX);
    memset(&weave, 0, sizeof weave);
    memset(&weave_counters, 0, sizeof weave_counters);
    weave.feed_count = feed_count;
}

static struct weave_news news_of(const uint8_t *digits, size_t count)
{
    weave.head += count;
    return (struct weave_news){ digits, count, false };
}

/* Appends news to the history, forgetting the oldest. */
static void remember(const uint8_t *digits, size_t count)
{
    if (count > WEAVE_HISTORY_DIGITS) {
        weave.base = weave.head - WEAVE_HISTORY_DIGITS;
        weave.kept = WEAVE_HISTORY_DIGITS;
        memcpy(weave.history, digits + count - WEAVE_HISTORY_DIGITS, WEAVE_HISTORY_DIGITS);
        return;
    }
    if (weave.kept + count > sizeof weave.history) {
        uint32_t surplus = weave.kept - (WEAVE_HISTORY_DIGITS - (uint32_t)count);
        memmove(weave.history, weave.history + surplus, weave.kept - surplus);
        weave.kept -= surplus;
        weave.base += surplus;
    }
    memcpy(weave.history + weave.kept, digits, count);
    weave.kept += (uint32_t)count;
}

/* True if the digits from a position on agree with what the stream has, as far as both are there. */
static bool agrees(uint64_t position, const uint8_t *digits, size_t count)
{
    if (position < weave.base) {
        uint64_t too_old = weave.base - position;
        if (too_old >= count)
            return true;
        digits += too_old;
        count -= too_old;
        position = weave.base;
    }
    if (position >= weave.head)
        return true;
    size_t both = min_size(count, (size_t)(weave.head - position));
    return !memcmp(weave.history + (position - weave.base), digits, both);
}

static struct weave_news push_placed(struct feed_place *feed, const uint8_t *digits, size_t count)
{
    size_t old = feed->position < weave.head ? (size_t)(weave.head - feed->position) : 0;
    old = min_size(old, count);
    feed->position += count;
    weave_counters.repeated += old;
    if (old == count)
        return (struct weave_news){ digits, 0, false };
    struct weave_news news = news_of(digits + old, count - old);
    remember(news.digits, news.count);
    return news;
}

static void keep(struct feed_place *feed, const uint8_t *digits, size_t count)
{
    weave_counters.unplaced += count;
    if (count > WEAVE_JOIN_DIGITS) {
        digits += count - WEAVE_JOIN_DIGITS;
        count = WEAVE_JOIN_DIGITS;
    }
    if (feed->kept + count > WEAVE_JOIN_DIGITS) {
        size_t surplus = feed->kept + count - WEAVE_JOIN_DIGITS;
        memmove(feed->digits, feed->digits + surplus, feed->kept - surplus);
        feed->kept -= (uint32_t)surplus;
    }
    memcpy(feed->digits + feed->kept, digits, count);
    feed->kept += (uint32_t)count;
}

/* The one place where the kept digits fit; false if there is none or more than one. Some 10 us, when a feed joins. */
static bool find_place(const struct feed_place *feed, uint64_t *position)
{
    if (feed->kept < WEAVE_NEEDLE_DIGITS || weave.kept < WEAVE_NEEDLE_DIGITS)
        return false;
    const uint8_t *last = weave.history + weave.kept - WEAVE_NEEDLE_DIGITS;
    size_t found = 0;
    for (const uint8_t *at = weave.history; at <= last; at++) {
        at = memchr(at, feed->digits[0], (size_t)(last - at) + 1);
        if (!at)
            break;
        uint64_t here = weave.base + (uint64_t)(at - weave.history);
        if (memcmp(at, feed->digits, WEAVE_NEEDLE_DIGITS) || !agrees(here, feed->digits, feed->kept))
            continue;
        *position = here;
        found++;
    }
    weave_counters.ambiguous += found > 1;
    return found == 1;
}

/* The feed without a place supplies the stream from here on: nobody else does. */
static struct weave_news begin_stream(struct feed_place *feed, const uint8_t *digits, size_t count)
{
    struct weave_news news = news_of(digits, count);
    news.gap = weave.head > news.count;
    weave_counters.gaps += news.gap;
    weave.base = weave.head - news.count;
    weave.kept = 0;
    remember(news.digits, news.count);
    feed->placed = true;
    feed->position = weave.head;
    feed->kept = 0;
    weave.placed_count = 1;
    return news;
}

/* One of several feeds. */
NOT_HOT static struct weave_news push_beside_others(uint32_t index, const uint8_t *digits, size_t count)
{
    struct feed_place *feed = &weave.feeds[index];
    if (feed->placed) {
        if (agrees(feed->position, digits, count))
            return push_placed(feed, digits, count);
        weave_counters.disagreed++;
        weave_lost(index);
    }
    if (weave.placed_count == 0 && feed->kept == 0)
        return begin_stream(feed, digits, count);
    keep(feed, digits, count);
    if (weave.placed_count == 0) {
        weave_counters.unplaced -= feed->kept;
        return begin_stream(feed, feed->digits, feed->kept);
    }
    uint64_t position;
    if (!find_place(feed, &position))
        return (struct weave_news){ digits, 0, false };
    feed->placed = true;
    feed->position = position;
    weave.placed_count++;
    weave_counters.placed++;
    weave_counters.unplaced -= feed->kept;
    uint32_t kept = feed->kept;
    feed->kept = 0;
    return push_placed(feed, feed->digits, kept);
}

HOT struct weave_news weave_push(uint32_t index, const uint8_t *digits, size_t count)
{
    ASSERT(index < weave.feed_count);
    if (count == 0)
        return (struct weave_news){ digits, 0, false };
    if (weave.feed_count > 1)
        return push_beside_others(index, digits, count);

    struct weave_news news = news_of(digits, count);
    if (__builtin_expect(weave.placed_count == 0, 0)) {
        weave.placed_count = 1;
        news.gap = weave.head > count;
        weave_counters.gaps += news.gap;
    }
    return news;
}

void weave_lost(uint32_t index)
{
    ASSERT(index < weave.feed_count);
    struct feed_place *feed = &weave.feeds[index];
    if (weave.feed_count == 1)
        weave.placed_count = 0;
    else if (feed->placed)
        weave.placed_count--;
    feed->placed = false;
    feed->kept = 0;
}
