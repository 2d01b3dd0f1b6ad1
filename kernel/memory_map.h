/* Which physical memory is RAM that nobody else uses. Pure: ranges in, ranges out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/boot_info.h"

struct memory_range {
    uint64_t begin, end;        /* end is not in it; both are multiples of 4096 */
};

enum {
    /* Every region can cut a range in two: in the worst case RAM around every reserved one. */
    MEMORY_RANGE_COUNT_MAX = BOOT_REGION_COUNT_MAX,
    MEMORY_PAGE_BYTES = 4096,
};

struct memory_map {
    struct memory_range ranges[MEMORY_RANGE_COUNT_MAX];     /* ascending, apart from each other */
    size_t count;
    bool cut;                   /* there were more ranges than fit; the highest are lost */
};

/* RAM of the loader's map, shrunk to whole pages. Where regions overlap, anything that is not RAM wins. */
void memory_map_build(struct memory_map *map, const struct boot_region *regions, size_t region_count);

/* Takes [begin, end) out, rounded outwards to pages. */
void memory_map_remove(struct memory_map *map, uint64_t begin, uint64_t end);

uint64_t memory_map_bytes(const struct memory_map *map);
