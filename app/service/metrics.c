#include "app/service/metrics.h"

#include <string.h>

#include "app/service/stats.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/format.h"
#include "base/text.h"
#include "base/time.h"

enum {
    COUNTERS_PER_STEP = 16,
    /* le bounds: 2^k - 1 ns, which are bounds of the histogram's own buckets (values are whole nanoseconds). */
    BOUND_BITS_FIRST = 7, /* 127 ns */
    BOUND_BITS_LAST = 34, /* 17 s */
    BOUND_COUNT = BOUND_BITS_LAST - BOUND_BITS_FIRST + 1,
    HISTOGRAM_LINE_COUNT = BOUND_COUNT + 3, /* +Inf, sum, count */
    NAME_BYTES_MAX = 80,
    NUMBER_BYTES_MAX = 32,
};

/* ---- numbers and names ---- */

static size_t write_seconds(char *out, size_t out_bytes, uint64_t ns)
{
    return format(out, out_bytes, "%llu.%09llu", (unsigned long long)(ns / NS_PER_S),
                  (unsigned long long)(ns % NS_PER_S));
}

/* Copies a path as a metric's or label's name: [a-z0-9_]. */
static void name_copy(char out[NAME_BYTES_MAX], const char *path, size_t bytes)
{
    ASSERT(bytes <= strlen(path));
    bytes = min_size(bytes, NAME_BYTES_MAX - 1);
    for (size_t i = 0; i < bytes; i++) {
        char c = path[i];
        out[i] = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
    }
    out[bytes] = '\0';
}

/* Returns the part of a path after its last dot. */
static const char *last_part(const char *path)
{
    for (const char *dot; (dot = strchr(path, '.')) != NULL;)
        path = dot + 1;
    return path;
}

/* Writes a counter as a metric of its own, in seconds if its name says nanoseconds. */
static size_t write_metric(char *out, const struct counter_group *counter, bool gauge)
{
    char path[COUNTER_PATH_BYTES], name[NAME_BYTES_MAX], number[NUMBER_BYTES_MAX];
    size_t bytes = format(path, sizeof path, "%s%s", counter->prefix, counter->counters->name);
    ASSERT(bytes > 0 && counter->count == 1);
    bool time = bytes > 3 && strcmp(path + bytes - 3, "_ns") == 0;
    name_copy(name, path, time ? bytes - 3 : bytes);
    if (time)
        write_seconds(number, sizeof number, *counter->values);
    else
        format(number, sizeof number, "%llu", (unsigned long long)*counter->values);
    const char *unit = time ? "_seconds" : "", *suffix = gauge ? "" : "_total";
    return format(out, METRICS_TEXT_BYTES_MAX,
                  "# HELP peregrine_%s%s%s %s: %s.\n# TYPE peregrine_%s%s%s %s\nperegrine_%s%s%s %s\n", name, unit,
                  suffix, counter->help, last_part(path), name, unit, suffix, gauge ? "gauge" : "counter", name, unit,
                  suffix, number);
}

/* Writes a counter as a sample of the drops. */
static size_t write_drop(char *out, const struct counter_group *counter)
{
    char module[NAME_BYTES_MAX];
    ASSERT(strlen(counter->prefix) > 1);
    name_copy(module, counter->prefix, strlen(counter->prefix) - 1);
    return format(out, METRICS_TEXT_BYTES_MAX, "peregrine_drops_total{module=\"%s\",reason=\"%s\"} %llu\n", module,
                  counter->counters->name, (unsigned long long)*counter->values);
}

/* ---- the parts ---- */

/* Writes one text of the part; false when the part is over. */
typedef bool part_writer(struct metrics_cursor *cursor, char *out, size_t *bytes);

/* Writes a fact's text as a label's value: quotes and backslashes escaped. */
static size_t value_escape(char *out, size_t out_bytes, struct bytes text)
{
    ASSERT(out_bytes > 0);
    size_t used = 0;
    for (size_t i = 0; i < text.count && used + 3 <= out_bytes; i++) {
        const char c = (char)text.data[i];
        if (c == '"' || c == '\\')
            out[used++] = '\\';
        out[used++] = c >= ' ' && c <= '~' ? c : '?';
    }
    ASSERT(used < out_bytes);
    out[used] = '\0';
    return used;
}

