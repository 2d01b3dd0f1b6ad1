/* The work of the matcher on the worst streams, in the units of app/matcher/state.h: the same on each machine.
 *
 *     matcher_work SIMD FILE    prints a line a stream, and fails if one exceeds a bound
 *
 * FILE (overflow_1024.txt) has digits for the stream "file". In each burst of 9 more starts of one residue are
 * candidates at the second probe than at the first one, and none is an answer.
 *
 * The bounds are those of app/matcher/README.md, "Time". A whole stream may take 60 a digit and 250 an answer at
 * N <= 256, and N / 256 times that beyond. CALL_MAX is allowed between two returns of matcher_next. */
#include <gmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/matcher/matcher.h"
#include "app/matcher/state.h"
#include "base/assert.h"
#include "tests/bench/bench_stream.h"

_Noreturn void assert_failed(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}

enum { DIGITS = 6000, CALL_MAX = 25000, TEXT_MAX = 2048 };

/* Moduli: numbers with commas, or P^K, which stands for eight: P^K, P^(K - 1) and so on. */
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
    { "2^511", "random", 1024, 100 },
    { "2^511", "digit8", 1024, 100 },
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

/* Writes out P^K. */
static void write_moduli(char *text, const char *moduli)
{
    unsigned prime, exponent;
    size_t used = 0;
    if (sscanf(moduli, "%u^%u", &prime, &exponent) != 2) {
        strcpy(text, moduli);
        return;
    }
    mpz_t power;
    mpz_init(power);
    for (unsigned k = 0; k < MATCHER_MODULUS_COUNT_MAX; k++) {
        mpz_ui_pow_ui(power, prime, exponent - k);
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

/* Plays a row; false: it exceeds a bound. */
static bool play(const struct row *row, const char *simd, const char *path)
{
    static char moduli[TEXT_MAX];
    static uint8_t text[DIGITS];
    struct matcher_config config = { .n_digits_max = row->n };
    struct matcher_answer answer;
    struct matcher *m;
    write_moduli(moduli, row->moduli);
    ASSERT(bench_stream_config(&config, moduli, simd));
    srand(1);
    for (size_t i = 0; i < DIGITS; i++)
        text[i] = (uint8_t)('0' + rand() / 7 % 10);
    if (strcmp(row->stream, "file") == 0)
        read_digits(text, path);
    else
        ASSERT(bench_stream_worst(text, DIGITS, &config, row->stream) || strcmp(row->stream, "random") == 0);
    const char *fault = matcher_init(&m, &config);
    if (fault != NULL) {
        fprintf(stderr, "%s\n", fault);
        exit(2);
    }
    uint64_t answers = 0, work = 0, call = 0;
    for (size_t at = 0; at < DIGITS; at += row->burst) {
        uint64_t before = m->search.work;
        const uint64_t begin = before;
        matcher_begin(m, text + at, DIGITS - at < row->burst ? DIGITS - at : row->burst);
        for (enum matcher_step step = MATCHER_WORKING; step != MATCHER_DONE; before = m->search.work) {
            step = matcher_next(m, &answer);
            answers += step == MATCHER_ANSWER;
            call = m->search.work - before > call ? m->search.work - before : call;
        }
        work += m->search.work - begin;
        while (matcher_prepare(m))
            continue;
        matcher_check_state(m);
    }
    const double bound = (60.0 * DIGITS + 250.0 * (double)answers) * (row->n > 256 ? row->n / 256.0 : 1);
    const bool good = (double)work <= bound && call <= CALL_MAX;
    printf("%-7s N = %4u %-18.18s %-18s bursts of %4zu: %8.1f a digit, %8.3f answers a digit, %5.2f of the bound, "
           "%6llu a call%s\n",
           simd, row->n, row->moduli, row->stream, row->burst, (double)work / DIGITS, (double)answers / DIGITS,
           (double)work / bound, (unsigned long long)call, good ? "" : " EXCEEDED");
    return good;
}

int main(int argc, char **argv)
{
    bool good = true;
    if (argc != 3) {
        fputs("usage: matcher_work scalar|avx2|avx512 FILE\n", stderr);
        return 2;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        good &= play(&rows[i], argv[1], argv[2]);
    return good ? 0 : 1;
}
