/* Records the cache lines of data that a piece of code touches, and those that idle time had touched before. A line of
 * the path that no rehearsal touches is cold when a frame comes after a pause.
 *
 * The product's objects are compiled with -fsanitize=thread, whose calls at each load and store go to touched.c instead
 * of the sanitizer's library. Prefetches count as touched. tests/bench/touched.py prints the lines by function. */
#pragma once

#include <stddef.h>

enum touched_phase { TOUCHED_OFF, TOUCHED_REST, TOUCHED_PATH };

#ifdef TOUCHED
/* Begins a phase; each TOUCHED_REST forgets the lines of the one before. The path is what touched_end writes. */
void touched_phase(enum touched_phase phase);

/* Writes what the path touched and the rest before did not: a line `CODE DATA EVENTS` for each function's place and
 * line of data. Then `events N lines N untouched N`, the latter two as means of an event. */
void touched_end(void);

void touched_prefetch(const void *at, ...);
#else /* nothing is recorded, nor counted among a benchmark's instructions */
static inline void touched_phase(enum touched_phase phase) { (void)phase; }
static inline void touched_end(void) {}
#endif
