/* The kernel's own <string.h> against the C library's, for each length and alignment that takes another branch. */
#define memcpy        kernel_memcpy
#define memmove       kernel_memmove
#define memset        kernel_memset
#define memcmp        kernel_memcmp
#define strlen        kernel_strlen
#define strnlen       kernel_strnlen
#define strcmp        kernel_strcmp
#define strncmp       kernel_strncmp
#define strchr        kernel_strchr
#define __popcountdi2 kernel_popcount
#include "kernel/libc.c"
#include "tests/lib/test.h"
#undef memcpy
#undef memmove
#undef memset
#undef memcmp
#undef strlen
#undef strnlen
#undef strcmp
#undef strncmp
#undef strchr
#undef __popcountdi2

#include <stdlib.h>

/* Declares glibc's functions under their own names. The header's prototypes are those of the kernel's functions. */
extern int memcmp(const void *, const void *, size_t);
extern void *memmove(void *, const void *, size_t);

enum { AREA = 1600 };

static void fill(uint8_t *area)
{
    for (size_t i = 0; i < AREA; i++)
        area[i] = (uint8_t)(i * 31 + (i >> 8));
}

TEST(memcpy_copies_exactly)
{
    for (size_t bytes = 0; bytes < 700; bytes++) {
        for (size_t offset = 0; offset < 3; offset++) {
            uint8_t *from = malloc(bytes + offset), *to = malloc(bytes + offset); /* ASan watches both ends */
            for (size_t i = 0; i < bytes + offset; i++)
                from[i] = (uint8_t)(i * 7);
            assert_ptr_equal(kernel_memcpy(to + offset, from + offset, bytes), to + offset);
            assert_int_equal(memcmp(to + offset, from + offset, bytes), 0);
            free(from);
            free(to);
        }
    }
}

TEST(memmove_moves_overlapping_bytes)
{
    static uint8_t expected[AREA], actual[AREA];
    for (size_t bytes = 0; bytes < 300; bytes++) {
        for (int shift = -40; shift <= 40; shift++) {
            fill(expected);
            fill(actual);
            memmove(expected + 600 + shift, expected + 600, bytes);
            assert_ptr_equal(kernel_memmove(actual + 600 + shift, actual + 600, bytes), actual + 600 + shift);
            assert_int_equal(memcmp(actual, expected, AREA), 0);
        }
    }
}

TEST(memset_sets_exactly)
{
    uint8_t area[64];
    for (size_t bytes = 0; bytes <= 60; bytes++) {
        kernel_memset(area, 1, sizeof area);
        kernel_memset(area + 2, 0x1fe, bytes);
        for (size_t i = 0; i < sizeof area; i++)
            assert_int_equal(area[i], i >= 2 && i < 2 + bytes ? 0xfe : 1);
    }
}

static int sign(int value) { return (value > 0) - (value < 0); }

TEST(memcmp_compares_as_unsigned_bytes)
{
    for (size_t bytes = 0; bytes < 40; bytes++) {
        uint8_t *a = calloc(1, bytes + 1), *b = calloc(1, bytes + 1);
        assert_int_equal(kernel_memcmp(a, b, bytes), 0);
        for (size_t at = 0; at < bytes; at++) {
            a[at] = 0x80;
            b[at] = 0x7f;
            assert_int_equal(sign(kernel_memcmp(a, b, bytes)), 1);
            assert_int_equal(sign(kernel_memcmp(b, a, bytes)), -1);
            a[at] = b[at] = 0;
        }
        free(a);
        free(b);
    }
}

TEST(strings_are_searched_and_compared)
{
    assert_int_equal(kernel_strlen(""), 0);
    assert_int_equal(kernel_strlen("abc"), 3);
    assert_int_equal(kernel_strnlen("abc", 2), 2);
    assert_int_equal(kernel_strnlen("abc", 9), 3);
    assert_int_equal(sign(kernel_strcmp("abc", "abd")), -1);
    assert_int_equal(sign(kernel_strcmp("abc", "ab")), 1);
    assert_int_equal(kernel_strcmp("", ""), 0);
    assert_int_equal(sign(kernel_strcmp("\x80", "\x7f")), 1);
    assert_int_equal(kernel_strncmp("abcx", "abcy", 3), 0);
    assert_int_equal(sign(kernel_strncmp("abcx", "abcy", 4)), -1);
    assert_int_equal(kernel_strncmp("a", "a", 100), 0);
    const char *text = "hay needle hay";
    assert_ptr_equal(kernel_strchr(text, 'n'), text + 4);
    assert_ptr_equal(kernel_strchr(text, '\0'), text + 14);
    assert_null(kernel_strchr(text, 'z'));
}

TEST(popcount_counts_bits)
{
    for (unsigned n = 0; n < 64; n++) {
        assert_int_equal(kernel_popcount((int64_t)(UINT64_C(1) << n)), 1);
        assert_int_equal(kernel_popcount((int64_t)(UINT64_MAX >> n)), 64 - n);
        assert_int_equal(kernel_popcount((int64_t)(UINT64_C(0x9e3779b97f4a7c15) << n)),
                         __builtin_popcountll(UINT64_C(0x9e3779b97f4a7c15) << n));
    }
    assert_int_equal(kernel_popcount(0), 0);
}
