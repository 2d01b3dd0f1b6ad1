/* kernel/memory/paging.c: the tables that it makes for an image, its stacks and RAM at made-up places. */
#include "kernel/memory/paging.h"

#include "kernel/panic.h"
#include "tests/lib/fake_cpu.h"
#include "tests/lib/test.h"

/* The tables start again with each test. The image lies around the stacks: text of two pages, constants of one, and a
 * further page of data on both sides. */
#include "kernel/cpu/stacks.c"
#include "kernel/memory/paging.c"
__asm__(".globl image_begin, text_end, rodata_end, image_end\n"
        ".set image_begin, stacks - 0x4000\n.set text_end, stacks - 0x2000\n.set rodata_end, stacks - 0x1000\n"
        ".set image_end, stacks + 0x30b000\n");
static_assert(sizeof stacks == 0x30a000, "image_end lies a page above the stacks");

#define MIB  (UINT64_C(1) << 20)
#define GIB  (UINT64_C(1) << 30)
#define PAGE UINT64_C(4096)

struct cpu cpu;
static uint8_t pool[64][4096] __attribute__((aligned(4096)));
static size_t taken, pat_writes;

void *memory_take(size_t bytes, size_t align, const char *who)
{
    assert_true(bytes == 4096 && align == 4096 && who != NULL && taken < ARRAY_COUNT(pool));
    return memset(pool[taken++], 0, 4096);
}

_Noreturn void panic(const char *form, ...)
{
    mock_assert(0, form, __FILE__, __LINE__);
    abort();
}

static void msr_written(uint32_t msr, uint64_t value)
{
    /* SDM vol. 3, "Programming the PAT": write-back, write-combining, uncached minus, uncached. */
    assert_int_equal(msr, 0x277);
    assert_int_equal((uint32_t)value, 0x00070106);
    pat_writes++;
}

static void init(const struct memory_map *ram)
{
    fake_cpu_reset();
    fake_cpu_msr_written = msr_written;
    top = NULL;
    taken = pat_writes = 0;
    paging_init(ram);
    assert_int_equal(pat_writes, 1);
    assert_ptr_equal(fake_cpu.cr3, top);
}

BEFORE_EACH()
{
    static const struct memory_map ram = { { { PAGE, 640 << 10 }, { MIB, 5 * GIB }, { 6 * GIB, 7 * GIB } }, 2, false };
    cpu = (struct cpu){ .address_bits = 48, .gib_pages = true };
    init(&ram);
}

/* Asserts the bits and the size of the page at an address: the SDM's, as a number. */
static void assert_page(uint64_t address, uint64_t bits, uint64_t bytes)
{
    uint64_t *table = top, size = 512 * GIB;
    for (;; size /= 512) {
        const uint64_t entry = table[address / size % 512];
        if (entry == 0) {
            assert_int_equal(bits, 0);
            return;
        }
        if (size == PAGE || entry & 0x80) {
            assert_int_equal(entry & ~(size == PAGE ? 0 : UINT64_C(0x80)), (address & -size) | bits);
            assert_int_equal(size, bytes);
            return;
        }
        assert_int_equal(entry & 0xfff, 3);
        table = (uint64_t *)(entry & 0xffffffffff000); /* NOLINT(performance-no-int-to-ptr) */
    }
}

#define NX        (UINT64_C(1) << 63)
#define TEXT      UINT64_C(0x1)
#define RODATA    (NX | 0x1)
#define DATA      (NX | 0x3)
#define DEVICE    (NX | 0x1b)
#define COMBINING (NX | 0xb)

TEST(no_page_is_both_written_and_executed_and_guards_are_missing)
{
    const uint64_t at = (uint64_t)&stacks;
    assert_page(at - 0x4001, 0, 0);
    assert_page(at - 0x4000, TEXT, PAGE);
    assert_page(at - 0x2001, TEXT, PAGE);
    assert_page(at - 0x2000, RODATA, PAGE);
    assert_page(at - 0x1000, DATA, PAGE);
    size_t guards = 0;
    for (uint64_t page = at; page < at + sizeof stacks; page += PAGE) {
        guards += !stack_has(page);
        if (paging_is_readable(page) != stack_has(page))
            fail_msg("page %#jx of the stacks", (uintmax_t)(page - at));
    }
    assert_int_equal(guards, GUARD_COUNT);
    assert_page(at + sizeof stacks, DATA, PAGE);
    assert_page(at + sizeof stacks + PAGE, 0, 0);
}

