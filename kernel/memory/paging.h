/* The page tables: identity mapped, the largest pages that fit, none both writable and executable. Page zero and the
 * stacks' guard pages are missing. SDM vol. 3, "4-Level Paging". Tables come from memory_take, so mapping ends with the
 * seal. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kernel/memory/map.h"

enum paging_kind {
    PAGING_UNMAPPED,
    PAGING_TEXT,        /* read, execute */
    PAGING_RODATA,      /* read */
    PAGING_DATA,        /* read, write */
    PAGING_DEVICE,      /* read, write, uncached */
    PAGING_FRAMEBUFFER, /* write-combining */
};

/* Maps the image and all of `ram` in new tables, and loads these. */
void paging_init(const struct memory_map *ram);
/* Loads the same tables on another CPU, on which it runs. */
void paging_load(void);

/* Maps [begin, end), rounded outwards to pages. Pages that are mapped already in the same kind stay; PAGING_RODATA
 * accepts any cached mapping. Returns false when a page is mapped in another kind. */
bool paging_map(uint64_t begin, uint64_t end, enum paging_kind kind);

/* Returns true if the byte at this address is memory that can be read: for code that must neither fault nor disturb a
 * device. */
bool paging_is_readable(uint64_t address);
