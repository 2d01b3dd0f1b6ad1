/* Counters: one list a module, from which a struct of uint64_t and the rows of a group for the statistics are made.
 *
 *     #define ARP_COUNTERS(X) X(COUNT, rx_requests), X(DROP_FRAME, rx_drop_malformed)
 *     static struct { uint64_t ARP_COUNTERS(COUNTER_MEMBER); } arp_counters;
 *     const struct counter_group arp_counter_group = COUNTER_GROUP("arp.", "ARP", ARP_COUNTERS, arp_counters);
 *
 * A counter's path is the group's prefix and its own name, "arp.rx_requests". Paths stay stable: users' dashboards read
 * them. Times have their unit in the name's last part. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

/* The meaning of a counter. A list names the kind without COUNTER_. The kind after COUNTER_LABELLED is that of the
 * group's second metric with a label, and so on: a module names these kinds itself. */
enum counter_kind {
    COUNTER_COUNT,      /* counts up */
    COUNTER_LEVEL,      /* may go down, or is no count */
    COUNTER_ALERT,      /* counts events that should not happen; trade logs the first of each */
    COUNTER_DROP,       /* counts drops for one reason; an alert, too */
    COUNTER_DROP_FRAME, /* counts drops of the frame that has just come, for the capture */
    COUNTER_LABELLED,   /* a sample of the group's first metric with a label */
};

/* Returns true for the kinds of events that should not happen. */
static inline bool counter_is_alert(unsigned kind) { return kind >= COUNTER_ALERT && kind <= COUNTER_DROP_FRAME; }

struct counter {
    const char *name;
    unsigned kind; /* a counter_kind, or a number after COUNTER_LABELLED */
};

/* A metric (app/service/metrics.h) with a label, whose samples are all counters of one kind. In a counter's name the
 * label's value stands between `head` and `tail`. */
struct counter_metric {
    const char *name, *help, *label, *head, *tail;
    enum counter_kind kind; /* COUNTER_COUNT or COUNTER_LEVEL */
};

struct counter_group {
    const char *prefix;
    const char *help; /* the counters' subject, as users see it */
    const struct counter *counters;
    const uint64_t *values; /* in the same order */
    size_t count;
    const struct counter_metric *metrics;
    size_t metric_count;
};

enum { COUNTER_PATH_BYTES = 64 }; /* room for a path and its NUL */

/* For a list: the members of a struct of uint64_t, and the rows of an array of `struct counter`. In C++, where an array
 * has a name, a group is `{ "x.", "X", rows, values, ARRAY_COUNT(rows), NULL, 0 }`. */
#define COUNTER_MEMBER(kind, name) name
#define COUNTER_ROW(row_kind, row_name)                                                                                \
    {                                                                                                                  \
        .name = #row_name, .kind = COUNTER_##row_kind                                                                  \
    }
#define COUNTER_ROWS(LIST)                                                                                             \
    (const struct counter[]) { LIST(COUNTER_ROW) }

/* Initialises a group at file scope. `object` is made of the list alone. `at` points to one, or is NULL and set later.
 * `table` holds the metrics with a label. */
#define COUNTER_GROUP_AT(prefix, help, LIST, at)                                                                       \
    {                                                                                                                  \
        prefix, help, COUNTER_ROWS(LIST), at, ARRAY_COUNT(COUNTER_ROWS(LIST)), NULL, 0                                 \
    }
#define COUNTER_GROUP(prefix, help, LIST, object) COUNTER_GROUP_AT(prefix, help, LIST, (const uint64_t *)&(object))
#define COUNTER_GROUP_LABELLED(prefix, help, LIST, object, table)                                                      \
    {                                                                                                                  \
        prefix, help, COUNTER_ROWS(LIST), (const uint64_t *)&(object), ARRAY_COUNT(COUNTER_ROWS(LIST)), table,         \
            ARRAY_COUNT(table)                                                                                         \
    }
