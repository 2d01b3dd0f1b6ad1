/* Answers whose prefix values lie at the edge of a hash cell, or their older parts at that of a cell of old starts. */
#pragma once

#include <stdint.h>

#include "app/matcher.h"

/* Plays about so many digits; 0 if every answer is found, and prints one line. */
int cells_run(uint64_t seed, uint64_t digits, enum matcher_simd simd);
int old_cells_run(uint64_t seed, uint64_t digits, enum matcher_simd simd);
