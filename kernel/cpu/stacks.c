/* The stacks themselves, and which of them an address lies in. Knows no code that runs on them. */
#include "kernel/cpu/stacks.h"

#include <assert.h>

struct stack stacks[STACK_COUNT] __attribute__((section(".stacks,\"aw\",@nobits#"), aligned(4096)));

static_assert(STACK_MAIN == 0 && STACK_GUARD_BYTES == 4096 && STACK_BYTES == 65536, "boot/entry.asm: STACK_MAIN_TOP");
static_assert(STACK_SECOND == 5 && sizeof(struct stack) == 4096 + 65536, "boot/worker.asm: STACK_SECOND");

static bool holds(const uint8_t *base, size_t bytes, uint64_t address) { return address - (uint64_t)base < bytes; }

enum stack_id stack_with_body(uint64_t address)
{
    enum stack_id id = 0;
    while (id < STACK_COUNT && !holds(stacks[id].body, STACK_BYTES, address))
        id++;
    return id;
}

enum stack_id stack_with_guard(uint64_t address)
{
    enum stack_id id = 0;
    while (id < STACK_COUNT && !holds(stacks[id].guard, STACK_GUARD_BYTES, address))
        id++;
    return id;
}

const char *stack_name(enum stack_id id)
{
    static const char *const names[STACK_COUNT] = {
        "main", "trap", "double fault", "NMI", "machine check", "second CPU's", "second CPU's trap",
    };
    return id < STACK_COUNT ? names[id] : "no";
}
