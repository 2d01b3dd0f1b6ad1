/* Linux Documentation/arch/x86/zero-page.rst and boot.rst: offsets in struct boot_params, which the loader fills in. */
#pragma once

enum {
    BOOT_PARAMS_VIDEO_COLS = 0x07, /* screen_info */
    BOOT_PARAMS_VIDEO_LINES = 0x0e,
    BOOT_PARAMS_VIDEO_IS_VGA = 0x0f,
    BOOT_PARAMS_LFB_WIDTH = 0x12,
    BOOT_PARAMS_LFB_HEIGHT = 0x14,
    BOOT_PARAMS_LFB_DEPTH = 0x16,
    BOOT_PARAMS_LFB_BASE = 0x18,
    BOOT_PARAMS_LFB_LINELENGTH = 0x24,
    BOOT_PARAMS_EXT_LFB_BASE = 0x3a,
    BOOT_PARAMS_ACPI_RSDP_ADDR = 0x70,
    BOOT_PARAMS_EXT_RAMDISK_IMAGE = 0xc0,
    BOOT_PARAMS_EXT_RAMDISK_SIZE = 0xc4,
    BOOT_PARAMS_EXT_CMD_LINE_PTR = 0xc8,
    BOOT_PARAMS_EFI_LOADER_SIGNATURE = 0x1c0, /* efi_info: "EL32" or "EL64"; the rest counts with one of them alone */
    BOOT_PARAMS_EFI_SYSTAB = 0x1c4,
    BOOT_PARAMS_EFI_SYSTAB_HI = 0x1d8,
    BOOT_PARAMS_E820_ENTRIES = 0x1e8,
    BOOT_PARAMS_HEADER_MAGIC = 0x202,
    BOOT_PARAMS_TYPE_OF_LOADER = 0x210,
    BOOT_PARAMS_RAMDISK_IMAGE = 0x218,
    BOOT_PARAMS_RAMDISK_SIZE = 0x21c,
    BOOT_PARAMS_CMD_LINE_PTR = 0x228,
    BOOT_PARAMS_SETUP_DATA = 0x250, /* the first node of a list */
    BOOT_PARAMS_E820_TABLE = 0x2d0,
    BOOT_PARAMS_E820_COUNT_MAX = 128,
    BOOT_PARAMS_E820_BYTES = 20, /* u64 address, u64 size, u32 type */
    BOOT_PARAMS_BYTES = 4096,

    /* boot.rst, struct setup_data; uapi/asm/bootparam.h, struct efi_setup_data */
    SETUP_DATA_NEXT = 0,
    SETUP_DATA_TYPE = 8,
    SETUP_DATA_LEN = 12,
    SETUP_DATA_DATA = 16,
    SETUP_EFI = 4,
    EFI_SETUP_DATA_TABLES = 16,

    LINUX_HEADER_MAGIC = 0x53726448, /* "HdrS" */
    LINUX_LOADER_GRUB = 7,           /* type_of_loader >> 4 */
    VIDEO_TYPE_VGA_TEXT = 0x01,
    VIDEO_TYPE_VLFB = 0x23,
    VIDEO_TYPE_EFI = 0x70,
};
