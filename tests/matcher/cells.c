/* An answer's prefix values, at its start and at its end, are equal, but their keys differ by what the digits between
 * them were rounded by: near the edge of a cell, one may lie on either side. So the window is filled in such a way that
 * the prefix value at the start is next to an edge, and the answer's digits are 9 where a weight is rounded one way and
 * 0 where it is rounded the other.
 *
 * For a look, an answer's part before the burst and what the burst adds to it make a sum between 0 and a limit: next to
 * the edge of a cell of old starts, two cells are in question; where the first one begins, it and the last. */
#include "tests/matcher/cells.h"

#include <gmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/matcher/random.h"

enum { N = 256, WINDOW = 256, BURST_MAX = 600, TRIES = 200, BITS_MAX = 120, CELL_BITS = 14, WIDE_MAX = 1024 };

/* Subtracts what makes it not congruent to the residue. */
static void make_congruent(mpz_t value, const mpz_t residue, const mpz_t constant)
{
    mpz_t rest;
    mpz_init(rest);
    mpz_sub(rest, value, residue);
    mpz_fdiv_r(rest, rest, constant);
    mpz_sub(value, value, rest);
    mpz_clear(rest);
}

/* Writes exactly `count` digits, with zeros before them; false if they are more. */
static bool write_digits(uint8_t *digits, uint32_t count, const mpz_t value)
{
    char text[WIDE_MAX + 2];
    if (mpz_sgn(value) < 0 || mpz_sizeinbase(value, 10) > count + 1)
        return false;
    mpz_get_str(text, 10, value);
    size_t length = strlen(text);
    if (length > count)
        return false;
    memset(digits, '0', count - length);
    memcpy(digits + count - length, text, length);
    return true;
}

/* A constant prime to 10. */
static void draw_constant(mpz_t constant, uint32_t bits)
{
    mpz_set_ui(constant, 1);
    for (uint32_t b = 1; b < bits; b++) {
        mpz_mul_2exp(constant, constant, 1);
        mpz_add_ui(constant, constant, random_below(2));
    }
    while (mpz_even_p(constant) || mpz_divisible_ui_p(constant, 5))
        mpz_add_ui(constant, constant, 1);
}

/* Whether 10^-(t + 1) / M, in units of 2^-bits, is rounded up, if to the nearest. */
static void find_rounding(bool up[], uint32_t count, const mpz_t constant, uint32_t bits)
{
    mpz_t inverse, power, rest;
    mpz_inits(inverse, power, rest, NULL);
    mpz_set_ui(inverse, 10);
    mpz_invert(inverse, inverse, constant);
    mpz_set_ui(power, 1);
    for (uint32_t t = 0; t < count; t++) {
        mpz_mul(power, power, inverse);
        mpz_mod(power, power, constant);
        mpz_mul_2exp(rest, power, bits);
        mpz_fdiv_r(rest, rest, constant);
        mpz_mul_2exp(rest, rest, 1);
        up[t] = mpz_cmp(rest, constant) >= 0;
    }
    mpz_clears(inverse, power, rest, NULL);
}

/* A residue whose fraction is next to an edge, by 3000 units at most: keys may begin somewhere. */
static void draw_residue(mpz_t residue, const mpz_t constant, uint32_t bits)
{
    enum { APART = 3000 };
    mpz_set_ui(residue, random_below(1 << CELL_BITS));
    mpz_mul_2exp(residue, residue, bits - CELL_BITS);
    mpz_add_ui(residue, residue, random_below(2 * APART));
    mpz_sub_ui(residue, residue, APART);
    mpz_mul(residue, residue, constant);
    mpz_fdiv_q_2exp(residue, residue, bits);
    mpz_mod(residue, residue, constant);
}

/* Fills the window and the burst behind it. The answer has `count` digits, the last `late` of them in the burst. */
static bool draw_stream(uint8_t *stream, uint32_t count, uint32_t late, const mpz_t constant, const bool *up,
                        uint32_t bits)
{
    const uint32_t before = WINDOW - (count - late);
    uint8_t *answer = stream + before;
    mpz_t value, residue, power;
    mpz_inits(value, residue, power, NULL);
    char text[2 * N] = "";
    for (uint32_t i = 0; i < before; i++)
        text[i] = (char)('0' + random_below(10));
    mpz_set_str(value, text, 10);
    draw_residue(residue, constant, bits);
    mpz_ui_pow_ui(power, 10, before);
    mpz_mul(residue, residue, power);
    make_congruent(value, residue, constant);
    bool drawn = write_digits(stream, before, value);

    const uint64_t way = random_below(3);
    for (uint32_t i = 0; i < count; i++)
        text[i] = way == 2 || up[before + i] == (way == 1) ? '9' : '0';
    text[0] = '9';
    text[count] = 0;
    mpz_set_str(value, text, 10);
    mpz_set_ui(residue, 0);
    make_congruent(value, residue, constant);
    drawn = drawn && write_digits(answer, count, value) && answer[0] != '0';
    mpz_clears(value, residue, power, NULL);
    return drawn;
}

