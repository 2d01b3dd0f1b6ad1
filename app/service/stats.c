#include "app/service/stats.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/format.h"
#include "base/log.h"
#include "base/seqlock.h"
#include "base/time.h"
#include "base/trace.h"
#include "net/transport_path.h"

enum { HISTOGRAM_WORDS = sizeof(struct histogram) / sizeof(uint64_t) };
static_assert(HISTOGRAM_WORDS * sizeof(uint64_t) == sizeof(struct histogram), "whole words");

static struct {
    struct counter_group groups[STATS_GROUP_COUNT_MAX];
    size_t group_count, counter_count;
    struct {
        const char *name;
        const struct histogram *histogram;
    } histograms[STATS_HISTOGRAM_COUNT_MAX];
    size_t histogram_count;
    struct {
        const char *name, *text;
    } facts[STATS_FACT_COUNT_MAX];
    size_t fact_count;
    stats_metrics_writer *metrics;
    const char *stages;                  /* the slowest ways' columns; NULL: none are shown */
    struct slow_way ways[SLOWEST_COUNT]; /* as they stood when their first line was written */
    size_t way_count;
} stats;

/* Between two CPUs: the counters in order, then the histograms. */
static struct seqlock published_lock;
static uint64_t published[ARRAY_COUNT(((struct stats_copy *)0)->words)];
enum { WAYS_WORDS = sizeof stats.ways / (sizeof(uint64_t)) };
static uint64_t published_ways[1 + WAYS_WORDS]; /* their count, then they */

void stats_clear(void) { memset(&stats, 0, sizeof stats); }

void stats_add_counters(const struct counter_group *group)
{
    ASSERT(group->prefix && group->help && group->counters && group->values);
    ASSERT(stats.group_count < STATS_GROUP_COUNT_MAX);
    ASSERT(stats.counter_count + group->count <= STATS_COUNTER_COUNT_MAX);
    stats.counter_count += group->count;
    stats.groups[stats.group_count++] = *group;
}

void stats_add_histogram(const char *name, const struct histogram *histogram)
{
    ASSERT(name && histogram);
    ASSERT(stats.histogram_count < STATS_HISTOGRAM_COUNT_MAX);
    stats.histograms[stats.histogram_count].name = name;
    stats.histograms[stats.histogram_count++].histogram = histogram;
}

void stats_add_fact(const char *name, const char *text)
{
    ASSERT(name && text);
    ASSERT(stats.fact_count < STATS_FACT_COUNT_MAX);
    stats.facts[stats.fact_count].name = name;
    stats.facts[stats.fact_count++].text = text;
}

void stats_set_ways(const char *stages)
{
    ASSERT(stages);
    stats.stages = stages;
}

void stats_set_metrics(stats_metrics_writer *write)
{
    ASSERT(write);
    stats.metrics = write;
}

stats_metrics_writer *stats_metrics(void) { return stats.metrics; }

void stats_add_transport(void)
{
    struct counter_group group;
    for (size_t i = 0; transport_counter_group(i, &group); i++)
        stats_add_counters(&group);
}

/* ---- what was registered ---- */

void stats_publish(void)
{
    uint64_t *at = published;
    seqlock_write_begin(&published_lock);
    for (size_t g = 0; g < stats.group_count; g++)
        for (size_t i = 0; i < stats.groups[g].count; i++)
            seqlock_write_word(at++, stats.groups[g].values[i]);
    for (size_t h = 0; h < stats.histogram_count; h++)
        for (size_t i = 0; i < HISTOGRAM_WORDS; i++) {
            uint64_t word;
            memcpy(&word, (const uint8_t *)stats.histograms[h].histogram + i * sizeof word, sizeof word);
            seqlock_write_word(at++, word);
        }
    if (stats.stages) {
        struct slow_way ways[SLOWEST_COUNT] = { 0 };
        uint64_t words[WAYS_WORDS];
        seqlock_write_word(published_ways, slowest_list(ways, log_clock_ns));
        memcpy(words, ways, sizeof ways);
        for (size_t i = 0; i < WAYS_WORDS; i++)
            seqlock_write_word(&published_ways[1 + i], words[i]);
    }
    seqlock_write_end(&published_lock);
    ASSERT(at == published + stats.counter_count + stats.histogram_count * HISTOGRAM_WORDS);
}

