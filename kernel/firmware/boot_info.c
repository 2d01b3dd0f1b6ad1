/* Reads each protocol's structure. Runs on the first page tables (the first 4 GiB), allocates nothing, logs nothing. */
#include "kernel/firmware/boot_info.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "kernel/firmware/linux_boot_spec.h"
#include "kernel/firmware/multiboot2_spec.h"
#include "kernel/firmware/pvh_spec.h"

enum { SETUP_DATA_COUNT_MAX = 64 }; /* a list that goes round in circles ends there */

/* Copies at most out_bytes - 1 bytes and terminates. Returns true when something had to be left out. */
static bool text_copy(char *out, size_t out_bytes, const char *text, size_t text_bytes)
{
    ASSERT(out_bytes > 0);
    size_t bytes = min_size(text_bytes, out_bytes - 1);
    memcpy(out, text, bytes);
    out[bytes] = '\0';
    return bytes < text_bytes;
}

static void region_add(struct boot_info *boot, uint64_t base, uint64_t bytes, uint32_t type)
{
    if (bytes == 0 || base + bytes < base)
        return;
    if (boot->region_count == MEMORY_REGION_COUNT_MAX) {
        boot->regions_dropped_count++;
        return;
    }
    ASSERT(boot->region_count < MEMORY_REGION_COUNT_MAX);
    boot->regions[boot->region_count++] = (struct memory_region){ base, bytes, type };
}

/* Returns true when all of it may be read. `count` * `step` is never computed, so it cannot overflow. */
static bool readable(uint64_t base, uint64_t count, uint64_t step, uint64_t mapped_end)
{
    return base != 0 && base <= mapped_end && count <= (mapped_end - base) / step;
}

/* Takes the command line at an address; 0: there is none. Text that does not end in time counts as cut. */
static void command_line_take(struct boot_info *boot, uint64_t address, uint64_t mapped_end)
{
    boot->command_line_cut = address != 0;
    if (readable(address, 1, 1, mapped_end)) {
        const char *text = (const char *)(uintptr_t)address;
        size_t bytes_max = (size_t)min_size(sizeof boot->command_line, mapped_end - address);
        ASSERT(bytes_max > 0);
        size_t bytes = strnlen(text, bytes_max);
        text_copy(boot->command_line, sizeof boot->command_line, text, bytes);
        boot->command_line_cut = bytes == bytes_max;
        boot->texts[0].at = (void *)(uintptr_t)address;
        boot->texts[0].bytes = bytes;
    }
}

/* Takes the first module, and counts all. An empty one has no address: GRUB reports 0. */
static void module_take(struct boot_info *boot, uint64_t address, uint64_t bytes, uint64_t mapped_end)
{
    if (boot->module_count++ != 0 || bytes == 0)
        return;
    boot->module_cut = !readable(address, bytes, 1, mapped_end)
                       || text_copy(boot->module, sizeof boot->module, (const char *)(uintptr_t)address, (size_t)bytes);
    if (readable(address, bytes, 1, mapped_end)) {
        boot->texts[1].at = (void *)(uintptr_t)address;
        boot->texts[1].bytes = (size_t)bytes;
    }
}

/* ---- Multiboot2 ---- */

/* Addresses are 32 bits wide here, so all of them are mapped. */

static void take_memory_map(struct boot_info *boot, const uint8_t *tag, uint32_t size)
{
    uint32_t step = load_le32(tag + offsetof(struct multiboot2_memory_map, entry_size));
    if (step < sizeof(struct multiboot2_memory_entry))
        return;
    for (uint32_t at = sizeof(struct multiboot2_memory_map); at <= size && size - at >= step; at += step) {
        struct multiboot2_memory_entry entry;
        ASSERT(size - at >= sizeof entry);
        memcpy(&entry, tag + at, sizeof entry);
        region_add(boot, entry.base_addr, entry.length, entry.type);
    }
}

