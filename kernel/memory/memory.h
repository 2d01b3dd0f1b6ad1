/* Memory: handed out at init, then sealed. Identity mapped, so a pointer's value is its DMA address. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/memory/map.h"
#include "kernel/memory/ram.h"

/* boot/entry.asm's first tables map [0, this). */
#define BOOT_MAPPED_END (UINT64_C(1) << 32)

/* Finds the RAM that can be handed out, maps it and the image with their rights. memory_take works from here on.
 * `complete`: the loader's map was not cut. */
void memory_init(const struct memory_region *regions, size_t region_count, bool complete);

/* Claims the RAM at a given address, in whole pages, with the contents it has. It may lie below 1 MiB. Returns NULL if
 * the loader does not call all of it RAM, or if the image or handed-out memory lies there. To be called soon after the
 * start, before much is handed out. */
void *memory_claim(uint64_t address, size_t bytes);

/* Maps device registers uncached, readable and writable, not executable, and returns their (identity) address. Only
 * before the seal. Returns NULL if `bytes` is 0. */
volatile void *memory_map_device(uint64_t physical, size_t bytes);

/* Maps pixels, write-combining. Returns NULL when they lie in memory or out of reach. */
volatile void *memory_map_framebuffer(uint64_t physical, size_t bytes);

/* Makes firmware's tables readable. Returns NULL when they cannot be there (address 0, device registers). */
const void *memory_map_table(uint64_t physical, size_t bytes);
