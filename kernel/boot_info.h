/* What the loader told us, copied out of its memory so that this memory is free afterwards.
 *
 * Multiboot2 Specification 2.0 §3.6 and the PVH start info (Xen public/arch-x86/hvm/start_info.h) end in the same
 * struct. Everything here is input: lengths are checked, what does not fit is cut and marked, never believed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BOOT_COMMAND_LINE_BYTES_MAX = 4096,     /* 8 constants of 512 bits are 1.3 KB; Linux' limit is 2 KiB or 4 KiB */
    BOOT_MODULE_BYTES_MAX = 16384,          /* a settings file with comments */
    BOOT_REGION_COUNT_MAX = 256,            /* UEFI maps of real machines have 50 to 200 entries */
};

enum boot_protocol { BOOT_MULTIBOOT2, BOOT_PVH, BOOT_LINUX };       /* boot/entry.asm knows the values */

/* One piece of the physical address space. Types are those of ACPI 6.5 §15, "System Address Map Interfaces". */
enum boot_region_type {
    REGION_RAM = 1,
    REGION_RESERVED = 2,
    REGION_ACPI_RECLAIM = 3,
    REGION_ACPI_NVS = 4,
    REGION_BAD = 5,
};
struct boot_region {
    uint64_t base, bytes;
    uint32_t type;
};

enum boot_screen { SCREEN_UNKNOWN, SCREEN_NONE, SCREEN_TEXT, SCREEN_RGB };
struct boot_framebuffer {
    enum boot_screen kind;      /* UNKNOWN: the protocol does not say (PVH) */
    uint64_t base;
    uint32_t pitch_bytes, width, height;    /* in pixels, or characters for SCREEN_TEXT */
    uint8_t pixel_bits;
};

struct boot_info {
    enum boot_protocol protocol;
    char loader[64];                        /* its name, or "" */
    char command_line[BOOT_COMMAND_LINE_BYTES_MAX];     /* terminated, without the name of the image */
    char module[BOOT_MODULE_BYTES_MAX];     /* terminated; "" without a module */
    bool command_line_cut, module_cut;      /* did not fit: a half settings text must not be used */
    uint32_t module_count;                  /* only the first is read */
    struct boot_region regions[BOOT_REGION_COUNT_MAX];
    size_t region_count;
    uint32_t regions_dropped_count;
    uint64_t rsdp;                          /* where the ACPI root pointer lies; 0: not told */
    uint8_t rsdp_copy[36];                  /* Multiboot2 hands over a copy instead, of 20 or 36 bytes; */
    uint32_t rsdp_copy_bytes;               /* 0: no copy */
    struct boot_framebuffer framebuffer;
};

/* `information` is the loader's structure; false when it cannot be one. Nothing at or above `mapped_end` is read: a
 * command line or module that lies there counts as cut. Regions may overlap and come in any order. */
bool boot_info_parse(struct boot_info *boot, enum boot_protocol protocol, const void *information, uint64_t mapped_end);
