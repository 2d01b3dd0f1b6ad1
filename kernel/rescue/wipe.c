#include "kernel/rescue/wipe.h"

#include "base/assert.h"
#include "base/secrets.h"
#include "base/time.h"
#include "kernel/memory/map.h"
#include "kernel/memory/paging.h"
#include "kernel/memory/ram.h"
#include "kernel/rescue/watchdog.h"
#include "kernel/time/clock.h"

#define WIPE_NS_MAX (2 * NS_PER_S)

extern char rodata_end[], image_end[]; /* image/linker.ld */

/* Returns the end of the mapped pages from `begin` on; `begin` if its page is missing, as those below stacks are. */
static uint64_t mapped_end(uint64_t begin, uint64_t end)
{
    ASSERT(begin % MEMORY_PAGE_BYTES == 0 && begin < end);
    while (begin < end && paging_is_readable(begin))
        begin += MEMORY_PAGE_BYTES;
    return begin < end ? begin : end;
}

static void wipe_range(uint64_t begin, uint64_t end, uint64_t until_ns)
{
    while (begin < end) {
        const uint64_t run_end = mapped_end(begin, end);
        for (uint64_t at = begin; at < run_end; at += MEMORY_PAGE_BYTES) {
            uint64_t to = at + MEMORY_PAGE_BYTES < run_end ? at + MEMORY_PAGE_BYTES : run_end;
            if (clock_tsc_khz() != 0 && clock_now_ns() >= until_ns)
                return;
            secrets_wipe((uint8_t *)at, (uint8_t *)to, (const uint8_t *)run_end);
            watchdog_beat();
        }
        begin = run_end < end ? run_end + MEMORY_PAGE_BYTES : end;
    }
}

void wipe_secrets(void)
{
    struct memory_range taken;
    const uint64_t until_ns = clock_tsc_khz() != 0 ? clock_now_ns() + WIPE_NS_MAX : 0;
    wipe_range((uintptr_t)rodata_end, (uintptr_t)image_end, until_ns);
    for (size_t i = 0; ram_taken(i, &taken); i++)
        wipe_range(taken.begin & -(uint64_t)MEMORY_PAGE_BYTES, taken.end, until_ns);
    secrets_forget();
}
