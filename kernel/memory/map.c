/* Adds and removes ranges of a sorted list. Knows no loader and no page table. */
#include "kernel/memory/map.h"

#include "base/assert.h"

static uint64_t page_down(uint64_t address) { return address & -(uint64_t)MEMORY_PAGE_BYTES; }

static uint64_t page_up(uint64_t address)
{
    uint64_t up = page_down(address + MEMORY_PAGE_BYTES - 1);
    return up < address ? page_down(UINT64_MAX) : up; /* the last page of the address space is given up */
}

static void range_insert(struct memory_map *map, size_t index, struct memory_range range)
{
    ASSERT(index <= map->count);
    ASSERT(range.begin < range.end);
    if (map->count == MEMORY_RANGE_COUNT_MAX) {
        map->cut = true;
        if (index == map->count)
            return;
        map->count--;
    }
    for (size_t i = map->count; i > index; i--)
        map->ranges[i] = map->ranges[i - 1];
    map->ranges[index] = range;
    map->count++;
}

static void range_delete(struct memory_map *map, size_t index)
{
    ASSERT(index < map->count);
    map->count--;
    for (size_t i = index; i < map->count; i++)
        map->ranges[i] = map->ranges[i + 1];
}

/* Adds [begin, end), merging it with the ranges it overlaps or touches. */
static void range_add(struct memory_map *map, uint64_t begin, uint64_t end)
{
    ASSERT(begin < end);
    size_t at = 0;
    while (at < map->count && map->ranges[at].end < begin)
        at++;
    while (at < map->count && map->ranges[at].begin <= end) {
        begin = map->ranges[at].begin < begin ? map->ranges[at].begin : begin;
        end = map->ranges[at].end > end ? map->ranges[at].end : end;
        range_delete(map, at);
    }
    range_insert(map, at, (struct memory_range){ begin, end });
}

void memory_map_remove(struct memory_map *map, uint64_t begin, uint64_t end)
{
    begin = page_down(begin);
    end = page_up(end);
    for (size_t i = 0; i < map->count;) {
        struct memory_range range = map->ranges[i];
        if (range.end <= begin || range.begin >= end) {
            i++;
            continue;
        }
        range_delete(map, i);
        if (range.begin < begin)
            range_insert(map, i++, (struct memory_range){ range.begin, begin });
        if (range.end > end)
            range_insert(map, i++, (struct memory_range){ end, range.end });
    }
    memory_map_check(map);
}

void memory_map_build(struct memory_map *map, const struct memory_region *regions, size_t region_count)
{
    map->count = 0;
    map->cut = false;
    for (size_t i = 0; i < region_count; i++) {
        uint64_t begin = page_up(regions[i].base), end = page_down(regions[i].base + regions[i].bytes);
        if (regions[i].type == REGION_RAM && begin < end)
            range_add(map, begin, end);
    }
    for (size_t i = 0; i < region_count; i++)
        if (regions[i].type != REGION_RAM)
            memory_map_remove(map, regions[i].base, regions[i].base + regions[i].bytes);
    memory_map_check(map);
}

bool memory_map_holds(const struct memory_map *map, uint64_t begin, uint64_t end)
{
    ASSERT(begin <= end);
    for (size_t i = 0; i < map->count; i++)
        if (map->ranges[i].begin <= begin && end <= map->ranges[i].end)
            return true;
    return false;
}

uint64_t memory_map_bytes(const struct memory_map *map)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < map->count; i++)
        bytes += map->ranges[i].end - map->ranges[i].begin;
    return bytes;
}

void memory_map_check(const struct memory_map *map)
{
    ASSERT(map->count <= MEMORY_RANGE_COUNT_MAX);
    for (size_t i = 0; i < map->count; i++) {
        const struct memory_range *range = &map->ranges[i];
        ASSERT(range->begin < range->end);
        ASSERT(range->begin % MEMORY_PAGE_BYTES == 0 && range->end % MEMORY_PAGE_BYTES == 0);
        ASSERT(i == 0 || map->ranges[i - 1].end < range->begin);
    }
}