static bool is_found(struct matcher *matcher, const uint8_t *digits, uint32_t count, const uint8_t *expected,
                     uint32_t expected_count)
{
    struct matcher_answer answer;
    bool found = false;
    matcher_begin(matcher, digits, count);
    while (matcher_next(matcher, &answer))
        found |= answer.count == expected_count && memcmp(answer.digits, expected, expected_count) == 0;
    while (matcher_prepare(matcher))
        continue;
    return found;
}

/* The matcher of one constant; NULL: it cannot be. */
static struct matcher *set_up(const char *number, uint32_t n, enum matcher_simd simd)
{
    const struct matcher_config config = {.n_digits_max = n, .constant_count = 1, .simd = simd, .constants = {number}};
    struct matcher *matcher;
    return matcher_init(&matcher, &config) == NULL ? matcher : NULL;
}

int cells_run(uint64_t seed, uint64_t digits, enum matcher_simd simd)
{
    static bool up[WINDOW + N];
    if (simd == MATCHER_SIMD_AUTO)
        simd = matcher_simd_best();
    const uint32_t bits = simd == MATCHER_SIMD_SCALAR ? 48 : 32;
    uint64_t done = 0, tried = 0;
    mpz_t constant;
    mpz_init(constant);
    random_state = seed;
    while (done < digits) {
        char number[BITS_MAX];
        /* Hashed: of some digits less for vectors; in general registers also if looked ahead for in short bursts. */
        draw_constant(constant, simd == MATCHER_SIMD_SCALAR ? 50 + (uint32_t)random_below(BITS_MAX - 50)
                                                            : 36 + (uint32_t)random_below(6));
        mpz_get_str(number, 10, constant);
        find_rounding(up, WINDOW + N, constant, bits);
        struct matcher *matcher = set_up(number, N, simd);
        if (matcher == NULL)
            return 1;
        const uint32_t length = (uint32_t)strlen(number);
        for (int try = 0; try < TRIES; try++) {
            uint8_t stream[WINDOW + BURST_MAX];
            uint32_t count = length + 1 + (uint32_t)random_below(N - length), late = 1 + (uint32_t)random_below(count);
            uint32_t before = WINDOW - (count - late), burst = late + (uint32_t)random_below(BURST_MAX - late);
            if (before <= length || !draw_stream(stream, count, late, constant, up, bits))
                continue;
            for (uint32_t i = late; i < burst; i++)
                stream[WINDOW + i] = (uint8_t)('0' + random_below(10));
            is_found(matcher, stream, WINDOW, NULL, 0);
            done += WINDOW + burst;
            tried++;
            if (!is_found(matcher, stream + WINDOW, burst, stream + before, count)) {
                printf("cells: seed %llu: missed %.*s of %s behind %.*s, the last %u digits in a burst of %u\n",
                       (unsigned long long)seed, (int)count, stream + before, number, (int)before, stream, late, burst);
                return 1;
            }
        }
    }
    mpz_clear(constant);
    printf("cells: seed %llu, %llu answers at the edge of a cell, all found\n", (unsigned long long)seed,
           (unsigned long long)tried);
    return 0;
}

/* The last four digits before the burst are in its first group. */
enum { LOOKED_BITS_MAX = 200, SHORT = 136, OLD_EDGE_BITS = 15, GROUP_BEFORE = 4 };

/* The K of app/matcher_constant.c. */
static uint32_t look_reach(const mpz_t constant)
{
    uint32_t reach = 0;
    mpz_t power;
    mpz_init(power);
    for (mpz_set_ui(power, 655360); mpz_cmp(power, constant) <= 0; mpz_mul_ui(power, power, 10))
        reach++;
    mpz_clear(power);
    return reach;
}

/* One of a constant's looks in a short burst: they are as far apart as app/matcher_sweep.c places them. */
static uint32_t draw_look(uint32_t reach, uint32_t young)
{
    uint32_t end[SHORT], count = 0;
    for (uint32_t at = reach; at < SHORT; at += reach) {
        while ((at + 4) % 8 < 1 || (at + 4) % 8 > young)
            at--;
        end[count++] = at;
    }
    return end[random_below(count)];
}

