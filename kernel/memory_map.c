#include "kernel/memory_map.h"

static uint64_t page_down(uint64_t address) { return address & -(uint64_t)MEMORY_PAGE_BYTES; }

static uint64_t page_up(uint64_t address)
{
    uint64_t up = page_down(address + MEMORY_PAGE_BYTES - 1);
    return up < address ? page_down(UINT64_MAX) : up;   /* the last page of the address space is given up */
}

static void range_insert(struct memory_map *map, size_t index, struct memory_range range)
{
    if (map->count == MEMORY_RANGE_COUNT_MAX) {
        map->cut = true;
        if (index == map->count) {
            return;
        }
        map->count--;
    }
    for (size_t i = map->count; i > index; i--) {
        map->ranges[i] = map->ranges[i - 1];
    }
    map->ranges[index] = range;
    map->count++;
}

static void range_delete(struct memory_map *map, size_t index)
{
    map->count--;
    for (size_t i = index; i < map->count; i++) {
        map->ranges[i] = map->ranges[i + 1];
    }
}

/* Adds [begin, end), merging it with the ranges it overlaps or touches. */
static void range_add(struct memory_map *map, uint64_t begin, uint64_t end)
{
    size_t at = 0;
    while (at < map->count && map->ranges[at].end < begin) {
        at++;
    }
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
        if (range.begin < begin) {
            range_insert(map, i++, (struct memory_range){ range.begin, begin });
        }
        if (range.end > end) {
            range_insert(map, i++, (struct memory_range){ end, range.end });
        }
    }
}

void memory_map_build(struct memory_map *map, const struct boot_region *regions, size_t region_count)
{
    map->count = 0;
    map->cut = false;
    for (size_t i = 0; i < region_count; i++) {
        uint64_t begin = page_up(regions[i].base), end = page_down(regions[i].base + regions[i].bytes);
        if (regions[i].type == REGION_RAM && begin < end) {
            range_add(map, begin, end);
        }
    }
    for (size_t i = 0; i < region_count; i++) {
        if (regions[i].type != REGION_RAM) {
            memory_map_remove(map, regions[i].base, regions[i].base + regions[i].bytes);
        }
    }
}

uint64_t memory_map_bytes(const struct memory_map *map)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < map->count; i++) {
        bytes += map->ranges[i].end - map->ranges[i].begin;
    }
    return bytes;
}
