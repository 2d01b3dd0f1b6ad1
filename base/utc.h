/* Dates of the proleptic Gregorian calendar in UTC, and nanoseconds since 1970, without leap seconds. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct utc {
    uint32_t year, month, day; /* 1970..., 1..12, 1..31 */
    uint32_t hour, minute, second, nanosecond;
};

/* Converts a date. Returns false unless the date exists and lies between 1970 and 2500. */
bool utc_to_ns(const struct utc *utc, uint64_t *ns);
struct utc utc_from_ns(uint64_t ns);

/* "2026-11-21T23:09:30.123456Z", RFC 3339, and a NUL. */
enum { UTC_TEXT_BYTES = 27 };
void utc_format(char out[UTC_TEXT_BYTES + 1], uint64_t ns);
