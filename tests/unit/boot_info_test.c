/* The structures of all boot protocols: whole, cut short at every byte, and with wrong lengths. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "kernel/firmware/boot_info.h"
#include "kernel/firmware/multiboot2_spec.h"
#include "kernel/firmware/pvh_spec.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"

static struct boot_info boot;

/* ---- Multiboot2 ---- */

static uint8_t mbi[8192];
static size_t mbi_bytes;

static void tag(uint32_t type, const void *body, size_t bytes)
{
    memset(mbi + mbi_bytes, 0, 8 + (bytes + 7) / 8 * 8);
    store_le32(mbi + mbi_bytes, type);
    store_le32(mbi + mbi_bytes + 4, (uint32_t)(8 + bytes));
    memcpy(mbi + mbi_bytes + 8, body, bytes);
    mbi_bytes += 8 + (bytes + 7) / 8 * 8;
}

static void mbi_begin(void) { mbi_bytes = MULTIBOOT2_INFO_HEADER_BYTES; }

static void mbi_end(void)
{
    tag(MULTIBOOT2_INFO_END, "", 0);
    store_le32(mbi, (uint32_t)mbi_bytes);
    store_le32(mbi + 4, 0);
}

static void mbi_typical(void)
{
    mbi_begin();
    tag(MULTIBOOT2_INFO_COMMAND_LINE, "feed=1.2.3.4:5 n=6", 19);
    tag(MULTIBOOT2_INFO_LOADER_NAME, "GRUB 2.06", 10);
    struct {
        uint32_t entry_size, version;
        struct multiboot2_memory_entry entries[2];
    } map = { 24, 0, { { 0, 0x9fc00, 1, 0 }, { 0x100000, 0x7ee0000, 1, 0 } } };
    tag(MULTIBOOT2_INFO_MEMORY_MAP, &map, sizeof map);
    struct multiboot2_framebuffer screen = {
        { 0, 0 }, 0xfd000000, 3200, 800, 600, 32, MULTIBOOT2_FRAMEBUFFER_RGB, { 0 }
    };
    tag(MULTIBOOT2_INFO_FRAMEBUFFER, (uint8_t *)&screen + 8, sizeof screen - 8);
    tag(MULTIBOOT2_INFO_ACPI_OLD, "RSD PTR old, 20 byte", 20);
    tag(MULTIBOOT2_INFO_ACPI_NEW, "RSD PTR new, 36 bytes ..............", 36);
    tag(MULTIBOOT2_INFO_EFI64, &(uint64_t){ 0x13f9ee018 }, 8);
    mbi_end();
}

/* Parses a copy of exactly `bytes` bytes, so that ASan sees a read beyond. */
static bool parse_copy(const void *information, size_t bytes, enum boot_protocol protocol)
{
    uint8_t *copy = malloc(bytes);
    memcpy(copy, information, bytes);
    bool good = boot_info_parse(&boot, protocol, copy, UINT64_MAX);
    free(copy);
    return good;
}

/* Parses information with one tag. */
static bool parse_tag(uint32_t type, const void *body, size_t bytes)
{
    mbi_begin();
    tag(type, body, bytes);
    mbi_end();
    return parse_copy(mbi, mbi_bytes, BOOT_MULTIBOOT2);
}

TEST(multiboot2_tags_are_taken)
{
    mbi_typical();
    assert_true(parse_copy(mbi, mbi_bytes, BOOT_MULTIBOOT2));
    assert_string_equal(boot.command_line, "feed=1.2.3.4:5 n=6");
    assert_true(boot.texts[0].at != NULL && boot.texts[0].bytes == strlen(boot.command_line)); /* to be wiped */
    assert_string_equal(boot.loader, "GRUB 2.06");
    assert_int_equal(boot.region_count, 2);
    assert_int_equal(boot.regions[1].base, 0x100000);
    assert_int_equal(boot.regions[1].bytes, 0x7ee0000);
    assert_int_equal(boot.framebuffer.kind, SCREEN_RGB);
    assert_int_equal(boot.framebuffer.base, 0xfd000000);
    assert_int_equal(boot.framebuffer.pitch_bytes, 3200);
    assert_int_equal(boot.framebuffer.pixel_bits, 32);
    assert_int_equal(boot.rsdp_copy_bytes, 36);
    assert_memory_equal(boot.rsdp_copy, "RSD PTR new", 11);
    assert_int_equal(boot.efi.system_table, 0x13f9ee018);
    assert_true(boot.efi.is_64);
    assert_false(boot.command_line_cut);
    assert_string_equal(boot.module, "");
}

