/* The functions on an answer's way, from the ring to the ring. They lie beside each other (.text.hot, boot/linker.ld;
 * hosted, ld does so by itself): two or three pages in place of fifteen, each of which costs a walk through the page
 * tables when caches are cold. What they hardly ever do is kept out of them, in functions of its own or behind
 * __builtin_expect. */
#pragma once

#define HOT __attribute__((hot))
#define NOT_HOT __attribute__((noinline, cold))     /* what would be inlined into one of them */
