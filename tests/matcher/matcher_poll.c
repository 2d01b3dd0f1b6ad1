/* The longest time for which the player does not poll the ring while it searches a long burst.
 *
 *     matcher_poll MODULI SIMD N DIGITS STREAM    prints the microseconds
 *
 * The player's rule: up to 32 answers, or two returns without one, then the ring (app/player/player.c). Time is the
 * thread's CPU time, and the least of five runs for each turn: other work on the machine only ever adds. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "tests/bench/bench_stream.h"

enum { RUNS = 5, WORK_MAX = 32, TURNS_MAX = 1 << 18 };

static uint64_t thread_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Plays the digits as one burst; keeps the least time of each turn. Returns the number of turns. */
static size_t play(struct matcher *matcher, const uint8_t *text, size_t digits, uint64_t *least)
{
    struct matcher_answer answer;
    size_t turn = 0;
    uint64_t begin = thread_ns();
    matcher_begin(matcher, text, digits);
    for (enum matcher_step step = MATCHER_WORKING; step != MATCHER_DONE; turn++) {
        ASSERT(turn < TURNS_MAX);
        for (uint32_t work = 0; work < WORK_MAX && step != MATCHER_DONE;) {
            step = matcher_next(matcher, &answer);
            work += step == MATCHER_ANSWER ? 1 : WORK_MAX / 2;
        }
        const uint64_t now = thread_ns();
        least[turn] = now - begin < least[turn] ? now - begin : least[turn];
        begin = now;
    }
    return turn;
}

int main(int argc, char **argv)
{
    struct matcher_config config = { 0 };
    if (argc != 6 || !bench_stream_config(&config, argv[1], argv[2])) {
        fputs("usage: matcher_poll online|onsite|M1,M2,... SIMD N DIGITS "
              "zeros|nines|sideM|hotM|digitD|powerP:FACTORS:DIGITS:ZEROS|warm\n",
              stderr);
        return 2;
    }
    config.n_digits_max = (uint32_t)atoi(argv[3]);
    const size_t digits = (size_t)atol(argv[4]);
    uint8_t *text = malloc(digits);
    uint64_t *least = malloc(TURNS_MAX * sizeof *least), longest = 0;
    size_t turns = 0;
    if (!bench_stream_worst(text, digits, &config, argv[5]))
        bench_stream_fill(text, digits, &config, 0);
    memset(least, 0xff, TURNS_MAX * sizeof *least);
    for (int run = 0; run < RUNS; run++) {
        struct matcher *matcher;
        const char *fault = matcher_init(&matcher, &config);
        if (fault != NULL) {
            fprintf(stderr, "%s\n", fault);
            return 1;
        }
        turns = play(matcher, text, digits, least);
    }
    for (size_t turn = 0; turn < turns; turn++)
        longest = least[turn] > longest ? least[turn] : longest;
    printf("%.1f\n", (double)longest / 1000);
    return 0;
}