static void take_framebuffer(struct boot_info *boot, const uint8_t *tag)
{
    struct multiboot2_framebuffer from;
    memcpy(&from, tag, sizeof from);
    boot->framebuffer = (struct boot_framebuffer){
        .kind = from.framebuffer_type == MULTIBOOT2_FRAMEBUFFER_RGB        ? SCREEN_RGB
                : from.framebuffer_type == MULTIBOOT2_FRAMEBUFFER_EGA_TEXT ? SCREEN_TEXT
                                                                           : SCREEN_NONE,
        .base = from.framebuffer_addr,
        .pitch_bytes = from.framebuffer_pitch,
        .width = from.framebuffer_width,
        .height = from.framebuffer_height,
        .pixel_bits = from.framebuffer_bpp,
    };
}

/* Returns the bytes that a tag of this type must at least have. */
static uint32_t tag_bytes_min(uint32_t type)
{
    switch (type) {
    case MULTIBOOT2_INFO_MODULE:
        return sizeof(struct multiboot2_module) + 1;
    case MULTIBOOT2_INFO_MEMORY_MAP:
        return sizeof(struct multiboot2_memory_map);
    case MULTIBOOT2_INFO_FRAMEBUFFER:
        return sizeof(struct multiboot2_framebuffer);
    case MULTIBOOT2_INFO_EFI32:
        return sizeof(struct multiboot2_tag) + 4;
    case MULTIBOOT2_INFO_EFI64:
        return sizeof(struct multiboot2_tag) + 8;
    default:
        return sizeof(struct multiboot2_tag);
    }
}

static void tag_take(struct boot_info *boot, uint32_t type, const uint8_t *tag, uint32_t size)
{
    ASSERT(size >= tag_bytes_min(type));
    const char *text = (const char *)tag + sizeof(struct multiboot2_tag);
    size_t text_bytes = strnlen(text, size - sizeof(struct multiboot2_tag));
    switch (type) {
    case MULTIBOOT2_INFO_COMMAND_LINE:
        boot->command_line_cut = text_copy(boot->command_line, sizeof boot->command_line, text, text_bytes);
        boot->texts[0].at = (void *)(uintptr_t)text;
        boot->texts[0].bytes = text_bytes;
        break;
    case MULTIBOOT2_INFO_LOADER_NAME:
        text_copy(boot->loader, sizeof boot->loader, text, text_bytes);
        break;
    case MULTIBOOT2_INFO_MODULE: {
        struct multiboot2_module module;
        memcpy(&module, tag, sizeof module);
        if (module.mod_end >= module.mod_start)
            module_take(boot, module.mod_start, module.mod_end - module.mod_start, UINT64_MAX);
        break;
    }
    case MULTIBOOT2_INFO_MEMORY_MAP:
        take_memory_map(boot, tag, size);
        break;
    case MULTIBOOT2_INFO_FRAMEBUFFER:
        take_framebuffer(boot, tag);
        break;
    case MULTIBOOT2_INFO_EFI32:
        boot->efi.system_table = load_le32(text);
        break;
    case MULTIBOOT2_INFO_EFI64:
        boot->efi = (struct efi_handover){ .system_table = load_le64(text), .is_64 = true };
        break;
    case MULTIBOOT2_INFO_ACPI_OLD: /* the newer of the two, which is longer, wins */
    case MULTIBOOT2_INFO_ACPI_NEW:
        if (size - sizeof(struct multiboot2_tag) > boot->rsdp_copy_bytes) {
            boot->rsdp_copy_bytes = (uint32_t)min_size(size - sizeof(struct multiboot2_tag), sizeof boot->rsdp_copy);
            memcpy(boot->rsdp_copy, text, boot->rsdp_copy_bytes);
        }
        break;
    }
}

/* Removes the backslash that GRUB (grub-core/lib/cmdline.c) puts before each backslash and quote. Settings know no
 * quoting, so this restores the words of the user. */
static void grub_escapes_remove(struct boot_info *boot)
{
    if (strncmp(boot->loader, "GRUB", 4) != 0)
        return;
    char *to = boot->command_line;
    for (const char *from = boot->command_line; *from != '\0'; from++) {
        if (from[0] == '\\' && (from[1] == '\\' || from[1] == '\'' || from[1] == '"'))
            from++;
        *to++ = *from;
    }
    ASSERT(to < boot->command_line + sizeof boot->command_line);
    *to = '\0';
}

