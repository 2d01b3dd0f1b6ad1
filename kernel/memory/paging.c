/* Builds the page tables, out of memory_take. Knows the image's parts and the stacks' guard pages. */
#include "kernel/memory/paging.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/stacks.h"
#include "kernel/cpu/x86_spec.h"
#include "kernel/memory/ram.h"
#include "kernel/panic.h"

enum {
    TABLE_ENTRY_COUNT = 512,
    LEVEL_PAGE = 0,      /* entries of 4 KiB */
    LEVEL_DIRECTORY = 1, /* 2 MiB */
    LEVEL_POINTER = 2,   /* 1 GiB */
    LEVEL_TOP = 3,       /* 512 GiB */
    ADDRESS_BITS = 47,   /* the lower half: identity addresses must not need a sign */
};

/* The PAT as at reset (SDM vol. 3, "Programming the PAT"), except entry 1: write-combining in place of write-through. A
 * page uses that entry only after it is set. Entry 0 is write-back, entry 3 uncached. */
#define PAT_VALUE UINT64_C(0x0007040600070106)

static const uint64_t kind_bits[] = {
    [PAGING_TEXT] = BIT(PAGE_P_BIT),
    [PAGING_RODATA] = BIT(PAGE_P_BIT) | BIT(PAGE_XD_BIT),
    [PAGING_DATA] = BIT(PAGE_P_BIT) | BIT(PAGE_RW_BIT) | BIT(PAGE_XD_BIT),
    [PAGING_DEVICE] = BIT(PAGE_P_BIT) | BIT(PAGE_RW_BIT) | BIT(PAGE_XD_BIT) | BIT(PAGE_PCD_BIT) | BIT(PAGE_PWT_BIT),
    [PAGING_FRAMEBUFFER] = BIT(PAGE_P_BIT) | BIT(PAGE_RW_BIT) | BIT(PAGE_XD_BIT) | BIT(PAGE_PWT_BIT),
};
static const uint64_t kind_mask = BIT(PAGE_P_BIT) | BIT(PAGE_RW_BIT) | BIT(PAGE_XD_BIT) | BIT(PAGE_PCD_BIT)
                                  | BIT(PAGE_PWT_BIT);

extern const char image_begin[], text_end[], rodata_end[], image_end[]; /* image/linker.ld */

static uint64_t *top;

static uint64_t level_bytes(int level) { return UINT64_C(4096) << (9 * level); }

static uint64_t *table_of(uint64_t entry) { return (uint64_t *)(entry & PAGE_ADDRESS_MASK); }

static uint64_t *entry_in(uint64_t *table, int level, uint64_t address)
{
    return &table[address / level_bytes(level) % TABLE_ENTRY_COUNT];
}

static bool is_leaf(uint64_t entry, int level) { return level == LEVEL_PAGE || entry & BIT(PAGE_PS_BIT); }

static enum paging_kind entry_kind(uint64_t entry)
{
    for (enum paging_kind kind = PAGING_TEXT; kind <= PAGING_FRAMEBUFFER; kind++)
        if ((entry & kind_mask) == kind_bits[kind])
            return kind;
    return PAGING_UNMAPPED;
}

static bool kind_is_cached(enum paging_kind kind)
{
    return kind == PAGING_TEXT || kind == PAGING_RODATA || kind == PAGING_DATA;
}

/* Returns the entry at *level for the address, and makes the tables in between as needed. If a page covers the address
 * already, returns its entry and its level. The entry may be a table: then the caller must go down. */
static uint64_t *entry_find(uint64_t address, int *level)
{
    ASSERT(top != NULL);
    ASSERT(*level >= LEVEL_PAGE && *level < LEVEL_TOP);
    uint64_t *table = top;
    for (int at = LEVEL_TOP; at > *level; at--) {
        uint64_t *entry = entry_in(table, at, address);
        if (*entry == 0) {
            *entry = (uintptr_t)memory_take(4096, 4096, "page tables") | BIT(PAGE_P_BIT) | BIT(PAGE_RW_BIT);
        } else if (is_leaf(*entry, at)) {
            *level = at;
            return entry;
        }
        table = table_of(*entry);
    }
    return entry_in(table, *level, address);
}

