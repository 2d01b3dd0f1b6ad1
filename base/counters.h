/* Counters: a struct of uint64_t in each module, and a table that names its members for the statistics.
 *
 *     struct arp_counters { uint64_t rx_drop_truncated; ... };
 *     extern struct arp_counters arp_counters;
 *     const struct counter arp_counter_table[] = { COUNTER("arp.", arp_counters, rx_drop_truncated), ... };
 *
 * Names are paths with a dot, `module.reason`, and stay stable: users' dashboards read them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct counter {
    const char *name;
    const uint64_t *value;
};

/* A module's table, as the statistics see it. */
struct counter_group {
    const struct counter *counters;
    size_t count;
};

/* A member of a struct that is made from a list of names. */
#define COUNTER_MEMBER(name) uint64_t name;

#define COUNTER(prefix, object, member)                                                                                \
    {                                                                                                                  \
        prefix #member, &(object).member                                                                               \
    }