static bool part_build(struct metrics_cursor *cursor, char *out, size_t *bytes)
{
    static const char head[] = "# HELP peregrine_build_info What is running.\n# TYPE peregrine_build_info gauge\n"
                               "peregrine_build_info{";
    if (cursor->item++ > 0)
        return false;
    size_t used = format(out, METRICS_TEXT_BYTES_MAX, head);
    const char *name, *text;
    for (size_t i = 0; stats_fact(i, &name, &text); i++) {
        char label[NAME_BYTES_MAX], value[NAME_BYTES_MAX];
        ASSERT(used < METRICS_TEXT_BYTES_MAX);
        name_copy(label, name, strlen(name));
        value_escape(value, sizeof value, text_of(text));
        if (used + strlen(label) + strlen(value) + 16 > METRICS_TEXT_BYTES_MAX)
            break;
        used += format(out + used, METRICS_TEXT_BYTES_MAX - used, "%s%s=\"%s\"", i > 0 ? "," : "", label, value);
    }
    *bytes = used + format(out + used, METRICS_TEXT_BYTES_MAX - used, "} 1\n");
    return true;
}

/* Writes the program's own metrics. */
static bool part_program(struct metrics_cursor *cursor, char *out, size_t *bytes)
{
    *bytes = stats_metrics() ? stats_metrics()(cursor->from, cursor->item++, out) : 0;
    return *bytes != 0;
}

static uint64_t count_up_to(const struct histogram *h, uint64_t value_ns)
{
    ASSERT(histogram_bucket_of(value_ns) < HISTOGRAM_BUCKET_COUNT);
    uint64_t count = 0;
    for (uint32_t bucket = 0; bucket <= histogram_bucket_of(value_ns); bucket++)
        count += h->buckets[bucket];
    return count;
}

static size_t histogram_sample(const struct histogram *h, const char *name, size_t line, char *out)
{
    ASSERT(line < HISTOGRAM_LINE_COUNT);
    char number[NUMBER_BYTES_MAX];
    if (line < BOUND_COUNT) {
        uint64_t bound_ns = BIT(BOUND_BITS_FIRST + line) - 1;
        write_seconds(number, sizeof number, bound_ns);
        return format(out, METRICS_TEXT_BYTES_MAX, "peregrine_latency_seconds_bucket{stage=\"%s\",le=\"%s\"} %llu\n",
                      name, number, (unsigned long long)count_up_to(h, bound_ns));
    }
    if (line == BOUND_COUNT)
        return format(out, METRICS_TEXT_BYTES_MAX, "peregrine_latency_seconds_bucket{stage=\"%s\",le=\"+Inf\"} %llu\n",
                      name, (unsigned long long)h->count);
    if (line == BOUND_COUNT + 1) {
        write_seconds(number, sizeof number, h->sum);
        return format(out, METRICS_TEXT_BYTES_MAX, "peregrine_latency_seconds_sum{stage=\"%s\"} %s\n", name, number);
    }
    return format(out, METRICS_TEXT_BYTES_MAX, "peregrine_latency_seconds_count{stage=\"%s\"} %llu\n", name,
                  (unsigned long long)h->count);
}

static bool part_histograms(struct metrics_cursor *cursor, char *out, size_t *bytes)
{
    const char *name;
    if (!stats_histogram(cursor->from, cursor->item, &name, cursor->line == 0 ? &cursor->histogram : NULL))
        return false;
    size_t head = 0;
    if (cursor->line == 0 && cursor->item == 0)
        head = format(out, METRICS_TEXT_BYTES_MAX,
                      "# HELP peregrine_latency_seconds An answer's way, by stage.\n"
                      "# TYPE peregrine_latency_seconds histogram\n");
    char sample[METRICS_TEXT_BYTES_MAX];
    size_t sample_bytes = histogram_sample(&cursor->histogram, name, cursor->line, sample);
    ASSERT(head + sample_bytes < METRICS_TEXT_BYTES_MAX);
    memcpy(out + head, sample, sample_bytes + 1);
    *bytes = head + sample_bytes;
    if (++cursor->line == HISTOGRAM_LINE_COUNT) {
        cursor->line = 0;
        cursor->item++;
    }
    return true;
}

/* Finds the next counter whose kind has a bit in `kinds`. `*found`: there is one among the few that were looked at.
 * Returns false if no counter is left. */
