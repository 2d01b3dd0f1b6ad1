/* Plays seeded streams into the matcher and compares every answer with the oracle's.
 *
 *     matcher_check FAMILY SEED DIGITS [SIMD]
 *     matcher_check recording FILE DIGITS [SIMD]    the bursts of a recorded contest (tests/lib/recording.h)
 *
 * The family `early` measures instead how many answers are found early.
 * DIGITS is the total over as many cases as it takes. Prints one line. On a difference prints the case, and exits with
 * 1.
 * A case is drawn whole from its own seed, so `matcher_check FAMILY CASE_SEED 1` replays the one that failed. */
#include <gmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/matcher/state.h"
#include "base/siphash.h"
#include "tests/lib/random.h"
#include "tests/lib/recording.h"
#include "tests/matcher/oracle.h"
#include "tests/matcher/take.h"

enum { TEXT_MAX = 200000, NUMBER_DIGITS_MAX = 160 };

/* The parts of a case. */
struct play {
    uint32_t n, modulus_count;
    char numbers[8][NUMBER_DIGITS_MAX];
    const char *moduli[8];
    size_t digits;
    uint32_t burst_max;
    uint32_t burst;   /* if it is not 0, each burst has this length */
    bool bursts_grow; /* each burst is a digit longer than the one before */
    uint32_t restart_percent;
    bool early;
    const struct recording *recording; /* NULL: the bursts are drawn */
    uint8_t text[TEXT_MAX];
};

static struct play play;

static void play_add_text(const char *digits)
{
    play.moduli[play.modulus_count] = strcpy(play.numbers[play.modulus_count], digits);
    play.modulus_count++;
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
    mpz_get_str(play.numbers[play.modulus_count], 10, value);
    play.moduli[play.modulus_count] = play.numbers[play.modulus_count];
    play.modulus_count++;
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
    mpz_get_str(play.numbers[play.modulus_count], 10, value);
    play.moduli[play.modulus_count] = play.numbers[play.modulus_count];
    play.modulus_count++;
    mpz_clear(value);
}

static const char *const rounds[2][3] = {
    { "20220217214410", "104648257118348370704723119", "125000000000000140750000000000052207500000000006359661" },
    { "20220311122858", "104648257118348370704723401", "125000000000000173750000000000080443500000000012405393" },
};

static void play_add_round(int onsite)
{
    static const uint32_t hidden[2][3][2] = { { { 3, 50 }, { 7, 30 }, { 11, 20 } },
                                              { { 2, 75 }, { 3, 50 }, { 7, 25 } } };
    for (int i = 0; i < 3; i++)
        play_add_text(rounds[onsite][i]);
    play_add_power(hidden[onsite], 3);
}

static void play_fill_random(void)
{
    for (size_t i = 0; i < play.digits; i++)
        play.text[i] = (uint8_t)('0' + random_below(10));
}

/* Overwrites random places by random multiples with random numbers of digits, some with zeros after them, which then
 * go on into the next burst as well. */
static void play_plant(uint32_t every)
{
    mpz_t value, modulus, ten;
    mpz_inits(value, modulus, ten, NULL);
    static char number[4096];
    for (size_t at = random_below(every); at < play.digits; at += 1 + random_below(2 * every)) {
        uint32_t wanted = 1 + (uint32_t)random_below(play.n + 2);
        mpz_set_str(modulus, play.moduli[random_below(play.modulus_count)], 10);
        mpz_set_ui(value, 1 + random_below(9));
        for (uint32_t i = 1; i < wanted; i++) {
            mpz_mul_ui(value, value, 10);
            mpz_add_ui(value, value, random_below(10));
        }
        mpz_fdiv_q(ten, value, modulus);
        if (mpz_sgn(ten) == 0)
            mpz_set_ui(ten, 1);
        mpz_mul(value, ten, modulus);
        if (mpz_sizeinbase(value, 10) > sizeof number - 2)
            continue;
        mpz_get_str(number, 10, value);
        size_t count = strlen(number), zeros = random_below(4) == 0 ? random_below(random_below(2) == 0 ? 200 : 20) : 0;
        if (at + count + zeros > play.digits)
            break;
        memcpy(play.text + at, number, count);
        memset(play.text + at + count, '0', zeros);
        at += random_below(3) == 0 ? random_below(count) : count + zeros; /* some overlap */
    }
    mpz_clears(value, modulus, ten, NULL);
}

static void play_draw_small(void)
{
    static const char *const small[] = { "1",    "2",    "3",     "4",     "5",     "6",       "7",        "8",
                                         "9",    "10",   "11",    "12",    "13",    "16",      "20",       "25",
                                         "27",   "64",   "100",   "108",   "125",   "625",     "823",      "1000",
                                         "1024", "9999", "15625", "65536", "99999", "1000000", "16777216", "9765625" };
    play.n = random_below(3) == 0 ? 1 + (uint32_t)random_below(8) : 1 + (uint32_t)random_below(100);
    uint32_t count = 1 + (uint32_t)random_below(8);
    while (play.modulus_count < count)
        play_add_text(small[random_below(sizeof small / sizeof small[0])]);
    play.digits = 200 + random_below(2000);
    play_fill_random();
}

