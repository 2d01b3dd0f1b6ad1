/* The work of the matcher on the worst streams, in the units of app/matcher/work.h: the same on each machine.
 *
 *     matcher_work SIMD FILE [RUNS]    prints a line a stream, and fails if one exceeds a bound
 *
 * Beside the work stands the CPU time, the least of RUNS. A unit takes a nanosecond on one machine and three on
 * another. The first row, the contest's moduli and random digits, says how long it takes here. Each other row has its
 * time by that. With RUNS (5 or more) it fails, too, if a row takes less than half of its work's time or more than
 * twice that.
 *
 * FILE (overflow_1024.txt) has digits for the stream "file". In each burst of 9 more starts of one residue are
 * candidates at the second probe than at the first one, and none is an answer.
 *
 * The bounds are those of app/matcher/README.md, "Time", at N <= 256, and N / 256 times that beyond.
 * MATCHER_CALL_MAX is allowed between two returns of matcher_next. */
#define _GNU_SOURCE
#include <gmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "tests/bench/bench_stream.h"
#include "tests/matcher/bound.h"

enum { DIGITS = 6000, TEXT_MAX = 2048, TIMER_READINGS = 1000 };

static double timer_ns; /* a reading */
static int runs = 1;
static double unit_ns; /* time by work on the first row */

/* Moduli: numbers with commas, or P^K, which stands for eight: P^K, P^(K - 1) and so on. In a stream "waits:..." a
 * burst comes before the idle work of the one before. */
struct row {
    const char *moduli, *stream;
    uint32_t n;
    size_t burst;
};

#define EIGHT_42                                                                                                       \
    "4398046511104,2199023255552,1099511627776,549755813888,274877906944,3298534883328,5497558138880,"                 \
    "3814697265625"
#define EIGHT_K8                                                                                                       \
    "6553600000001,6553600000003,6553600000007,6553600000009,6553600000021,6553600000027,6553600000039,"               \
    "6553600000043"
#define TIMES_K8                                                                                                       \
    "6553600000007,13107200000014,26214400000028,32768000000035,52428800000056,65536000000070,"                        \
    "131072000000140,262144000000280"

static const struct row rows[] = {
    { "online", "random", 256, 100 },
    { "4398046511104", "random", 256, 100 },
    { "4398046511104", "digit8", 256, 100 },
    { EIGHT_42, "random", 256, 100 },
    { EIGHT_42, "digit8", 256, 100 },
    { EIGHT_42, "side0", 256, 100 },
    { EIGHT_42, "hot0", 256, 100 },
    { EIGHT_42, "power2:42:13:21", 256, 100 },
    { EIGHT_42, "power2:13:4:0", 256, 100 },
    { EIGHT_42, "power2:21:7:21", 256, 100 },
    { EIGHT_42, "power2:1:2:200", 256, 100 },
    { "2^42", "power2:21:7:21", 256, 7 },
    { "5^18", "power5:18:13:8", 256, 100 },
    { "2^200", "digit8", 256, 1000 },
    { "2^200", "power2:200:61:9", 256, 100 },
    { "2^200", "power2:100:31:95", 256, 100 },
    { "2^200", "power2:92:28:180", 256, 1000 },
    { "5^100", "power5:60:50:40", 256, 100 },
    /* Places on one level, and multiples of 2^256 side by side. */
    { "2^511+2^264", "levels:256:0", 256, 100 },
    { "2^511+2^264", "levels:256:0", 256, 3000 },
    { "2^511", "levels:480:0", 1024, 1000 },
    { "2^511", "levels:400:60", 1024, 1000 },
    { "2^256", "power2:256:78:0", 256, 100 },
    { "2^120", "power2:120:37:0", 256, 100 },
    { "2^64", "power2:64:20:0", 256, 100 },
    { "2^13", "power2:13:4:0", 256, 100 },
    { "5^110", "power5:110:77:0", 256, 100 },
    { EIGHT_K8, "random", 256, 1 },
    { EIGHT_K8, "random", 1024, 1 },
    { EIGHT_K8, "waits:random", 256, 1 },
    { EIGHT_K8, "waits:random", 1024, 1 },
    { EIGHT_K8, "waits:zeros", 256, 1 },
    { EIGHT_K8, "waits:hot0", 256, 9 },
    { "3,7,9,11,13,823,1009,99991", "random", 1024, 1 },
    { "2^511", "random", 1024, 100 },
    { "2^511", "power2:511:154:5", 1024, 100 },
    { "2^511", "power2:256:78:240", 1024, 1500 },
    { "2^511", "power2:92:28:480", 1024, 1000 },
    { "2^511", "power2:1:2:509", 1024, 100 },
    { "1,2,3,4,5,6,7,8", "random", 256, 1000 },
    { "2,4,8,16,32,64,128,256", "random", 1024, 1000 },
    { EIGHT_K8, "zeros", 256, 1000 },
    { EIGHT_K8, "zeros", 256, 100 },
    { EIGHT_K8, "zeros", 1024, 1000 },
    { EIGHT_K8, "hot0", 1024, 9 },
    { EIGHT_K8, "side7", 1024, 100 },
    { TIMES_K8, "side0", 1024, 100 },
    { TIMES_K8, "hot0", 1024, 9 },
    { TIMES_K8, "file", 1024, 9 },
    /* Pairs that an earlier modulus divides are found, and dropped. */
    { "6703903964971298549787012499102923063739682910296196688861780721860882015036773488400937149083451713845015929093"
      "243"
      "025426876941405973284973216824503042048,2,2",
      "digit8", 1024, 1500 },
    { "online", "hot0", 1024, 100 },
    { "online", "side1", 256, 1000 },
};

