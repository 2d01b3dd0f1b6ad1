/* A bump allocator over the ranges of RAM nobody else uses: lowest address first, nothing comes back. */
#include "kernel/memory.h"

#include <stdbool.h>
#include <string.h>

#include "kernel/base/assert.h"
#include "kernel/base/log.h"
#include "kernel/memory_init.h"
#include "kernel/paging.h"
#include "kernel/panic.h"

enum { LOW_MEMORY_END = 1 << 20 };      /* real-mode vectors, the EBDA, other CPUs' first instructions: left alone */

extern const char image_begin[], image_end[];       /* boot/linker.ld */

static struct memory_map ram;           /* what is left; ranges shrink from below */
static struct memory_map told;          /* what the loader calls RAM */
static uint64_t reachable_end = BOOT_MAPPED_END;
static uint64_t taken_bytes;
static bool sealed;

static bool map_holds(const struct memory_map *map, uint64_t begin, uint64_t end)
{
    for (size_t i = 0; i < map->count; i++) {
        if (map->ranges[i].begin <= begin && end <= map->ranges[i].end) {
            return true;
        }
    }
    return false;
}

void memory_init(const struct boot_info *boot)
{
    memory_map_build(&told, boot->regions, boot->region_count);
    uint64_t told_end = told.count != 0 ? told.ranges[told.count - 1].end : 0;
    if (told_end < (uintptr_t)image_end) {      /* .bss beyond it would read as anything and keep nothing */
        panic("memory: RAM ends at 0x%zx, the image at 0x%zx", (size_t)told_end, (size_t)(uintptr_t)image_end);
    }
    /* Some loaders copy the image without a look at the map. Where it was too long this says nothing. */
    bool whole = !told.cut && boot->regions_dropped_count == 0;
    if (whole && !map_holds(&told, (uintptr_t)image_begin, (uintptr_t)image_end)) {
        panic("memory: the image, 0x%zx-0x%zx, does not lie in RAM", (size_t)(uintptr_t)image_begin,
              (size_t)(uintptr_t)image_end);
    }
    ram = told;
    memory_map_remove(&ram, 0, LOW_MEMORY_END);
    memory_map_remove(&ram, (uintptr_t)image_begin, (uintptr_t)image_end);
    log_line("memory: %zu MiB of RAM in %zu ranges%s", (size_t)(memory_map_bytes(&ram) >> 20), ram.count,
             ram.cut || boot->regions_dropped_count != 0 ? " (the map was too long, some is lost)" : "");
    static struct memory_map all;       /* not `ram`, from which the page tables are taken meanwhile */
    all = ram;
    paging_init(&all);
    reachable_end = UINT64_MAX;
}

void *memory_claim(uint64_t address, size_t bytes)
{
    ASSERT(!sealed);
    uint64_t end = address + bytes;
    if (end < address || !map_holds(&told, address, end)) {
        return NULL;
    }
    if (end <= LOW_MEMORY_END) {        /* not handed out and not mapped: asking twice is the caller's mistake */
        return paging_map(address, end, PAGING_DATA) ? (void *)address : NULL;
    }
    if (!map_holds(&ram, address, end)) {
        return NULL;
    }
    memory_map_remove(&ram, address, end);
    return (void *)address;
}

void *memory_take(size_t bytes, size_t align, const char *who)
{
    ASSERT(align != 0 && (align & (align - 1)) == 0);
    if (sealed) {
        panic("memory is sealed, but %s wants %zu bytes", who, bytes);
    }
    for (size_t i = 0; i < ram.count; i++) {
        struct memory_range *range = &ram.ranges[i];
        uint64_t begin = (range->begin + align - 1) & -(uint64_t)align;
        if (begin >= range->begin && begin <= range->end && bytes <= range->end - begin &&
            begin + bytes <= reachable_end) {
            range->begin = begin + bytes;
            taken_bytes += bytes;
            return memset((void *)begin, 0, bytes);
        }
    }
    panic("no memory left: %s wants %zu bytes, %zu are taken", who, bytes, (size_t)taken_bytes);
}

void memory_seal(void)
{
    sealed = true;
    log_line("memory: %zu KiB taken, sealed", (size_t)(taken_bytes >> 10));
}

volatile void *memory_map_device(uint64_t physical, size_t bytes)
{
    ASSERT(!sealed);
    if (bytes == 0) {
        return NULL;
    }
    if (!paging_map(physical, physical + bytes, PAGING_DEVICE)) {
        panic("device registers at 0x%zx, %zu bytes, lie in memory or out of reach", (size_t)physical, bytes);
    }
    return (volatile void *)physical;
}

volatile void *memory_map_framebuffer(uint64_t physical, size_t bytes)
{
    ASSERT(!sealed);
    return paging_map(physical, physical + bytes, PAGING_FRAMEBUFFER) ? (volatile void *)physical : NULL;
}

const void *memory_map_table(uint64_t physical, size_t bytes)
{
    ASSERT(!sealed);
    return physical != 0 && paging_map(physical, physical + bytes, PAGING_RODATA) ? (const void *)physical : NULL;
}
