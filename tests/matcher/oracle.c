#include "tests/matcher/oracle.h"

#include <gmp.h>
#include <stdlib.h>
#include <string.h>

enum { LIMBS = 8 }; /* 512 bits */

struct modulus {
    mp_limb_t limbs[LIMBS];
    mp_size_t count;
    mp_limb_t multiple[4][LIMBS + 1];         /* 8, 4, 2, 1 times the modulus */
    mp_limb_t remainder[ORACLE_N_MAX][LIMBS]; /* the remainder of the suffix that begins in this slot */
};

struct oracle {
    uint32_t n, modulus_count;
    uint64_t pushed, gap;
    bool leading_zero[ORACLE_N_MAX];
    uint32_t divisors[ORACLE_N_MAX]; /* by slot */
    struct modulus moduli[ORACLE_CONSTANTS_MAX];
};

struct oracle *oracle_new(uint32_t n, const char *const *moduli, uint32_t count)
{
    struct oracle *oracle = calloc(1, sizeof *oracle);
    oracle->n = n;
    oracle->modulus_count = count;
    for (uint32_t i = 0; i < count; i++) {
        mpz_t value;
        mpz_init_set_str(value, moduli[i], 10);
        oracle->moduli[i].count = (mp_size_t)mpz_size(value);
        for (mp_size_t k = 0; k < oracle->moduli[i].count; k++)
            oracle->moduli[i].limbs[k] = mpz_getlimbn(value, k);
        for (unsigned k = 0; k < 4; k++)
            oracle->moduli[i].multiple[k][oracle->moduli[i].count] = mpn_mul_1(
                oracle->moduli[i].multiple[k], oracle->moduli[i].limbs, oracle->moduli[i].count, 8u >> k);
        mpz_clear(value);
    }
    return oracle;
}

void oracle_free(struct oracle *oracle) { free(oracle); }

static bool suffix_extend(struct modulus *m, uint32_t slot, uint8_t digit)
{
    mp_limb_t *r = m->remainder[slot];
    if (m->count == 1) {
        r[0] = (mp_limb_t)(((unsigned __int128)r[0] * 10 + digit) % m->limbs[0]);
        return r[0] == 0;
    }
    mp_limb_t product[LIMBS + 1];
    product[m->count] = mpn_mul_1(product, r, m->count, 10);
    product[m->count] += mpn_add_1(product, product, m->count, digit);
    for (unsigned k = 0; k < 4; k++) /* below 10 times the modulus: subtract 8, 4, 2, 1 times */
        if (mpn_cmp(product, m->multiple[k], m->count + 1) >= 0)
            mpn_sub_n(product, product, m->multiple[k], m->count + 1);
    mpn_copyi(r, product, m->count);
    return mpn_zero_p(r, m->count) != 0;
}

void oracle_push(struct oracle *oracle, uint8_t digit)
{
    /* The suffix that began n digits ago gives its slot to the one that begins now. */
    uint32_t begins = (uint32_t)(oracle->pushed % oracle->n);
    oracle->leading_zero[begins] = digit == 0;
    for (uint32_t i = 0; i < oracle->modulus_count; i++)
        memset(oracle->moduli[i].remainder[begins], 0, sizeof oracle->moduli[i].remainder[begins]);
    oracle->pushed++;
    uint64_t live = oracle->pushed - oracle->gap < oracle->n ? oracle->pushed - oracle->gap : oracle->n;
    for (uint64_t length = 1; length <= live; length++) {
        uint32_t slot = (uint32_t)((oracle->pushed - length) % oracle->n);
        oracle->divisors[slot] = 0;
        if (oracle->leading_zero[slot])
            continue;
        for (uint32_t i = 0; i < oracle->modulus_count; i++)
            oracle->divisors[slot] |= (uint32_t)suffix_extend(&oracle->moduli[i], slot, digit) << i;
    }
}

uint32_t oracle_divisors(const struct oracle *oracle, uint32_t length)
{
    if (length == 0 || length > oracle->n || length > oracle->pushed - oracle->gap)
        return 0;
    return oracle->divisors[(oracle->pushed - length) % oracle->n];
}

void oracle_restart(struct oracle *oracle) { oracle->gap = oracle->pushed; }
