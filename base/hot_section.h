/* The functions on an answer's way, from the ring to the ring. They lie beside each other, in a section of their own,
 * which fills a third of the pages that they would be scattered over. With cold caches each page costs a walk through
 * the page tables. Rare work is kept out of them, in functions of its own or in branches of __builtin_expect.
 *
 * Other work, and other users of the CPU, push the path out of the caches: idle time fetches it back.
 *
 * A static function that does nothing but prefetch has no effect that GCC knows. If it is too long to be inlined at
 * once, GCC 12 deletes the calls. So prefetches stand in functions that also do something else. */
#pragma once

#include <stddef.h>

#define HOT     __attribute__((hot, section("hot_text")))
#define NOT_HOT __attribute__((noinline, cold)) /* else it would be inlined into one of them */

enum { HOT_LINE_BYTES = 64 };

/* Hides from the compiler how a value came about. GCC would compute the place of an array in an array again for each
 * access to it, with some multiplications. tests/prove/ defines the macro as nothing. */
#ifndef HOT_KEEP
#define HOT_KEEP(value) __asm__("" : "+r"(value))
#endif

/* Fetches the lines of some data, by loads: TCG carries those out, and ignores a prefetch. */
static inline void hot_fetch(const void *at, size_t bytes)
{
    for (const volatile char *line = (const volatile char *)at, *end = line + bytes; line < end; line += HOT_LINE_BYTES)
        (void)*line;
}

/* Fetches the lines of some data into the second-level cache: for data of which a burst needs few lines. */
static inline void hot_fetch_l2(const void *at, size_t bytes)
{
    for (const char *line = (const char *)at, *end = line + bytes; line < end; line += HOT_LINE_BYTES)
        __builtin_prefetch(line, 0, 2);
}

/* Fetches the functions, as far as the caches that hold both code and data: the one nearest to the CPU is left to the
 * data. */
void hot_fetch_code(void);
