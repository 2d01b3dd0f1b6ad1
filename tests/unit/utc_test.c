/* base/utc.c against the C library, and kernel/time/rtc.c over fake registers. */
#define _GNU_SOURCE
#include <limits.h>
#include <time.h>

#include "base/utc.h"
#include "kernel/time/rtc.h"
#include "tests/lib/test.h"

TEST(dates_are_those_of_the_c_library)
{
    for (uint64_t seconds = 0; seconds < UINT64_C(4102444800) * 3; seconds += 40007 * 11) { /* to 2360, two a month */
        time_t t = (time_t)seconds;
        struct tm tm;
        gmtime_r(&t, &tm);
        struct utc utc = utc_from_ns(seconds * NS_PER_S + 7);
        assert_int_equal(utc.year, tm.tm_year + 1900);
        assert_int_equal(utc.month, tm.tm_mon + 1);
        assert_int_equal(utc.day, tm.tm_mday);
        assert_int_equal(utc.hour * 3600 + utc.minute * 60 + utc.second,
                         tm.tm_hour * 3600 + tm.tm_min * 60 + tm.tm_sec);
        uint64_t ns;
        assert_true(utc_to_ns(&utc, &ns));
        assert_int_equal(ns, seconds * NS_PER_S + 7);
    }
}

TEST(impossible_dates_are_refused)
{
    static const struct utc wrong[] = {
        { 1969, 12, 31, 0, 0, 0, 0 }, { 2026, 0, 1, 0, 0, 0, 0 },  { 2026, 13, 1, 0, 0, 0, 0 },
        { 2026, 1, 0, 0, 0, 0, 0 },   { 2026, 2, 29, 0, 0, 0, 0 }, { 2100, 2, 29, 0, 0, 0, 0 },
        { 2026, 4, 31, 0, 0, 0, 0 },  { 2026, 1, 1, 24, 0, 0, 0 }, { 2026, 1, 1, 0, 60, 0, 0 },
        { 2026, 1, 1, 0, 0, 60, 0 },  { 2501, 1, 1, 0, 0, 0, 0 },
    };
    uint64_t ns;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(utc_to_ns(&wrong[i], &ns));
    assert_true(utc_to_ns(&(struct utc){ 2000, 2, 29, 23, 59, 59, 0 }, &ns));
}

TEST(text_is_rfc_3339)
{
    char text[UTC_TEXT_BYTES + 1];
    utc_format(text, UINT64_C(1645358369545511999));
    assert_string_equal(text, "2022-02-20T11:59:29.545511Z");
}

/* ---- the RTC ---- */

static uint8_t registers[128];
static int reads_until_tick; /* a second passes in the middle of a reading */

static uint8_t read_register(uint8_t index)
{
    if (reads_until_tick > 0 && --reads_until_tick == 0) {
        registers[0] = 0x00;
        registers[2] = 0x00;
        registers[4] = 0x00;
        registers[7] = 0x01;
        registers[8] = 0x01;
        registers[9] = 0x27;
    }
    return registers[index];
}

static void set(uint8_t b, const uint8_t fields[7]) /* second, minute, hour, day, month, year, century */
{
    static const uint8_t index[] = { 0, 2, 4, 7, 8, 9, 50 };
    memset(registers, 0, sizeof registers);
    reads_until_tick = 0;
    for (size_t i = 0; i < sizeof index; i++)
        registers[index[i]] = fields[i];
    registers[11] = b;
}

static const char *rtc_text(uint8_t century)
{
    static char text[UTC_TEXT_BYTES + 1];
    uint64_t ns;
    if (!rtc_read(read_register, century, &ns))
        return "none";
    utc_format(text, ns);
    return text;
}

TEST(every_format_of_a_date_is_read)
{
    set(0x02, (const uint8_t[]){ 0x59, 0x58, 0x23, 0x21, 0x11, 0x26, 0x20 }); /* BCD, 24 hours */
    assert_string_equal(rtc_text(50), "2026-11-21T23:58:59.000000Z");
    set(0x06, (const uint8_t[]){ 59, 58, 23, 21, 11, 26, 20 }); /* binary */
    assert_string_equal(rtc_text(50), "2026-11-21T23:58:59.000000Z");
    set(0x00, (const uint8_t[]){ 0x59, 0x58, 0x91, 0x21, 0x11, 0x26, 0x20 }); /* BCD, 11 PM */
    assert_string_equal(rtc_text(50), "2026-11-21T23:58:59.000000Z");
    set(0x00, (const uint8_t[]){ 0x00, 0x00, 0x12, 0x21, 0x11, 0x26, 0x20 }); /* 12 AM is midnight */
    assert_string_equal(rtc_text(50), "2026-11-21T00:00:00.000000Z");
    set(0x00, (const uint8_t[]){ 0x00, 0x00, 0x92, 0x21, 0x11, 0x26, 0x20 }); /* 12 PM is noon */
    assert_string_equal(rtc_text(50), "2026-11-21T12:00:00.000000Z");
    set(0x02, (const uint8_t[]){ 0x59, 0x58, 0x23, 0x21, 0x11, 0x26, 0x21 });
    assert_string_equal(rtc_text(50), "2126-11-21T23:58:59.000000Z");
    assert_string_equal(rtc_text(0), "2026-11-21T23:58:59.000000Z"); /* no register for the century */
}

TEST(second_that_passes_meanwhile_is_never_half_read)
{
    for (int reads = 1; reads < 40; reads++) {
        set(0x02, (const uint8_t[]){ 0x59, 0x59, 0x23, 0x31, 0x12, 0x26, 0x20 });
        reads_until_tick = reads;
        const char *text = rtc_text(50);
        if (strcmp(text, "2026-12-31T23:59:59.000000Z") != 0)
            assert_string_equal(text, "2027-01-01T00:00:00.000000Z");
    }
}

static uint8_t read_running(uint8_t index)
{
    registers[0] = index == 0 ? (registers[0] + 1) % 60 : registers[0];
    return read_register(index);
}

static int polls_until_updated;
static uint8_t read_updating(uint8_t index)
{
    return index == 10 && polls_until_updated-- > 0 ? 0x80 : read_register(index);
}

TEST(update_under_way_is_waited_for)
{
    uint64_t ns;
    set(0x06, (const uint8_t[]){ 59, 58, 23, 21, 11, 26, 20 });
    polls_until_updated = 100;
    assert_true(rtc_read(read_updating, 50, &ns));
    polls_until_updated = INT_MAX;
    assert_false(rtc_read(read_updating, 50, &ns));
}

static int reads_until_gone; /* then the bus reads as ones */
static uint8_t read_leaving(uint8_t index) { return reads_until_gone-- > 0 ? read_register(index) : 0xff; }

TEST(date_counts_only_if_two_whole_readings_agree)
{
    enum { READING = 9 }; /* registers, A and B among them */
    uint64_t ns;
    set(0x06, (const uint8_t[]){ 59, 58, 23, 21, 11, 26, 20 });
    assert_false(rtc_read(read_running, 50, &ns));
    for (int reads = 0; reads <= 2 * READING; reads++) {
        set(0x06, (const uint8_t[]){ 59, 58, 23, 21, 11, 26, 20 });
        reads_until_gone = reads;
        assert_int_equal(rtc_read(read_leaving, 50, &ns), reads == 2 * READING);
    }
}

TEST(machine_without_rtc_is_reported)
{
    memset(registers, 0xff, sizeof registers);
    assert_string_equal(rtc_text(50), "none");
    memset(registers, 0, sizeof registers);
    assert_string_equal(rtc_text(50), "none");
}
