/* The loader's information, copied out of its memory, which is free afterwards.
 *
 * Multiboot2 Specification 2.0 §3.6, the PVH start info (Xen public/arch-x86/hvm/start_info.h) and Linux's struct
 * boot_params end in the same struct. Everything here is input: lengths are checked, and text that does not fit is cut
 * and marked. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/firmware/efi.h"
#include "kernel/memory/map.h"

enum {
    BOOT_COMMAND_LINE_BYTES_MAX = 4096, /* 8 moduli of 512 bits are 1.3 KB; Linux takes 2 KiB */
    BOOT_MODULE_BYTES_MAX = 16384,      /* a settings file with comments */
};

enum boot_protocol { BOOT_MULTIBOOT2, BOOT_PVH, BOOT_LINUX }; /* boot/entry.asm knows the values */

enum boot_screen { SCREEN_UNKNOWN, SCREEN_NONE, SCREEN_TEXT, SCREEN_RGB };
struct boot_framebuffer {
    enum boot_screen kind; /* UNKNOWN: the protocol does not say (PVH) */
    uint64_t base;
    uint32_t pitch_bytes, width, height; /* in pixels, or characters for SCREEN_TEXT */
    uint8_t pixel_bits;
};

struct boot_info {
    enum boot_protocol protocol;
    char loader[64]; /* the loader's name, or "" */
    char
        command_line[BOOT_COMMAND_LINE_BYTES_MAX]; /* terminated; GRUB's BOOT_IMAGE= is a word of it under BOOT_LINUX */
    char module[BOOT_MODULE_BYTES_MAX];            /* terminated; "" without a module */
    /* The text could not be read whole. Half the settings must not be used. */
    bool command_line_cut, module_cut;
    uint32_t module_count; /* only the first is read */
    /* The loader's copies of command line and module. NULL: there is none that can be reached. */
    struct {
        void *at;
        size_t bytes;
    } texts[2];
    struct memory_region regions[MEMORY_REGION_COUNT_MAX];
    size_t region_count;
    uint32_t regions_dropped_count;
    uint64_t rsdp;            /* the address of the ACPI root pointer; 0: not reported */
    uint8_t rsdp_copy[36];    /* Multiboot2 hands over a copy instead, of 20 or 36 bytes; */
    uint32_t rsdp_copy_bytes; /* 0: no copy */
    struct efi_handover efi;
    struct boot_framebuffer framebuffer;
};

/* Reads the loader's structure `information`. Returns false when it cannot be one. Reads nothing at or above
 * `mapped_end`: a command line or module that lies there counts as cut. Regions may overlap and come in any order. */
bool boot_info_parse(struct boot_info *boot, enum boot_protocol protocol, const void *information, uint64_t mapped_end);
