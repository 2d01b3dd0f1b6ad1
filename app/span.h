/* A stretch of text, and the values it may spell: numbers, addresses, times. Pure; no allocation, no terminator. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SPAN_CHANCE_MIN 1e-30
#define SPAN_CHANCE_MAX 0.1

struct span {
    const char *at;
    size_t bytes;
};

static inline bool span_is(struct span s, const char *text)
{
    return s.bytes == strlen(text) && !memcmp(s.at, text, s.bytes);
}

/* Cuts the part before `separator` off the front of `rest`, whose `at` becomes NULL with the last part; false when
 * nothing is left. An empty part counts: "a,,b" has three, "" has one. */
bool span_split(struct span *rest, char separator, struct span *part);

static inline bool span_digit_is(char c) { return c >= '0' && c <= '9'; }
int span_hex_digit(char c);             /* its value, -1 if it is none */

/* All of the span must spell the value; otherwise false, and *value is unspecified. */
bool span_number(struct span s, uint64_t least, uint64_t most, uint64_t *value);    /* decimal, at most 19 digits */
bool span_address(struct span s, uint32_t *address);        /* four decimal parts; host order */
bool span_duration(struct span s, uint64_t *ns);            /* "30" (seconds), "0.5", "200ms", "50us", at most 10^9 s */
bool span_chance(struct span s, double *value);             /* "0.001", "1e-9" */