/* Returns the level of the largest page that begins at `begin` and ends at or before `end`. */
static int level_that_fits(uint64_t begin, uint64_t end)
{
    ASSERT(begin < end);
    ASSERT(begin % MEMORY_PAGE_BYTES == 0 && end % MEMORY_PAGE_BYTES == 0);
    int level = cpu.gib_pages ? LEVEL_POINTER : LEVEL_DIRECTORY;
    while (level > LEVEL_PAGE && (begin % level_bytes(level) != 0 || end - begin < level_bytes(level)))
        level--;
    return level;
}

bool paging_map(uint64_t begin, uint64_t end, enum paging_kind kind)
{
    begin &= -(uint64_t)MEMORY_PAGE_BYTES;
    end = (end + MEMORY_PAGE_BYTES - 1) & -(uint64_t)MEMORY_PAGE_BYTES;
    if (begin > end || end > BIT(ADDRESS_BITS) || end > BIT(cpu.address_bits))
        return false;
    while (begin < end) {
        int level = level_that_fits(begin, end);
        uint64_t *entry = entry_find(begin, &level);
        while (*entry != 0 && !is_leaf(*entry, level)) {
            level--;
            entry = entry_in(table_of(*entry), level, begin);
        }
        if (*entry == 0) {
            *entry = begin | kind_bits[kind] | (level > LEVEL_PAGE ? BIT(PAGE_PS_BIT) : 0);
        } else {
            enum paging_kind there = entry_kind(*entry);
            if (there != kind && !(kind == PAGING_RODATA && kind_is_cached(there)))
                return false;
        }
        uint64_t next = (begin & -level_bytes(level)) + level_bytes(level);
        ASSERT(next > begin);
        begin = next;
    }
    return true;
}

/* Returns how the page of this address is mapped. */
static enum paging_kind kind_at(uint64_t address)
{
    if (top == NULL || address >= BIT(ADDRESS_BITS))
        return PAGING_UNMAPPED;
    uint64_t *table = top;
    for (int level = LEVEL_TOP;; level--) {
        ASSERT(level >= LEVEL_PAGE);
        uint64_t entry = *entry_in(table, level, address);
        if (entry == 0 || is_leaf(entry, level))
            return entry_kind(entry);
        table = table_of(entry);
    }
}

bool paging_is_readable(uint64_t address) { return kind_is_cached(kind_at(address)); }

static void map_or_panic(uint64_t begin, uint64_t end, enum paging_kind kind)
{
    if (!paging_map(begin, end, kind))
        panic("paging: 0x%zx-0x%zx is mapped in another kind", (size_t)begin, (size_t)end);
}

/* Maps the writable part of the image, except the guard pages. */
static void map_data(void)
{
    uint64_t begin = (uintptr_t)rodata_end;
    ASSERT((uintptr_t)&stacks >= begin && (uintptr_t)(&stacks + 1) <= (uintptr_t)image_end);
    for (uint64_t guard; (guard = stack_next_guard(begin)) != 0; begin = guard + STACK_GUARD_BYTES)
        map_or_panic(begin, guard, PAGING_DATA);
    map_or_panic(begin, (uintptr_t)image_end, PAGING_DATA);
}

void paging_init(const struct memory_map *ram)
{
    ASSERT(top == NULL);
    msr_write(IA32_PAT, PAT_VALUE);
    top = memory_take(4096, 4096, "page tables");
    map_or_panic((uintptr_t)image_begin, (uintptr_t)text_end, PAGING_TEXT);
    map_or_panic((uintptr_t)text_end, (uintptr_t)rodata_end, PAGING_RODATA);
    map_data();
    for (size_t i = 0; i < ram->count; i++)
        map_or_panic(ram->ranges[i].begin, ram->ranges[i].end, PAGING_DATA);
    cr3_write((uintptr_t)top);
}

void paging_load(void)
{
    msr_write(IA32_PAT, PAT_VALUE);
    cr3_write((uintptr_t)top);
}
