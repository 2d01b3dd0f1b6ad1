/* Dates from seconds and back, by days. Knows no time zone. */
#include "base/utc.h"

#include "base/assert.h"
#include "base/format.h"
#include "base/time.h"

enum { SECONDS_PER_DAY = 86400, YEAR_MAX = 2500 };

static bool is_leap(uint32_t year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

static uint32_t days_of_month(uint32_t year, uint32_t month)
{
    static const uint8_t days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    ASSERT(month >= 1 && month <= 12);
    return days[month - 1] + (month == 2 && is_leap(year) ? 1u : 0u);
}

static uint64_t days_before_year(uint32_t year)
{
    ASSERT(year >= 1970);
    uint32_t y = year - 1; /* leap years up to y, less those up to 1969 */
    return (uint64_t)(year - 1970) * 365 + (y / 4 - y / 100 + y / 400) - (1969 / 4 - 1969 / 100 + 1969 / 400);
}

bool utc_to_ns(const struct utc *utc, uint64_t *ns)
{
    if (utc->year < 1970 || utc->year > YEAR_MAX || utc->month < 1 || utc->month > 12 || utc->day < 1
        || utc->day > days_of_month(utc->year, utc->month) || utc->hour > 23 || utc->minute > 59 || utc->second > 59)
        return false;
    uint64_t days = days_before_year(utc->year) + utc->day - 1;
    for (uint32_t month = 1; month < utc->month; month++)
        days += days_of_month(utc->year, month);
    *ns = (days * SECONDS_PER_DAY + utc->hour * 3600 + utc->minute * 60 + utc->second) * NS_PER_S + utc->nanosecond;
    return true;
}

struct utc utc_from_ns(uint64_t ns)
{
    uint64_t seconds = ns / NS_PER_S, days = seconds / SECONDS_PER_DAY;
    uint32_t in_day = (uint32_t)(seconds % SECONDS_PER_DAY);
    struct utc utc = {
        .year = 1970 + (uint32_t)(days / 366), /* the year wanted, or one before it */
        .month = 1,
        .hour = in_day / 3600,
        .minute = in_day / 60 % 60,
        .second = in_day % 60,
        .nanosecond = (uint32_t)(ns % NS_PER_S),
    };
    while (days_before_year(utc.year + 1) <= days)
        utc.year++;
    uint32_t day = (uint32_t)(days - days_before_year(utc.year));
    for (; day >= days_of_month(utc.year, utc.month); utc.month++)
        day -= days_of_month(utc.year, utc.month);
    utc.day = day + 1;
    ASSERT(utc.month <= 12 && utc.day <= 31);
    return utc;
}

void utc_format(char out[UTC_TEXT_BYTES + 1], uint64_t ns)
{
    struct utc u = utc_from_ns(ns);
    format(out, UTC_TEXT_BYTES + 1, "%04u-%02u-%02uT%02u:%02u:%02u.%06uZ", u.year, u.month, u.day, u.hour, u.minute,
           u.second, u.nanosecond / 1000);
}
