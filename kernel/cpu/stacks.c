/* The stacks themselves, and which of them an address lies in. Knows no code that runs on them. */
#include "kernel/cpu/stacks.h"

#include <assert.h>

struct stacks stacks __attribute__((section(".stacks,\"aw\",@nobits#"), aligned(4096)));

static_assert(STACK_MAIN == 0 && STACK_GUARD_BYTES == 4096 && STACK_BYTES == 65536, "boot/entry.asm: STACK_MAIN_TOP");

/* The guard pages of all stacks, from the lowest up: one for each of the first CPU, two for each worker. */
enum { GUARD_COUNT = STACK_COUNT + 2 * WORKER_COUNT_MAX };

static uint64_t guard_of(size_t index)
{
    if (index < STACK_COUNT)
        return (uint64_t)stacks.first[index].guard;
    const struct worker_stacks *w = &stacks.workers[(index - STACK_COUNT) / 2];
    return (uint64_t)((index - STACK_COUNT) % 2 == 0 ? w->guard : w->trap_guard);
}

uint32_t stack_worker(uint64_t address)
{
    uint64_t offset = address - (uint64_t)stacks.workers;
    return offset < sizeof stacks.workers ? (uint32_t)(offset / sizeof stacks.workers[0]) + 1 : 0;
}

static size_t guard_with(uint64_t address)
{
    size_t i = 0;
    while (i < GUARD_COUNT && address - guard_of(i) >= STACK_GUARD_BYTES)
        i++;
    return i;
}

bool stack_has(uint64_t address)
{
    return address - (uint64_t)&stacks < sizeof stacks && guard_with(address) == GUARD_COUNT;
}

uint64_t stack_next_guard(uint64_t address)
{
    size_t i = 0;
    while (i < GUARD_COUNT && guard_of(i) < address)
        i++;
    return i < GUARD_COUNT ? guard_of(i) : 0;
}

const char *stack_name_of_guard(uint64_t address)
{
    static const char *const names[STACK_COUNT] = { "main", "trap", "double fault", "NMI", "machine check" };
    size_t i = guard_with(address);
    if (i == GUARD_COUNT)
        return NULL;
    return i < STACK_COUNT ? names[i] : (i - STACK_COUNT) % 2 == 0 ? "worker's" : "worker's trap";
}
