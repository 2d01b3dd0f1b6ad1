/* The platform of programs without cmocka: a failed assertion is printed and ends the program. */
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"

_Noreturn void assert_failed(const char *file, int line, const char *condition)
{
    fprintf(stderr, "assertion failed: %s:%d: %s\n", file, line, condition);
    abort();
}