/* A module's address has 32 bits. */
TEST(multiboot2_module_is_taken)
{
    char *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    assert_ptr_not_equal(low, MAP_FAILED);
    memcpy(low, "n=6 m=3,4 and more", 18);
    uint32_t ends[3] = { (uint32_t)(uintptr_t)low, (uint32_t)(uintptr_t)low + 9, 0 }; /* the name follows */
    assert_true(parse_tag(MULTIBOOT2_INFO_MODULE, ends, sizeof ends));
    assert_string_equal(boot.module, "n=6 m=3,4");
    assert_true(boot.texts[1].at == low && boot.texts[1].bytes == 9);
    assert_true(boot.module_count == 1 && !boot.module_cut);
    ends[1] = ends[0] - 1;
    assert_true(parse_tag(MULTIBOOT2_INFO_MODULE, ends, sizeof ends));
    assert_int_equal(boot.module_count, 0);
    munmap(low, 4096);
}

TEST(multiboot2_cut_at_any_byte_is_read_no_further)
{
    mbi_typical();
    size_t whole = mbi_bytes;
    for (size_t bytes = 8; bytes < whole; bytes++) {
        store_le32(mbi, (uint32_t)bytes);
        parse_copy(mbi, bytes, BOOT_MULTIBOOT2); /* ASan finds a read outside */
        assert_true(boot.region_count <= 2);
    }
}

TEST(multiboot2_tag_that_is_too_short_or_too_long_is_refused)
{
    static const uint32_t sizes[] = { 0, 7, 0x7fffffff, 0xfffffff8, 0xffffffff };
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        mbi_typical();
        store_le32(mbi + 8 + 4, sizes[i]);
        assert_false(parse_copy(mbi, mbi_bytes, BOOT_MULTIBOOT2));
    }
    mbi_typical();
    store_le32(mbi + 8 + 4, (uint32_t)mbi_bytes - 8 + 1); /* a byte more than there is */
    assert_false(parse_copy(mbi, mbi_bytes, BOOT_MULTIBOOT2));
    for (uint32_t type = 1; type < 20; type++) /* each kind of tag with an empty body */
        parse_tag(type, "", 0);
}

TEST(multiboot2_memory_map_with_longer_entries_is_read)
{
    struct {
        uint32_t entry_size, version;
        struct {
            struct multiboot2_memory_entry e;
            uint64_t more;
        } entries[2];
    } map = { 32, 1, { { { 0x1000, 0x2000, 1, 0 }, 9 }, { { 0x10000, 0x3000, 2, 0 }, 9 } } };
    assert_true(parse_tag(MULTIBOOT2_INFO_MEMORY_MAP, &map, sizeof map));
    assert_int_equal(boot.region_count, 2);
    assert_int_equal(boot.regions[1].base, 0x10000);
    map.entry_size = 0; /* would not end */
    assert_true(parse_tag(MULTIBOOT2_INFO_MEMORY_MAP, &map, sizeof map));
    assert_int_equal(boot.region_count, 0);
}

TEST(multiboot2_command_line_that_is_too_long_is_marked)
{
    static char text[BOOT_COMMAND_LINE_BYTES_MAX + 1];
    memset(text, 'x', sizeof text);
    assert_true(parse_tag(MULTIBOOT2_INFO_COMMAND_LINE, text, BOOT_COMMAND_LINE_BYTES_MAX - 1));
    assert_false(boot.command_line_cut);
    assert_int_equal(strlen(boot.command_line), BOOT_COMMAND_LINE_BYTES_MAX - 1);
    assert_true(parse_tag(MULTIBOOT2_INFO_COMMAND_LINE, text, BOOT_COMMAND_LINE_BYTES_MAX));
    assert_true(boot.command_line_cut);
}

