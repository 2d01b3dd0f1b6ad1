#include "net/counters.h"

#include "base/assert.h"

#define GROUP(module, LIST, help) COUNTER_GROUP_AT(#module ".", help, LIST, NULL)
static const struct counter_group groups[] = { NET_COUNTERS(GROUP) };

struct counter_group net_counter_group(const struct net_counters *counters, size_t module)
{
    ASSERT(module < NET_GROUP_COUNT);
    struct counter_group group = groups[module];
    group.values = (const uint64_t *)counters;
    for (size_t i = 0; i < module; i++)
        group.values += groups[i].count;
    return group;
}
