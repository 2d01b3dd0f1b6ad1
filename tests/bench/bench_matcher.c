/* The matcher's speed: from "burst received" to "every answer that ends in it identified".
 *
 *     bench_matcher MODULI SIMD N BURST_DIGITS MODE BURSTS [RUNS]
 *
 * MODULI is online, onsite, or a list of numbers with commas. With recording:FILE a recorded contest is played, again
 * and again: its N, moduli and bursts (tests/lib/recording.h) stand for N and BURST_DIGITS. The stream is played
 * RUNS times (5), and the least time of each burst counts: other work on the machine only ever adds. MODE:
 *     warm, cold, early   answers planted as in the contest, a multiple about every 400 digits; `cold`: 64 MB are
 *                         walked between bursts; `early`: with early answers
 *     first               every burst ends with an answer's last digit; the time is until that answer is handed out
 *     zeros, nines        these digits alone
 *     sideM               shortest multiples of modulus M (0..) side by side
 *     hotM                the same with another last digit: they are candidates and no answers
 *     digitD, powerP:FACTORS:DIGITS:ZEROS    bench_stream.h
 *     random              random digits alone
 *
 * Prints one line, nanoseconds by name, p50 and p99 each. `path` is the search of a whole burst, `idle` the work after
 * it, `slice` the longest call of matcher_prepare, `poll` the longest time between two returns of matcher_next. Then
 * come answers, memory, and switches: how often the program lost the CPU. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>

#include "app/matcher/matcher.h"
#include "base/assert.h"
#include "base/cycles.h"
#include "tests/bench/bench_stream.h"
#include "tests/lib/recording.h"

enum { COLD_BYTES = 64 << 20, WARM_UP_BURSTS = 200 };

static double ns_per_cycle(void)
{
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    uint64_t from = cycles_now_serialised();
    do
        clock_gettime(CLOCK_MONOTONIC, &b);
    while ((b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec < 50000000);
    return (double)((b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec)
           / (double)(cycles_now_serialised() - from);
}

/* Returns the difference of two readings with nothing between them. */
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

static void print_quantiles(const char *name, uint64_t *values, size_t count, double ns)
{
    qsort(values, count, sizeof *values, compare_u64);
    printf("%s %.1f %.1f ", name, (double)values[count / 2] * ns, (double)values[count * 99 / 100] * ns);
}

static void keep_least(uint64_t *kept, uint64_t cycles) { *kept = cycles < *kept ? cycles : *kept; }

enum { PATH, IDLE, SLICE, POLL, TIMES };

struct bench {
    struct matcher *matcher;
    size_t burst, bursts;
    struct recording recording; /* burst_count 0: none */
    bool cold, first;
    uint8_t *text, *cold_memory;
    uint64_t *least[TIMES], cost, sum;
};

/* Plays one burst; leaves its times. */
static void play(struct bench *b, const uint8_t *frame, size_t digits, uint64_t stream_end, uint64_t times[TIMES])
{
    struct matcher_answer answer;
    uint64_t begin = cycles_now_serialised(), before = begin, end = 0, poll = 0, slice = 0;
    matcher_begin(b->matcher, frame, digits);
    for (enum matcher_step step; (step = matcher_next(b->matcher, &answer)) != MATCHER_DONE;) {
        b->sum += step == MATCHER_ANSWER;
        if (digits > 256) {
            uint64_t now = cycles_now();
            poll = now - before > poll ? now - before : poll;
            before = now;
        }
        if (step == MATCHER_ANSWER && b->first && answer.end == stream_end && end == 0)
            end = cycles_now_serialised();
    }
    if (end == 0)
        end = cycles_now_serialised();
    const uint64_t idle_begin = cycles_now_serialised();
    before = idle_begin;
    for (bool more = true; more;) {
        more = matcher_prepare(b->matcher);
        while (matcher_next_early(b->matcher, &answer))
            b->sum += answer.count;
        uint64_t now = cycles_now();
        slice = now - before > slice ? now - before : slice;
        before = now;
    }
    times[PATH] = end - begin - b->cost;
    times[IDLE] = cycles_now_serialised() - idle_begin - b->cost;
    times[SLICE] = slice;
    times[POLL] = poll;
}

