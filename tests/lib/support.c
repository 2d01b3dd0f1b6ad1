/* The platform of the unit tests: a failed assertion fails the test that expects none. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/assert.h"

_Noreturn void assert_failed(const char *file, int line, const char *condition)
{
    mock_assert(0, condition, file, line); /* caught by expect_assert_failure, fatal otherwise */
    __builtin_trap();
}
