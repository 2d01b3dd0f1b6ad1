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
    FAMILIES_PER_STEP = 4, /* each is looked for among all counters before */
    /* le bounds: 2^k - 1 ns, which are bounds of the histogram's own buckets (values are whole nanoseconds). */
    BOUND_BITS_FIRST = 7, /* 127 ns */
    BOUND_BITS_LAST = 34, /* 17 s */
    BOUND_COUNT = BOUND_BITS_LAST - BOUND_BITS_FIRST + 1,
    HISTOGRAM_LINE_COUNT = BOUND_COUNT + 3, /* +Inf, sum, count */
    NAME_BYTES_MAX = 80,
    NUMBER_BYTES_MAX = 32,
};

static bool starts(const char *text, const char *head) { return strncmp(text, head, strlen(head)) == 0; }

/* ---- what kind a counter is ---- */

enum kind { KIND_RESULT, KIND_RESPONSE, KIND_DROP, KIND_GAUGE, KIND_COUNTER };

static const struct {
    const char *name, *help;
} families[] = {
    [KIND_RESULT] = { "peregrine_results_total", "Submissions by what the server said to them." },
    [KIND_RESPONSE] = { "peregrine_responses_total", "HTTP responses to submissions by class." },
    [KIND_DROP] = { "peregrine_drops_total", "What was dropped, by module and reason." },
};

/* The subject of a module's counters, by the beginning of their names: the first that fits. */
static const struct {
    const char *head, *help;
} modules[] = {
    { "agent.", "Agent check" },
    { "answer_set.", "Answers given before" },
    { "arp.", "ARP" },
    { "book.", "Order books" },
    { "circuit_breaker.", "Circuit breaker of submissions" },
    { "clock.", "Clocks" },
    { "control.", "Control channel" },
    { "dhcp.", "DHCP client" },
    { "digest.", "Compute service" },
    { "echo.", "Echo" },
    { "ethernet.", "Ethernet frames" },
    { "icmp.", "ICMP" },
    { "input_stream.", "Connections that bring digits" },
    { "ipv4.", "IPv4 datagrams" },
    { "log.", "The log" },
    { "loop.", "The one loop" },
    { "lwip.", "The lwIP port" },
    { "market.", "The best prices and our position, by symbol" },
    { "mold.", "Market data lines (MoldUDP64)" },
    { "ntp.peer.", "NTP client" },
    { "ntp.", "NTP server" },
    { "ouch.", "Orders and their responses (OUCH)" },
    { "player.", "The player" },
    { "pool.", "Level of a pool" },
    { "program.", "The program" },
    { "risk.", "Orders that a limit has refused" },
    { "session.", "Connections kept up" },
    { "sockets.", "Linux sockets" },
    { "soup.", "Exchange sessions (SoupBinTCP)" },
    { "status_page.", "Status page" },
    { "stream_merger.", "Input streams merged into one" },
    { "submit.", "Submissions" },
    { "survey.", "The survey" },
    { "syslog.", "Log over UDP" },
    { "tcp.", "TCP" },
    { "trade.", "The trading program" },
    { "traps.", "Traps of the processor" },
    { "udp.", "UDP datagrams" },
    { "virtio_net.", "Network device" },
    { "watchdog.", "Watchdog" },
    { "", "See docs/status.md" },
};

static const char *help_of(const char *name)
{
    size_t i = 0;
    while (!starts(name, modules[i].head)) {
        i++;
        ASSERT(i < ARRAY_COUNT(modules)); /* the last row fits every name */
    }
    return modules[i].help;
}

/* Values that can go down, or that are no counts, by the beginning of their names. */
static const char *const gauges[] = {
    "agent.free_percent",
    "pool.",
    "lwip.pool.",
    "circuit_breaker.",
    "watchdog.",
    "loop.",
    "clock.",
    "program.uptime_ns",
    "lwip.events_max",
    "player.moduli",
    "market.",
    "network.silence_ns",
    "virtio_net.tx_stalled_seconds",
};

/* Returns true if a name has a word "drop...": "rx_drop_short", "dropped_expired", "drop". */
static bool is_drop(const char *name)
{
    const char *at = strstr(name, "drop");
    return at && at != name && (at[-1] == '.' || at[-1] == '_')
           && (at[4] == '_' || at[4] == '\0' || starts(at, "dropped_"));
}

