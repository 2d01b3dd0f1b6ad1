/* The page tables: identity mapped, the largest pages that fit, W^X, nothing executable twice, page zero and the
 * stacks' guard pages missing. SDM vol. 3 §4.5. Tables come from memory_take, so mapping ends with the seal. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kernel/memory_map.h"

enum paging_kind {
    PAGING_UNMAPPED,
    PAGING_TEXT,                /* read, execute */
    PAGING_RODATA,              /* read */
    PAGING_DATA,                /* read, write */
    PAGING_DEVICE,              /* read, write, uncached */
    PAGING_FRAMEBUFFER,         /* write-combining */
};

/* Maps the image and all of `ram` and leaves the first tables behind. */
void paging_init(const struct memory_map *ram);
void paging_init_second(void);       /* on the second CPU: the same tables */

/* Maps [begin, end), rounded outwards to pages. What is mapped already in the same kind stays; PAGING_RODATA is content
 * with any cached mapping. False when a page is mapped in another kind. */
bool paging_map(uint64_t begin, uint64_t end, enum paging_kind kind);

/* False for anything whose reading would fault or disturb a device: for those who must not fault. */
bool paging_is_plain(uint64_t address, uint64_t bytes);
