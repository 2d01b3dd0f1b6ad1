/* Memory: handed out at init, then sealed. Identity mapped, so a pointer's value is its DMA address. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Zeroed, cacheable, never given back. `align` is a power of two. Panics when memory is out or sealed. */
void *memory_take(size_t bytes, size_t align, const char *who);

/* From here on memory_take panics. */
void memory_seal(void);

/* Maps device registers uncached, readable and writable, not executable; returns their (identity) address.
 * Only before the seal. `bytes` may be 0 to ask for nothing and get NULL. */
volatile void *memory_map_device(uint64_t physical, size_t bytes);
