/* The stacks, each with an unmapped page below it, so that an overflow traps instead of overwriting its neighbour. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum stack_id {
    STACK_MAIN, /* everything but traps; boot/entry.asm starts on it */
    STACK_TRAP, /* all exceptions but the three below: #PF may be an overflow */
    STACK_DOUBLE_FAULT,
    STACK_NMI,
    STACK_MACHINE_CHECK,
    STACK_SECOND,      /* the second CPU's; boot/worker.asm starts it there */
    STACK_SECOND_TRAP, /* all of its exceptions */
    STACK_COUNT,
};

enum {
    STACK_GUARD_BYTES = 4096,
    STACK_BYTES = 64 * 1024,
};

struct stack {
    uint8_t guard[STACK_GUARD_BYTES];
    uint8_t body[STACK_BYTES];
};

extern struct stack stacks[STACK_COUNT];

static inline uint64_t stack_top(enum stack_id id) { return (uint64_t)(stacks[id].body + STACK_BYTES); }

/* Returns the stack whose body holds the address, or STACK_COUNT. */
enum stack_id stack_with_body(uint64_t address);
/* Returns the stack whose guard page holds the address, or STACK_COUNT. */
enum stack_id stack_with_guard(uint64_t address);

const char *stack_name(enum stack_id id);
