#include "app/service/slow.h"

#include <assert.h>
#include <string.h>

#include "app/service/stats.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/trace.h"

static_assert((int)SLOWEST_STAGE_COUNT == (int)TRACE_STAGE_COUNT - 1, "trace_way fills a way's stages");

/* Counters of which each rise is an exit to the hypervisor, and those of segments sent again. */
static const char *const exit_names[] = { "virtio_net.rx_kicks", "virtio_net.tx_kicks", "virtio_net.state_exits",
                                          "gve.rx_kicks",        "gve.tx_kicks",        "gve.state_exits" };
static const char *const resend_names[] = { "tcp.tx_resends" };

struct sum {
    const uint64_t *values[ARRAY_COUNT(exit_names)];
    size_t count;
    uint64_t marked;
};
static struct sum exits, resends;

static void sum_find(struct sum *sum, const char *const names[], size_t count)
{
    ASSERT(count <= ARRAY_COUNT(sum->values));
    *sum = (struct sum){ .count = 0 };
    for (size_t k = 0; k < count; k++)
        if ((sum->values[sum->count] = stats_find(NULL, names[k])) != NULL)
            sum->count++;
}

static uint64_t sum_now(const struct sum *sum)
{
    uint64_t value = 0;
    for (size_t i = 0; i < sum->count; i++)
        value += *sum->values[i];
    return value;
}

static uint16_t risen(const struct sum *sum) { return (uint16_t)min_u64(sum_now(sum) - sum->marked, UINT16_MAX); }

void slow_init(void)
{
    slowest_clear();
    sum_find(&exits, exit_names, ARRAY_COUNT(exit_names));
    sum_find(&resends, resend_names, ARRAY_COUNT(resend_names));
    slow_turn();
}

void slow_turn(void)
{
    exits.marked = sum_now(&exits);
    resends.marked = sum_now(&resends);
}

void slow_note(uint64_t total_ns, const uint64_t stage_ns[SLOWEST_STAGE_COUNT], uint64_t now_ns)
{
    if (total_ns == 0 || !slowest_would_keep(total_ns, now_ns))
        return;
    struct slow_way way = {
        .at_ns = now_ns,
        .total_ns = total_ns,
        .turn_ns = (uint32_t)min_u64(trace.turn_ns, UINT32_MAX),
        .work = trace.turn_work,
        .resends = risen(&resends),
        .exits = risen(&exits),
    };
    for (size_t i = 0; i < SLOWEST_STAGE_COUNT; i++)
        way.stage_ns[i] = (uint32_t)min_u64(stage_ns[i], UINT32_MAX);
    ASSERT(way.total_ns == total_ns);
    slowest_note(&way);
}
