/* The stacks, each with an unmapped page below it, so that an overflow traps instead of overwriting its neighbour. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first CPU's. */
enum stack_id {
    STACK_MAIN, /* everything but traps; boot/entry.asm starts on it */
    STACK_TRAP, /* all exceptions but the three below: #PF may be an overflow */
    STACK_DOUBLE_FAULT,
    STACK_NMI,
    STACK_MACHINE_CHECK,
    STACK_COUNT,
};

enum {
    STACK_GUARD_BYTES = 4096,
    STACK_BYTES = 64 * 1024,
    WORKER_COUNT_MAX = 63, /* CPUs besides the first (kernel/cpu/workers.h) */
    WORKER_STACK_BYTES = 28 * 1024,
    WORKER_TRAP_STACK_BYTES = 8 * 1024, /* a trap is kept there, and not described */
};

struct stack {
    uint8_t guard[STACK_GUARD_BYTES];
    uint8_t body[STACK_BYTES];
};

struct worker_stacks {
    uint8_t guard[STACK_GUARD_BYTES];
    uint8_t body[WORKER_STACK_BYTES];
    uint8_t trap_guard[STACK_GUARD_BYTES];
    uint8_t trap_body[WORKER_TRAP_STACK_BYTES]; /* all exceptions */
};

struct stacks {
    struct stack first[STACK_COUNT];
    struct worker_stacks workers[WORKER_COUNT_MAX]; /* worker 1's is the first */
};

extern struct stacks stacks;

static inline uint64_t stack_top(enum stack_id id) { return (uint64_t)(stacks.first[id].body + STACK_BYTES); }
static inline uint64_t stack_top_of_worker(uint32_t worker)
{
    return (uint64_t)(stacks.workers[worker - 1].body + WORKER_STACK_BYTES);
}
static inline uint64_t stack_top_of_worker_trap(uint32_t worker)
{
    return (uint64_t)(stacks.workers[worker - 1].trap_body + WORKER_TRAP_STACK_BYTES);
}

/* Returns the worker whose stacks hold the address; 0: it is on another CPU's, or on none. */
uint32_t stack_worker(uint64_t address);

/* Returns true if the address lies in the body of any stack. */
bool stack_has(uint64_t address);

/* Returns the next guard page at or above the address, or 0. */
uint64_t stack_next_guard(uint64_t address);

/* Returns the name of the stack whose guard page holds the address, or NULL. */
const char *stack_name_of_guard(uint64_t address);