/* Reads a total size, then tags, each aligned to 8 bytes, up to the end tag. Multiboot2 2.0 §3.6.1. */
static bool multiboot2_parse(struct boot_info *boot, const uint8_t *information, uint64_t mapped_end)
{
    uint32_t total = load_le32(information);
    if (total < MULTIBOOT2_INFO_HEADER_BYTES || total > mapped_end - (uintptr_t)information)
        return false;
    uint32_t at = MULTIBOOT2_INFO_HEADER_BYTES;
    while (total - at >= sizeof(struct multiboot2_tag)) {
        ASSERT(at <= total && at % MULTIBOOT2_TAG_ALIGN == 0);
        uint32_t type = load_le32(information + at);
        uint32_t size = load_le32(information + at + 4);
        if (type == MULTIBOOT2_INFO_END)
            return true;
        if (size < tag_bytes_min(type) || size > total - at)
            return false;
        tag_take(boot, type, information + at, size);
        uint32_t step = (size + MULTIBOOT2_TAG_ALIGN - 1) & -(uint32_t)MULTIBOOT2_TAG_ALIGN;
        if (step < size || step > total - at)
            return true; /* a last tag without padding, and no end tag: nothing follows */
        at += step;
    }
    return true;
}

/* ---- PVH ---- */

static bool pvh_parse(struct boot_info *boot, const uint8_t *information, uint64_t mapped_end)
{
    ASSERT(boot->region_count == 0 && boot->module_count == 0);
    struct hvm_start_info start;
    memcpy(&start, information, sizeof start);
    if (start.magic != XEN_HVM_START_MAGIC_VALUE)
        return false;
    command_line_take(boot, start.cmdline_paddr, mapped_end);

    struct hvm_modlist_entry module;
    bool modules_readable = readable(start.modlist_paddr, start.nr_modules, sizeof module, mapped_end);
    boot->module_cut = start.nr_modules != 0 && !modules_readable;
    for (uint32_t i = 0; modules_readable && i < start.nr_modules; i++) {
        memcpy(&module, (const void *)(uintptr_t)(start.modlist_paddr + i * sizeof module), sizeof module);
        module_take(boot, module.paddr, module.size, mapped_end);
    }

    struct hvm_memmap_table_entry entry;
    bool map_readable = start.version >= HVM_MEMMAP_VERSION
                        && readable(start.memmap_paddr, start.memmap_entries, sizeof entry, mapped_end);
    for (uint32_t i = 0; map_readable && i < start.memmap_entries; i++) {
        memcpy(&entry, (const void *)(uintptr_t)(start.memmap_paddr + i * sizeof entry), sizeof entry);
        region_add(boot, entry.addr, entry.size, entry.type);
    }
    boot->rsdp = start.rsdp_paddr;
    return true;
}

/* ---- Linux boot protocol ---- */

/* Returns a number of 64 bits whose halves lie apart, at offsets. */
static uint64_t halves(const uint8_t *params, uint32_t low, uint32_t high)
{
    return load_le32(params + low) | (uint64_t)load_le32(params + high) << 32;
}

static void linux_screen(struct boot_info *boot, const uint8_t *params)
{
    uint8_t type = params[BOOT_PARAMS_VIDEO_IS_VGA];
    if (type == VIDEO_TYPE_VLFB || type == VIDEO_TYPE_EFI) {
        boot->framebuffer = (struct boot_framebuffer){
            .kind = SCREEN_RGB,
            .base = halves(params, BOOT_PARAMS_LFB_BASE, BOOT_PARAMS_EXT_LFB_BASE),
            .pitch_bytes = load_le16(params + BOOT_PARAMS_LFB_LINELENGTH),
            .width = load_le16(params + BOOT_PARAMS_LFB_WIDTH),
            .height = load_le16(params + BOOT_PARAMS_LFB_HEIGHT),
            .pixel_bits = (uint8_t)load_le16(params + BOOT_PARAMS_LFB_DEPTH),
        };
    } /* else unknown, as with PVH: the driver looks for a VGA */
}

