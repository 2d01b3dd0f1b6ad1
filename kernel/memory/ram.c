/* Keeps the RAM that is left. Ranges shrink from below. */
#include "kernel/memory/ram.h"

#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "kernel/panic.h"

static struct memory_map ram;
static uint64_t reachable_end;
static uint64_t taken_bytes;
static bool sealed;

/* Memory is taken from below, so the blocks form few ranges. */
enum { TAKEN_COUNT_MAX = 16 };
static struct memory_range taken[TAKEN_COUNT_MAX];
static size_t taken_count;

void ram_init(const struct memory_map *map, uint64_t end)
{
    ASSERT(!sealed && taken_bytes == 0);
    memory_map_check(map);
    ram = *map;
    reachable_end = end;
}

void ram_reach_all(void) { reachable_end = UINT64_MAX; }

bool ram_remove(uint64_t begin, uint64_t end)
{
    ASSERT(!sealed);
    if (!memory_map_holds(&ram, begin, end))
        return false;
    memory_map_remove(&ram, begin, end);
    return true;
}

static void taken_add(uint64_t begin, uint64_t end)
{
    ASSERT(begin <= end);
    for (size_t i = 0; i < taken_count; i++)
        if (begin >= taken[i].end && begin - taken[i].end < MEMORY_PAGE_BYTES) { /* after it, aligned */
            taken[i].end = end;
            return;
        }
    if (taken_count < TAKEN_COUNT_MAX)
        taken[taken_count++] = (struct memory_range){ begin, end };
}

bool ram_taken(size_t index, struct memory_range *range)
{
    if (index >= taken_count)
        return false;
    *range = taken[index];
    return true;
}

bool ram_is_sealed(void) { return sealed; }

void *memory_take(size_t bytes, size_t align, const char *who)
{
    ASSERT(align != 0 && (align & (align - 1)) == 0);
    if (sealed)
        panic("memory is sealed, but %s wants %zu bytes", who, bytes);
    for (size_t i = 0; i < ram.count; i++) {
        struct memory_range *range = &ram.ranges[i];
        uint64_t begin = (range->begin + align - 1) & -(uint64_t)align;
        if (begin >= range->begin && begin <= range->end && bytes <= range->end - begin
            && begin + bytes <= reachable_end) {
            range->begin = begin + bytes;
            ASSERT(range->begin <= range->end);
            if (range->begin == range->end)
                memmove(range, range + 1, (--ram.count - i) * sizeof *range);
            taken_bytes += bytes;
            taken_add(begin, begin + bytes);
            return memset((void *)begin, 0, bytes);
        }
    }
    panic("no memory left: %s wants %zu bytes, %zu are taken", who, bytes, (size_t)taken_bytes);
}

void memory_seal(void)
{
    sealed = true;
    log_line("memory: %zu KiB taken, sealed", (size_t)(taken_bytes >> 10));
}