TEST(multiboot2_command_line_of_grub_is_unescaped)
{
    static const char escaped[] = "passwd=a\\\\b\\'c\\\"d\\e n=3";
    for (int is_grub = 0; is_grub < 2; is_grub++) {
        mbi_begin();
        tag(MULTIBOOT2_INFO_COMMAND_LINE, escaped, sizeof escaped);
        tag(MULTIBOOT2_INFO_LOADER_NAME, is_grub ? "GRUB 2.06" : "another b", 10);
        mbi_end();
        assert_true(parse_copy(mbi, mbi_bytes, BOOT_MULTIBOOT2));
        assert_string_equal(boot.command_line, is_grub ? "passwd=a\\b'c\"d\\e n=3" : escaped);
    }
}

TEST(multiboot2_total_size_beyond_the_mapped_memory_is_refused)
{
    mbi_typical();
    assert_false(boot_info_parse(&boot, BOOT_MULTIBOOT2, mbi, (uintptr_t)mbi + mbi_bytes - 1));
    assert_true(boot_info_parse(&boot, BOOT_MULTIBOOT2, mbi, (uintptr_t)mbi + mbi_bytes));
}

TEST(multiboot2_of_random_bytes_is_survived)
{
    random_seed(20220217);
    for (int round = 0; round < 20000; round++) {
        mbi_typical();
        for (int i = random_below(8); i >= 0; i--) {
            size_t at = 8 + random_below(mbi_bytes - 8);
            mbi[at] = (uint8_t)random_next();
            if (load_le32(mbi + at / 8 * 8) == MULTIBOOT2_INFO_MODULE)
                mbi[at / 8 * 8] = 0x55; /* no module: the parser trusts a module's address */
        }
        parse_copy(mbi, mbi_bytes, BOOT_MULTIBOOT2);
    }
}

/* ---- PVH ---- */

static struct hvm_start_info start;
static struct hvm_modlist_entry modules[2];
static struct hvm_memmap_table_entry regions[3];
static char module_text[] = "m=3,4 and more";

static void pvh_typical(void)
{
    static char command_line[] = "n=6 user=u";
    modules[0] = (struct hvm_modlist_entry){ (uintptr_t)module_text, 5, 0, 0 };
    modules[1] = (struct hvm_modlist_entry){ 1, 1, 0, 0 }; /* never read */
    regions[0] = (struct hvm_memmap_table_entry){ 0, 0x9fc00, 1, 0 };
    regions[1] = (struct hvm_memmap_table_entry){ 0x100000, 0x7ee0000, 1, 0 };
    regions[2] = (struct hvm_memmap_table_entry){ UINT64_MAX, 2, 1, 0 }; /* wraps: dropped */
    start = (struct hvm_start_info){
        .magic = XEN_HVM_START_MAGIC_VALUE,
        .version = 1,
        .nr_modules = 2,
        .modlist_paddr = (uintptr_t)modules,
        .cmdline_paddr = (uintptr_t)command_line,
        .rsdp_paddr = 0xf5b80,
        .memmap_paddr = (uintptr_t)regions,
        .memmap_entries = 3,
    };
}

TEST(pvh_start_info_is_taken)
{
    pvh_typical();
    assert_true(boot_info_parse(&boot, BOOT_PVH, &start, UINT64_MAX));
    assert_string_equal(boot.command_line, "n=6 user=u");
    assert_string_equal(boot.module, "m=3,4");
    assert_int_equal(boot.module_count, 2);
    assert_int_equal(boot.region_count, 2);
    assert_int_equal(boot.rsdp, 0xf5b80);
    assert_int_equal(boot.framebuffer.kind, SCREEN_UNKNOWN);
    assert_false(boot.command_line_cut || boot.module_cut);
    start.version = 0; /* has no memory map */
    assert_true(boot_info_parse(&boot, BOOT_PVH, &start, UINT64_MAX));
    assert_int_equal(boot.region_count, 0);
    start.magic++;
    assert_false(boot_info_parse(&boot, BOOT_PVH, &start, UINT64_MAX));
}

