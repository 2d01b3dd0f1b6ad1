/* The start of memory: the loader's map becomes RAM to hand out and page tables. Above ram.c and paging.c, which know
 * nothing of each other's callers. */
#include "kernel/memory/memory.h"

#include "base/assert.h"
#include "base/log.h"
#include "kernel/memory/paging.h"
#include "kernel/panic.h"

enum { LOW_MEMORY_END = 1 << 20 }; /* real-mode vectors, the EBDA, other CPUs' first instructions: left alone */

extern const char image_begin[], image_end[]; /* image/linker.ld */

static struct memory_map reported; /* the RAM of the loader's map */

/* Panics if the image does not lie in RAM. boot/entry.asm has looked whether there is memory at all; some loaders copy
 * the image without a look at the map. A map that was cut proves nothing. */
static void image_place_check(bool complete)
{
    uint64_t begin = (uintptr_t)image_begin, end = (uintptr_t)image_end;
    ASSERT(begin < end && begin % MEMORY_PAGE_BYTES == 0 && end % MEMORY_PAGE_BYTES == 0);
    uint64_t ram_end = reported.count != 0 ? reported.ranges[reported.count - 1].end : 0;
    if (ram_end < end)
        panic("memory: RAM ends at 0x%zx, the image at 0x%zx", (size_t)ram_end, (size_t)end);
    if (complete && !reported.cut && !memory_map_holds(&reported, begin, end))
        panic("memory: the image, 0x%zx-0x%zx, does not lie in RAM", (size_t)begin, (size_t)end);
}

void memory_init(const struct memory_region *regions, size_t region_count, bool complete)
{
    ASSERT(region_count <= MEMORY_REGION_COUNT_MAX);
    static struct memory_map free;
    memory_map_build(&reported, regions, region_count);
    image_place_check(complete);
    free = reported;
    memory_map_remove(&free, 0, LOW_MEMORY_END);
    memory_map_remove(&free, (uintptr_t)image_begin, (uintptr_t)image_end);
    log_line("memory: %zu MiB of RAM in %zu ranges%s", (size_t)(memory_map_bytes(&free) >> 20), free.count,
             free.cut || !complete ? " (the map was too long, some is lost)" : "");
    ram_init(&free, BOOT_MAPPED_END);
    paging_init(&free);
    ram_reach_all();
}

void *memory_claim(uint64_t address, size_t bytes)
{
    ASSERT(!ram_is_sealed());
    uint64_t end = address + bytes;
    if (end < address || !memory_map_holds(&reported, address, end))
        return NULL;
    /* Memory below LOW_MEMORY_END is neither handed out nor mapped. To ask for the same range twice is the caller's
     * mistake. */
    if (end <= LOW_MEMORY_END)
        return paging_map(address, end, PAGING_DATA) ? (void *)address : NULL;
    return ram_remove(address, end) ? (void *)address : NULL;
}

volatile void *memory_map_device(uint64_t physical, size_t bytes)
{
    ASSERT(!ram_is_sealed());
    if (bytes == 0)
        return NULL;
    if (!paging_map(physical, physical + bytes, PAGING_DEVICE))
        panic("device registers at 0x%zx, %zu bytes, lie in memory or out of reach", (size_t)physical, bytes);
    return (volatile void *)physical;
}

volatile void *memory_map_framebuffer(uint64_t physical, size_t bytes)
{
    ASSERT(!ram_is_sealed());
    return paging_map(physical, physical + bytes, PAGING_FRAMEBUFFER) ? (volatile void *)physical : NULL;
}

const void *memory_map_table(uint64_t physical, size_t bytes)
{
    ASSERT(!ram_is_sealed());
    return physical != 0 && paging_map(physical, physical + bytes, PAGING_RODATA) ? (const void *)physical : NULL;
}
