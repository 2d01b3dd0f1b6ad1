/* Multiboot2 Specification 2.0 §3.6 "Boot information format". */
#pragma once

#include <assert.h>
#include <stdint.h>

enum {
    MULTIBOOT2_INFO_HEADER_BYTES = 8, /* total_size, reserved */
    MULTIBOOT2_TAG_ALIGN = 8,

    MULTIBOOT2_INFO_END = 0,
    MULTIBOOT2_INFO_COMMAND_LINE = 1,
    MULTIBOOT2_INFO_LOADER_NAME = 2,
    MULTIBOOT2_INFO_MODULE = 3,
    MULTIBOOT2_INFO_MEMORY_MAP = 6,
    MULTIBOOT2_INFO_FRAMEBUFFER = 8,
    MULTIBOOT2_INFO_EFI32 = 11, /* the address of UEFI's system table */
    MULTIBOOT2_INFO_EFI64 = 12,
    MULTIBOOT2_INFO_ACPI_OLD = 14, /* a copy of the RSDP of ACPI 1.0 */
    MULTIBOOT2_INFO_ACPI_NEW = 15, /* a copy of the RSDP of ACPI 2.0 or later */

    MULTIBOOT2_FRAMEBUFFER_RGB = 1,
    MULTIBOOT2_FRAMEBUFFER_EGA_TEXT = 2,
};

struct multiboot2_tag {
    uint32_t type, size; /* size counts this header, not the padding */
};

struct multiboot2_module {
    struct multiboot2_tag tag;
    uint32_t mod_start, mod_end;
};

struct multiboot2_memory_map {
    struct multiboot2_tag tag;
    uint32_t entry_size, entry_version;
};

struct multiboot2_memory_entry {
    uint64_t base_addr, length;
    uint32_t type, reserved;
};
static_assert(sizeof(struct multiboot2_memory_entry) == 24, "Multiboot2 2.0 §3.6.8");

struct multiboot2_framebuffer {
    struct multiboot2_tag tag;
    uint64_t framebuffer_addr;
    uint32_t framebuffer_pitch, framebuffer_width, framebuffer_height;
    uint8_t framebuffer_bpp, framebuffer_type, reserved[2];
};
static_assert(sizeof(struct multiboot2_framebuffer) == 32,
              "Multiboot2 2.0 §3.6.12, with the reserved field GRUB writes");