TEST(pvh_parts_out_of_reach_and_modules_that_are_too_long_count_as_cut)
{
    static char text[BOOT_MODULE_BYTES_MAX];
    const struct {
        uint64_t at, bytes;
        bool cut;
    } rows[] = { { UINT64_MAX - 3, 9, true },
                 { (uintptr_t)text, UINT64_MAX, true },
                 { (uintptr_t)text, sizeof text, true },
                 { (uintptr_t)text, sizeof text - 1, false },
                 { 0, 0, false } };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        pvh_typical();
        modules[0] = (struct hvm_modlist_entry){ rows[i].at, rows[i].bytes, 0, 0 };
        assert_true(boot_info_parse(&boot, BOOT_PVH, &start, UINT64_MAX));
        assert_int_equal(boot.module_cut, rows[i].cut);
        assert_true(rows[i].cut || boot.module_count == 2);
    }
    start.modlist_paddr = 0;
    start.memmap_paddr = UINT64_MAX - 8;
    start.cmdline_paddr = UINT64_MAX;
    assert_true(boot_info_parse(&boot, BOOT_PVH, &start, UINT64_MAX));
    assert_true(boot.module_cut && boot.command_line_cut);
    assert_int_equal(boot.region_count, 0);
}

/* Takes an empty settings file. GRUB reports it at address 0. */
TEST(empty_module_is_no_cut_one)
{
    static const uint32_t at_0[3];
    assert_true(parse_tag(MULTIBOOT2_INFO_MODULE, at_0, sizeof at_0));
    assert_int_equal(boot.module_count, 1);
    assert_false(boot.module_cut);
}

/* Offsets and values by hand from zero-page.rst, not from our header. */
static uint8_t params[4096];

static void params_put(uint32_t at, uint64_t value, size_t bytes) { memcpy(params + at, &value, bytes); }

static void params_put_pointer(uint32_t low_at, uint32_t high_at, const char *text)
{
    params_put(low_at, (uintptr_t)text, 4);
    params_put(high_at, (uintptr_t)text >> 32, 4);
}

static void linux_typical(void)
{
    static const struct {
        uint32_t at, bytes;
        uint64_t value;
    } fields[] = {
        { 0x210, 1, 0x72 },      { 0x21c, 1, 4 },      { 0x1e8, 1, 2 },          { 0x2d0, 8, 0x100000 },
        { 0x2d8, 8, 0x7ee0000 }, { 0x2e0, 1, 1 },      { 0x2e4, 8, 0xfffc0000 }, { 0x2ec, 8, 0x40000 },
        { 0x2f4, 1, 2 },         { 0x70, 8, 0xf5b80 }, { 0x1d8, 1, 1 },          { 0x0f, 1, 0x70 },
        { 0x12, 2, 1280 },       { 0x14, 2, 800 },     { 0x16, 1, 32 },          { 0x18, 4, 0x80000000 },
        { 0x24, 2, 5120 },
    };
    memset(params, 0, sizeof params);
    for (size_t i = 0; i < ARRAY_COUNT(fields); i++)
        params_put(fields[i].at, fields[i].value, fields[i].bytes);
    memcpy(params + 0x202, "HdrS", 4);
    memcpy(params + 0x1c0, "EL64\x18\xe0\xb7\x3f", 8);
    params_put_pointer(0x228, 0xc8, "m=3");
    params_put_pointer(0x218, 0xc0, "n=6\n");
}

