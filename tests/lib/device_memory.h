/* kernel/memory/memory.h for hosted programs: memory_take from the heap, remembered. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Returns true if all of these bytes lie in one block that memory_take gave out. */
bool model_memory_contains(const void *at, size_t bytes);

/* Gives everything back, between two tests. */
void model_memory_free_all(void);
