#define _GNU_SOURCE
#include "tests/bench/bench_stream.h"

#include <gmp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const rounds[2][5] = {
    { "20220217214410", "104648257118348370704723119", "125000000000000140750000000000052207500000000006359661",
      "10885732038215355481752285039386319187390558900925053798518152998488201", NULL },
    { "20220311122858", "104648257118348370704723401", "125000000000000173750000000000080443500000000012405393",
      "36371684158327190152150403800286644294695921689649344746033590042624", NULL },
};

bool bench_stream_config(struct matcher_config *config, char *moduli, const char *simd)
{
    if (strcmp(moduli, "online") == 0 || strcmp(moduli, "onsite") == 0) {
        config->modulus_count = 4;
        memcpy(config->moduli, rounds[strcmp(moduli, "onsite") == 0], 4 * sizeof config->moduli[0]);
    } else {
        for (char *m = strtok(moduli, ","); m != NULL; m = strtok(NULL, ","))
            config->moduli[config->modulus_count++] = m;
    }
    for (enum matcher_simd s = MATCHER_SIMD_AUTO; s <= MATCHER_SIMD_AVX512; s++) {
        config->simd = s;
        if (strcmp(simd, matcher_simd_name(s)) == 0)
            return true;
    }
    return false;
}

/* Draws a multiple of one of the moduli, both at random, of at most n digits. */
static size_t draw_number(char *number, gmp_randstate_t random, const struct matcher_config *config)
{
    mpz_t value, modulus, power;
    mpz_inits(value, modulus, power, NULL);
    do {
        mpz_set_str(modulus, config->moduli[gmp_urandomm_ui(random, config->modulus_count)], 10);
        mpz_ui_pow_ui(power, 10, 1 + gmp_urandomm_ui(random, config->n_digits_max));
        mpz_urandomm(value, random, power);
        mpz_fdiv_q(value, value, modulus);
        mpz_mul(value, value, modulus);
    } while (mpz_sgn(value) == 0);
    mpz_get_str(number, 10, value);
    mpz_clears(value, modulus, power, NULL);
    return strlen(number);
}

void bench_stream_fill(uint8_t *text, size_t count, const struct matcher_config *config, size_t every)
{
    gmp_randstate_t random;
    gmp_randinit_default(random);
    gmp_randseed_ui(random, 20220217);
    for (size_t i = 0; i < count; i++)
        text[i] = (uint8_t)('0' + gmp_urandomm_ui(random, 10));
    char number[2048];
    bool possible = false;
    for (uint32_t i = 0; i < config->modulus_count; i++)
        possible |= strlen(config->moduli[i]) <= config->n_digits_max;
    if (!possible)
        return;
    for (size_t at = 100; every == 0 && at + 2 * config->n_digits_max < count;) {
        size_t digits = draw_number(number, random, config);
        memcpy(text + at, number, digits);
        at += digits + 200 + gmp_urandomm_ui(random, 400);
    }
    for (size_t end = 2 * every; every > 0 && end <= count; end += every) {
        size_t digits = draw_number(number, random, config);
        if (digits <= every)
            memcpy(text + end - digits, number, digits);
        else
            end -= every; /* another one: it would overwrite the one before */
    }
    gmp_randclear(random);
}

enum { BEFORE = 600 }; /* more digits than a modulus has factors */

/* Reads the last digits so far as a number. */
static void read_before(mpz_t number, const uint8_t *text, size_t at)
{
    char digits[BEFORE + 1];
    const size_t before = at < BEFORE ? at : BEFORE;
    memcpy(digits, text + at - before, before);
    digits[before] = '\0';
    mpz_set_ui(number, 0);
    if (before > 0)
        mpz_set_str(number, digits, 10);
}

/* Writes a number in `digits` digits, as far as there is room. */
static void write_digits(uint8_t *text, size_t left, const mpz_t number, unsigned digits)
{
    char piece[2 * BEFORE];
    gmp_snprintf(piece, sizeof piece, "%0*Zd", (int)digits, number);
    memcpy(text, piece, digits < left ? digits : left);
}

/* Writes pieces of `digits` digits, then zeros. With each piece the number that all digits so far write has at least
 * `factors` factors of a prime, if its digits can do that. All else is random. */
