#include "base/slowest.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/time.h"

static_assert(sizeof(struct slow_way) % sizeof(uint64_t) == 0, "whole words");

/* An hour reaches into seven generations at most. */
enum { GENERATION_COUNT = 7 };
#define GENERATION_NS (600 * NS_PER_S)

static struct generation {
    uint64_t begin_ns;
    size_t count, least; /* `least`: the index of the fastest way */
    struct slow_way ways[SLOWEST_COUNT];
} generations[GENERATION_COUNT];
static size_t current;

void slowest_clear(void)
{
    memset(generations, 0, sizeof generations);
    current = 0;
}

bool slowest_would_keep(uint64_t total_ns, uint64_t now_ns)
{
    const struct generation *g = &generations[current];
    ASSERT(g->least < SLOWEST_COUNT);
    return total_ns > g->ways[g->least].total_ns || g->count < SLOWEST_COUNT || now_ns - g->begin_ns >= GENERATION_NS;
}

void slowest_note(const struct slow_way *way)
{
    struct generation *g = &generations[current];
    if (!slowest_would_keep(way->total_ns, way->at_ns))
        return;
    if (way->at_ns - g->begin_ns >= GENERATION_NS) {
        current = (current + 1) % GENERATION_COUNT;
        g = &generations[current];
        *g = (struct generation){ .begin_ns = way->at_ns };
    }
    g->ways[g->count < SLOWEST_COUNT ? g->count++ : g->least] = *way;
    ASSERT(g->count <= SLOWEST_COUNT);
    g->least = 0;
    for (size_t i = 1; i < g->count; i++)
        if (g->ways[i].total_ns < g->ways[g->least].total_ns)
            g->least = i;
}

/* Inserts a way into a list of `count`, which is sorted. Returns the new count. */
static size_t insert(struct slow_way out[SLOWEST_COUNT], size_t count, const struct slow_way *way)
{
    size_t at = count < SLOWEST_COUNT ? count : SLOWEST_COUNT - 1;
    ASSERT(count <= SLOWEST_COUNT);
    if (count == SLOWEST_COUNT && out[at].total_ns >= way->total_ns)
        return count;
    for (; at > 0 && out[at - 1].total_ns < way->total_ns; at--)
        out[at] = out[at - 1];
    out[at] = *way;
    return count < SLOWEST_COUNT ? count + 1 : count;
}

size_t slowest_list(struct slow_way out[SLOWEST_COUNT], uint64_t now_ns)
{
    size_t count = 0;
    for (size_t g = 0; g < GENERATION_COUNT; g++)
        for (size_t i = 0; i < generations[g].count; i++)
            if (now_ns - generations[g].begin_ns < GENERATION_COUNT * GENERATION_NS)
                count = insert(out, count, &generations[g].ways[i]);
    ASSERT(count <= SLOWEST_COUNT);
    return count;
}
