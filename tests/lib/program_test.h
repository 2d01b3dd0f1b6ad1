/* A test of a program, which plays the network by tests/lib/fake_transport.h, and the headers that all of them need. */
#pragma once

#include "app/program.h"
#include "app/service/rehearsal.h"
#include "app/service/service.h"
#include "app/service/settings.h"
#include "app/service/stats.h"
#include "tests/lib/fake_transport.h"
#include "tests/lib/logged.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"

/* Reads the program's settings, and begins transport, statistics and service again. program.init is the test's. */
static inline void program_begin(const char *words, const struct program_machine *machine, uint64_t now_ns)
{
    static struct settings settings;
    service_settings_begin(&settings, program.name, program.settings, NULL);
    settings_add(&settings, "test", words, strlen(words));
    assert_true(settings_finish(&settings));
    fake_reset();
    stats_clear();
    assert_null(service_init(machine->secret, false, now_ns));
}

/* Returns a counter's value, by its name in the statistics. */
static inline uint64_t counter(const char *name)
{
    const uint64_t *value = stats_find(NULL, name);
    assert_non_null(value);
    return *value;
}