/* An answer's digits: what all but the last `late` of them come to for a look is next to an edge. */
static bool draw_old(uint8_t *answer, uint32_t count, uint32_t late, uint32_t look_exponent, const mpz_t constant)
{
    enum { APART = 150000, UNIT_BITS = 32 };
    mpz_t value, residue, power;
    mpz_inits(value, residue, power, NULL);
    char text[WIDE_MAX + 1];
    mpz_set_ui(residue, random_below(4) == 0 ? 1 << OLD_EDGE_BITS : 1 + random_below(1 << OLD_EDGE_BITS));
    mpz_mul_2exp(residue, residue, UNIT_BITS - OLD_EDGE_BITS);
    mpz_add_ui(residue, residue, random_below(2 * APART));
    mpz_sub_ui(residue, residue, APART);
    mpz_mul(residue, residue, constant);
    mpz_fdiv_q_2exp(residue, residue, UNIT_BITS);
    mpz_ui_pow_ui(power, 10, look_exponent);
    mpz_invert(power, power, constant);
    mpz_mul(residue, residue, power);
    for (uint32_t i = 0; i < count; i++)
        text[i] = (char)('0' + random_below(10));
    text[0] = '9';
    text[count - late] = 0;
    mpz_set_str(value, text, 10);
    make_congruent(value, residue, constant);
    bool drawn = write_digits(answer, count - late, value) && answer[0] != '0';
    memcpy(text, answer, count - late);
    text[count - late] = (char)('0' + random_below(10));
    text[count] = 0;
    mpz_set_str(value, text, 10);
    mpz_set_ui(residue, 0);
    make_congruent(value, residue, constant);
    drawn = drawn && write_digits(answer, count, value) && memcmp(answer, text, count - late) == 0;
    mpz_clears(value, residue, power, NULL);
    return drawn;
}

int old_cells_run(uint64_t seed, uint64_t digits, enum matcher_simd simd)
{
    uint64_t done = 0, tried = 0;
    mpz_t constant;
    mpz_init(constant);
    random_state = seed;
    while (done < digits) {
        char number[LOOKED_BITS_MAX];
        const uint32_t n = random_below(4) == 0 ? WIDE_MAX : 257 + (uint32_t)random_below(WIDE_MAX - 257);
        draw_constant(constant, (simd == MATCHER_SIMD_SCALAR ? 71 : 45) + (uint32_t)random_below(100));
        mpz_get_str(number, 10, constant);
        struct matcher *matcher = set_up(number, n, simd);
        if (matcher == NULL)
            return 1;
        const uint32_t length = (uint32_t)strlen(number), reach = look_reach(constant);
        for (int try = 0; try < TRIES; try++) {
            uint8_t stream[2 * WIDE_MAX + SHORT];
            const uint32_t look = draw_look(reach, length - reach - 1), late = look + 1 + (uint32_t)random_below(reach);
            const uint32_t least = late + GROUP_BEFORE + length + 1;
            if (late + GROUP_BEFORE < length || late > SHORT || least > n)
                continue;
            const uint32_t count = least + (uint32_t)random_below(n + 1 - least);
            const uint32_t burst = late + (uint32_t)random_below(SHORT + 1 - late);
            uint8_t *answer = stream + WIDE_MAX;
            if (!draw_old(answer, count, late + GROUP_BEFORE, look + GROUP_BEFORE + reach, constant))
                continue;
            for (uint32_t i = 0; i < WIDE_MAX; i++)
                stream[i] = (uint8_t)('0' + random_below(10));
            for (uint32_t i = late; i < burst; i++)
                answer[count - late + i] = (uint8_t)('0' + random_below(10));
            is_found(matcher, stream, WIDE_MAX + count - late, NULL, 0);
            done += WIDE_MAX + count - late + burst;
            tried++;
            if (!is_found(matcher, answer + count - late, burst, answer, count)) {
                printf("old: seed %llu: missed %.*s of %s at N = %u, the last %u digits in a burst of %u\n",
                       (unsigned long long)seed, (int)count, answer, number, n, late, burst);
                return 1;
            }
        }
    }
    mpz_clear(constant);
    printf("old: seed %llu, %llu answers whose older part is at the edge of a cell, all found\n",
           (unsigned long long)seed, (unsigned long long)tried);
    return 0;
}
