#include "app/matcher_big.h"

#include <immintrin.h>

#include "kernel/base/assert.h"

void matcher_big_mul_add(struct matcher_big *value, uint64_t factor, uint64_t addend)
{
    unsigned __int128 carry = addend;
    for (size_t i = 0; i < MATCHER_BIG_WORDS; i++) {
        carry += (unsigned __int128)value->word[i] * factor;
        value->word[i] = (uint64_t)carry;
        carry >>= 64;
    }
    ASSERT(carry == 0);
}

uint64_t matcher_big_div(struct matcher_big *value, uint64_t divisor)
{
    ASSERT(divisor != 0);
    uint64_t remainder = 0;
    for (size_t i = MATCHER_BIG_WORDS; i-- > 0;) {
        /* remainder < divisor, so the quotient of each step fits one word: SDM vol. 2, DIV. */
        __asm__("divq %4" : "=a"(value->word[i]), "=d"(remainder)
                          : "a"(value->word[i]), "d"(remainder), "r"(divisor) : "cc");
    }
    return remainder;
}

int matcher_big_compare(const struct matcher_big *a, const struct matcher_big *b)
{
    for (size_t i = MATCHER_BIG_WORDS; i-- > 0;)
        if (a->word[i] != b->word[i])
            return a->word[i] < b->word[i] ? -1 : 1;
    return 0;
}

void matcher_big_add(struct matcher_big *a, const struct matcher_big *b)
{
    unsigned char carry = 0;
    for (size_t i = 0; i < MATCHER_BIG_WORDS; i++)
        carry = _addcarry_u64(carry, a->word[i], b->word[i], (unsigned long long *)&a->word[i]);
    ASSERT(carry == 0);
}

void matcher_big_sub(struct matcher_big *a, const struct matcher_big *b)
{
    unsigned char borrow = 0;
    for (size_t i = 0; i < MATCHER_BIG_WORDS; i++)
        borrow = _subborrow_u64(borrow, a->word[i], b->word[i], (unsigned long long *)&a->word[i]);
    ASSERT(borrow == 0);
}

bool matcher_big_is_zero(const struct matcher_big *value)
{
    uint64_t any = 0;
    for (size_t i = 0; i < MATCHER_BIG_WORDS; i++)
        any |= value->word[i];
    return any == 0;
}

uint32_t matcher_big_bits(const struct matcher_big *value)
{
    for (size_t i = MATCHER_BIG_WORDS; i-- > 0;)
        if (value->word[i] != 0)
            return (uint32_t)(64 * i + 64 - (size_t)__builtin_clzll(value->word[i]));
    return 0;
}

/* value -= (subtrahend * factor) << shift. */
static void big_sub_product(struct matcher_big *value, const struct matcher_big *subtrahend, uint64_t factor,
                            uint32_t shift)
{
    struct matcher_big product = *subtrahend;
    matcher_big_mul_add(&product, factor, 0);
    for (; shift > 0; shift -= shift < 63 ? shift : 63)
        matcher_big_mul_add(&product, UINT64_C(1) << (shift < 63 ? shift : 63), 0);
    matcher_big_sub(value, &product);
}

/* The 64 bits from bit `low` on. */
static uint64_t big_bits_from(const struct matcher_big *value, uint32_t low)
{
    uint64_t bits = value->word[low / 64] >> low % 64;
    if (low % 64 != 0 && low / 64 + 1 < MATCHER_BIG_WORDS)
        bits |= value->word[low / 64 + 1] << (64 - low % 64);
    return bits;
}

void matcher_big_mod(struct matcher_big *value, const struct matcher_big *modulus)
{
    uint32_t modulus_bits = matcher_big_bits(modulus);
    if (modulus_bits <= 64) {
        uint64_t remainder = matcher_big_div(value, modulus->word[0]);
        *value = (struct matcher_big){{remainder}};
        return;
    }
    /* Each turn takes some 31 bits off, by a quotient that is never too large: the value's first 64 bits over the
     * modulus' first 32, rounded up. */
    uint64_t divisor = (big_bits_from(modulus, modulus_bits - 64) >> 32) + 1;
    while (matcher_big_compare(value, modulus) >= 0) {
        uint32_t bits = matcher_big_bits(value), above = bits - modulus_bits;
        uint64_t quotient = big_bits_from(value, bits - 64) / divisor;
        if (above >= 32)
            big_sub_product(value, modulus, quotient, above - 32);
        else
            big_sub_product(value, modulus, quotient >> (32 - above) != 0 ? quotient >> (32 - above) : 1, 0);
    }
}

uint64_t matcher_big_fraction(const struct matcher_big *value, const struct matcher_big *modulus)
{
    struct matcher_big rest = *value;
    uint64_t fraction = 0;
    for (int bit = 0; bit <= 64; bit++) {       /* the 65th rounds */
        matcher_big_add(&rest, &rest);
        bool fits = matcher_big_compare(&rest, modulus) >= 0;
        if (fits)
            matcher_big_sub(&rest, modulus);
        fraction = bit < 64 ? fraction << 1 | fits : fraction + fits;
    }
    return fraction;
}

void matcher_big_append_mod(struct matcher_big *value, const uint8_t *digits, size_t count,
                            const struct matcher_big *modulus)
{
    enum { DIGITS_AT_ONCE = 16 };   /* 10^16 < 2^54: value * 10^16 fits */
    for (size_t done = 0; done < count;) {
        uint64_t scale = 1, chunk = 0;
        for (size_t end = count - done < DIGITS_AT_ONCE ? count : done + DIGITS_AT_ONCE; done < end; done++) {
            scale *= 10;
            chunk = chunk * 10 + (digits[done] - '0');
        }
        matcher_big_mul_add(value, scale, chunk);
        matcher_big_mod(value, modulus);
    }
}
