/* The one function that lwIP's core takes from <stdlib.h>, for a kernel that has no C library: atoi. lwIP parses names
 * of interfaces with it, which nobody looks up here. */
#pragma once

static inline int atoi(const char *text)
{
    int value = 0;
    while (*text >= '0' && *text <= '9' && value < 1000)
        value = 10 * value + (*text++ - '0');
    return value;
}
