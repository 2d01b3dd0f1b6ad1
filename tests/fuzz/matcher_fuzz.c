/* Searches for streams and moduli whose work exceeds the bound of app/matcher/README.md, "Time". One call of
 * matcher_next may do MATCHER_CALL_MAX. The work is counted, so it does not depend on the machine. It leads the fuzzer:
 * the more of the bound an input takes, the more counters it sets, and they count as coverage.
 *
 *     [variant, N, idle work or none][moduli - 1][a modulus: 4 bytes] ... [burst: 1][a piece: 4 bytes] ... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/big.h"
#include "tests/matcher/bound.h"

enum { DIGITS_MAX = 1500, BIG_DIGITS_MAX = 180, COUNTERS = 256, FACTORS_2_MAX = 500, FACTORS_5_MAX = 210 };

__attribute__((section("__libfuzzer_extra_counters"))) static uint8_t counters[COUNTERS];

struct input {
    const uint8_t *at, *end;
};

static uint32_t take(struct input *in) { return in->at < in->end ? *in->at++ : 0; }

/* Writes 2^a 5^b times a number that two bytes draw, in decimal. Returns the number of digits. */
static size_t write_number(char *text, uint32_t a, uint32_t b, uint32_t factor)
{
    struct big value = { { 1 } };
    size_t count = 0;
    char reversed[BIG_DIGITS_MAX];
    for (; a > 0; a--)
        big_mul_add(&value, 2, 0);
    for (; b > 0 && big_bits(&value) < FACTORS_2_MAX; b--)
        big_mul_add(&value, 5, 0);
    if (big_bits(&value) + 16 <= MATCHER_MODULUS_BITS_MAX)
        big_mul_add(&value, factor, 0);
    while (!big_is_zero(&value))
        reversed[count++] = (char)('0' + big_div(&value, 10));
    for (size_t i = 0; i < count; i++)
        text[i] = reversed[count - 1 - i];
    text[count] = '\0';
    return count;
}

/* Reads a number: factors 2, factors 5, and two bytes. */
static size_t read_number(struct input *in, char *text)
{
    const uint32_t a = take(in) * 2 % FACTORS_2_MAX, b = take(in) % FACTORS_5_MAX, low = take(in);
    const uint32_t factor = 1 + low + 256 * take(in);
    return write_number(text, a, b % 4 == 0 ? b / 4 : 0, factor % 3 == 0 ? 1 : factor);
}

/* Reads the stream: numbers, digits, runs of one digit, and earlier pieces again. */
static size_t read_stream(struct input *in, uint8_t *text)
{
    size_t count = 0;
    char number[BIG_DIGITS_MAX + 1];
    while (in->at < in->end && count < DIGITS_MAX - 2 * MATCHER_N_DIGITS_MAX / 8) {
        const uint32_t kind = take(in);
        size_t added = 0;
        if (kind % 4 == 0) {
            added = read_number(in, number);
            memcpy(text + count, number, added);
        } else if (kind % 4 == 1) {
            text[count] = (uint8_t)('0' + take(in) % 10);
            added = 1;
        } else if (kind % 4 == 2) {
            added = take(in);
            memset(text + count, (int)('0' + kind / 4 % 10), added);
        } else if (count > 0) { /* the last digits again */
            added = min_size(1 + take(in), count);
            memcpy(text + count, text + count - added, added);
        }
        count += added;
    }
    for (size_t i = count; count > 0 && i < DIGITS_MAX; i++) /* the whole again and again */
        text[i] = text[i - count];
    return count > 0 ? DIGITS_MAX : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static char moduli[MATCHER_MODULUS_COUNT_MAX][BIG_DIGITS_MAX + 1];
    static uint8_t text[DIGITS_MAX + MATCHER_N_DIGITS_MAX];
    static const uint32_t widths[] = { 256, 256, 100, 1024 };
    struct input in = { data, data + bytes };
    struct matcher_answer answer;
    struct matcher *m;
    const uint32_t first = take(&in);
    struct matcher_config config = { .n_digits_max = widths[first / 2 % ARRAY_COUNT(widths)],
                                     .simd = first % 2 == 0 ? MATCHER_SIMD_SCALAR : MATCHER_SIMD_AVX2 };
    if (!matcher_simd_usable(config.simd))
        config.simd = MATCHER_SIMD_SCALAR;
    config.modulus_count = 1 + take(&in) % MATCHER_MODULUS_COUNT_MAX;
    for (uint32_t i = 0; i < config.modulus_count; i++) {
        read_number(&in, moduli[i]);
        config.moduli[i] = moduli[i];
    }
    const size_t burst = 1 + 2 * take(&in), digits = read_stream(&in, text);
    if (digits == 0 || matcher_init(&m, &config) != NULL)
        return 0;
    double answers = 0, bursts = 0, work = 0;
    for (size_t at = 0, part; at < digits; at += part, bursts++) {
        uint64_t before = m->search.work;
        const uint64_t begin = before;
        part = min_size(burst, digits - at);
        matcher_begin(m, text + at, part);
        for (enum matcher_step step = MATCHER_WORKING; step != MATCHER_DONE; before = m->search.work) {
            step = matcher_next(m, &answer);
            answers += step == MATCHER_ANSWER;
            if (m->search.work - before > MATCHER_CALL_MAX)
                abort();
        }
        work += (double)(m->search.work - begin);
        while (first / 8 % 2 == 0 && matcher_prepare(m))
            continue;
    }
    const double share = work / bound_of(m, (double)digits, answers, bursts);
    for (uint32_t k = 0; k < COUNTERS && k < share * COUNTERS; k++)
        counters[k] = 1;
    if (getenv("SHOW") != NULL)
        fprintf(stderr, "%.3f of the bound, %.1f a digit, %.3f answers a digit\n", share, work / (double)digits,
                answers / (double)digits);
    if (share > 1)
        abort();
    return 0;
}