TEST(ram_is_mapped_by_the_largest_pages_that_fit)
{
    assert_page(0, 0, 0);
    assert_page(PAGE, DATA, PAGE);
    assert_page(640 << 10, 0, 0);
    assert_page(2 * MIB - 1, DATA, PAGE);
    assert_page(2 * MIB, DATA, 2 * MIB);
    assert_page(GIB - 1, DATA, 2 * MIB);
    assert_page(GIB, DATA, GIB);
    assert_page(5 * GIB - 1, DATA, GIB);
    assert_page(5 * GIB, 0, 0);
    assert_page(6 * GIB, 0, 0); /* a range beyond their number */
    assert_true(paging_is_readable(5 * GIB - 1) && !paging_is_readable(5 * GIB));
    assert_false(paging_is_readable(UINT64_C(1) << 47) || paging_is_readable((UINT64_C(1) << 47) + PAGE));
    cpu.gib_pages = false;
    init(&(struct memory_map){ { { GIB, 2 * GIB + 2 * MIB + PAGE } }, 1, false });
    assert_page(GIB, DATA, 2 * MIB);
    assert_page(2 * GIB + 2 * MIB, DATA, PAGE);
    assert_page(2 * GIB + 2 * MIB + PAGE, 0, 0);
}

TEST(mapping_again_in_the_same_kind_is_granted_and_in_another_refused)
{
    static const struct {
        uint64_t begin, end;
        enum paging_kind kind;
        bool granted;
        uint64_t bits, bytes; /* the page at `begin` afterwards */
    } rows[] = {
        { 6 * GIB + 1, 6 * GIB + 2, PAGING_DEVICE, true, DEVICE, PAGE },
        { 6 * GIB, 6 * GIB + PAGE, PAGING_DEVICE, true, DEVICE, PAGE },
        { 6 * GIB, 6 * GIB + PAGE, PAGING_FRAMEBUFFER, false, DEVICE, PAGE },
        { 6 * GIB, 6 * GIB + PAGE, PAGING_RODATA, false, DEVICE, PAGE },
        { 6 * GIB, 6 * GIB + 4 * MIB, PAGING_DEVICE, true, DEVICE, PAGE }, /* around the page that is there */
        { 6 * GIB + 2 * MIB, 6 * GIB + 2 * MIB, PAGING_DATA, true, DEVICE, 2 * MIB },
        { 6 * GIB + PAGE, 6 * GIB + 8 * MIB, PAGING_DATA, false, DEVICE, PAGE },
        { 8 * GIB, 9 * GIB, PAGING_FRAMEBUFFER, true, COMBINING, GIB },
        { 8 * GIB + 1, 8 * GIB + 2, PAGING_FRAMEBUFFER, true, COMBINING, GIB },
        { 8 * GIB, 9 * GIB, PAGING_RODATA, false, COMBINING, GIB },
        { 4 * GIB, 5 * GIB, PAGING_RODATA, true, DATA, GIB }, /* data can be read, too */
        { 4 * GIB, 5 * GIB, PAGING_DATA, true, DATA, GIB },
        { 4 * GIB + 5 * PAGE, 4 * GIB + 6 * PAGE, PAGING_DEVICE, false, DATA, GIB },
        { 5 * GIB - PAGE, 5 * GIB + PAGE, PAGING_RODATA, true, DATA, GIB },
        { 5 * GIB, 5 * GIB + PAGE, PAGING_DATA, false, RODATA, PAGE },
        { (UINT64_C(1) << 47) - PAGE, UINT64_C(1) << 47, PAGING_DEVICE, true, DEVICE, PAGE },
        { UINT64_C(1) << 46, (UINT64_C(1) << 47) + 1, PAGING_DEVICE, false, 0, 0 },
        { 2 * GIB, GIB, PAGING_DATA, false, DATA, GIB },
        { UINT64_MAX - PAGE, UINT64_MAX, PAGING_DEVICE, false, 0, 0 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (paging_map(rows[i].begin, rows[i].end, rows[i].kind) != rows[i].granted)
            fail_msg("row %zu", i);
        if (rows[i].begin < UINT64_C(1) << 47)
            assert_page(rows[i].begin, rows[i].bits, rows[i].bytes);
    }
    assert_false(paging_is_readable(6 * GIB) || paging_is_readable(8 * GIB)); /* a read may disturb a device */
    assert_true(paging_is_readable(5 * GIB));
    cpu.address_bits = 36;
    assert_false(paging_map(UINT64_C(1) << 36, (UINT64_C(1) << 36) + 1, PAGING_DEVICE));
    assert_true(paging_map((UINT64_C(1) << 36) - 1, UINT64_C(1) << 36, PAGING_DEVICE));
}

TEST(other_cpus_load_the_same_tables)
{
    pat_writes = 0;
    fake_cpu.cr3 = 0;
    paging_load();
    assert_ptr_equal(fake_cpu.cr3, top);
    assert_int_equal(pat_writes, 1);
    fake_cpu.cr3 = 0;
    expect_assert_failure(
        init(&(struct memory_map){ { { (uint64_t)&stacks - 0x4000, (uint64_t)&stacks } }, 1, false }));
    assert_int_equal(fake_cpu.cr3, 0);
}
