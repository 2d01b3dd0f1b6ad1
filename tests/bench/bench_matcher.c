/* The matcher's speed, as DESIGN.md asks: from "burst received" to "every answer that ends in it identified".
 *
 *     bench_matcher ROUND SIMD N BURST_DIGITS warm|cold BURSTS
 *
 * ROUND is online, onsite, or a list of constants with commas. Prints one line of numbers, in nanoseconds: p50 and p99
 * a digit, p50 and p99 of the idle work after a burst (without early answers), p50 and p99 a burst, bursts measured.
 * A burst's answers are planted as in the contest: a multiple of one of the constants about every 400 digits. */
#define _GNU_SOURCE
#include <gmp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/matcher.h"
#include "kernel/base/assert.h"
#include "kernel/base/cycles.h"

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

static const char *const rounds[2][5] = {
    {"20220217214410", "104648257118348370704723119", "125000000000000140750000000000052207500000000006359661",
     "10885732038215355481752285039386319187390558900925053798518152998488201", NULL},
    {"20220311122858", "104648257118348370704723401", "125000000000000173750000000000080443500000000012405393",
     "36371684158327190152150403800286644294695921689649344746033590042624", NULL},
};

static void fill_stream(uint8_t *text, size_t count, const char *const *constants, uint32_t constant_count, uint32_t n)
{
    gmp_randstate_t random;
    gmp_randinit_default(random);
    gmp_randseed_ui(random, 20220217);
    for (size_t i = 0; i < count; i++)
        text[i] = (uint8_t)('0' + gmp_urandomm_ui(random, 10));
    mpz_t value, constant, power;
    mpz_inits(value, constant, power, NULL);
    for (size_t at = 100; at + 2 * n < count; at += 200 + gmp_urandomm_ui(random, 400)) {
        mpz_set_str(constant, constants[gmp_urandomm_ui(random, constant_count)], 10);
        mpz_ui_pow_ui(power, 10, 1 + gmp_urandomm_ui(random, n));
        mpz_urandomm(value, random, power);
        mpz_fdiv_q(value, value, constant);
        mpz_mul(value, value, constant);
        if (mpz_sgn(value) == 0)
            continue;
        char number[2048];
        mpz_get_str(number, 10, value);
        memcpy(text + at, number, strlen(number));
        at += strlen(number);
    }
    mpz_clears(value, constant, power, NULL);
    gmp_randclear(random);
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: bench_matcher online|onsite|M1,M2,... SIMD N BURST_DIGITS warm|cold BURSTS\n");
        return 2;
    }
    struct matcher_config config = {.n_digits_max = (uint32_t)atoi(argv[3])};
    if (strcmp(argv[1], "online") == 0 || strcmp(argv[1], "onsite") == 0) {
        config.constant_count = 4;
        memcpy(config.constants, rounds[strcmp(argv[1], "onsite") == 0], 4 * sizeof config.constants[0]);
    } else {
        for (char *m = strtok(argv[1], ","); m != NULL; m = strtok(NULL, ","))
            config.constants[config.constant_count++] = m;
    }
    for (enum matcher_simd s = MATCHER_SIMD_AUTO; s <= MATCHER_SIMD_AVX512; s++)
        if (strcmp(argv[2], matcher_simd_name(s)) == 0)
            config.simd = s;
    size_t burst = (size_t)atol(argv[4]), bursts = (size_t)atol(argv[6]);
    bool cold = strcmp(argv[5], "cold") == 0;

    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((unsigned)sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);

    struct matcher *matcher;
    const char *refused = matcher_init(&matcher, &config);
    if (refused != NULL) {
        fprintf(stderr, "%s\n", refused);
        return 1;
    }
    size_t digits = burst * (bursts + WARM_UP_BURSTS);
    uint8_t *text = malloc(digits), *waste = malloc(COLD_BYTES);
    uint64_t *path = malloc(bursts * sizeof *path), *idle = malloc(bursts * sizeof *idle);
    fill_stream(text, digits, config.constants, config.constant_count, config.n_digits_max);
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
        uint64_t t0 = cycles_now_serialised();
        matcher_begin(matcher, frame, burst);
        while (matcher_next(matcher, &answer))
            sum += answer.count;
        uint64_t t1 = cycles_now_serialised();
        while (matcher_prepare(matcher))
            continue;
        uint64_t t2 = cycles_now_serialised();
        if (i >= WARM_UP_BURSTS) {
            path[i - WARM_UP_BURSTS] = t1 - t0 - cost;
            idle[i - WARM_UP_BURSTS] = t2 - t1 - cost;
        }
    }
    qsort(path, bursts, sizeof *path, compare_u64);
    qsort(idle, bursts, sizeof *idle, compare_u64);
    double ns = ns_per_cycle(), p50 = (double)path[bursts / 2] * ns, p99 = (double)path[bursts * 99 / 100] * ns;
    printf("%.3f %.3f %.1f %.1f %.1f %.1f %zu %llu %zu %zu\n", p50 / (double)burst, p99 / (double)burst,
           (double)idle[bursts / 2] * ns, (double)idle[bursts * 99 / 100] * ns, p50, p99, bursts,
           (unsigned long long)matcher_stats(matcher)->answers, matcher_stats(matcher)->memory_bytes,
           matcher_stats(matcher)->path_bytes);
    return sum == 1;
}
