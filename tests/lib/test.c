/* See test.h. A failed assertion of the product fails the test that expects none. */
#define _GNU_SOURCE
#include "tests/lib/test.h"

#include "base/assert.h"

enum { TESTS_MAX = 128 };
static const struct test *tests[TESTS_MAX]; /* sorted by line: constructors run in any order */
static size_t test_count;

__attribute__((weak)) BEFORE_EACH() {}
__attribute__((weak)) AFTER_EACH() {}
__attribute__((weak)) BEFORE_ALL() {}

_Noreturn void assert_failed(const char *file, int line, const char *condition)
{
    mock_assert(0, condition, file, line); /* caught by expect_assert_failure, fatal otherwise */
    __builtin_trap();
}

void test_add(const struct test *test)
{
    ASSERT(test_count < TESTS_MAX);
    size_t at = test_count++;
    for (; at > 0 && tests[at - 1]->line > test->line; at--)
        tests[at] = tests[at - 1];
    tests[at] = test;
}

static int before_all(void **state)
{
    (void)state;
    test_before_all();
    return 0;
}

static int before_each(void **state)
{
    ((const struct test *)*state)->before();
    return 0;
}

static void run(void **state) { ((const struct test *)*state)->run(); }

static int after_each(void **state)
{
    (void)state;
    test_after_each();
    return 0;
}

int main(int argc, char **argv)
{
    ASSERT(test_count > 0);
    static struct CMUnitTest played[TESTS_MAX];
    for (size_t i = 0; i < test_count; i++)
        played[i] = (struct CMUnitTest){ tests[i]->name, run, before_each, after_each, (void *)tests[i] };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return _cmocka_run_group_tests("tests", played, test_count, before_all, NULL);
}