static void play_draw_mixed(void)
{
    play.n = 1 + (uint32_t)random_below(random_below(4) == 0 ? 1024 : 200);
    uint32_t count = 1 + (uint32_t)random_below(8);
    while (play.modulus_count < count) {
        switch (random_below(5)) {
        case 0:
            play_add_random(1 + (uint32_t)random_below(20));
            break;
        case 1:
            play_add_random(1 + (uint32_t)random_below(70));
            break;
        case 2:
            play_add_random(1 + (uint32_t)random_below(512));
            break;
        case 3: {
            uint32_t factors[4][2] = { { 2, (uint32_t)random_below(80) },
                                       { 5, (uint32_t)random_below(40) },
                                       { 3, (uint32_t)random_below(60) },
                                       { 7, (uint32_t)random_below(30) } };
            play_add_power(factors, 4);
            break;
        }
        case 4: {
            bool two = random_below(2) == 0;
            uint32_t factor[1][2] = { { two ? 2 : 5, (uint32_t)random_below(two ? 512 : 221) } };
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

/* Draws a round with a wider window: vectors have a bitmap of in-window starts then. */
static void play_draw_wide(void)
{
    play_add_round((int)random_below(2));
    play.n = 257 + (uint32_t)random_below(MATCHER_N_DIGITS_MAX - 256);
    play.digits = 6000;
    play_fill_random();
    play_plant(300);
}

/* Draws worst-case streams: long runs of one digit, short periods, alternations of zeros and planted multiples. */
static void play_draw_adversarial(void)
{
    switch (random_below(5)) {
    case 0:
        play_draw_small();
        break;
    case 1:
        play_draw_mixed();
        break;
    default:
        play_add_round((int)random_below(2));
        play.n = 1 + (uint32_t)random_below(random_below(4) == 0 ? 1024 : 300);
        break;
    }
    play.digits = 500 + random_below(2500);
    play_fill_random();
    for (size_t at = 0; at < play.digits;) {
        size_t run = 1 + random_below(600);
        if (run > play.digits - at)
            run = play.digits - at;
        uint32_t period = 1 + (uint32_t)random_below(6);
        switch (random_below(5)) {
        case 0:
            memset(play.text + at, '0', run);
            break;
        case 1:
            memset(play.text + at, '9', run);
            break;
        case 2:
            memset(play.text + at, (int)('0' + random_below(10)), run);
            break;
        case 3:
            for (size_t i = period; i < run; i++)
                play.text[at + i] = play.text[at + i - period];
            break;
        default:
            break;
        }
        at += run;
    }
    play_plant(200);
}

/* Draws moduli of every kind, on worst-case streams. */
static void play_draw_families(void)
{
    enum { KINDS = 26 };
    static const uint32_t widths[] = { 1, 2, 63, 64, 65, 129, 257, 1024 };
    static const char *const fixed[] = { "1",
                                         "2",
                                         "3",
                                         "10",
                                         "823",
                                         "1,1,1",
                                         "9,3,1",
                                         "9999999999999",
                                         "10000000000000000000000000007",
                                         "99999999999999999999999999" };
    const uint32_t kind = (uint32_t)random_below(KINDS), bits = 40 + (uint32_t)random_below(30);
    const uint32_t size = (uint32_t)random_below(60);
    char list[64];
    play.n = random_below(3) == 0 ? widths[random_below(8)] : 20 + (uint32_t)random_below(300);
    switch (kind < 10 ? 0 : kind) {
    case 0:
        strcpy(list, fixed[kind]);
        for (char *m = strtok(list, ","); m != NULL; m = strtok(NULL, ","))
            play_add_text(m);
        break;
    case 10:
        play_add_power((uint32_t[][2]){ { 10, size } }, 1);
        break;
    case 11:
        play_add_power((uint32_t[][2]){ { 5, 3 * size } }, 1);
        break;
    case 12:
        play_add_power((uint32_t[][2]){ { 2, 8 * size } }, 1);
        break;
    case 13:
        play_add_power((uint32_t[][2]){ { 2, 200 }, { 3, size } }, 2);
        break;
    case 14:
        play_add_power((uint32_t[][2]){ { 5, 60 }, { 7, size } }, 2);
        break;
    case 15:
        for (int i = 0; i < 8; i++)
            play_add_random(512);
        break;
    case 16:
        play.n = 1 + size, play_add_random(510);
        break; /* M > 10^N */
    case 17:
        play_add_random(bits), play_add_text(play.numbers[0]), play_add_text(play.numbers[0]);
        break;
    case 18:
        for (uint32_t i = 0; i < 5; i++) { /* M, 10 M, 2 M, 5 M, 3 M */
            static const uint32_t times[] = { 1, 10, 2, 5, 3 };
            uint32_t factors[2][2] = { { 1000003, 4 }, { times[i], 1 } };
            play_add_power(factors, 2);
        }
        break;
    case 19:
        play_add_random(13), play_add_random(14), play_add_random(15);
        break;
    case 20:
        play_add_random(42), play_add_random(43), play_add_random(44);
        break; /* here the filter begins */
    case 21:
        play_add_random(49), play_add_random(50), play_add_random(51);
        break;
    case 22:
        play_add_random(63), play_add_random(64), play_add_random(65);
        break;
    case 23:
        for (uint32_t i = 0; i < 8; i++)
            play_add_random(2 + 6 * i);
        break;
    case 24:
        play_add_round((int)random_below(2)), play_add_text("823"), play_add_text("1000");
        break;
    default:
        play_add_random(bits), play_add_random(2 * bits), play_add_random(4 * bits);
        break;
    }
    play.digits = 300 + random_below(2500);
    play_fill_random();
    const uint32_t stream = (uint32_t)random_below(5);
    const char *modulus = play.moduli[random_below(play.modulus_count)];
    if (stream < 2) /* zeros or nines with a digit here and there */
        for (size_t i = 0; i < play.digits; i++)
            play.text[i] = random_below(40) == 0 ? play.text[i] : (uint8_t)(stream == 0 ? '0' : '9');
    for (size_t at = 0; stream == 2 && at + 160 < play.digits; at += strlen(modulus)) /* side by side */
        memcpy(play.text + at, modulus, strlen(modulus));
    for (size_t i = 7; stream == 3 && i < play.digits; i++) /* a period */
        play.text[i] = play.text[i - 7];
    play_plant(100);
}

/* Writes `count` digits from `at` on, so that the number that all digits so far write has `factors` factors. */
static void play_divide_by(size_t at, size_t count, uint32_t prime, uint32_t factors)
{
    static char digits[TEXT_MAX + 1];
    mpz_t number, power, rest;
    mpz_inits(number, power, rest, NULL);
    const size_t from = at > 600 ? at - 600 : 0, all = at + count - from; /* more digits than a modulus has factors */
    mpz_ui_pow_ui(power, prime, factors);
    memcpy(digits, play.text + from, all);
    digits[all] = 0;
    mpz_set_str(number, digits, 10);
    mpz_fdiv_r(rest, number, power);
    mpz_sub(number, number, rest);
    mpz_get_str(digits, 10, number);
    const size_t written = strlen(digits);
    if (mpz_sgn(number) > 0 && written <= all) {
        memset(play.text + from, '0', all - written);
        memcpy(play.text + from + all - written, digits, written);
    }
    mpz_clears(number, power, rest, NULL);
}

/* Draws moduli with many factors 2 or 5, and a stream whose ends have many. There are equal digits, digits made for a
 * power, zeros after these, and multiples with fewer digits than the power has factors. */
static void play_draw_tails(void)
{
    const uint32_t prime = random_below(3) == 0 ? 5 : 2, most = prime == 5 ? 200 : 480;
    const uint32_t power = 2 + (uint32_t)random_below(random_below(2) == 0 ? 60 : most - 2);
    const uint32_t count = 1 + (uint32_t)random_below(random_below(2) == 0 ? 2 : 8);
    static const uint32_t others[] = { 1, 1, 1, 3, 9, 11, 13, 823, 99991, 10, 100, 1000000 };
    while (play.modulus_count < count) {
        const uint32_t less = (uint32_t)random_below(8);
        const uint32_t factors[][2] = { { prime, power > less ? power - less : power },
                                        { others[random_below(sizeof others / sizeof *others)], 1 } };
        play_add_power(factors, 2);
    }
    const uint32_t least = (uint32_t)strlen(play.moduli[0]);
    play.n = random_below(4) == 0 ? 1024 : least + (uint32_t)random_below(least + 20);
    play.digits = 300 + random_below(2500);
    play_fill_random();
    for (size_t at = 0; at < play.digits;) {
        size_t run = 1 + random_below(random_below(3) == 0 ? power + 40 : 30);
        if (run > play.digits - at)
            run = play.digits - at;
        switch (random_below(6)) {
        case 0:
            memset(play.text + at, '0', run);
            break;
        case 1:
            memset(play.text + at, prime == 2 ? (int)('2' + 2 * random_below(4)) : '5', run);
            break;
        case 2:
            play_divide_by(at, run, prime, 1 + (uint32_t)random_below(power + 5));
            break;
        case 3: /* a start with as many factors before it as it needs */
            memcpy(play.text + at, random_below(2) == 0 ? "14" : "148", run < 3 ? run : 2);
            break;
        case 4:
            for (size_t i = 0; i < run; i++)
                play.text[at + i] = (uint8_t)(prime == 2 ? '0' + 2 * random_below(5) : '0' + 5 * random_below(2));
            break;
        default:
            break;
        }
        at += run;
        if (random_below(3) == 0 && at < play.digits) {
            run = 1 + random_below(power + 10);
            run = run < play.digits - at ? run : play.digits - at;
            memset(play.text + at, '0', run);
            at += run;
        }
    }
    if (random_below(2) == 0)
        play_plant(300);
}

/* Writes a multiple of a modulus that has up to `wanted` digits, so that it begins, or ends, at a place. */
static void play_plant_at(size_t at, bool begins, uint32_t wanted)
{
    static char number[MATCHER_N_DIGITS_MAX + 2];
    mpz_t value, modulus;
    mpz_init(value);
    mpz_init_set_str(modulus, play.moduli[random_below(play.modulus_count)], 10);
    mpz_set_ui(value, 9);
    for (uint32_t i = 1; i < wanted; i++) {
        mpz_mul_ui(value, value, 10);
        mpz_add_ui(value, value, random_below(10));
    }
    mpz_fdiv_q(value, value, modulus);
    mpz_mul(value, value, modulus);
    mpz_get_str(number, 10, value);
    const size_t count = strlen(number);
    if (mpz_sgn(value) > 0 && (begins || at >= count) && (begins ? at + count : at) <= play.digits)
        memcpy(play.text + (begins ? at : at - count), number, count);
    mpz_clears(value, modulus, NULL);
}

/* Writes a number of `count` digits that 2^factors divides. */
static void play_write_multiple(size_t at, uint32_t count, uint32_t factors)
{
    static char number[MATCHER_N_DIGITS_MAX];
    mpz_t value;
    mpz_init(value);
    mpz_ui_pow_ui(value, 10, count);
    mpz_sub_ui(value, value, 1 + random_below(1000));
    mpz_fdiv_q_2exp(value, value, factors);
    mpz_mul_2exp(value, value, factors);
    gmp_snprintf(number, sizeof number, "%0*Zd", (int)count, value);
    if (at + count <= play.digits)
        memcpy(play.text + at, number, count);
    mpz_clear(value);
}

/* Draws 2^480, and places with factors as if for it: 0, then 256 and 406, each with as many more as it has more digits.
 * From the first to the last one, some 60 factors more must be counted; from the second one on there are 480. */
static void play_draw_levels(void)
{
    play_add_power((const uint32_t[][2]){ { 2, 480 } }, 1);
    play.n = 400 + (uint32_t)random_below(400);
    play.digits = 1200;
    play_fill_random();
    for (size_t at = 10 + random_below(50); at + 407 < play.digits; at += 407 + random_below(3)) {
        play.text[at] = '1';
        play_write_multiple(at + 1, 256, 257 + 55 + (uint32_t)random_below(20));
        play_write_multiple(at + 257, 150, 480);
    }
}

/* Draws what a defect at an edge shows in. Multiples of the filter's moduli begin or end near a burst's edge, or have
 * exactly N digits. Moduli are 2^a 5^b and little else, or a long one stands side by side, with zeros after it. A run
 * has many draws, because they are short. */
static void play_draw_sweep(void)
{
    switch (random_below(7)) {
    case 0:
        play_add_round((int)random_below(2));
        break;
    case 1:
        for (uint32_t count = 1 + (uint32_t)random_below(4); count > 0; count--)
            play_add_random(42 + (uint32_t)random_below(130));
        break;
    /* Many ends of a run of zeros have answers, or a burst's last end alone has some. */
    case 2: {
        static const uint32_t others[] = { 1, 3, 7, 11 };
        const bool last = random_below(3) != 0;
        for (uint32_t count = 1 + (uint32_t)random_below(last ? 1 : 3); count > 0; count--)
            play_add_power((const uint32_t[][2]){ { 2, 1 + (uint32_t)random_below(last ? 4 : 25) },
                                                  { 5, (uint32_t)random_below(last ? 2 : 12) },
                                                  { others[random_below(ARRAY_COUNT(others))], 1 } },
                           3);
        play.n = 2 + (uint32_t)random_below(80);
        play.digits = 2000;
        play.burst = last ? 16 + (uint32_t)random_below(25) : 1 + (uint32_t)random_below(40);
        for (size_t i = 0; i < play.digits; i++)
            play.text[i] = last && (i + 1) % play.burst != 0 ? (uint8_t) "1379"[random_below(4)]
                                                             : (uint8_t) "0000225588123456789"[random_below(19)];
        return;
    }
    case 3: /* as many answers as the queue may hold */
        play_add_random(510 + (uint32_t)random_below(3));
        play.n = 1024;
        play.digits = 2000;
        memset(play.text, '0', play.digits);
        for (size_t i = 0, at = random_below(200); i < 6; i++, at += strlen(play.moduli[0]))
            memcpy(play.text + at, play.moduli[0], strlen(play.moduli[0]));
        return;
    case 4:
        play_draw_levels();
        return;
    /* Bursts of 1 to 130 digits end in a multiple: 1 to 65 probes. */
    case 5:
        for (uint32_t count = 1 + (uint32_t)random_below(4); count > 0; count--)
            play_add_random(42 + (uint32_t)random_below(4));
        play.n = 64;
        play.bursts_grow = true;
        play.digits = 130 * 131 / 2;
        play_fill_random();
        for (uint32_t burst = 1, edge = 0; burst <= 130; burst++)
            play_plant_at(edge += burst, false, 14 + (uint32_t)random_below(max_u32(min_u32(burst, 64), 15) - 14));
        return;
    default:
        play_draw_tails();
        return;
    }
    play.n = random_below(6) == 0 ? 257 + (uint32_t)random_below(200) : 56 + (uint32_t)random_below(201);
    play.digits = 2500;
    play.burst = 20 + (uint32_t)random_below(260);
    play_fill_random();
    for (size_t edge = 0; edge < play.digits; edge += play.burst)
        for (uint32_t k = 1 + play.burst / 60; k > 0; k--) {
            const bool begins = random_below(2) == 0;
            const uint32_t after = (uint32_t)random_below(begins ? 12 : play.burst);
            const uint32_t shorter = (uint32_t)random_below(random_below(4) != 0 ? 2 : play.n - 40);
            play_plant_at(edge + after - (begins && edge > 6 ? 6 : 0), begins, play.n - shorter);
        }
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
    else if (strcmp(family, "families") == 0)
        play_draw_families();
    else if (strcmp(family, "adversarial") == 0)
        play_draw_adversarial();
    else if (strcmp(family, "tails") == 0)
        play_draw_tails();
    else if (strcmp(family, "sweep") == 0)
        play_draw_sweep();
    else
        return false;
    static const uint32_t burst_max[] = { 1, 2, 7, 40, 300, 1000, 5000 };
    play.burst_max = burst_max[strcmp(family, "sweep") == 0 ? 3 + random_below(3) : random_below(7)];
    play.restart_percent = random_below(5) == 0 ? 10 : 0;
    play.early = random_below(2) == 0;
    return true;
}

static int play_fail(uint64_t seed, const char *what, uint64_t end, uint32_t length)
{
    printf("case %llu: %s: end %llu length %u; n %u, bursts up to %u, moduli", (unsigned long long)seed, what,
           (unsigned long long)end, length, play.n, play.burst_max);
    for (uint32_t i = 0; i < play.modulus_count; i++)
        printf(" %s", play.moduli[i]);
    printf("\n");
    return 1;
}

/* The early answers that the matcher has returned. They are not expected again at their ends. */
enum { EARLY_ANSWERS_MAX = 4096 };
static struct {
    uint64_t end;
    uint32_t length;
    char digits[MATCHER_N_DIGITS_MAX];
} early_answers[EARLY_ANSWERS_MAX];
static uint32_t early_answer_count;

static bool was_early(uint64_t end, uint32_t length, const uint8_t *digits)
{
    for (uint32_t i = early_answer_count > 64 ? early_answer_count - 64 : 0; i < early_answer_count; i++)
        if (early_answers[i].end == end && early_answers[i].length == length
            && memcmp(early_answers[i].digits, digits, length) == 0)
            return true;
    return false;
}

/* Checks an early answer. It must be a new multiple of its modulus, and begin with digits that have come. Returns the
 * defect, or NULL. */
static const char *early_check(const struct matcher_answer *answer, size_t at)
{
    if (answer->ahead == 0 || answer->ahead >= answer->count || answer->count > play.n)
        return "early answer of a wrong length";
    if (answer->end != at + answer->ahead || answer->digits[0] == '0'
        || memcmp(answer->digits, play.text + at + answer->ahead - answer->count, answer->count - answer->ahead) != 0)
        return "early answer that does not continue the stream";
    if (was_early(answer->end, answer->count, answer->digits))
        return "early answer given twice";
    char text[MATCHER_N_DIGITS_MAX + 1];
    memcpy(text, answer->digits, answer->count);
    text[answer->count] = 0;
    mpz_t value, modulus;
    mpz_init_set_str(value, text, 10);
    mpz_init_set_str(modulus, play.moduli[answer->modulus], 10);
    bool divides = mpz_divisible_p(value, modulus) != 0;
    mpz_clears(value, modulus, NULL);
    if (early_answer_count < EARLY_ANSWERS_MAX) {
        early_answers[early_answer_count].end = answer->end;
        early_answers[early_answer_count].length = answer->count;
        memcpy(early_answers[early_answer_count].digits, answer->digits, answer->count);
        early_answer_count++;
    }
    return divides ? NULL : "early answer that is no multiple";
}

/* A burst's answers as the matcher has given them, put in order of their ends, the longest first. */
struct given {
    uint64_t end;
    uint32_t length, modulus;
};
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
    for (given_count = 0; matcher_take(matcher, &answer); given_count++) {
        if (answer.end <= from || answer.end > to || answer.count == 0 || answer.count > answer.end
            || answer.ahead != 0)
            return "one that does not end in the burst";
        if (memcmp(answer.digits, play.text + answer.end - answer.count, answer.count) != 0)
            return "other digits";
        if (given_count == given_max) {
            given_max = 2 * given_max + 1024;
            given = realloc(given, given_max * sizeof *given);
        }
        given[given_count] = (struct given){ answer.end, answer.count, answer.modulus };
    }
    if (given_count > 0)
        qsort(given, given_count, sizeof *given, given_compare);
    return NULL;
}

/* Plays the drawn case. Returns 0 if every answer agrees. */
static int play_run(uint64_t seed, enum matcher_simd simd, uint64_t *answers)
{
    struct matcher_config config = { .n_digits_max = play.n,
                                     .modulus_count = play.modulus_count,
                                     .simd = simd,
                                     .early = play.early,
                                     .early_risk = 10995116 };
    early_answer_count = 0;
    memcpy(config.moduli, play.moduli, sizeof config.moduli);
    struct matcher *matcher;
    const char *refused = matcher_init(&matcher, &config);
    if (refused != NULL) {
        printf("case %llu: refused: %s\n", (unsigned long long)seed, refused);
        return 1;
    }
    if (seed % 2 == 0)
        matcher->work_slice = 1 + seed % 60; /* the search pauses wherever it can */
    struct oracle *oracle = oracle_new(play.n, play.moduli, play.modulus_count);
    for (size_t at = 0, burst = 0; at < play.digits; burst++) {
        size_t count = play.recording     ? play.recording->bursts[burst].digits
                       : play.burst       ? play.burst
                       : play.bursts_grow ? burst + 1
                                          : random_below(play.burst_max + 1);
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
                if (divisors == 0 || was_early(end, length, play.text + end - length)) {
                    if (same)
                        return play_fail(seed, "wrong", end, length);
                    continue;
                }
                if (!same)
                    return play_fail(seed, "missed, or given twice", end, length);
                if ((divisors >> given[next].modulus & 1) == 0)
                    return play_fail(seed, "named modulus does not divide", end, length);
                ++*answers;
                next++;
            }
        }
        if (next < given_count)
            return play_fail(seed, "one too many", given[next].end, given[next].length);
        const bool rests = random_below(play.burst ? 4 : 2) != 0;
        for (uint64_t slices = rests ? UINT64_MAX : random_below(5); slices > 0; slices--) {
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
        matcher_check_state(matcher);
        for (uint64_t slices = random_below(2) == 0 ? random_below(12) : 0; slices > 0 && matcher_warm(matcher);)
            slices--;
        if (random_below(100) < play.restart_percent) {
            matcher_restart(matcher);
            oracle_restart(oracle);
        }
        at += count;
    }
    oracle_free(oracle);
    return 0;
}

/* Runs random digits with nothing planted and without the oracle. Checks each answer by a division. */
static int false_run(uint64_t seed, uint64_t digits, enum matcher_simd simd)
{
    uint64_t done = 0, answers = 0, candidates = 0, refuted = 0, wrong = 0;
    mpz_t value, modulus;
    mpz_inits(value, modulus, NULL);
    for (int onsite = 0; onsite < 2; onsite++) {
        random_state = seed + (uint64_t)onsite;
        memset(&play, 0, offsetof(struct play, text));
        play_add_round(onsite);
        play.n = 256;
        struct matcher_config config = { .n_digits_max = 256, .modulus_count = 4, .simd = simd };
        memcpy(config.moduli, play.moduli, sizeof config.moduli);
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
            while (matcher_take(matcher, &answer)) {
                char text[257];
                memcpy(text, answer.digits, answer.count);
                text[answer.count] = 0;
                mpz_set_str(value, text, 10);
                mpz_set_str(modulus, play.moduli[answer.modulus], 10);
                answers++;
                wrong += !mpz_divisible_p(value, modulus);
            }
            while (matcher_prepare(matcher))
                continue;
            done += count;
        }
        candidates += matcher_stats(matcher)->answers;
        refuted += matcher_stats(matcher)->candidates_refuted;
    }
    mpz_clears(value, modulus, NULL);
    printf("false: seed %llu, %llu random digits: %llu pairs let through, %llu refuted; %llu answers, %llu wrong\n",
           (unsigned long long)seed, (unsigned long long)done, (unsigned long long)candidates,
           (unsigned long long)refuted, (unsigned long long)answers, (unsigned long long)wrong);
    return wrong > 0;
}

/* Rounds the fraction of power / modulus to its upper `bits` bits. Returns true if the rounded value is too large. */
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

/* Runs answers that are as far off as they can be, both ways. Their digits are 9 where a weight was rounded one way,
 * and 0 where it was rounded the other way. Covers the probes: 32 bits, weights 10^(K + t) / M by the distance t from
 * the burst's end. Covers the keys: 32 bits, weights 10^-(p + 1) / m by the position p in the window. Each answer must
 * be found. */
static int edges_run(uint64_t seed, uint64_t digits, enum matcher_simd simd)
{
    enum { N_MAX = MATCHER_N_DIGITS_MAX };
    random_state = seed;
    uint64_t done = 0, tried = 0;
    if (simd == MATCHER_SIMD_AUTO)
        simd = matcher_simd_best();
    mpz_t modulus, odd_part, power, value, ten, rest;
    mpz_inits(modulus, odd_part, power, value, ten, rest, NULL);
    while (done < digits) {
        memset(&play, 0, offsetof(struct play, text));
        if (random_below(2) == 0)
            play_add_round((int)random_below(2));
        else
            play_add_random(40 + (uint32_t)random_below(473));
        uint32_t which = (uint32_t)random_below(play.modulus_count);
        play.moduli[0] = play.moduli[which];
        play.modulus_count = 1;
        const uint32_t n = play.n = random_below(3) == 0 ? N_MAX : 256;
        struct matcher_config config = { .n_digits_max = n, .modulus_count = 1, .simd = simd };
        config.moduli[0] = play.moduli[0];
        struct matcher *matcher;
        if (matcher_init(&matcher, &config) != NULL)
            return 1;
        uint32_t length = (uint32_t)strlen(play.moduli[0]), reach = 0;
        mpz_set_str(modulus, play.moduli[0], 10);
        mpz_set(odd_part, modulus);
        mpz_set_ui(ten, 2);
        mpz_remove(odd_part, odd_part, ten);
        mpz_set_ui(ten, 5);
        mpz_remove(odd_part, odd_part, ten);
        mpz_set_ui(ten, 10);
        for (mpz_set_ui(power, 655360); mpz_cmp(power, modulus) <= 0; mpz_mul_ui(power, power, 10))
            reach++; /* the K of app/matcher/modulus.c */
        static bool probe_up[N_MAX], key_up[N_MAX];
        mpz_powm_ui(power, ten, reach, modulus);
        for (uint32_t t = 0; t < n; t++) {
            probe_up[t] = rounds_up(power, modulus, 32);
            mpz_mul_ui(power, power, 10);
            mpz_mod(power, power, modulus);
        }
        mpz_invert(ten, ten, odd_part);
        mpz_set_ui(power, 1);
        for (uint32_t p = 0; p < n; p++) {
            mpz_mul(power, power, ten);
            mpz_mod(power, power, odd_part);
            key_up[p] = rounds_up(power, odd_part, 32);
        }
        /* Many bursts in a row. Each ends with an answer that began up to N digits before. */
        for (uint32_t round = 0; round < 400; round++, tried++) {
            uint32_t ahead = 1 + (uint32_t)random_below(reach > 0 ? reach : length),
                     count = n - (uint32_t)random_below(8);
            if (ahead >= count || count < length + 1)
                continue;
            bool by_key = random_below(2) == 0, up = random_below(2) == 0;
            bool by_pairs = simd != MATCHER_SIMD_SCALAR && random_below(2) == 0; /* two digits share a weight there */
            bool is_long = simd != MATCHER_SIMD_SCALAR && !by_key && !by_pairs && random_below(2) == 0;
            uint32_t odd = (uint32_t)random_below(2);
            char number[N_MAX + 1];
            for (uint32_t i = 0; i < count; i++) {
                uint32_t before = count - ahead - 1 - i; /* digits between this one and the burst's end */
                bool rounded_up = i + ahead >= count ? random_below(2) == 0
                                  : by_key           ? key_up[n - 1 - before]
                                  : by_pairs         ? probe_up[before < odd ? 0 : before - (before - odd) % 2]
                                                     : probe_up[before];
                number[i] = rounded_up == up ? '9' : '0';
            }
            number[0] = number[0] == '0' ? '1' : '9';
            number[count] = 0;
            mpz_set_str(value, number, 10);
            mpz_fdiv_r(rest, value, modulus);
            mpz_sub(value, value, rest);
            mpz_get_str(number, 10, value);
            /* A probe's fraction is at the edge if the digits to come are nearly all zeros or nines. */
            for (int k = 0; k < 1000 && !by_key && ahead >= 3 && strlen(number) == count; k++) {
                if (memcmp(number + count - ahead, "000", 3) == 0 || memcmp(number + count - ahead, "999", 3) == 0)
                    break;
                mpz_add(value, value, modulus);
                mpz_get_str(number, 10, value);
            }
            if (strlen(number) != count)
                continue;
            /* The probe with `ahead` digits to come is the one in idle time, or one in the last burst. */
            uint32_t longer[] = { 1, count - ahead, count - ahead < 100 ? count - ahead : 100 };
            uint32_t burst = ahead + (uint32_t)random_below(longer[random_below(3)]);
            uint8_t first[2 * N_MAX], last[5 * N_MAX];
            uint32_t filled = (uint32_t)random_below(n), between = 0;
            if (by_pairs && random_below(4) != 0) { /* digits share weights within a burst: the whole answer there */
                between = (uint32_t)random_below(64);
                burst = count;
            }
            if (is_long) {
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
            while (matcher_take(matcher, &answer))
                continue;
            while (matcher_prepare(matcher))
                continue;
            matcher_begin(matcher, last, between + burst);
            while (matcher_take(matcher, &answer))
                found |= answer.count == count && memcmp(answer.digits, number, count) == 0;
            while (matcher_prepare(matcher))
                continue;
            done += filled + between + count;
            if (!found) {
                printf("edges: seed %llu: missed %s of %s, the last %u digits in a burst of their own\n",
                       (unsigned long long)seed, number, play.moduli[0], burst);
                return 1;
            }
        }
        if (matcher_stats(matcher)->candidates_refuted > 0)
            return 1;
        done += 1000;
    }
    mpz_clears(modulus, odd_part, power, value, ten, rest, NULL);
    printf("edges: seed %llu, %llu answers as far off as they can be, all found\n", (unsigned long long)seed,
           (unsigned long long)tried);
    return 0;
}

/* Returns the unit that a seed draws for M, as app/matcher/modulus.c does. */
static void unit_of(mpz_t unit, const mpz_t modulus, const uint8_t seed[MATCHER_SEED_BYTES])
{
    mpz_t factor, divisor;
    mpz_inits(factor, divisor, NULL);
    mpz_set_ui(unit, 1);
    size_t left = mpz_sizeinbase(modulus, 2) / 64 + 2;
    for (uint64_t draw = 0; left > 0; draw++) {
        uint64_t input[2] = { draw, mpz_getlimbn(modulus, 0) };
        mpz_set_ui(factor, siphash(siphash_key_from(seed), input, sizeof input) | UINT64_C(1) << 63);
        mpz_gcd(divisor, factor, modulus);
        if (mpz_cmp_ui(divisor, 1) != 0)
            continue;
        mpz_mul(unit, unit, factor);
        mpz_mod(unit, unit, modulus);
        left--;
    }
    mpz_clears(factor, divisor, NULL);
}

/* Runs digits that a sender who knows the seed chose: the matcher takes them for a multiple. They are v = s 10^(N + L)
 * / u modulo M, as L digits after a window of N, with a small s. A matcher with that seed hands these digits out, and
 * counts them as refuted. A matcher with another seed does not. */
static int fooled_run(uint64_t seed)
{
    struct matcher_config config = { .n_digits_max = 256, .modulus_count = 1, .simd = MATCHER_SIMD_SCALAR };
    uint64_t taken[2] = { 0, 0 }, refuted = 0;
    mpz_t modulus, unit, value, power;
    mpz_inits(modulus, unit, value, power, NULL);
    memset(&play, 0, offsetof(struct play, text));
    play_add_round(0);
    for (uint32_t round = 0; round < 40; round++) {
        config.moduli[0] = play.moduli[2 + round % 2]; /* M3, M4: without factors 2 and 5 */
        mpz_set_str(modulus, config.moduli[0], 10);
        const size_t digits = strlen(config.moduli[0]) + 10;
        memset(config.seed, (int)(seed + round), sizeof config.seed);
        unit_of(unit, modulus, config.seed);
        mpz_ui_pow_ui(power, 10, digits + config.n_digits_max);
        mpz_invert(value, unit, modulus);
        mpz_mul(value, value, power);
        mpz_mul_ui(value, value, 1 + round);
        mpz_mod(value, value, modulus);
        mpz_ui_pow_ui(power, 10, digits - 1); /* the next value with this number of digits */
        mpz_sub(power, power, value);
        mpz_cdiv_q(power, power, modulus);
        mpz_addmul(value, power, modulus);
        char number[256];
        mpz_get_str(number, 10, value);
        for (int other = 0; other < 2; other++) {
            struct matcher *matcher;
            struct matcher_answer answer;
            config.seed[3] = (uint8_t)(config.seed[3] + other);
            if (matcher_init(&matcher, &config) != NULL)
                return 1;
            matcher_begin(matcher, (const uint8_t *)number, strlen(number));
            while (matcher_take(matcher, &answer))
                taken[other]++;
            while (matcher_prepare(matcher))
                continue;
            refuted += matcher_stats(matcher)->candidates_refuted;
        }
    }
    mpz_clears(modulus, unit, value, power, NULL);
    printf("fooled: %llu of 40 with the seed, %llu refuted; %llu with another seed\n", (unsigned long long)taken[0],
           (unsigned long long)refuted, (unsigned long long)taken[1]);
    return taken[0] < 40 || refuted != taken[0] || taken[1] > 0;
}

static double mean(uint64_t sum, uint64_t count) { return (double)sum / (double)(count > 0 ? count : 1); }

/* Measures how many answers are found early, and how early. The stream is as in the online round: bursts of 50 to 300
 * digits, a random multiple of a random number of digits about every 500 digits, all else random. */
static int early_measure(uint64_t seed, uint64_t digits, enum matcher_simd simd, double risk)
{
    random_state = seed;
    memset(&play, 0, offsetof(struct play, text));
    play_add_round(0);
    play.n = 256;
    struct matcher_config config = { .n_digits_max = play.n,
                                     .modulus_count = play.modulus_count,
                                     .simd = simd,
                                     .early = true,
                                     .early_risk = (uint64_t)(risk * (double)(UINT64_C(1) << 40)) };
    memcpy(config.moduli, play.moduli, sizeof config.moduli);
    struct matcher *matcher;
    if (matcher_init(&matcher, &config) != NULL)
        return 1;
    mpz_t modulus, value, quotient;
    mpz_inits(modulus, value, quotient, NULL);
    uint64_t planted[4] = { 0 }, early[4] = { 0 }, lead[4] = { 0 };
    uint64_t done = 0, planted_begin[4] = { 0 };
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
            if (number_left == 0) { /* the next one: at least as long as the modulus */
                uint32_t which = (uint32_t)random_below(4), least = (uint32_t)strlen(play.moduli[which]);
                uint32_t wanted = least + (uint32_t)random_below(play.n - least + 1);
                mpz_set_str(modulus, play.moduli[which], 10);
                do {
                    mpz_set_ui(value, 1 + random_below(9));
                    for (uint32_t k = 1; k < wanted; k++) {
                        mpz_mul_ui(value, value, 10);
                        mpz_add_ui(value, value, random_below(10));
                    }
                    mpz_fdiv_q(quotient, value, modulus);
                    mpz_mul(value, quotient, modulus);
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
        while (matcher_take(matcher, &answer))
            continue;
        done += count;
        for (bool more = true; more;) {
            more = matcher_prepare(matcher);
            while (matcher_next_early(matcher, &answer)) {
                if (answer.end - answer.count != planted_begin[answer.modulus])
                    continue; /* a wrong answer: the matcher counts those */
                early[answer.modulus]++;
                lead[answer.modulus] += answer.ahead;
            }
        }
    }
    const struct matcher_stats *stats = matcher_stats(matcher);
    printf("early: seed %llu, %llu digits, risk %g; planted, of these early, digits ahead on average:",
           (unsigned long long)seed, (unsigned long long)done, risk);
    uint64_t early_of_large = 0, lead_of_large = 0; /* as others have been measured */
    for (uint32_t i = 0; i < 4; i++) {
        printf(" M%u %llu %.1f %% %.1f,", i + 1, (unsigned long long)planted[i],
               100.0 * (double)early[i] / (double)planted[i], mean(lead[i], early[i]));
        early_of_large += i > 0 ? early[i] : 0;
        lead_of_large += i > 0 ? lead[i] : 0;
    }
    printf(" M2 to M4 ahead %.1f, all %.1f; given %llu, right %llu, wrong %llu; %llu overflows\n",
           mean(lead_of_large, early_of_large), mean(lead_of_large + lead[0], early_of_large + early[0]),
           (unsigned long long)stats->early_answers, (unsigned long long)stats->early_right,
           (unsigned long long)stats->early_wrong, (unsigned long long)stats->filter_overflows);
    mpz_clears(modulus, value, quotient, NULL);
    return 0;
}

/* Plays a recorded contest, with early answers. */
static int recording_run(const char *path, uint64_t digits, enum matcher_simd simd)
{
    const struct recording recording = recording_read(path, digits < TEXT_MAX ? digits : TEXT_MAX);
    uint64_t answers = 0;
    play = (struct play){ .n = recording.n, .digits = recording.digit_count, .early = true, .recording = &recording };
    for (uint32_t i = 0; i < recording.modulus_count; i++)
        play_add_text(recording.moduli[i]);
    memcpy(play.text, recording.digits, recording.digit_count);
    if (play_run(0, simd, &answers) != 0)
        return 1;
    printf("%s: %zu bursts, %zu digits, %llu answers, all as the oracle has them\n", path, recording.burst_count,
           recording.digit_count, (unsigned long long)answers);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr,
                "usage: matcher_check recording FILE DIGITS [SIMD]\n"
                "       matcher_check "
                "small|mixed|round|online|onsite|wide|adversarial|families|tails|sweep|fooled|edges|false|early SEED "
                "DIGITS [scalar|avx2|avx512 [RISK]]\n");
        return 2;
    }
    enum matcher_simd simd = MATCHER_SIMD_AUTO;
    for (enum matcher_simd s = MATCHER_SIMD_AUTO; argc > 4 && s <= MATCHER_SIMD_AVX512; s++)
        if (strcmp(argv[4], matcher_simd_name(s)) == 0)
            simd = s;
    uint64_t seed = strtoull(argv[2], NULL, 0), digits = strtoull(argv[3], NULL, 0), done = 0, cases = 0, answers = 0;
    if (strcmp(argv[1], "recording") == 0)
        return recording_run(argv[2], digits, simd);
    if (strcmp(argv[1], "false") == 0)
        return false_run(seed, digits, simd);
    if (strcmp(argv[1], "fooled") == 0)
        return fooled_run(seed);
    if (strcmp(argv[1], "edges") == 0)
        return edges_run(seed, digits, simd);
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