static bool next_of(struct metrics_cursor *cursor, uint64_t kinds, struct counter_group *counter, bool *found)
{
    *found = false;
    for (int i = 0; i < COUNTERS_PER_STEP && !*found; i++) {
        if (!stats_counter(cursor->from, cursor->item, counter))
            return false;
        cursor->item++;
        *found = (BIT(counter->counters->kind) & kinds) != 0;
    }
    return true;
}

static bool part_drops(struct metrics_cursor *cursor, char *out, size_t *bytes)
{
    struct counter_group counter;
    bool found = false;
    if (cursor->line++ == 0)
        *bytes = format(out, METRICS_TEXT_BYTES_MAX,
                        "# HELP peregrine_drops_total What was dropped, by module and reason.\n"
                        "# TYPE peregrine_drops_total counter\n");
    else if (!next_of(cursor, BIT(COUNTER_DROP) | BIT(COUNTER_DROP_FRAME), &counter, &found))
        return false;
    else if (found)
        *bytes = write_drop(out, &counter);
    return true;
}

/* Writes the counters of these kinds, a metric each. */
static bool metrics_of(uint64_t kinds, struct metrics_cursor *cursor, char *out, size_t *bytes)
{
    struct counter_group counter;
    bool found;
    if (!next_of(cursor, kinds, &counter, &found))
        return false;
    if (found)
        *bytes = write_metric(out, &counter, kinds == BIT(COUNTER_LEVEL));
    return true;
}

static bool part_levels(struct metrics_cursor *cursor, char *out, size_t *bytes)
{
    return metrics_of(BIT(COUNTER_LEVEL), cursor, out, bytes);
}

static bool part_counts(struct metrics_cursor *cursor, char *out, size_t *bytes)
{
    return metrics_of(BIT(COUNTER_COUNT) | BIT(COUNTER_ALERT), cursor, out, bytes);
}

/* Writes a counter as a sample of a metric with a label. */
static size_t write_labelled(char *out, const struct counter_metric *metric, const char *suffix,
                             const struct counter_group *counter)
{
    char value[NAME_BYTES_MAX];
    struct bytes text = text_of(counter->counters->name);
    ASSERT(text.count >= strlen(metric->head) + strlen(metric->tail));
    text.data += strlen(metric->head);
    text.count -= strlen(metric->head) + strlen(metric->tail);
    value_escape(value, sizeof value, text);
    return format(out, METRICS_TEXT_BYTES_MAX, "peregrine_%s%s{%s=\"%s\"} %llu\n", metric->name, suffix, metric->label,
                  value, (unsigned long long)*counter->values);
}

/* Writes the metrics with a label, one after the other. `item` is the metric, `line` its next sample's counter; 0: the
 * metric's head is not written. */
static bool part_labelled(struct metrics_cursor *cursor, char *out, size_t *bytes)
{
    const struct counter_metric *metric = stats_metric(cursor->item);
    if (!metric)
        return false;
    const bool gauge = metric->kind == COUNTER_LEVEL;
    const char *suffix = gauge ? "" : "_total";
    if (cursor->line == 0)
        *bytes = format(out, METRICS_TEXT_BYTES_MAX, "# HELP peregrine_%s%s %s.\n# TYPE peregrine_%s%s %s\n",
                        metric->name, suffix, metric->help, metric->name, suffix, gauge ? "gauge" : "counter");
    cursor->line += cursor->line == 0;
    for (int i = 0; i < COUNTERS_PER_STEP && *bytes == 0; i++) {
        struct counter_group counter;
        if (!stats_counter(cursor->from, cursor->line - 1, &counter)) {
            cursor->item++;
            cursor->line = 0;
            return true;
        }
        cursor->line++;
        const unsigned kind = counter.counters->kind;
        if (kind >= COUNTER_LABELLED && &counter.metrics[kind - COUNTER_LABELLED] == metric)
            *bytes = write_labelled(out, metric, suffix, &counter);
    }
    return true;
}

bool metrics_next(struct metrics_cursor *cursor, char out[METRICS_TEXT_BYTES_MAX], size_t *bytes)
{
    static part_writer *const parts[] = { part_build,  part_program, part_histograms, part_drops,
                                          part_levels, part_counts,  part_labelled };
    ASSERT(cursor->part <= ARRAY_COUNT(parts));
    *bytes = 0;
    if (cursor->part == ARRAY_COUNT(parts))
        return false;
    if (!parts[cursor->part](cursor, out, bytes)) {
        cursor->part++;
        cursor->item = cursor->line = 0;
    }
    return true;
}
