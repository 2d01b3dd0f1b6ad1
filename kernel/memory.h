/* Memory: handed out at init, then sealed. Identity mapped, so a pointer's value is its DMA address. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Zeroed, cacheable, never given back. `align` is a power of two. Panics when memory is out or sealed. */
void *memory_take(size_t bytes, size_t align, const char *who);

/* A stated piece of RAM, whole pages, its contents as they are; below 1 MiB as well. NULL when the loader does not call
 * all of it RAM, or the image or something handed out lies there. Soon after the start, before much is handed out. */
void *memory_claim(uint64_t address, size_t bytes);

/* From here on memory_take panics. */
void memory_seal(void);

/* Maps device registers uncached, readable and writable, not executable; returns their (identity) address.
 * Only before the seal. `bytes` may be 0 to ask for nothing and get NULL. */
volatile void *memory_map_device(uint64_t physical, size_t bytes);

/* The same, write-combining, for pixels. NULL when it lies in memory or out of reach. */
volatile void *memory_map_framebuffer(uint64_t physical, size_t bytes);

/* Makes firmware's tables readable. NULL when they cannot be there (address 0, device registers). */
const void *memory_map_table(uint64_t physical, size_t bytes);
