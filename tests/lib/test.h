/* A test program of cmocka: each file is one, and its tests register themselves. tests/lib/test.c has main.
 *
 *     TEST(subject_condition_outcome)
 *     {
 *         assert_int_equal(1 + 1, 2);
 *     }
 *
 * The tests are played in the order of their lines. An argument of the program chooses some by name, with * and ?. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/time.h"

/* cmocka 2 has two names for it, and calls the old one deprecated. */
#ifdef assert_uint_in_range
#undef assert_in_range
#define assert_in_range assert_uint_in_range
#endif

struct test {
    const char *name;
    int line;
    void (*before)(void), (*run)(void);
};

void test_add(const struct test *test); /* borrowed until the program's end */

/* Defines a test that another function than the program's BEFORE_EACH prepares. */
#define TEST_AFTER(before, name)                                                                                       \
    static void name(void);                                                                                            \
    __attribute__((constructor)) static void name##_add(void)                                                          \
    {                                                                                                                  \
        static const struct test test = { #name, __LINE__, before, name };                                             \
        test_add(&test);                                                                                               \
    }                                                                                                                  \
    static void name(void)
#define TEST(name)    TEST_AFTER(test_before_each, name)

/* Define what runs before each test and after it, even after a failed one, and once before all tests. */
#define BEFORE_EACH() void test_before_each(void)
#define AFTER_EACH()  void test_after_each(void)
#define BEFORE_ALL()  void test_before_all(void)
BEFORE_EACH();
AFTER_EACH();
BEFORE_ALL();
