/* test.trap=WORD: makes the machine fail on purpose, so that anybody can try their way back to Linux. */
#pragma once

#include <stdbool.h>

/* Fails as the word says (see the table in kernel/rescue/selftest.c). Returns false if it does not know the word. */
bool selftest_trap(const char *word);

/* Raises the exception of that name, kernel/rescue/selftest_exceptions.c. Returns false if the name is unknown, and
 * true if the exception did not come. */
bool selftest_exception(const char *word);
