/* Plays seeded streams into the matcher and compares every answer with the oracle's.
 *
 *     matcher_check FAMILY SEED DIGITS [SIMD]
 *
 * The family `early` measures instead how many answers are found early.
 * DIGITS is the total over as many cases as it takes. Prints one line; on a difference the case, and exits with 1.
 * A case is drawn whole from its own seed, so `matcher_check FAMILY CASE_SEED 1` replays the one that failed. */
#include <gmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/matcher.h"
#include "kernel/base/assert.h"
#include "tests/matcher/cells.h"
#include "tests/matcher/oracle.h"
#include "tests/matcher/random.h"

_Noreturn void assert_failed(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}

enum { TEXT_MAX = 200000, NUMBER_DIGITS_MAX = 160 };

/* What a case consists of. */
struct play {
    uint32_t n, constant_count;
    char numbers[8][NUMBER_DIGITS_MAX];
    const char *constants[8];
    size_t digits;
    uint32_t burst_max;
    uint32_t restart_percent;
    bool early;
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

/* Overwrites random places by random multiples with random numbers of digits, some with zeros behind, which then go on
 * into the next burst as well. */
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
        size_t count = strlen(number), zeros = random_below(4) == 0 ? random_below(random_below(2) == 0 ? 200 : 20) : 0;
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

static void play_draw_round(int onsite)
{
    play_add_round(onsite);
    play.n = 256;
    play.digits = 20000;
    play_fill_random();
    play_plant(300);
}

/* A round with a wider window: vectors have cells of old starts then. */
static void play_draw_wide(void)
{
    play_add_round((int)random_below(2));
    play.n = 257 + (uint32_t)random_below(MATCHER_N_DIGITS_MAX - 256);
    play.digits = 6000;
    play_fill_random();
    play_plant(300);
}

/* Streams that hurt: long runs of one digit, short periods, alternations of zeros and planted multiples. */
static void play_draw_adversarial(void)
{
    switch (random_below(5)) {
    case 0: play_draw_small(); break;
    case 1: play_draw_mixed(); break;
    default: play_add_round((int)random_below(2)); play.n = 1 + (uint32_t)random_below(random_below(4) == 0 ? 1024 : 300); break;
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
        play_draw_round((int)random_below(2));
    else if (strcmp(family, "online") == 0)
        play_draw_round(0);
    else if (strcmp(family, "onsite") == 0)
        play_draw_round(1);
    else if (strcmp(family, "wide") == 0)
        play_draw_wide();
    else if (strcmp(family, "adversarial") == 0)
        play_draw_adversarial();
    else
        return false;
    static const uint32_t burst_max[] = {1, 2, 7, 40, 300, 1000, 5000};
    play.burst_max = burst_max[random_below(7)];
    play.restart_percent = random_below(5) == 0 ? 10 : 0;
    play.early = random_below(2) == 0;
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

/* Early answers given, so that they are not expected again. */
enum { PROMISES_MAX = 4096 };
static struct { uint64_t end; uint32_t length; } promises[PROMISES_MAX];
static uint32_t promise_count;

static bool promised(uint64_t end, uint32_t length)
{
    for (uint32_t i = promise_count > 64 ? promise_count - 64 : 0; i < promise_count; i++)
        if (promises[i].end == end && promises[i].length == length)
            return true;
    return false;
}

/* An early answer must be a multiple of its constant, begin with digits that have come, and be new. */
static const char *early_check(const struct matcher_answer *answer, size_t at)
{
    if (answer->ahead == 0 || answer->ahead >= answer->count || answer->count > play.n)
        return "early answer of a wrong length";
    if (answer->end != at + answer->ahead || answer->digits[0] == '0' ||
        memcmp(answer->digits, play.text + at + answer->ahead - answer->count, answer->count - answer->ahead) != 0)
        return "early answer that does not continue the stream";
    if (promised(answer->end, answer->count))
        return "early answer given twice";
    char text[MATCHER_N_DIGITS_MAX + 1];
    memcpy(text, answer->digits, answer->count);
    text[answer->count] = 0;
    mpz_t value, constant;
    mpz_init_set_str(value, text, 10);
    mpz_init_set_str(constant, play.constants[answer->constant], 10);
    bool divides = mpz_divisible_p(value, constant) != 0;
    mpz_clears(value, constant, NULL);
    if (promise_count < PROMISES_MAX) {
        promises[promise_count].end = answer->end;
        promises[promise_count].length = answer->count;
        promise_count++;
    }
    return divides ? NULL : "early answer that is no multiple";
}

/* A burst's answers as the matcher has given them, put in order of their ends, the longest first. */
struct given { uint64_t end; uint32_t length, constant; };
static struct given *given;
static size_t given_count, given_max;

static int given_compare(const void *a, const void *b)
{
    const struct given *x = a, *y = b;
    return x->end != y->end ? (x->end < y->end ? -1 : 1) : (x->length < y->length) - (x->length > y->length);
}

static const char *given_collect(struct matcher *matcher, uint64_t from, uint64_t to)
{
    struct matcher_answer answer;
    for (given_count = 0; matcher_next(matcher, &answer); given_count++) {
        if (answer.end <= from || answer.end > to || answer.count == 0 || answer.count > answer.end || answer.ahead != 0)
            return "one that does not end in the burst";
        if (memcmp(answer.digits, play.text + answer.end - answer.count, answer.count) != 0)
            return "other digits";
        if (given_count == given_max) {
            given_max = 2 * given_max + 1024;
            given = realloc(given, given_max * sizeof *given);
        }
        given[given_count] = (struct given){answer.end, answer.count, answer.constant};
    }
    if (given_count > 0)
        qsort(given, given_count, sizeof *given, given_compare);
    return NULL;
}

/* Plays the drawn case; 0 if every answer agrees. */
static int play_run(uint64_t seed, enum matcher_simd simd, uint64_t *answers)
{
    struct matcher_config config = {.n_digits_max = play.n, .constant_count = play.constant_count, .simd = simd,
                                    .early = play.early, .early_risk = 1e-5};
    promise_count = 0;
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
        const char *bad = given_collect(matcher, at, at + count);
        if (bad != NULL)
            return play_fail(seed, bad, at, 0);
        size_t next = 0;
        for (size_t end = at + 1; end <= at + count; end++) {
            oracle_push(oracle, play.text[end - 1] - '0');
            for (uint32_t length = play.n; length > 0; length--) {
                uint32_t divisors = oracle_divisors(oracle, length);
                bool same = next < given_count && given[next].end == end && given[next].length == length;
                if (divisors == 0 || promised(end, length)) {
                    if (same)
                        return play_fail(seed, "wrong", end, length);
                    continue;
                }
                if (!same)
                    return play_fail(seed, "missed, or given twice", end, length);
                if ((divisors >> given[next].constant & 1) == 0)
                    return play_fail(seed, "named constant does not divide", end, length);
                ++*answers;
                next++;
            }
        }
        if (next < given_count)
            return play_fail(seed, "one too many", given[next].end, given[next].length);
        for (uint64_t slices = random_below(2) == 0 ? random_below(5) : UINT64_MAX; slices > 0; slices--) {
            bool more = matcher_prepare(matcher);
            struct matcher_answer answer;
            while (matcher_next_early(matcher, &answer)) {
                const char *what = early_check(&answer, at + count);
                if (what != NULL)
                    return play_fail(seed, what, answer.end, answer.count);
            }
            if (!more)
                break;
        }
        if (random_below(2) == 0)
            matcher_warm(matcher);
        if (random_below(100) < play.restart_percent) {
            matcher_restart(matcher);
            oracle_restart(oracle);
        }
        at += count;
    }
    oracle_free(oracle);
    return 0;
}

/* Random digits, nothing planted, no oracle: every answer given is divided out. */
static int false_run(uint64_t seed, uint64_t digits, enum matcher_simd simd)
{
    uint64_t done = 0, answers = 0, candidates = 0, refuted = 0, wrong = 0;
    mpz_t value, constant;
    mpz_inits(value, constant, NULL);
    for (int onsite = 0; onsite < 2; onsite++) {
        random_state = seed + (uint64_t)onsite;
        memset(&play, 0, offsetof(struct play, text));
        play_add_round(onsite);
        play.n = 256;
        struct matcher_config config = {.n_digits_max = 256, .constant_count = 4, .simd = simd};
        memcpy(config.constants, play.constants, sizeof config.constants);
        struct matcher *matcher;
        if (matcher_init(&matcher, &config) != NULL)
            return 1;
        for (uint64_t end = done + digits / 2; done < end;) {
            uint8_t burst[300];
            size_t count = 50 + random_below(251);
            for (size_t i = 0; i < count; i += 16) {
                uint64_t many = random_below(10000000000000000);
                for (size_t k = i; k < i + 16 && k < count; k++, many /= 10)
                    burst[k] = (uint8_t)('0' + many % 10);
            }
            struct matcher_answer answer;
            matcher_begin(matcher, burst, count);
            while (matcher_next(matcher, &answer)) {
                char text[257];
                memcpy(text, answer.digits, answer.count);
                text[answer.count] = 0;
                mpz_set_str(value, text, 10);
                mpz_set_str(constant, play.constants[answer.constant], 10);
                answers++;
                wrong += !mpz_divisible_p(value, constant);
            }
            while (matcher_prepare(matcher))
                continue;
            done += count;
        }
        candidates += matcher_stats(matcher)->candidates;
        refuted += matcher_stats(matcher)->candidates_refuted;
    }
    mpz_clears(value, constant, NULL);
    printf("false: seed %llu, %llu random digits: %llu pairs let through, %llu refuted; %llu answers, %llu wrong\n",
           (unsigned long long)seed, (unsigned long long)done, (unsigned long long)candidates,
           (unsigned long long)refuted, (unsigned long long)answers, (unsigned long long)wrong);
    return wrong > 0;
}

/* The upper `bits` bits of the fraction of power / modulus, rounded: is that too much? */
static bool rounds_up(const mpz_t power, const mpz_t modulus, uint32_t bits)
{
    mpz_t scaled, rest;
    mpz_inits(scaled, rest, NULL);
    mpz_mul_2exp(scaled, power, bits);
    mpz_fdiv_r(rest, scaled, modulus);
    mpz_mul_2exp(rest, rest, 1);
    bool up = mpz_cmp(rest, modulus) >= 0;
    mpz_clears(scaled, rest, NULL);
    return up;
}

/* Answers whose digits are 9 where a weight was rounded one way and 0 where it was rounded the other: as far off as
 * they can be, in both ways, for the looks (27 bits, weights 10^(K + t) / M by the distance t from the burst's end) and
 * for the keys (32 bits, weights 10^-(p + 1) / m by the position p in the window). Each must be found. */
static int edges_run(uint64_t seed, uint64_t digits, enum matcher_simd simd)
{
    enum { N_MAX = MATCHER_N_DIGITS_MAX };
    random_state = seed;
    uint64_t done = 0, tried = 0;
    if (simd == MATCHER_SIMD_AUTO)
        simd = matcher_simd_best();
    mpz_t constant, odd_part, power, value, ten, rest;
    mpz_inits(constant, odd_part, power, value, ten, rest, NULL);
    while (done < digits) {
        memset(&play, 0, offsetof(struct play, text));
        if (random_below(2) == 0)
            play_add_round((int)random_below(2));
        else
            play_add_random(40 + (uint32_t)random_below(473));
        uint32_t which = (uint32_t)random_below(play.constant_count);
        play.constants[0] = play.constants[which];
        play.constant_count = 1;
        const uint32_t n = play.n = random_below(3) == 0 ? N_MAX : 256;
        struct matcher_config config = {.n_digits_max = n, .constant_count = 1, .simd = simd};
        config.constants[0] = play.constants[0];
        struct matcher *matcher;
        if (matcher_init(&matcher, &config) != NULL)
            return 1;
        uint32_t length = (uint32_t)strlen(play.constants[0]), reach = 0;
        mpz_set_str(constant, play.constants[0], 10);
        mpz_set(odd_part, constant);
        mpz_set_ui(ten, 2);
        mpz_remove(odd_part, odd_part, ten);
        mpz_set_ui(ten, 5);
        mpz_remove(odd_part, odd_part, ten);
        mpz_set_ui(ten, 10);
        for (mpz_set_ui(power, 655360); mpz_cmp(power, constant) <= 0; mpz_mul_ui(power, power, 10))
            reach++;    /* the K of app/matcher_constant.c */
        static bool look_up[N_MAX], key_up[N_MAX];
        mpz_powm_ui(power, ten, reach, constant);
        for (uint32_t t = 0; t < n; t++) {
            look_up[t] = rounds_up(power, constant, simd == MATCHER_SIMD_AVX512 ? 27 : 32);
            mpz_mul_ui(power, power, 10);
            mpz_mod(power, power, constant);
        }
        mpz_invert(ten, ten, odd_part);
        mpz_set_ui(power, 1);
        for (uint32_t p = 0; p < n; p++) {
            mpz_mul(power, power, ten);
            mpz_mod(power, power, odd_part);
            key_up[p] = rounds_up(power, odd_part, 32);
        }
        /* Many bursts behind one another, each ended by an answer that began up to N digits before. */
        for (uint32_t round = 0; round < 400; round++, tried++) {
            uint32_t ahead = 1 + (uint32_t)random_below(reach > 0 ? reach : length), count = n - (uint32_t)random_below(8);
            if (ahead >= count || count < length + 1)
                continue;
            bool by_key = random_below(2) == 0, up = random_below(2) == 0;
            bool by_pairs = simd == MATCHER_SIMD_AVX2 && random_below(2) == 0;  /* two digits share a weight there */
            bool by_comb = simd != MATCHER_SIMD_SCALAR && !by_key && !by_pairs && random_below(2) == 0; /* a long burst */
            uint32_t odd = (uint32_t)random_below(2);
            char number[N_MAX + 1];
            for (uint32_t i = 0; i < count; i++) {
                uint32_t before = count - ahead - 1 - i;   /* digits between this one and the burst's end */
                bool rounded_up = i + ahead >= count ? random_below(2) == 0
                                  : by_key ? key_up[n - 1 - before]
                                  : by_pairs ? look_up[before < odd ? 0 : before - (before - odd) % 2] : look_up[before];
                number[i] = rounded_up == up ? '9' : '0';
            }
            number[0] = number[0] == '0' ? '1' : '9';
            number[count] = 0;
            mpz_set_str(value, number, 10);
            mpz_fdiv_r(rest, value, constant);
            mpz_sub(value, value, rest);
            mpz_get_str(number, 10, value);
            /* A look's fraction is at the edge if the digits to come are nearly all zeros or nines. */
            for (int k = 0; k < 1000 && !by_key && ahead >= 3 && strlen(number) == count; k++) {
                if (memcmp(number + count - ahead, "000", 3) == 0 || memcmp(number + count - ahead, "999", 3) == 0)
                    break;
                mpz_add(value, value, constant);
                mpz_get_str(number, 10, value);
            }
            if (strlen(number) != count)
                continue;
            /* The look that sees so many digits ahead is the idle one, or one of the last burst's. */
            uint32_t longer[] = {1, count - ahead, count - ahead < 100 ? count - ahead : 100};
            uint32_t burst = ahead + (uint32_t)random_below(longer[random_below(3)]);
            uint8_t first[2 * N_MAX], last[5 * N_MAX];
            uint32_t filled = (uint32_t)random_below(n), between = 0;
            if (by_pairs && random_below(4) != 0) {     /* weights are shared in the burst: all of it there */
                between = (uint32_t)random_below(64);
                burst = count;
            }
            if (by_comb) {
                between = (uint32_t)random_below(N_MAX);
                burst = count;
            }
            for (uint32_t i = 0; i < between; i++)
                last[i] = (uint8_t)('0' + random_below(10));
            memcpy(last + between, number + count - burst, burst);
            for (uint32_t i = 0; i < filled; i++)
                first[i] = (uint8_t)('0' + random_below(10));
            memcpy(first + filled, number, count - burst);
            struct matcher_answer answer;
            bool found = false;
            matcher_begin(matcher, first, filled + count - burst);
            while (matcher_next(matcher, &answer))
                continue;
            while (matcher_prepare(matcher))
                continue;
            matcher_begin(matcher, last, between + burst);
            while (matcher_next(matcher, &answer))
                found |= answer.count == count && memcmp(answer.digits, number, count) == 0;
            while (matcher_prepare(matcher))
                continue;
            done += filled + between + count;
            if (!found) {
                printf("edges: seed %llu: missed %s of %s, the last %u digits in a burst of their own\n",
                       (unsigned long long)seed, number, play.constants[0], burst);
                return 1;
            }
        }
        if (matcher_stats(matcher)->candidates_refuted > 0)
            return 1;
        done += 1000;
    }
    mpz_clears(constant, odd_part, power, value, ten, rest, NULL);
    printf("edges: seed %llu, %llu answers as far off as they can be, all found\n", (unsigned long long)seed,
           (unsigned long long)tried);
    return 0;
}

static double mean(uint64_t sum, uint64_t count) { return (double)sum / (double)(count > 0 ? count : 1); }

/* How many answers are found early, and how early: a stream as in the online round, bursts of 50 to 300 digits, a
 * random multiple of a random number of digits about every 500 digits, and nothing else that is not random. */
static int early_measure(uint64_t seed, uint64_t digits, enum matcher_simd simd, double risk)
{
    random_state = seed;
    memset(&play, 0, offsetof(struct play, text));
    play_add_round(0);
    play.n = 256;
    struct matcher_config config = {.n_digits_max = play.n, .constant_count = play.constant_count, .simd = simd,
                                    .early = true, .early_risk = risk};
    memcpy(config.constants, play.constants, sizeof config.constants);
    struct matcher *matcher;
    if (matcher_init(&matcher, &config) != NULL)
        return 1;
    mpz_t constant, value, quotient;
    mpz_inits(constant, value, quotient, NULL);
    uint64_t planted[4] = {0}, early[4] = {0}, lead[4] = {0};
    uint64_t done = 0, planted_begin[4] = {0};
    char number[512];
    size_t number_left = 0, number_count = 0, random_left = 100;
    while (done < digits) {
        static uint8_t burst[300];
        size_t count = 50 + random_below(251);
        for (size_t i = 0; i < count; i++) {
            if (random_left > 0) {
                random_left--;
                burst[i] = (uint8_t)('0' + random_below(10));
                continue;
            }
            if (number_left == 0) {     /* the next one: at least as long as the constant */
                uint32_t which = (uint32_t)random_below(4), least = (uint32_t)strlen(play.constants[which]);
                uint32_t wanted = least + (uint32_t)random_below(play.n - least + 1);
                mpz_set_str(constant, play.constants[which], 10);
                do {
                    mpz_set_ui(value, 1 + random_below(9));
                    for (uint32_t k = 1; k < wanted; k++) {
                        mpz_mul_ui(value, value, 10);
                        mpz_add_ui(value, value, random_below(10));
                    }
                    mpz_fdiv_q(quotient, value, constant);
                    mpz_mul(value, quotient, constant);
                } while (mpz_sgn(value) == 0);
                mpz_get_str(number, 10, value);
                number_left = number_count = strlen(number);
                planted[which]++;
                planted_begin[which] = done + i;
            }
            burst[i] = (uint8_t)number[number_count - number_left];
            if (--number_left == 0)
                random_left = 200 + random_below(400);
        }
        struct matcher_answer answer;
        matcher_begin(matcher, burst, count);
        while (matcher_next(matcher, &answer))
            continue;
        done += count;
        for (bool more = true; more;) {
            more = matcher_prepare(matcher);
            while (matcher_next_early(matcher, &answer)) {
                if (answer.end - answer.count != planted_begin[answer.constant])
                    continue;   /* a wrong one: the matcher counts those */
                early[answer.constant]++;
                lead[answer.constant] += answer.ahead;
            }
        }
    }
    const struct matcher_stats *stats = matcher_stats(matcher);
    printf("early: seed %llu, %llu digits, risk %g; planted, of these early, digits ahead on average:",
           (unsigned long long)seed, (unsigned long long)done, risk);
    uint64_t early_of_large = 0, lead_of_large = 0;     /* those that others have been measured by */
    for (uint32_t i = 0; i < 4; i++) {
        printf(" M%u %llu %.1f %% %.1f,", i + 1, (unsigned long long)planted[i],
               100.0 * (double)early[i] / (double)planted[i], mean(lead[i], early[i]));
        early_of_large += i > 0 ? early[i] : 0;
        lead_of_large += i > 0 ? lead[i] : 0;
    }
    printf(" M2 to M4 ahead %.1f, all %.1f; given %llu, right %llu, wrong %llu; %llu looks lost\n",
           mean(lead_of_large, early_of_large), mean(lead_of_large + lead[0], early_of_large + early[0]),
           (unsigned long long)stats->early_answers, (unsigned long long)stats->early_right,
           (unsigned long long)stats->early_wrong, (unsigned long long)stats->looks_lost);
    mpz_clears(constant, value, quotient, NULL);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: matcher_check small|mixed|round|online|onsite|wide|adversarial|edges|cells|old|false|early SEED DIGITS [scalar|avx2|avx512 [RISK]]\n");
        return 2;
    }
    enum matcher_simd simd = MATCHER_SIMD_AUTO;
    for (enum matcher_simd s = MATCHER_SIMD_AUTO; argc > 4 && s <= MATCHER_SIMD_AVX512; s++)
        if (strcmp(argv[4], matcher_simd_name(s)) == 0)
            simd = s;
    uint64_t seed = strtoull(argv[2], NULL, 0), digits = strtoull(argv[3], NULL, 0), done = 0, cases = 0, answers = 0;
    if (strcmp(argv[1], "false") == 0)
        return false_run(seed, digits, simd);
    if (strcmp(argv[1], "edges") == 0)
        return edges_run(seed, digits, simd);
    if (strcmp(argv[1], "cells") == 0)
        return cells_run(seed, digits, simd);
    if (strcmp(argv[1], "old") == 0)
        return old_cells_run(seed, digits, simd);
    if (strcmp(argv[1], "early") == 0)
        return early_measure(seed, digits, simd, argc > 5 ? atof(argv[5]) : 1e-5);
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
