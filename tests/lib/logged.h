/* Looks for lines of the log (base/log.h). */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "base/log.h"

/* Returns true if a line since the place `at` has a text. Moves the place after that line, or to the end. */
static inline bool is_logged(uint64_t *at, const char *text)
{
    char line[LOG_LINE_BYTES_MAX + 1];
    for (size_t bytes; (bytes = log_read(at, line)) != 0;) {
        line[bytes] = '\0';
        if (strstr(line, text) != NULL)
            return true;
    }
    return false;
}

/* Returns how many lines since a place have a text. */
static inline unsigned lines_logged(uint64_t at, const char *text)
{
    unsigned count = 0;
    while (is_logged(&at, text))
        count++;
    return count;
}
