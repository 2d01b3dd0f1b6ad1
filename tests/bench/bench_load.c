/* What may run on the CPU beside the one that is timed (bench_sibling.py), until it is killed or its parent ends.
 *
 *     bench_load CPU idle|work|pause|spin      prints "on CPU n" when it is there
 *
 *     idle    what the kernel's second CPU does between bursts: its loop (kernel/second_cpu.c) finds no digits and pauses.
 *             The looks at the consoles, the status page and the watchdog, a load or two each, are left out
 *     work    what it does behind one: early answers (app/copilot.h), burst upon burst without an end
 *     pause   a loop of PAUSE
 *     spin    an empty loop */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "app/copilot.h"
#include "kernel/base/assert.h"
#include "tests/bench/bench_stream.h"

enum { BURST = 100, DIGITS = 100000, N_DIGITS_MAX = 256 };

/* Until killed. */
static void idle(void)
{
    for (;;)
        if (!copilot_turn())
            __builtin_ia32_pause();
}

static void work(void)
{
    static uint8_t digits[DIGITS];
    char constants[] = "online";
    struct matcher_config config = { .n_digits_max = N_DIGITS_MAX, .early = true, .early_risk = 1e-5 };
    ASSERT(bench_stream_config(&config, constants, "auto"));
    bench_stream_fill(digits, sizeof digits, &config, 0);
    ASSERT(copilot_init(&config) == NULL);
    for (size_t at = 0;; at = (at + BURST) % sizeof digits) {
        struct matcher_answer answer;
        copilot_digits(digits + at, BURST, false);
        while (copilot_turn()) {
        }
        while (copilot_answer(&answer)) {
        }
    }
}

static void pause_only(void)
{
    for (;;)
        __builtin_ia32_pause();
}

static void spin(void)
{
    for (;;)
        __asm__ volatile("");
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*run)(void); } loads[] = {
        { "idle", idle }, { "work", work }, { "pause", pause_only }, { "spin", spin },
    };
    for (size_t i = 0; argc == 3 && i < sizeof loads / sizeof *loads; i++) {
        if (strcmp(argv[2], loads[i].name) == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            bench_pin((unsigned)atol(argv[1]));
            printf("on CPU %d\n", sched_getcpu());
            fflush(stdout);
            loads[i].run();
        }
    }
    fputs("usage: bench_load CPU idle|work|pause|spin\n", stderr);
    return 2;
}
