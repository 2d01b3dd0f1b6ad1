/* The part of kernel/memory.h that only the start of the machine needs. */
#pragma once

#include "kernel/boot_info.h"
#include "kernel/memory_map.h"

/* Finds the RAM that can be handed out. First of all; memory_take works from here on. */
void memory_init(const struct boot_info *boot);

/* What is left of it. Ranges shrink from below as memory is taken. */
const struct memory_map *memory_ram(void);
