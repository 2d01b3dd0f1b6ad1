/* test.trap=WORD: makes the machine fail on purpose, so that anybody can try their way back to Linux. */
#pragma once

#include <stdbool.h>

/* Does not return if it knows the word (see kernel/selftest.c); false otherwise. */
bool selftest_trap(const char *word);

/* Brings about the exception of that name, or returns false; true: it did not come. kernel/selftest_exceptions.c. */
bool selftest_exception(const char *word);