static enum kind kind_of(const char *name)
{
    if (starts(name, "submit.results_"))
        return KIND_RESULT;
    if (starts(name, "submit.responses_"))
        return KIND_RESPONSE;
    for (size_t i = 0; i < ARRAY_COUNT(gauges); i++)
        if (starts(name, gauges[i]))
            return KIND_GAUGE;
    return is_drop(name) ? KIND_DROP : KIND_COUNTER;
}

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

/* A counter whose name has a part that tells equal ones apart: the value of a label. All lie in the counter's name. */
struct labelled {
    const char *head;           /* the metric's name begins so, and goes on with `metric` */
    struct bytes metric, value; /* the value is the label's */
    const char *label;
};

/* Takes a name such as "market.BRK.A.bid" or "mold.datagrams_b" apart. Symbols differ in characters that no metric's
 * name may have. The two lines are a label, since "_b" alone would be an abbreviated unit. Returns false for others. */
static bool labelled_take(const char *name, struct labelled *out)
{
    static const char market[] = "market.", mold[] = "mold.";
    ASSERT(name[0] != '\0');
    if (starts(name, market)) {
        const char *last = last_part(name), *symbol = name + sizeof market - 1;
        *out = (struct labelled){ .head = market, .metric = text_of(last), .label = "symbol" };
        if (last <= symbol)
            return false;
        out->value = (struct bytes){ (const uint8_t *)symbol, (size_t)(last - 1 - symbol) };
        return true;
    }
    const size_t bytes = starts(name, mold) ? strlen(name) : 0;
    if (bytes < 3 || name[bytes - 2] != '_' || (name[bytes - 1] != 'a' && name[bytes - 1] != 'b'))
        return false;
    *out = (struct labelled){ .head = "",
                              .metric = { (const uint8_t *)name, bytes - 2 },
                              .value = { (const uint8_t *)name + bytes - 1, 1 },
                              .label = "line" };
    return true;
}

static bool is_same_family(const struct labelled *a, const struct labelled *b)
{
    ASSERT(a->metric.count > 0);
    return a->label == b->label && a->metric.count == b->metric.count
           && memcmp(a->metric.data, b->metric.data, a->metric.count) == 0;
}

/* Writes the metric's name, without the head and the end that all have. */
static void family_write(char out[NAME_BYTES_MAX], const struct labelled *labelled)
{
    char path[NAME_BYTES_MAX];
    format(path, sizeof path, "%s%.*s", labelled->head, (int)labelled->metric.count,
           (const char *)labelled->metric.data);
    name_copy(out, path, strlen(path));
}

/* Writes a counter as a metric of its own, in seconds if its name says nanoseconds. */
static size_t write_metric(char *out, const struct counter *counter, bool gauge)
{
    ASSERT(counter->value);
    char name[NAME_BYTES_MAX], number[NUMBER_BYTES_MAX];
    size_t bytes = strlen(counter->name);
    bool time = bytes > 3 && strcmp(counter->name + bytes - 3, "_ns") == 0;
    name_copy(name, counter->name, time ? bytes - 3 : bytes);
    if (time)
        write_seconds(number, sizeof number, *counter->value);
    else
        format(number, sizeof number, "%llu", (unsigned long long)*counter->value);
    const char *unit = time ? "_seconds" : "", *suffix = gauge ? "" : "_total";
    return format(out, METRICS_TEXT_BYTES_MAX,
                  "# HELP peregrine_%s%s%s %s: %s.\n# TYPE peregrine_%s%s%s %s\nperegrine_%s%s%s %s\n", name, unit,
                  suffix, help_of(counter->name), last_part(counter->name), name, unit, suffix,
                  gauge ? "gauge" : "counter", name, unit, suffix, number);
}

