/* A recorded contest for simulator, check and benchmark: a file of `contest record --as-player` or `contest serve
 * --record` (tools/servers/contest/record.py). */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { RECORDING_MODULUS_COUNT_MAX = 8 };

struct recording_burst {
    size_t digits;
    uint64_t pause_ns; /* before it */
};

struct recording {
    uint32_t n, modulus_count; /* the first round's; a player's record lacks the hidden moduli */
    char *moduli[RECORDING_MODULUS_COUNT_MAX];
    size_t burst_count, digit_count;
    struct recording_burst *bursts;
    uint8_t *digits; /* all bursts' digits */
};

/* Reads a file, at most `digits_max` digits of it. Exits with a message if it holds no contest. */
struct recording recording_read(const char *path, size_t digits_max);