TEST(linux_boot_params_are_taken)
{
    linux_typical();
    assert_true(boot_info_parse(&boot, BOOT_LINUX, params, UINT64_MAX));
    assert_string_equal(boot.loader, "GRUB");
    assert_string_equal(boot.command_line, "m=3");
    assert_string_equal(boot.module, "n=6\n");
    assert_true(!strcmp(boot.texts[0].at, "m=3") && !strcmp(boot.texts[1].at, "n=6\n"));
    assert_int_equal(boot.region_count, 2);
    assert_int_equal(boot.regions[0].base, 0x100000);
    assert_int_equal(boot.regions[1].bytes, 0x40000);
    assert_int_equal(boot.regions[1].type, 2);
    assert_int_equal(boot.rsdp, 0xf5b80);
    assert_int_equal(boot.framebuffer.kind, SCREEN_RGB);
    assert_int_equal(boot.framebuffer.base, 0x80000000);
    assert_int_equal(boot.framebuffer.pitch_bytes, 5120);
    assert_int_equal(boot.framebuffer.width, 1280);
    assert_int_equal(boot.efi.system_table, 0x13fb7e018);
    assert_true(boot.efi.is_64);
    params[0x202] = 'h';
    assert_false(boot_info_parse(&boot, BOOT_LINUX, params, UINT64_MAX));
}

TEST(linux_efi_info_of_32_bits_has_a_short_address)
{
    linux_typical();
    memcpy(params + 0x1c0, "EL32", 4);
    assert_true(boot_info_parse(&boot, BOOT_LINUX, params, UINT64_MAX));
    assert_int_equal(boot.efi.system_table, 0x3fb7e018);
    assert_false(boot.efi.is_64);
    memcpy(params + 0x1c0, "\0\0\0\0", 4); /* a BIOS machine; GRUB leaves the rest as it is */
    assert_true(boot_info_parse(&boot, BOOT_LINUX, params, UINT64_MAX));
    assert_int_equal(boot.efi.system_table, 0);
}

/* Takes the list that kexec leaves: an entry of another type, then SETUP_EFI. */
TEST(linux_setup_data_names_the_tables_of_uefi)
{
    uint64_t nodes[2][10] = { { (uintptr_t)nodes[1], 5 | (uint64_t)8 << 32 },
                              { 0, 4 | (uint64_t)64 << 32, 1, 2, 0x3fb7e100 } };
    linux_typical();
    store_le64(params + 0x250, (uintptr_t)nodes);
    assert_true(boot_info_parse(&boot, BOOT_LINUX, params, UINT64_MAX));
    assert_int_equal(boot.efi.configuration_tables, 0x3fb7e100);
    assert_true(boot_info_parse(&boot, BOOT_LINUX, params, (uintptr_t)nodes[1] + 39)); /* one byte is out of reach */
    assert_int_equal(boot.efi.configuration_tables, 0);
    nodes[1][1] = 4 | (uint64_t)16 << 32; /* too short for the tables */
    nodes[1][0] = (uintptr_t)nodes;       /* the list has no end */
    assert_true(boot_info_parse(&boot, BOOT_LINUX, params, UINT64_MAX));
    assert_int_equal(boot.efi.configuration_tables, 0);
}

/* Takes a command line that has no end below `mapped_end`. The words below it must not pass for the whole line. */
TEST(command_line_that_ends_out_of_reach_counts_as_cut)
{
    pvh_typical();
    uint64_t text = start.cmdline_paddr;
    assert_true(boot_info_parse(&boot, BOOT_PVH, &start, text + 3));
    assert_true(boot.command_line_cut);
    assert_true(boot_info_parse(&boot, BOOT_PVH, &start, text + sizeof "n=6 user=u"));
    assert_false(boot.command_line_cut);
    linux_typical();
    params_put_pointer(0x228, 0xc8, (const char *)(uintptr_t)text);
    assert_true(boot_info_parse(&boot, BOOT_LINUX, params, text + 3));
    assert_true(boot.command_line_cut);
}

TEST(linux_module_out_of_reach_counts_as_cut)
{
    linux_typical();
    memset(params + 0xc0, 0xff, 4);
    assert_true(boot_info_parse(&boot, BOOT_LINUX, params, (uintptr_t)1 << 47));
    assert_true(boot.module_cut);
    memset(params + 0xc8, 0xff, 4);
    assert_true(boot_info_parse(&boot, BOOT_LINUX, params, (uintptr_t)1 << 47));
    assert_true(boot.command_line_cut);
    params[0x1e8] = 255; /* more than the table has room for */
    assert_true(boot_info_parse(&boot, BOOT_LINUX, params, (uintptr_t)1 << 47));
    assert_true(boot.region_count <= 128);
}
