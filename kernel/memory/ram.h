/* A bump allocator over the ranges of RAM that nobody else uses: lowest address first, nothing comes back. Knows no
 * page table; page tables come out of it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/memory/map.h"

/* Starts with the RAM of `map`, of which only what lies below `reachable_end` is handed out. */
void ram_init(const struct memory_map *map, uint64_t reachable_end);

/* Hands out all of it from now on: it is mapped. */
void ram_reach_all(void);

/* Takes a stated range out. Returns false if not all of it is left. */
bool ram_remove(uint64_t begin, uint64_t end);

bool ram_is_sealed(void);

/* Hands out memory: zeroed, cacheable, never given back. `align` is a power of two. Panics when memory is out or
 * sealed. */
void *memory_take(size_t bytes, size_t align, const char *who);

/* Returns the range of an index that memory_take has handed out of, from 0 on. False: there are no more. Ranges
 * beyond the first 16 are not noted. */
bool ram_taken(size_t index, struct memory_range *range);

/* Makes every further memory_take a panic. */
void memory_seal(void);