/* Writes a counter as a sample of its family. */
static size_t write_sample(char *out, enum kind kind, const struct counter *counter)
{
    ASSERT(kind < ARRAY_COUNT(families));
    char module[NAME_BYTES_MAX];
    const char *rest = last_part(counter->name);
    switch (kind) {
    case KIND_RESULT:
        return format(out, METRICS_TEXT_BYTES_MAX, "%s{result=\"%s\"} %llu\n", families[kind].name,
                      rest + strlen("results_"), (unsigned long long)*counter->value);
    case KIND_RESPONSE:
        return format(out, METRICS_TEXT_BYTES_MAX, "%s{class=\"%s\"} %llu\n", families[kind].name,
                      rest + strlen("responses_"), (unsigned long long)*counter->value);
    case KIND_DROP:
    case KIND_GAUGE:
    case KIND_COUNTER:
        break;
    }
    name_copy(module, counter->name, (size_t)(rest - 1 - counter->name));
    return format(out, METRICS_TEXT_BYTES_MAX, "%s{module=\"%s\",reason=\"%s\"} %llu\n", families[kind].name, module,
                  rest, (unsigned long long)*counter->value);
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

/* Returns true if a counter's name begins so: the player's families are those of the player alone. */
static bool has_counter(const struct stats_copy *from, const char *head)
{
    struct counter counter;
    for (size_t i = 0; stats_counter(from, i, &counter); i++)
        if (starts(counter.name, head))
            return true;
    return false;
}

static uint64_t value_named(const struct stats_copy *from, const char *name)
{
    struct counter counter;
    for (size_t i = 0; stats_counter(from, i, &counter); i++)
        if (strcmp(counter.name, name) == 0)
            return *counter.value;
    return 0;
}

static bool part_answers(struct metrics_cursor *cursor, char *out, size_t *bytes)
{
    if (cursor->item++ > 0 || !has_counter(cursor->from, "player.answers"))
        return false;
    const struct stats_copy *from = cursor->from;
    uint64_t early = value_named(from, "player.answers_early"), all = value_named(from, "player.answers");
    *bytes = format(out, METRICS_TEXT_BYTES_MAX,
                    "# HELP peregrine_answers_total Answers found, each once.\n# TYPE peregrine_answers_total counter\n"
                    "peregrine_answers_total{kind=\"early\"} %llu\nperegrine_answers_total{kind=\"complete\"} %llu\n",
                    (unsigned long long)early, (unsigned long long)(all - min_size(early, all)));
    return true;
}

static bool part_per_answer(struct metrics_cursor *cursor, char *out, size_t *bytes)
{
    if (cursor->item++ > 0 || !has_counter(cursor->from, "submit.posts"))
        return false;
    const struct stats_copy *from = cursor->from;
    uint64_t posts = value_named(from, "submit.posts"), kicks = value_named(from, "virtio_net.tx_kicks");
    uint64_t exits = kicks + value_named(from, "virtio_net.rx_kicks") + value_named(from, "virtio_net.state_exits");
    uint64_t kicks_1000 = posts ? kicks * 1000 / posts : 0, exits_1000 = posts ? exits * 1000 / posts : 0;
    *bytes = format(out, METRICS_TEXT_BYTES_MAX,
                    "# HELP peregrine_kicks_per_answer Transmit notifications of the device.\n"
                    "# TYPE peregrine_kicks_per_answer gauge\nperegrine_kicks_per_answer %llu.%03llu\n"
                    "# HELP peregrine_exits_per_answer Notifications and reads of the device's state.\n"
                    "# TYPE peregrine_exits_per_answer gauge\nperegrine_exits_per_answer %llu.%03llu\n",
                    (unsigned long long)(kicks_1000 / 1000), (unsigned long long)(kicks_1000 % 1000),
                    (unsigned long long)(exits_1000 / 1000), (unsigned long long)(exits_1000 % 1000));
    return true;
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

/* Writes the counters of one kind: the head of their family first, if they have one, then a counter a step. */
static bool counters_of(enum kind kind, struct metrics_cursor *cursor, char *out, size_t *bytes)
{
    ASSERT(cursor->line <= 1);
    struct counter counter;
    struct labelled labelled;
    if (cursor->line == 0 && kind < ARRAY_COUNT(families)) {
        cursor->line = 1;
        *bytes = format(out, METRICS_TEXT_BYTES_MAX, "# HELP %s %s\n# TYPE %s counter\n", families[kind].name,
                        families[kind].help, families[kind].name);
        return true;
    }
    for (int i = 0; i < COUNTERS_PER_STEP; i++) {
        if (!stats_counter(cursor->from, cursor->item, &counter))
            return false;
        cursor->item++;
        if (kind_of(counter.name) != kind || (kind >= KIND_GAUGE && labelled_take(counter.name, &labelled)))
            continue;
        *bytes = kind < ARRAY_COUNT(families) ? write_sample(out, kind, &counter)
                                              : write_metric(out, &counter, kind == KIND_GAUGE);
        break;
    }
    return true;
}

static bool part_results(struct metrics_cursor *c, char *out, size_t *bytes)
{
    return has_counter(c->from, "submit.results_") && counters_of(KIND_RESULT, c, out, bytes);
}

static bool part_responses(struct metrics_cursor *c, char *out, size_t *bytes)
{
    return has_counter(c->from, "submit.responses_") && counters_of(KIND_RESPONSE, c, out, bytes);
}

static bool part_drops(struct metrics_cursor *c, char *out, size_t *bytes)
{
    return counters_of(KIND_DROP, c, out, bytes);
}

static bool part_gauges(struct metrics_cursor *c, char *out, size_t *bytes)
{
    return counters_of(KIND_GAUGE, c, out, bytes);
}

static bool part_counters(struct metrics_cursor *c, char *out, size_t *bytes)
{
    return counters_of(KIND_COUNTER, c, out, bytes);
}

/* Returns true if no counter before this one belongs to its family. */
static bool is_first_of_family(const struct stats_copy *from, size_t index, const struct labelled *labelled)
{
    struct counter counter;
    struct labelled other;
    for (size_t i = 0; i < index && stats_counter(from, i, &counter); i++)
        if (labelled_take(counter.name, &other) && is_same_family(&other, labelled))
            return false;
    return true;
}

/* Writes the metrics with a label, family by family. `item` is the first counter of a family, `line` the number of its
 * next sample's counter; 0: the family's head is not written. */
static bool part_labelled(struct metrics_cursor *cursor, char *out, size_t *bytes)
{
    struct counter counter;
    struct labelled labelled, family;
    char name[NAME_BYTES_MAX], value[NAME_BYTES_MAX];
    for (int i = 0;; i++, cursor->item++) {
        if (!stats_counter(cursor->from, cursor->item, &counter))
            return false;
        if (labelled_take(counter.name, &family) && kind_of(counter.name) >= KIND_GAUGE
            && (cursor->line > 0 || is_first_of_family(cursor->from, cursor->item, &family)))
            break;
        if (i == FAMILIES_PER_STEP)
            return true;
    }
    const bool gauge = kind_of(counter.name) == KIND_GAUGE;
    const char *suffix = gauge ? "" : "_total";
    family_write(name, &family);
    if (cursor->line == 0) {
        cursor->line = cursor->item + 1;
        *bytes = format(out, METRICS_TEXT_BYTES_MAX, "# HELP peregrine_%s%s %s.\n# TYPE peregrine_%s%s %s\n", name,
                        suffix, help_of(counter.name), name, suffix, gauge ? "gauge" : "counter");
        return true;
    }
    for (int i = 0; i < COUNTERS_PER_STEP && *bytes == 0; i++) {
        if (!stats_counter(cursor->from, cursor->line - 1, &counter)) {
            cursor->item++;
            cursor->line = 0;
            return true;
        }
        cursor->line++;
        if (!labelled_take(counter.name, &labelled) || !is_same_family(&labelled, &family))
            continue;
        value_escape(value, sizeof value, labelled.value);
        *bytes = format(out, METRICS_TEXT_BYTES_MAX, "peregrine_%s%s{%s=\"%s\"} %llu\n", name, suffix, family.label,
                        value, (unsigned long long)*counter.value);
    }
    return true;
}

bool metrics_next(struct metrics_cursor *cursor, char out[METRICS_TEXT_BYTES_MAX], size_t *bytes)
{
    static part_writer *const parts[] = { part_build,      part_answers, part_results, part_responses, part_per_answer,
                                          part_histograms, part_drops,   part_gauges,  part_counters,  part_labelled };
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