bool stats_copy_read(struct stats_copy *copy)
{
    size_t words = stats.counter_count + stats.histogram_count * HISTOGRAM_WORDS;
    ASSERT(words <= ARRAY_COUNT(published));
    uint64_t ways[1 + WAYS_WORDS], before = __atomic_load_n(&published_lock.sequence, __ATOMIC_ACQUIRE);
    if (!seqlock_read(&published_lock, published, copy->words, words)
        || !seqlock_read(&published_lock, published_ways, ways, ARRAY_COUNT(ways))
        || __atomic_load_n(&published_lock.sequence, __ATOMIC_ACQUIRE) != before)
        return false;
    copy->way_count = stats.stages ? ways[0] : 0;
    memcpy(copy->ways, ways + 1, sizeof copy->ways);
    return true;
}

bool stats_counter(const struct stats_copy *copy, size_t index, struct counter_group *counter)
{
    size_t left = index;
    for (size_t g = 0; g < stats.group_count; g++) {
        if (left < stats.groups[g].count) {
            *counter = stats.groups[g];
            counter->counters += left;
            counter->values = copy ? &copy->words[index] : counter->values + left;
            counter->count = 1;
            return true;
        }
        left -= stats.groups[g].count;
    }
    return false;
}

const struct counter_metric *stats_metric(size_t index)
{
    for (size_t g = 0; g < stats.group_count; g++) {
        if (index < stats.groups[g].metric_count)
            return &stats.groups[g].metrics[index];
        index -= stats.groups[g].metric_count;
    }
    return NULL;
}

const uint64_t *stats_find(const struct stats_copy *copy, const char *path)
{
    struct counter_group c;
    for (size_t i = 0; stats_counter(copy, i, &c); i++) {
        const size_t bytes = strlen(c.prefix);
        if (strncmp(path, c.prefix, bytes) == 0 && strcmp(path + bytes, c.counters->name) == 0)
            return c.values;
    }
    return NULL;
}

void stats_check(void)
{
    char path[COUNTER_PATH_BYTES];
    struct counter_group one, other;
    for (size_t i = 0; stats_counter(NULL, i, &one); i++) {
        format(path, sizeof path, "%s%s", one.prefix, one.counters->name);
        ASSERT(stats_find(NULL, path) == one.values);
        for (size_t k = 0; k < i && stats_counter(NULL, k, &other); k++)
            ASSERT(one.values != other.values);
    }
}

bool stats_histogram(const struct stats_copy *copy, size_t index, const char **name, struct histogram *histogram)
{
    if (index >= stats.histogram_count)
        return false;
    *name = stats.histograms[index].name;
    if (histogram)
        memcpy(histogram,
               copy ? (const void *)&copy->words[stats.counter_count + index * HISTOGRAM_WORDS]
                    : (const void *)stats.histograms[index].histogram,
               sizeof *histogram);
    return true;
}

bool stats_fact(size_t index, const char **name, const char **text)
{
    if (index >= stats.fact_count)
        return false;
    *name = stats.facts[index].name;
    *text = stats.facts[index].text;
    return true;
}

/* ---- as lines ---- */

static const struct {
    const char *suffix;
    uint32_t share;
} histogram_quantiles[] = {
    { "p50_ns", 5000 }, { "p90_ns", 9000 }, { "p99_ns", 9900 }, { "p999_ns", 9990 }, { "p9999_ns", 9999 }
};

enum { HISTOGRAM_LINE_COUNT = 2 + ARRAY_COUNT(histogram_quantiles) + 1 };

static size_t histogram_line(size_t index, const char *name, const struct histogram *h, char *out, size_t out_bytes)
{
    ASSERT(index < HISTOGRAM_LINE_COUNT);
    if (index == 0)
        return format(out, out_bytes, "%s.count %llu\n", name, (unsigned long long)h->count);
    if (index == 1)
        return format(out, out_bytes, "%s.mean_ns %llu\n", name,
                      (unsigned long long)(h->count ? h->sum / h->count : 0));
    if (index - 2 < ARRAY_COUNT(histogram_quantiles))
        return format(out, out_bytes, "%s.%s %llu\n", name, histogram_quantiles[index - 2].suffix,
                      (unsigned long long)histogram_quantile(h, histogram_quantiles[index - 2].share));
    return format(out, out_bytes, "%s.max_ns %llu\n", name, (unsigned long long)h->max);
}