static void play_stream(struct bench *b)
{
    static uint8_t frame[MATCHER_BURST_DIGITS_MAX];
    const struct recording *r = &b->recording;
    for (size_t i = 0, at = 0; i < b->bursts + WARM_UP_BURSTS; i++) {
        uint64_t times[TIMES];
        const size_t digits = r->burst_count ? r->bursts[i % r->burst_count].digits : b->burst;
        at = r->burst_count && i % r->burst_count == 0 ? 0 : at;
        for (size_t k = 0; b->cold && k < COLD_BYTES; k += 64)
            b->sum += b->cold_memory[k]++;
        memcpy(frame, b->text + at, digits); /* in the cache: a device has just written it */
        at += digits;
        play(b, frame, digits, at, times);
        for (int t = 0; t < TIMES && i >= WARM_UP_BURSTS; t++)
            keep_least(&b->least[t][i - WARM_UP_BURSTS], times[t]);
    }
}

int main(int argc, char **argv)
{
    if (argc != 7 && argc != 8) {
        fputs("usage: bench_matcher online|onsite|M1,M2,... SIMD N BURST_DIGITS MODE BURSTS [RUNS]\n", stderr);
        return 2;
    }
    struct matcher_config config = { .n_digits_max = (uint32_t)atoi(argv[3]), .early_risk = 10995116 };
    struct recording recording = { 0 };
    if (strncmp(argv[1], "recording:", 10) == 0) {
        recording = recording_read(argv[1] + 10, SIZE_MAX);
        config.n_digits_max = recording.n;
        config.modulus_count = recording.modulus_count;
        memcpy(config.moduli, recording.moduli, sizeof config.moduli);
        argv[1][0] = '\0'; /* no further moduli */
    }
    if (!bench_stream_config(&config, argv[1], argv[2])) {
        fprintf(stderr, "%s: no such variant\n", argv[2]);
        return 2;
    }
    struct bench b = { .burst = (size_t)atol(argv[4]),
                       .bursts = (size_t)atol(argv[6]),
                       .recording = recording,
                       .cost = timer_cost(),
                       .cold = strcmp(argv[5], "cold") == 0,
                       .first = strcmp(argv[5], "first") == 0 };
    config.early = strcmp(argv[5], "early") == 0;
    bench_pin((unsigned)sched_getcpu());
    const size_t digits = b.burst * (b.bursts + WARM_UP_BURSTS);
    b.text = recording.burst_count ? recording.digits : malloc(digits);
    b.cold_memory = calloc(COLD_BYTES, 1);
    for (int t = 0; t < TIMES; t++) {
        b.least[t] = malloc(b.bursts * sizeof *b.least[t]);
        memset(b.least[t], 0xff, b.bursts * sizeof *b.least[t]);
    }
    if (!recording.burst_count && !bench_stream_worst(b.text, digits, &config, argv[5]))
        bench_stream_fill(b.text, digits, &config, b.first ? b.burst : strcmp(argv[5], "random") == 0 ? digits + 1 : 0);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (int run = 0, runs = argc == 8 ? atoi(argv[7]) : 5; run < runs; run++) {
        ASSERT(getrandom(config.seed, sizeof config.seed, 0) == sizeof config.seed); /* as a machine draws it */
        const char *refused = matcher_init(&b.matcher, &config);
        if (refused != NULL) {
            fprintf(stderr, "%s\n", refused);
            return 1;
        }
        play_stream(&b);
    }
    getrusage(RUSAGE_SELF, &after);
    static const char *const names[TIMES] = { "path", "idle", "slice", "poll" };
    const double ns = ns_per_cycle();
    for (int t = 0; t < TIMES; t++)
        print_quantiles(names[t], b.least[t], b.bursts, ns);
    printf("answers %llu switches %ld\n", (unsigned long long)matcher_stats(b.matcher)->answers,
           after.ru_nivcsw - before.ru_nivcsw);
    return b.sum == 1;
}
