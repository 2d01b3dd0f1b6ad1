#include "app/matcher/modulus.h"

#include <assert.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/siphash.h"

static const uint8_t zero = '0'; /* appended to a number, it multiplies that by 10 */

/* A residue that is not 0 is at least 1 / M. */
static_assert(UINT64_C(1) << (64 - MODULUS_SURE_BITS) > MODULUS_TOLERANCE_MAX, "no doubt is left");

bool modulus_read(struct matcher_modulus *modulus, const char *decimal)
{
    memset(modulus, 0, sizeof *modulus);
    if (decimal == NULL || decimal[0] < '1' || decimal[0] > '9')
        return false;
    for (; *decimal != 0; decimal++) {
        if (*decimal < '0' || *decimal > '9' || modulus->digits == MATCHER_MODULUS_DIGITS_MAX)
            return false;
        big_mul_add(&modulus->value, 10, (uint64_t)(*decimal - '0'));
        modulus->decimal[modulus->digits++] = (uint8_t)*decimal;
    }
    return big_bits(&modulus->value) <= MATCHER_MODULUS_BITS_MAX;
}

/* Draws a number without a common factor with M: a product of random ones. Whoever knows M computes numbers v whose
 * fraction v / M is tiny; that of u v / M is tiny only by chance. */
static struct big draw_unit(const struct big *value, const uint8_t seed[MATCHER_SEED_BYTES])
{
    enum { DRAWS_MAX = 4096 };
    const struct siphash_key key = siphash_key_from(seed);
    struct big unit = { { 1 } };
    uint32_t left = big_bits(value) / 64 + 2;
    for (uint64_t draw = 0; left > 0; draw++) {
        ASSERT(draw < DRAWS_MAX);
        uint64_t input[2] = { draw, value->word[0] };
        uint64_t factor = siphash(key, input, sizeof input) | BIT(63);
        if (big_gcd(value, factor) != 1)
            continue;
        big_mul_add(&unit, factor, 0);
        big_mod(&unit, value);
        left--;
    }
    return unit;
}

/* Makes a weight of the probe, in units of 2^-32. Each is off by half a unit at most. A sum is off by the most if it
 * takes two digits by one weight, up to 99: up to n / 2 + 2 of them. */
static void make_probe_weight(struct modulus_probe *probe, struct modulus_making *making, uint32_t at,
                              const struct big *value)
{
    const uint64_t fraction = big_fraction(&making->ahead, value);
    probe->weights[MODULUS_AFTER - at] = (uint32_t)((fraction + BIT(31)) >> 32);
    big_append_mod(&making->ahead, &zero, 1, value);
    if (at == 1) { /* the fraction of 10^K / M */
        const uint32_t error = (making->n / 2 + 2) * 99 / 2 + 1, reach = (uint32_t)(fraction >> 32) + 1;
        probe->offset = reach + error;
        probe->limit = reach + 2 * error;
        ASSERT(probe->limit < BIT(17));
    }
}

bool modulus_prepare_some(struct matcher_modulus *c, struct modulus_making *making, uint32_t count)
{
    ASSERT(making->places <= MODULUS_PLACES);
    for (; count > 0 && making->places < MODULUS_PLACES; count--) {
        const uint32_t t = making->places++;
        big_div_ten_mod(&making->power, &making->m);
        c->key_weights[t] = big_fraction(&making->power, &making->m) + 1;
        if (c->probe.digits > 0 && t <= making->n)
            make_probe_weight(&c->probe, making, t, &c->value);
        if (t < min_u32(c->tail_digits, making->n)) {
            c->tail_weights[t] = big_fraction(&making->tail_power, &making->tail) + 1;
            big_append_mod(&making->tail_power, &zero, 1, &making->tail);
        }
    }
    return making->places < MODULUS_PLACES;
}

struct modulus_making modulus_prepare_begin(struct matcher_modulus *c, uint32_t n,
                                            const uint8_t seed[MATCHER_SEED_BYTES])
{
    ASSERT(n >= 1 && n <= MATCHER_N_DIGITS_MAX);
    struct modulus_making making = { .m = c->value, .tail = { { 1 } }, .ahead = { { 1 } }, .n = n };
    static const uint64_t prime[2] = { 2, 5 };
    for (size_t i = 0; i < ARRAY_COUNT(prime); i++) {
        struct big quotient = making.m;
        while (big_div(&quotient, prime[i]) == 0) {
            making.m = quotient;
            big_mul_add(&making.tail, prime[i], 0);
            c->exponents[i]++;
        }
        c->needs[i] = min_u32(c->exponents[i], c->digits);
    }
    for (uint32_t digit = 0; digit < 10; digit++)
        if ((c->exponents[0] == 0 || digit % 2 == 0) && (c->exponents[1] == 0 || digit % 5 == 0))
            c->last_digits |= UINT32_C(1) << digit;
    c->tail_digits = max_u32(c->exponents[0], c->exponents[1]);
    c->tolerance = 9 * (uint64_t)n;
    c->sure = big_bits(&c->value) <= MODULUS_SURE_BITS;
    /* K is the largest number with 10^K 2^16 <= M. */
    struct big reach = { { 10 * BIT(MODULUS_RESIDUE_BITS) } };
    for (; big_compare(&reach, &c->value) <= 0; c->probe.digits++) {
        big_mul_add(&reach, 10, 0);
        if (c->probe.digits > 0)
            big_mul_add(&making.ahead, 10, 0);
    }
    /* Else a muted lane would hide an answer: README, "Young starts". */
    ASSERT(c->probe.digits == 0 || c->digits > c->probe.digits + MODULUS_YOUNG_DIGITS);

    making.power = making.tail_power = draw_unit(&c->value, seed);
    big_mod(&making.power, &making.m);
    big_mod(&making.tail_power, &making.tail);
    return making;
}

bool modulus_tail_divides(const struct matcher_modulus *c, const uint8_t *end, uint32_t length)
{
    uint64_t sum = 0;
    for (uint32_t t = 0; t < min_size(length, c->tail_digits); t++)
        sum += (uint64_t)(end[-1 - (ptrdiff_t)t] - '0') * c->tail_weights[t];
    return sum <= c->tolerance;
}