/* Writes a line of the slowest ways: 0 names the columns. */
static size_t way_line(const struct slow_way ways[SLOWEST_COUNT], size_t count, size_t index, char *out,
                       size_t out_bytes)
{
    static const char *const works[TRACE_WORK_COUNT] = {
        [TRACE_WORK_SEARCH] = "search",   [TRACE_WORK_TABLES] = "tables", [TRACE_WORK_WAITING] = "waiting",
        [TRACE_WORK_TIMERS] = "timers",   [TRACE_WORK_WARM] = "warm",     [TRACE_WORK_CONTROL] = "control",
        [TRACE_WORK_PAGE] = "page",       [TRACE_WORK_SYSLOG] = "syslog", [TRACE_WORK_RECORD] = "record",
        [TRACE_WORK_CONSOLE] = "console",
    };
    if (count == 0 || index > count)
        return 0;
    if (index == 0)
        return format(out, out_bytes, "slow.columns at_s total_ns %s turn_ns work resends exits\n", stats.stages);
    const struct slow_way *way = &ways[index - 1];
    char work[80] = "-";
    size_t used = 0;
    for (size_t i = 0; i < TRACE_WORK_COUNT; i++)
        if ((way->work & BIT(i)) != 0)
            used += format(work + used, sizeof work - used, "%s%s", used > 0 ? "+" : "", works[i]);
    ASSERT(used < sizeof work);
    return format(out, out_bytes, "slow.%02zu %llu.%06llu %llu %u %u %u %u %s %u %u\n", index,
                  (unsigned long long)(way->at_ns / NS_PER_S), (unsigned long long)(way->at_ns % NS_PER_S / NS_PER_US),
                  (unsigned long long)way->total_ns, way->stage_ns[0], way->stage_ns[1], way->stage_ns[2], way->turn_ns,
                  work, way->resends, way->exits);
}

size_t stats_copy_line(const struct stats_copy *copy, size_t index, char *out, size_t out_bytes)
{
    ASSERT(out_bytes > 0);
    if (index < stats.fact_count)
        return format(out, out_bytes, "%.60s %.90s\n", stats.facts[index].name, stats.facts[index].text);
    index -= stats.fact_count;

    const char *name;
    struct histogram histogram;
    if (stats_histogram(copy, index / HISTOGRAM_LINE_COUNT, &name, &histogram))
        return histogram_line(index % HISTOGRAM_LINE_COUNT, name, &histogram, out, out_bytes);
    index -= stats.histogram_count * HISTOGRAM_LINE_COUNT;

    struct counter_group counter;
    if (!stats_counter(copy, index, &counter)) {
        index -= stats.counter_count;
        if (copy)
            return way_line(copy->ways, copy->way_count, index, out, out_bytes);
        if (index == 0)
            stats.way_count = stats.stages ? slowest_list(stats.ways, log_clock_ns) : 0;
        return way_line(stats.ways, stats.way_count, index, out, out_bytes);
    }
    return format(out, out_bytes, "%s%s %llu\n", counter.prefix, counter.counters->name,
                  (unsigned long long)*counter.values);
}

size_t stats_line(size_t index, char *out, size_t out_bytes) { return stats_copy_line(NULL, index, out, out_bytes); }

size_t stats_render(char *out, size_t out_bytes)
{
    ASSERT(out_bytes > 0);
    size_t used = 0;
    char line[STATS_LINE_BYTES_MAX];
    for (size_t i = 0;; i++) {
        size_t bytes = stats_line(i, line, sizeof line);
        if (bytes == 0 || bytes >= out_bytes - used)
            break;
        memcpy(out + used, line, bytes);
        used += bytes;
        ASSERT(used < out_bytes);
    }
    out[used] = '\0';
    return used;
}
