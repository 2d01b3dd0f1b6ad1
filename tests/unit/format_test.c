/* format() against the C library's printf, over the subset that format() supports. */
#include "base/format.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"

/* Checks that both write the same, in a buffer of any size. */
static __attribute__((format(printf, 1, 2))) void same(const char *form, ...)
{
    static const size_t rooms[] = { 256, 7, 1 };
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
        char expected[256], actual[256];
        va_list list, again;
        va_start(list, form);
        va_copy(again, list);
        size_t bytes = (size_t)vsnprintf(expected, rooms[i], form, list);
        assert_int_equal(format_list(actual, rooms[i], form, again), bytes < rooms[i] ? bytes : rooms[i] - 1);
        assert_string_equal(actual, expected);
        va_end(list);
        va_end(again);
    }
}

TEST(format_integers_are_as_printf_says)
{
    same("%d %i %u %x %X", -1, 42, 7u, 0xbeefu, 0xBEEFu);
    same("%ld %lu %lx", INT64_MIN, UINT64_MAX, UINT64_MAX);
    same("%lld %llu %llX", (long long)INT64_MIN, 18446744073709551615ull, 0xfedcba9876543210ull);
    same("%zu %zx %zd", SIZE_MAX, (size_t)0, (ssize_t)-5);
    same("%d %d", INT32_MIN, INT32_MAX);
    same("%hhu %hd", (unsigned char)200, (short)-3);
}

TEST(format_widths_and_flags_are_as_printf_says)
{
    same("[%5d][%-5d][%05d][%-5d]", 42, 42, -42, -42);
    same("[%2d][%016lx][%08x]", 12345, 0xabcul, 0x1234u);
    same("[%*d][%-*d][%*d]", 6, 1, 6, 2, -6, 3);
    same("[%10s][%-10s][%.3s][%10.2s]", "ab", "ab", "abcdef", "xyz");
    same("[%.*s][%.*s]", 2, "abcdef", 0, "abc");
    same("[%c][%3c][%-3c]%%", 'x', 'y', 'z');
}

TEST(format_of_a_string_with_precision_reads_no_further)
{
    char *text = malloc(3); /* without a terminator: ASan watches the byte after */
    memcpy(text, "abc", 3);
    char out[16];
    assert_int_equal(format(out, sizeof out, "%.3s", text), 3);
    assert_string_equal(out, "abc");
    free(text);
}

TEST(format_pointers_and_null_strings_are_readable)
{
    char out[64];
    format(out, sizeof out, "%p", (void *)0x1234);
    assert_string_equal(out, "0x1234");
    const char *volatile none = NULL;
    format(out, sizeof out, "%s", none);
    assert_string_equal(out, "(null)");
}

TEST(format_copies_unknown_conversions)
{
    char out[64];
    const char *volatile unknown = "a %q b %-5", *volatile form = unknown;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
    format(out, sizeof out, form);
#pragma GCC diagnostic pop
    assert_string_equal(out, "a %q b %-5");
}

TEST(format_into_no_room_writes_nothing)
{
    char out[1] = { 'x' };
    assert_int_equal(format(out, 0, "abc"), 0);
    assert_int_equal(out[0], 'x');
    assert_int_equal(format(out, 1, "abc"), 0);
    assert_int_equal(out[0], '\0');
}

TEST(format_random_numbers_are_as_printf_says)
{
    random_seed(20220217);
    for (int i = 0; i < 20000; i++) {
        uint64_t value = random_next() >> random_below(64);
        int width = random_below(24);
        same("%*lu|%-*ld|%0*lx", width, value, width, (int64_t)-value, width, value);
    }
}

TEST(format_of_an_address_is_a_dotted_quad)
{
    char out[64];
    const uint32_t addresses[] = { 0x0a000202, 0xffffffff, 0 };
    format(out, sizeof out, "%pI4h:%u [%-10pI4h] %pI4h.", &addresses[0], 80, &addresses[2], &addresses[1]);
    assert_string_equal(out, "10.0.2.2:80 [0.0.0.0   ] 255.255.255.255.");
}
