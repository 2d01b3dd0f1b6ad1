/* Plays seeded streams into the matcher and compares every answer, in order, with the oracle's.
 *
 *     matcher_check FAMILY SEED DIGITS [SIMD]
 *
 * DIGITS is the total over as many cases as it takes. Prints one line; on a difference the case, and exits with 1.
 * A case is drawn whole from its own seed, so `matcher_check FAMILY CASE_SEED 1` replays the one that failed. */
#include <gmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/matcher.h"
#include "kernel/base/assert.h"
#include "tests/matcher/oracle.h"

_Noreturn void assert_failed(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}

/* SplitMix64 (Steele, Lea, Flood 2014): every seed gives a full-period stream. */
static uint64_t random_state;

static uint64_t random_next(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static uint64_t random_below(uint64_t bound) { return random_next() % bound; }

enum { TEXT_MAX = 200000, NUMBER_DIGITS_MAX = 160 };

/* What a case consists of. */
struct play {
    uint32_t n, constant_count;
    char numbers[8][NUMBER_DIGITS_MAX];
    const char *constants[8];
    size_t digits;
    uint32_t burst_max;
    uint32_t restart_percent;
    uint8_t text[TEXT_MAX];
};

static struct play play;

static void play_add_text(const char *digits)
{
    play.constants[play.constant_count] = strcpy(play.numbers[play.constant_count], digits);
    play.constant_count++;
}

static void play_add_power(const uint32_t (*factors)[2], size_t count)
{
    mpz_t value, part;
    mpz_inits(value, part, NULL);
    mpz_set_ui(value, 1);
    for (size_t i = 0; i < count; i++) {
        mpz_ui_pow_ui(part, factors[i][0], factors[i][1]);
        mpz_mul(value, value, part);
    }
    mpz_get_str(play.numbers[play.constant_count], 10, value);
    play.constants[play.constant_count] = play.numbers[play.constant_count];
    play.constant_count++;
    mpz_clears(value, part, NULL);
}

static void play_add_random(uint32_t bits)
{
    mpz_t value;
    mpz_init(value);
    for (uint32_t b = 0; b < bits; b++) {
        mpz_mul_2exp(value, value, 1);
        if (b == 0 || random_below(2) == 1)
            mpz_add_ui(value, value, 1);
    }
    mpz_get_str(play.numbers[play.constant_count], 10, value);
    play.constants[play.constant_count] = play.numbers[play.constant_count];
    play.constant_count++;
    mpz_clear(value);
}

static const char *const rounds[2][3] = {
    {"20220217214410", "104648257118348370704723119", "125000000000000140750000000000052207500000000006359661"},
    {"20220311122858", "104648257118348370704723401", "125000000000000173750000000000080443500000000012405393"},
};

static void play_add_round(int onsite)
{
    static const uint32_t hidden[2][3][2] = {{{3, 50}, {7, 30}, {11, 20}}, {{2, 75}, {3, 50}, {7, 25}}};
    for (int i = 0; i < 3; i++)
        play_add_text(rounds[onsite][i]);
    play_add_power(hidden[onsite], 3);
}

static void play_fill_random(void)
{
    for (size_t i = 0; i < play.digits; i++)
        play.text[i] = (uint8_t)('0' + random_below(10));
}

/* Overwrites random places by random multiples with random numbers of digits, some with zeros behind. */
static void play_plant(uint32_t every)
{
    mpz_t value, constant, ten;
    mpz_inits(value, constant, ten, NULL);
    static char number[4096];
    for (size_t at = random_below(every); at < play.digits; at += 1 + random_below(2 * every)) {
        uint32_t wanted = 1 + (uint32_t)random_below(play.n + 2);
        mpz_set_str(constant, play.constants[random_below(play.constant_count)], 10);
        mpz_set_ui(value, 1 + random_below(9));
        for (uint32_t i = 1; i < wanted; i++) {
            mpz_mul_ui(value, value, 10);
            mpz_add_ui(value, value, random_below(10));
        }
        mpz_fdiv_q(ten, value, constant);
        if (mpz_sgn(ten) == 0)
            mpz_set_ui(ten, 1);
        mpz_mul(value, ten, constant);
        if (mpz_sizeinbase(value, 10) > sizeof number - 2)
            continue;
        mpz_get_str(number, 10, value);
        size_t count = strlen(number), zeros = random_below(4) == 0 ? random_below(20) : 0;
        if (at + count + zeros > play.digits)
            break;
        memcpy(play.text + at, number, count);
        memset(play.text + at + count, '0', zeros);
        at += random_below(3) == 0 ? random_below(count) : count + zeros;   /* some overlap */
    }
    mpz_clears(value, constant, ten, NULL);
}

static void play_draw_small(void)
{
    static const char *const small[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "16", "20",
                                        "25", "27", "64", "100", "108", "125", "625", "823", "1000", "1024", "9999",
                                        "15625", "65536", "99999", "1000000", "16777216", "9765625"};
    play.n = random_below(3) == 0 ? 1 + (uint32_t)random_below(8) : 1 + (uint32_t)random_below(100);
    uint32_t count = 1 + (uint32_t)random_below(8);
    while (play.constant_count < count)
        play_add_text(small[random_below(sizeof small / sizeof small[0])]);
    play.digits = 200 + random_below(2000);
    play_fill_random();
}

static void play_draw_mixed(void)
{
    play.n = 1 + (uint32_t)random_below(random_below(4) == 0 ? 1024 : 200);
    uint32_t count = 1 + (uint32_t)random_below(8);
    while (play.constant_count < count) {
        switch (random_below(5)) {
        case 0: play_add_random(1 + (uint32_t)random_below(20)); break;
        case 1: play_add_random(1 + (uint32_t)random_below(70)); break;
        case 2: play_add_random(1 + (uint32_t)random_below(512)); break;
        case 3: {
            uint32_t factors[4][2] = {{2, (uint32_t)random_below(80)}, {5, (uint32_t)random_below(40)},
                                      {3, (uint32_t)random_below(60)}, {7, (uint32_t)random_below(30)}};
            play_add_power(factors, 4);
            break;
        }
        case 4: {
            bool two = random_below(2) == 0;
            uint32_t factor[1][2] = {{two ? 2 : 5, (uint32_t)random_below(two ? 512 : 221)}};
            play_add_power(factor, 1);
            break;
        }
        }
    }
    play.digits = 500 + random_below(3000);
    play_fill_random();
    play_plant(60);
}

static void play_draw_round(void)
{
    play_add_round((int)random_below(2));
    play.n = 256;
    play.digits = 20000;
    play_fill_random();
    play_plant(300);
}

/* Streams that hurt: long runs of one digit, short periods, alternations of zeros and planted multiples. */
static void play_draw_adversarial(void)
{
    switch (random_below(5)) {
    case 0: play_draw_small(); break;
    case 1: play_draw_mixed(); break;
    default: play_add_round((int)random_below(2)); play.n = 1 + (uint32_t)random_below(300); break;
    }
    play.digits = 500 + random_below(2500);
    play_fill_random();
    for (size_t at = 0; at < play.digits;) {
        size_t run = 1 + random_below(600);
        if (run > play.digits - at)
            run = play.digits - at;
        uint32_t period = 1 + (uint32_t)random_below(6);
        switch (random_below(5)) {
        case 0: memset(play.text + at, '0', run); break;
        case 1: memset(play.text + at, '9', run); break;
        case 2: memset(play.text + at, (int)('0' + random_below(10)), run); break;
        case 3:
            for (size_t i = period; i < run; i++)
                play.text[at + i] = play.text[at + i - period];
            break;
        default: break;
        }
        at += run;
    }
    play_plant(200);
}

static bool play_draw(const char *family, uint64_t seed)
{
    random_state = seed;
    memset(&play, 0, offsetof(struct play, text));
    if (strcmp(family, "small") == 0)
        play_draw_small();
    else if (strcmp(family, "mixed") == 0)
        play_draw_mixed();
    else if (strcmp(family, "round") == 0)
        play_draw_round();
    else if (strcmp(family, "adversarial") == 0)
        play_draw_adversarial();
    else
        return false;
    static const uint32_t burst_max[] = {1, 2, 7, 40, 300, 1000, 5000};
    play.burst_max = burst_max[random_below(7)];
    play.restart_percent = random_below(5) == 0 ? 10 : 0;
    return true;
}

static int play_fail(uint64_t seed, const char *what, uint64_t end, uint32_t length)
{
    printf("case %llu: %s: end %llu length %u; n %u, bursts up to %u, constants", (unsigned long long)seed, what,
           (unsigned long long)end, length, play.n, play.burst_max);
    for (uint32_t i = 0; i < play.constant_count; i++)
        printf(" %s", play.constants[i]);
    printf("\n");
    return 1;
}

/* Plays the drawn case; 0 if every answer agrees. */
static int play_run(uint64_t seed, enum matcher_simd simd, uint64_t *answers)
{
    struct matcher_config config = {.n_digits_max = play.n, .constant_count = play.constant_count, .simd = simd};
    memcpy(config.constants, play.constants, sizeof config.constants);
    struct matcher *matcher;
    const char *refused = matcher_init(&matcher, &config);
    if (refused != NULL) {
        printf("case %llu: refused: %s\n", (unsigned long long)seed, refused);
        return 1;
    }
    struct oracle *oracle = oracle_new(play.n, play.constants, play.constant_count);
    for (size_t at = 0; at < play.digits;) {
        size_t count = random_below(play.burst_max + 1);
        if (count > play.digits - at)
            count = play.digits - at;
        matcher_begin(matcher, play.text + at, count);
        struct matcher_answer answer;
        bool have = matcher_next(matcher, &answer);
        for (size_t end = at + 1; end <= at + count; end++) {
            oracle_push(oracle, play.text[end - 1] - '0');
            for (uint32_t length = play.n; length > 0; length--) {
                uint32_t divisors = oracle_divisors(oracle, length);
                bool same = have && answer.end == end && answer.count == length;
                if (divisors == 0) {
                    if (same)
                        return play_fail(seed, "wrong", end, length);
                    continue;
                }
                if (!same)
                    return play_fail(seed, "missed, or out of order", end, length);
                if ((divisors >> answer.constant & 1) == 0)
                    return play_fail(seed, "named constant does not divide", end, length);
                if (memcmp(answer.digits, play.text + end - length, length) != 0 || answer.ahead != 0)
                    return play_fail(seed, "other digits", end, length);
                ++*answers;
                have = matcher_next(matcher, &answer);
            }
        }
        if (have)
            return play_fail(seed, "one too many", answer.end, answer.count);
        for (uint64_t slices = random_below(2) == 0 ? random_below(5) : UINT64_MAX; slices > 0; slices--)
            if (!matcher_prepare(matcher))
                break;
        if (random_below(100) < play.restart_percent) {
            matcher_restart(matcher);
            oracle_restart(oracle);
        }
        at += count;
    }
    oracle_free(oracle);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: matcher_check small|mixed|round|adversarial SEED DIGITS [scalar|avx2|avx512]\n");
        return 2;
    }
    enum matcher_simd simd = MATCHER_SIMD_AUTO;
    for (enum matcher_simd s = MATCHER_SIMD_AUTO; argc > 4 && s <= MATCHER_SIMD_AVX512; s++)
        if (strcmp(argv[4], matcher_simd_name(s)) == 0)
            simd = s;
    uint64_t seed = strtoull(argv[2], NULL, 0), digits = strtoull(argv[3], NULL, 0), done = 0, cases = 0, answers = 0;
    while (done < digits) {
        if (!play_draw(argv[1], seed + cases)) {
            fprintf(stderr, "matcher_check: no family %s\n", argv[1]);
            return 2;
        }
        if (play_run(seed + cases, simd, &answers) != 0)
            return 1;
        done += play.digits;
        cases++;
    }
    printf("%s: seed %llu, %llu cases, %llu digits, %llu answers, all as the oracle has them\n", argv[1],
           (unsigned long long)seed, (unsigned long long)cases, (unsigned long long)done, (unsigned long long)answers);
    return 0;
}
