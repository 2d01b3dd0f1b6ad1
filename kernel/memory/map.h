/* Ranges of physical memory: which of them are RAM that nobody else uses. Pure: ranges in, ranges out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MEMORY_PAGE_BYTES = 4096,
    MEMORY_REGION_COUNT_MAX = 256, /* UEFI maps of real machines have 50 to 200 entries */
    /* Every region can cut a range in two: in the worst case RAM around every reserved one. */
    MEMORY_RANGE_COUNT_MAX = MEMORY_REGION_COUNT_MAX,
};

/* One piece of the physical address space, as a loader reports it. Types are those of ACPI 6.5 §15, "System Address Map
 * Interfaces". */
enum memory_region_type {
    REGION_RAM = 1,
    REGION_RESERVED = 2,
    REGION_ACPI_RECLAIM = 3,
    REGION_ACPI_NVS = 4,
    REGION_BAD = 5,
};
struct memory_region {
    uint64_t base, bytes;
    uint32_t type;
};

struct memory_range {
    uint64_t begin, end; /* end is not in it; both are multiples of 4096 */
};

struct memory_map {
    struct memory_range ranges[MEMORY_RANGE_COUNT_MAX]; /* ascending, apart from each other */
    size_t count;
    bool cut; /* there were more ranges than fit; the highest are lost */
};

/* Collects the RAM of a loader's regions, shrunk to whole pages. Regions may overlap and come in any order; anything
 * that is not RAM wins. */
void memory_map_build(struct memory_map *map, const struct memory_region *regions, size_t region_count);

/* Takes [begin, end) out, rounded outwards to pages. */
void memory_map_remove(struct memory_map *map, uint64_t begin, uint64_t end);

/* Returns true if one range holds all of [begin, end). */
bool memory_map_holds(const struct memory_map *map, uint64_t begin, uint64_t end);

uint64_t memory_map_bytes(const struct memory_map *map);

/* Asserts the invariant: ranges of whole pages, ascending, apart from each other. */
void memory_map_check(const struct memory_map *map);
