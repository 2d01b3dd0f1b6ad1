/* The clock, random bytes and the log's sink, by Linux. Knows no program. */
#define _GNU_SOURCE
#include "host/platform.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/cycles.h"
#include "base/log.h"
#include "base/time.h"

static uint64_t origin_ns, tsc_khz;

static uint64_t monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

_Noreturn void assert_failed(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}

static size_t log_to_stderr(const char *text, size_t bytes)
{
    ssize_t written = write(STDERR_FILENO, text, bytes);
    return written > 0 ? (size_t)written : bytes; /* a closed stderr takes everything */
}

void platform_init(void)
{
    origin_ns = monotonic_ns();
    uint64_t began = cycles_now_serialised();
    struct timespec pause = { .tv_nsec = 20 * NS_PER_MS };
    nanosleep(&pause, NULL);
    uint64_t cycles = cycles_now_serialised() - began;
    uint64_t elapsed_ns = monotonic_ns() - origin_ns;
    ASSERT(elapsed_ns > 0);
    tsc_khz = (uint64_t)((unsigned __int128)cycles * NS_PER_MS / elapsed_ns);
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    log_wall_origin_ns = (uint64_t)wall.tv_sec * NS_PER_S + (uint64_t)wall.tv_nsec - platform_now_ns();
    signal(SIGPIPE, SIG_IGN); /* a pipe without a reader closes stderr; the program goes on */
    log_add_sink(log_to_stderr);
}

uint64_t platform_now_ns(void) { return monotonic_ns() - origin_ns; }
uint64_t platform_tsc_khz(void) { return tsc_khz; }

void platform_random(void *out, size_t bytes)
{
    if (getrandom(out, bytes, 0) != (ssize_t)bytes)
        assert_failed(__FILE__, __LINE__, "getrandom");
}
