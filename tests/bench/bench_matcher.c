/* The matcher's speed, as DESIGN.md asks: from "burst received" to "every answer that ends in it identified".
 *
 *     bench_matcher ROUND SIMD N BURST_DIGITS warm|cold|first|early|second BURSTS [SECOND_CPU]
 *
 * ROUND is online, onsite, or a list of constants with commas. Prints one line, nanoseconds by name:
 *     path, idle      a burst's path, and the idle work after it (its early answers too for `early`; for
 *                     `second` they are a second thread's on another CPU, app/copilot.h: SECOND_CPU, or
 *                     the neighbour), p50 and p99
 *     slice           the longest of a burst's calls of matcher_prepare, p50 and p99
 * and the number of answers, and the bytes that matcher_stats tells. `first`: every burst ends with an answer's last
 * digit, and the path's time is until that answer is handed out. `cold`: 64 MB are walked between bursts. Answers are
 * planted as in the contest: a multiple of one of the constants about every 400 digits. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/copilot.h"
#include "app/matcher.h"
#include "kernel/base/assert.h"
#include "kernel/base/cycles.h"
#include "tests/bench/bench_stream.h"

_Noreturn void assert_failed(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}

enum { COLD_BYTES = 64 << 20, WARM_UP_BURSTS = 200 };

static double ns_per_cycle(void)
{
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    uint64_t from = cycles_now_serialised();
    do
        clock_gettime(CLOCK_MONOTONIC, &b);
    while ((b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec < 50000000);
    return (double)((b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec) /
           (double)(cycles_now_serialised() - from);
}

/* What two readings around nothing differ by. */
static uint64_t timer_cost(void)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 1000; i++) {
        uint64_t from = cycles_now_serialised(), cost = cycles_now_serialised() - from;
        least = cost < least ? cost : least;
    }
    return least;
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void *second_cpu(void *cpu)
{
    bench_pin((unsigned)(uintptr_t)cpu);
    for (;;)
        if (!copilot_turn())
            __builtin_ia32_pause();
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 7 && argc != 8) {
        fputs("usage: bench_matcher online|onsite|M1,M2,... SIMD N BURST_DIGITS warm|cold|first|early|second BURSTS "
              "[SECOND_CPU]\n", stderr);
        return 2;
    }
    struct matcher_config config = {.n_digits_max = (uint32_t)atoi(argv[3])};
    if (!bench_stream_config(&config, argv[1], argv[2])) {
        fprintf(stderr, "%s: no such variant\n", argv[2]);
        return 2;
    }
    size_t burst = (size_t)atol(argv[4]), bursts = (size_t)atol(argv[6]);
    bool cold = strcmp(argv[5], "cold") == 0, first = strcmp(argv[5], "first") == 0;
    bool second = strcmp(argv[5], "second") == 0;
    config.early = strcmp(argv[5], "early") == 0 || second;
    config.early_risk = 1e-5;

    unsigned cpu = (unsigned)sched_getcpu(), other = argc == 8 ? (unsigned)atol(argv[7]) : cpu ^ 1;
    bench_pin(cpu);
    pthread_t thread;
    if (second && (copilot_init(&config) || pthread_create(&thread, NULL, second_cpu, (void *)(uintptr_t)other))) {
        fputs("no second thread\n", stderr);
        return 1;
    }

    struct matcher *matcher;
    const char *refused = matcher_init(&matcher, &config);
    if (refused != NULL) {
        fprintf(stderr, "%s\n", refused);
        return 1;
    }
    size_t digits = burst * (bursts + WARM_UP_BURSTS);
    uint8_t *text = malloc(digits), *waste = malloc(COLD_BYTES);
    uint64_t *path = malloc(bursts * sizeof *path), *idle = malloc(bursts * sizeof *idle);
    uint64_t *slice = calloc(bursts, sizeof *slice);
    bench_stream_fill(text, digits, &config, first ? burst : 0);
    memset(waste, 1, COLD_BYTES);

    uint64_t cost = timer_cost(), sum = 0;
    static uint8_t frame[MATCHER_BURST_DIGITS_MAX];
    for (size_t i = 0; i < bursts + WARM_UP_BURSTS; i++) {
        memcpy(frame, text + i * burst, burst);     /* the burst itself is in the cache: a device has just written it */
        if (cold)
            for (size_t k = 0; k < COLD_BYTES; k += 64)
                sum += waste[k]++;
        if (cold)
            memcpy(frame, text + i * burst, burst);
        struct matcher_answer answer;
        uint64_t t0 = cycles_now_serialised(), t1 = 0, longest = 0;
        matcher_begin(matcher, frame, burst);
        while (matcher_next(matcher, &answer)) {
            sum += answer.count;
            if (first && answer.end == (i + 1) * burst && t1 == 0)
                t1 = cycles_now_serialised();
        }
        if (t1 == 0)
            t1 = cycles_now_serialised();
        uint64_t t2 = cycles_now_serialised(), before = t2, t3;
        if (second)
            copilot_digits(frame, burst, false);
        for (bool more = true; more;) {
            more = matcher_prepare(matcher);
            while (matcher_next_early(matcher, &answer))
                sum += answer.count;
            if (config.early || second) {
                t3 = cycles_now_serialised();
                longest = t3 - before - cost > longest ? t3 - before - cost : longest;
                before = t3;
            }
        }
        while (second && copilot_answer(&answer))
            sum += answer.count;
        t3 = cycles_now_serialised();
        if (i >= WARM_UP_BURSTS) {
            path[i - WARM_UP_BURSTS] = t1 - t0 - cost;
            idle[i - WARM_UP_BURSTS] = t3 - t2 - cost;
            slice[i - WARM_UP_BURSTS] = longest;
        }
    }
    qsort(path, bursts, sizeof *path, compare_u64);
    qsort(idle, bursts, sizeof *idle, compare_u64);
    qsort(slice, bursts, sizeof *slice, compare_u64);
    double ns = ns_per_cycle();
    printf("path %.1f %.1f idle %.1f %.1f slice %.1f %.1f answers %llu memory %zu path_bytes %zu\n",
           (double)path[bursts / 2] * ns, (double)path[bursts * 99 / 100] * ns, (double)idle[bursts / 2] * ns,
           (double)idle[bursts * 99 / 100] * ns, (double)slice[bursts / 2] * ns, (double)slice[bursts * 99 / 100] * ns,
           (unsigned long long)matcher_stats(matcher)->answers, matcher_stats(matcher)->memory_bytes,
           matcher_stats(matcher)->path_bytes);
    return sum == 1;
}
