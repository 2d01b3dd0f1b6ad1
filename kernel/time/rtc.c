/* Decodes the registers of the battery-backed clock. Reads them through a function, so that tests bring their own. */
#include "kernel/time/rtc.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/utc.h"

/* Motorola MC146818A data sheet, "Address Map" and "Registers". */
enum {
    RTC_SECONDS,
    RTC_MINUTES = 2,
    RTC_HOURS = 4,
    RTC_DAY = 7,
    RTC_MONTH = 8,
    RTC_YEAR = 9,
    RTC_A = 10,
    RTC_B = 11,
    RTC_A_UIP_BIT = 7, /* the date is being changed: a reading may be half of it */
    RTC_B_24H_BIT = 1,
    RTC_B_BINARY_BIT = 2,
    RTC_HOURS_PM_BIT = 7,
    READS_MAX = 20,
    UIP_POLLS_MAX = 10000, /* an update lasts 2 ms, an access at least 0.2 us */
};

struct registers {
    uint8_t second, minute, hour, day, month, year, century, b;
};

static bool registers_read(rtc_read_register *read, uint8_t century_index, struct registers *r)
{
    ASSERT(read != NULL);
    int polls = 0;
    while (read(RTC_A) & BIT(RTC_A_UIP_BIT))
        if (++polls == UIP_POLLS_MAX)
            return false; /* nothing there: all ones */
    *r = (struct registers){ read(RTC_SECONDS),
                             read(RTC_MINUTES),
                             read(RTC_HOURS),
                             read(RTC_DAY),
                             read(RTC_MONTH),
                             read(RTC_YEAR),
                             century_index != 0 ? read(century_index) : 0,
                             read(RTC_B) };
    return true;
}

static uint32_t number(const struct registers *r, uint8_t value)
{
    return r->b & BIT(RTC_B_BINARY_BIT) ? value : (uint32_t)(value >> 4) * 10 + (value & 15);
}

static uint32_t hour_of(const struct registers *r)
{
    uint32_t hour = number(r, r->hour & (uint8_t)~BIT(RTC_HOURS_PM_BIT));
    if (r->b & BIT(RTC_B_24H_BIT))
        return number(r, r->hour);
    return hour % 12 + (r->hour & BIT(RTC_HOURS_PM_BIT) ? 12 : 0); /* 12 AM is 0, 12 PM is 12 */
}

bool rtc_read(rtc_read_register *read, uint8_t century_index, uint64_t *ns)
{
    struct registers before, now;
    if (!registers_read(read, century_index, &before))
        return false;
    for (int i = 0; i < READS_MAX; i++) {
        if (!registers_read(read, century_index, &now))
            return false;
        if (memcmp(&before, &now, sizeof now) == 0) {
            uint32_t century = number(&now, now.century);
            struct utc utc = {
                .year = number(&now, now.year) + (century >= 19 && century <= 24 ? century * 100 : 2000),
                .month = number(&now, now.month),
                .day = number(&now, now.day),
                .hour = hour_of(&now),
                .minute = number(&now, now.minute),
                .second = number(&now, now.second),
            };
            return utc_to_ns(&utc, ns);
        }
        before = now;
    }
    return false;
}
