/* The part of kernel/memory.h that only the start of the machine needs. */
#pragma once

#include "kernel/boot_info.h"

/* boot/entry.asm's first tables map [0, this). */
#define BOOT_MAPPED_END (UINT64_C(1) << 32)

/* Finds the RAM that can be handed out, maps it and the image with their rights. memory_take works from here on. */
void memory_init(const struct boot_info *boot);
