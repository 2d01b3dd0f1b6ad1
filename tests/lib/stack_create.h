/* A stack for tests, in memory of its own. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "net/stack.h"

/* Makes a stack that free() takes back. Its memory is filled with 0xa5 before: nothing may rely on zeroes. Returns NULL
 * if the configuration cannot be used; `why`, if given, then points at the reason. */
static inline struct net_stack *stack_create(const struct net_config *config, uint64_t now_ns, const char **why)
{
    size_t bytes = net_stack_bytes(&config->capacity);
    void *memory = aligned_alloc(NET_STACK_ALIGN, bytes);
    ASSERT(memory != NULL);
    memset(memory, 0xa5, bytes);
    struct net_stack *stack = net_stack_init(memory, bytes, config, now_ns, why);
    if (stack == NULL)
        free(memory);
    return stack;
}