/* Takes UEFI's system table, and the address of the tables that Linux hands over at kexec. */
static void linux_efi(struct boot_info *boot, const uint8_t *params, uint64_t mapped_end)
{
    const uint8_t *signature = params + BOOT_PARAMS_EFI_LOADER_SIGNATURE;
    boot->efi.is_64 = memcmp(signature, "EL64", 4) == 0;
    if (!boot->efi.is_64 && memcmp(signature, "EL32", 4) != 0)
        return;
    boot->efi.system_table = boot->efi.is_64 ? halves(params, BOOT_PARAMS_EFI_SYSTAB, BOOT_PARAMS_EFI_SYSTAB_HI)
                                             : load_le32(params + BOOT_PARAMS_EFI_SYSTAB);
    uint64_t at = load_le64(params + BOOT_PARAMS_SETUP_DATA);
    for (size_t nodes = 0; nodes < SETUP_DATA_COUNT_MAX && readable(at, 1, SETUP_DATA_DATA, mapped_end); nodes++) {
        const uint8_t *node = (const uint8_t *)(uintptr_t)at;
        if (load_le32(node + SETUP_DATA_TYPE) == SETUP_EFI
            && load_le32(node + SETUP_DATA_LEN) >= EFI_SETUP_DATA_TABLES + 8
            && readable(at, 1, SETUP_DATA_DATA + EFI_SETUP_DATA_TABLES + 8, mapped_end))
            boot->efi.configuration_tables = load_le64(node + SETUP_DATA_DATA + EFI_SETUP_DATA_TABLES);
        at = load_le64(node + SETUP_DATA_NEXT);
    }
}

static bool linux_parse(struct boot_info *boot, const uint8_t *params, uint64_t mapped_end)
{
    ASSERT(boot->region_count == 0 && boot->module_count == 0);
    if (load_le32(params + BOOT_PARAMS_HEADER_MAGIC) != LINUX_HEADER_MAGIC)
        return false;
    if (params[BOOT_PARAMS_TYPE_OF_LOADER] >> 4 == LINUX_LOADER_GRUB)
        text_copy(boot->loader, sizeof boot->loader, "GRUB", 4);
    command_line_take(boot, halves(params, BOOT_PARAMS_CMD_LINE_PTR, BOOT_PARAMS_EXT_CMD_LINE_PTR), mapped_end);
    uint64_t module_bytes = halves(params, BOOT_PARAMS_RAMDISK_SIZE, BOOT_PARAMS_EXT_RAMDISK_SIZE);
    if (module_bytes != 0) {
        module_take(boot, halves(params, BOOT_PARAMS_RAMDISK_IMAGE, BOOT_PARAMS_EXT_RAMDISK_IMAGE), module_bytes,
                    mapped_end);
    }
    size_t count = min_size(params[BOOT_PARAMS_E820_ENTRIES], BOOT_PARAMS_E820_COUNT_MAX);
    ASSERT(BOOT_PARAMS_E820_TABLE + count * BOOT_PARAMS_E820_BYTES <= BOOT_PARAMS_BYTES);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *entry = params + BOOT_PARAMS_E820_TABLE + i * BOOT_PARAMS_E820_BYTES;
        region_add(boot, load_le64(entry), load_le64(entry + 8), load_le32(entry + 16));
    }
    boot->rsdp = load_le64(params + BOOT_PARAMS_ACPI_RSDP_ADDR);
    linux_efi(boot, params, mapped_end);
    linux_screen(boot, params);
    return true;
}

bool boot_info_parse(struct boot_info *boot, enum boot_protocol protocol, const void *information, uint64_t mapped_end)
{
    memset(boot, 0, sizeof *boot); /* a compound literal would take 28 KiB of the stack */
    boot->protocol = protocol;
    if (protocol == BOOT_PVH)
        return pvh_parse(boot, information, mapped_end);
    bool good = protocol == BOOT_LINUX ? linux_parse(boot, information, mapped_end)
                                       : multiboot2_parse(boot, information, mapped_end);
    ASSERT(boot->region_count <= MEMORY_REGION_COUNT_MAX);
    ASSERT(boot->rsdp_copy_bytes <= sizeof boot->rsdp_copy);
    grub_escapes_remove(boot);
    return good;
}