/* Writes out P^K, or P^K+P^L: P^K and seven from P^L down. */
static void write_moduli(char *text, const char *moduli)
{
    unsigned prime, exponent, second = 0;
    size_t used = 0;
    if (sscanf(moduli, "%u^%u+%*u^%u", &prime, &exponent, &second) < 2) {
        strcpy(text, moduli);
        return;
    }
    mpz_t power;
    mpz_init(power);
    for (unsigned k = 0; k < MATCHER_MODULUS_COUNT_MAX; k++) {
        mpz_ui_pow_ui(power, prime, k > 0 && second != 0 ? second + 1 - k : exponent - k);
        used += (size_t)gmp_snprintf(text + used, TEXT_MAX - used, "%s%Zd", k == 0 ? "" : ",", power);
    }
    mpz_clear(power);
}

/* Reads the digits of a file, lines of them. */
static void read_digits(uint8_t *text, const char *path)
{
    FILE *file = fopen(path, "r");
    ASSERT(file != NULL);
    for (size_t at = 0; at < DIGITS;) {
        const int c = fgetc(file);
        ASSERT(c != EOF);
        if (c != '\n')
            text[at++] = (uint8_t)c;
    }
    fclose(file);
}

static double thread_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

struct sums {
    uint64_t answers, work, call;
    double ns; /* the path's time */
};

static bool waits(const struct row *row) { return strncmp(row->stream, "waits:", 6) == 0; }

/* Plays the digits. */
static struct sums play(struct matcher *m, const struct row *row, const uint8_t *text)
{
    struct matcher_answer answer;
    struct sums sums = { 0 };
    for (size_t at = 0; at < DIGITS; at += row->burst) {
        uint64_t before = m->search.work;
        const uint64_t begin = before;
        const double begin_ns = thread_ns();
        matcher_begin(m, text + at, DIGITS - at < row->burst ? DIGITS - at : row->burst);
        for (enum matcher_step step = MATCHER_WORKING; step != MATCHER_DONE; before = m->search.work) {
            step = matcher_next(m, &answer);
            sums.answers += step == MATCHER_ANSWER;
            sums.call = m->search.work - before > sums.call ? m->search.work - before : sums.call;
        }
        sums.ns += thread_ns() - begin_ns - timer_ns;
        sums.work += m->search.work - begin;
        while (!waits(row) && matcher_prepare(m))
            continue;
        matcher_check_state(m);
    }
    return sums;
}

/* Plays a row; false: it exceeds a bound. Work is the same in each run, and the least time counts. */
static bool play_row(const struct row *row, const char *simd, const char *path)
{
    static char moduli[TEXT_MAX];
    static uint8_t text[DIGITS];
    struct matcher_config config = { .n_digits_max = row->n };
    struct matcher *m;
    struct sums sums = { .ns = 1e18 };
    write_moduli(moduli, row->moduli);
    ASSERT(bench_stream_config(&config, moduli, simd));
    srand(1);
    for (size_t i = 0; i < DIGITS; i++)
        text[i] = (uint8_t)('0' + rand() / 7 % 10);
    const char *stream = row->stream + (waits(row) ? 6 : 0);
    if (strcmp(stream, "file") == 0)
        read_digits(text, path);
    else
        ASSERT(bench_stream_worst(text, DIGITS, &config, stream) || strcmp(stream, "random") == 0);
    for (int run = 0; run < runs; run++) {
        const char *fault = matcher_init(&m, &config);
        if (fault != NULL) {
            fprintf(stderr, "%s\n", fault);
            exit(2);
        }
        const double least_ns = sums.ns;
        sums = play(m, row, text);
        sums.ns = sums.ns < least_ns ? sums.ns : least_ns;
    }
    const double bound = bound_of(m, DIGITS, (double)sums.answers, (double)((DIGITS + row->burst - 1) / row->burst));
    const double ns = sums.ns / (double)sums.work;
    unit_ns = unit_ns > 0 ? unit_ns : ns;
    /* The clock and cold caches take longer than a burst of one digit. */
    const bool off = runs >= 5 && row->burst > 1 && (ns < unit_ns / 2 || ns > unit_ns * 2);
    const bool good = (double)sums.work <= bound && sums.call <= MATCHER_CALL_MAX;
    printf("%-7s N = %4u %-18.18s %-18s bursts of %4zu: %8.1f a digit, %8.3f answers a digit, %5.2f of the bound, "
           "%6llu a call; %8.1f ns a digit, %5.2f ns a unit, %5.2f of the first row%s%s\n",
           simd, row->n, row->moduli, row->stream, row->burst, (double)sums.work / DIGITS,
           (double)sums.answers / DIGITS, (double)sums.work / bound, (unsigned long long)sums.call, sums.ns / DIGITS,
           ns, ns / unit_ns, good ? "" : " EXCEEDED", off ? " OFF" : "");
    return good && !off;
}

int main(int argc, char **argv)
{
    bool good = true;
    const double begin_ns = thread_ns();
    for (int i = 1; i < TIMER_READINGS; i++)
        (void)thread_ns();
    timer_ns = (thread_ns() - begin_ns) / TIMER_READINGS;
    if (argc != 3 && argc != 4) {
        fputs("usage: matcher_work scalar|avx2|avx512 FILE [RUNS]\n", stderr);
        return 2;
    }
    runs = argc == 4 ? atoi(argv[3]) : 1;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        good &= play_row(&rows[i], argv[1], argv[2]);
    return good ? 0 : 1;
}
