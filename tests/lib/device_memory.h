/* kernel/memory/memory.h for hosted programs: memory_take allocates from the heap, and keeps a list of its blocks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Returns true if all of these bytes lie in one block that memory_take gave out. */
bool model_memory_contains(const void *at, size_t bytes);

/* Gives everything back, between two tests. */
void model_memory_free_all(void);
