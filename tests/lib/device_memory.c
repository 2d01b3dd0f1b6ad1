#include "tests/lib/device_memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "kernel/memory/memory.h"

enum { BLOCK_COUNT_MAX = 64 };
static struct {
    uint8_t *at;
    size_t bytes;
} blocks[BLOCK_COUNT_MAX];
static size_t block_count;

void *memory_take(size_t bytes, size_t align, const char *who)
{
    (void)who;
    ASSERT(block_count < BLOCK_COUNT_MAX);
    void *at = NULL;
    /* The exact size, so that ASan sees the first byte after it. */
    int failed = posix_memalign(&at, align < sizeof(void *) ? sizeof(void *) : align, bytes);
    ASSERT(!failed);
    memset(at, 0, bytes);
    blocks[block_count].at = at;
    blocks[block_count++].bytes = bytes;
    return at;
}

bool model_memory_contains(const void *at, size_t bytes)
{
    for (size_t i = 0; i < block_count; i++) {
        uintptr_t begin = (uintptr_t)blocks[i].at, from = (uintptr_t)at;
        if (from >= begin && from - begin <= blocks[i].bytes && bytes <= blocks[i].bytes - (from - begin))
            return true;
    }
    return false;
}

void model_memory_free_all(void)
{
    while (block_count > 0)
        free(blocks[--block_count].at);
}