static void fill_powers(uint8_t *text, size_t count, unsigned prime, unsigned factors, unsigned digits, unsigned zeros)
{
    mpz_t number, rest, power, all;
    gmp_randstate_t random;
    gmp_randinit_default(random);
    mpz_inits(number, rest, power, all, NULL);
    mpz_ui_pow_ui(power, prime, factors);
    mpz_ui_pow_ui(all, 10, digits);
    for (size_t at = 0; at < count; at += digits + zeros) {
        const size_t left = count - at;
        read_before(number, text, at);
        mpz_mul(number, number, all);
        mpz_urandomm(rest, random, all);
        mpz_add(rest, number, rest);
        mpz_fdiv_q(rest, rest, power);
        mpz_mul(rest, rest, power);
        if (mpz_cmp(rest, number) <= 0)
            mpz_add(rest, rest, power);
        mpz_mod(rest, rest, all);
        write_digits(text + at, left, rest, digits);
        if (digits < left)
            memset(text + at + digits, '0', zeros < left - digits ? zeros : left - digits);
    }
    gmp_randclear(random);
    mpz_clears(number, rest, power, all, NULL);
}

/* Writes places on one level, again and again: with each piece of g digits the number so far gets g factors 2 more, up
 * to `top`. The piece has `further` factors more than that, and as few digits as can do it. */
static void fill_levels(uint8_t *text, size_t count, unsigned top, unsigned further)
{
    mpz_t piece, least;
    gmp_randstate_t random;
    gmp_randinit_default(random);
    mpz_inits(piece, least, NULL);
    unsigned factors = top, digits = 1;
    for (size_t at = 0; at < count; at += digits, factors += digits) {
        if (factors >= top) {
            text[at++] = (uint8_t)('1' + 2 * gmp_urandomm_ui(random, 5)); /* an odd number */
            factors = 0;
        }
        for (digits = 1;; digits++) {
            mpz_ui_pow_ui(least, 10, digits - 1);
            mpz_mul_ui(piece, least, 9);
            mpz_urandomm(piece, random, piece);
            mpz_add(piece, piece, least);
            mpz_fdiv_q_2exp(piece, piece, factors + digits + 1 + further);
            mpz_mul_2exp(piece, piece, factors + digits + 1 + further);
            if (mpz_cmp(piece, least) >= 0 && !mpz_divisible_ui_p(piece, 10))
                break;
        }
        write_digits(text + at, at < count ? count - at : 0, piece, digits);
    }
    gmp_randclear(random);
    mpz_clears(piece, least, NULL);
}

bool bench_stream_worst(uint8_t *text, size_t count, const struct matcher_config *config, const char *name)
{
    const bool side = strncmp(name, "side", 4) == 0, hot = strncmp(name, "hot", 3) == 0;
    if (strcmp(name, "zeros") == 0 || strcmp(name, "nines") == 0) {
        memset(text, name[0] == 'z' ? '0' : '9', count);
        return true;
    }
    unsigned prime, factors, digits, zeros;
    if (sscanf(name, "power%u:%u:%u:%u", &prime, &factors, &digits, &zeros) == 4) {
        fill_powers(text, count, prime, factors, digits, zeros);
        return true;
    }
    if (sscanf(name, "levels:%u:%u", &factors, &digits) == 2) {
        fill_levels(text, count, factors, digits);
        return true;
    }
    if (strncmp(name, "digit", 5) == 0) {
        memset(text, name[5], count);
        return true;
    }
    if (!side && !hot)
        return false;
    mpz_t value, modulus;
    mpz_inits(value, modulus, NULL);
    mpz_set_str(modulus, config->moduli[atoi(name + (side ? 4 : 3))], 10);
    char number[256];
    for (size_t at = 0, factor = 1; at < count; at += strlen(number), factor = factor % 97 + 1) {
        mpz_mul_ui(value, modulus, factor);
        mpz_get_str(number, 10, value);
        char *last = number + strlen(number) - 1;
        *last = hot ? (char)('0' + (*last - '0' + 3) % 10) : *last;
        memcpy(text + at, number, strlen(number) < count - at ? strlen(number) : count - at);
    }
    mpz_clears(value, modulus, NULL);
    return true;
}

void bench_pin(unsigned cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}
