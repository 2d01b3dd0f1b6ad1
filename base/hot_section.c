/* Fetches the section of the hot functions. Knows none of them. */
#include "base/hot_section.h"

#include <stdint.h>

/* ld names the section's ends (hosted), and image/linker.ld. Weak: a program without such functions has none. */
extern const char __start_hot_text[] __attribute__((weak)), __stop_hot_text[] __attribute__((weak));

void hot_fetch_code(void)
{
    const char *const begin = __start_hot_text - (uintptr_t)__start_hot_text % HOT_LINE_BYTES;
    for (const char *line = begin; line < __stop_hot_text; line += HOT_LINE_BYTES)
        __builtin_prefetch(line, 0, 2);
}
