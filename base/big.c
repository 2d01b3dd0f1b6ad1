#include "base/big.h"

#include <immintrin.h>

#include "base/assert.h"

void big_mul_add(struct big *value, uint64_t factor, uint64_t addend)
{
    unsigned __int128 carry = addend;
    for (size_t i = 0; i < BIG_WORDS; i++) {
        carry += (unsigned __int128)value->word[i] * factor;
        value->word[i] = (uint64_t)carry;
        carry >>= 64;
    }
    ASSERT(carry == 0);
}

uint64_t big_div(struct big *value, uint64_t divisor)
{
    ASSERT(divisor != 0);
    uint64_t remainder = 0;
    for (size_t i = BIG_WORDS; i-- > 0;) {
        /* remainder < divisor, so the quotient of each step fits one word: SDM vol. 2, DIV. */
        __asm__("divq %4"
                : "=a"(value->word[i]), "=d"(remainder)
                : "a"(value->word[i]), "d"(remainder), "r"(divisor)
                : "cc");
    }
    return remainder;
}

int big_compare(const struct big *a, const struct big *b)
{
    for (size_t i = BIG_WORDS; i-- > 0;)
        if (a->word[i] != b->word[i])
            return a->word[i] < b->word[i] ? -1 : 1;
    return 0;
}

void big_add(struct big *a, const struct big *b)
{
    unsigned char carry = 0;
    for (size_t i = 0; i < BIG_WORDS; i++)
        carry = _addcarry_u64(carry, a->word[i], b->word[i], (unsigned long long *)&a->word[i]);
    ASSERT(carry == 0);
}

void big_sub(struct big *a, const struct big *b)
{
    unsigned char borrow = 0;
    for (size_t i = 0; i < BIG_WORDS; i++)
        borrow = _subborrow_u64(borrow, a->word[i], b->word[i], (unsigned long long *)&a->word[i]);
    ASSERT(borrow == 0);
}

bool big_is_zero(const struct big *value)
{
    uint64_t any = 0;
    for (size_t i = 0; i < BIG_WORDS; i++)
        any |= value->word[i];
    return any == 0;
}

uint32_t big_bits(const struct big *value)
{
    for (size_t i = BIG_WORDS; i-- > 0;)
        if (value->word[i] != 0)
            return (uint32_t)(64 * i + 64 - (size_t)__builtin_clzll(value->word[i]));
    return 0;
}

/* Computes value -= (subtrahend * factor) << shift. */
static void big_sub_product(struct big *value, const struct big *subtrahend, uint64_t factor, uint32_t shift)
{
    struct big product = *subtrahend;
    big_mul_add(&product, factor, 0);
    for (; shift > 0; shift -= shift < 63 ? shift : 63)
        big_mul_add(&product, UINT64_C(1) << (shift < 63 ? shift : 63), 0);
    big_sub(value, &product);
}

/* Returns the 64 bits from bit `low` on. */
static uint64_t big_bits_from(const struct big *value, uint32_t low)
{
    uint64_t bits = value->word[low / 64] >> low % 64;
    if (low % 64 != 0 && low / 64 + 1 < BIG_WORDS)
        bits |= value->word[low / 64 + 1] << (64 - low % 64);
    return bits;
}

void big_mod(struct big *value, const struct big *modulus)
{
    uint32_t modulus_bits = big_bits(modulus);
    if (modulus_bits <= 64) {
        uint64_t remainder = big_div(value, modulus->word[0]);
        *value = (struct big){ { remainder } };
        return;
    }
    /* Each turn takes some 31 bits off the value. The quotient is the value's first 64 bits over the modulus' first 32
     * bits, rounded up: never too large. */
    uint64_t divisor = (big_bits_from(modulus, modulus_bits - 64) >> 32) + 1;
    while (big_compare(value, modulus) >= 0) {
        uint32_t bits = big_bits(value), above = bits - modulus_bits;
        uint64_t quotient = big_bits_from(value, bits - 64) / divisor;
        if (above >= 32)
            big_sub_product(value, modulus, quotient, above - 32);
        else
            big_sub_product(value, modulus, quotient >> (32 - above) != 0 ? quotient >> (32 - above) : 1, 0);
    }
}

uint64_t big_fraction(const struct big *value, const struct big *modulus)
{
    const uint32_t bits = big_bits(modulus), words = (bits + 63) / 64;
    ASSERT(big_compare(value, modulus) < 0);
    ASSERT(words < BIG_WORDS); /* the value's words move up by one */
    struct big v = *value, m = *modulus;
    big_mul_add(&v, UINT64_C(1) << (64 * words - bits), 0);
    big_mul_add(&m, UINT64_C(1) << (64 * words - bits), 0);
    /* The first two words by the first: at most 2 too large, as the modulus' top bit is set. Knuth, TAOCP 4.3.1 D. */
    const uint64_t divisor = m.word[words - 1], high = v.word[words - 1], low = words > 1 ? v.word[words - 2] : 0;
    uint64_t quotient = UINT64_MAX, rest;
    ASSERT(high <= divisor);
    if (high < divisor)
        __asm__("divq %4" : "=a"(quotient), "=d"(rest) : "a"(low), "d"(high), "r"(divisor) : "cc");
    for (uint32_t i = words; i > 0; i--)
        v.word[i] = v.word[i - 1];
    v.word[0] = 0;
    struct big product = m;
    big_mul_add(&product, quotient, 0);
    for (; big_compare(&product, &v) > 0; quotient--)
        big_sub(&product, &m);
    return quotient;
}

void big_append_mod(struct big *value, const uint8_t *digits, size_t count, const struct big *modulus)
{
    enum { DIGITS_AT_ONCE = 16 }; /* 10^16 < 2^54: value * 10^16 fits */
    for (size_t done = 0; done < count;) {
        uint64_t scale = 1, chunk = 0;
        for (size_t end = count - done < DIGITS_AT_ONCE ? count : done + DIGITS_AT_ONCE; done < end; done++) {
            scale *= 10;
            chunk = chunk * 10 + (digits[done] - '0');
        }
        big_mul_add(value, scale, chunk);
        big_mod(value, modulus);
    }
}

uint64_t big_gcd(const struct big *value, uint64_t factor)
{
    ASSERT(factor != 0);
    struct big quotient = *value;
    uint64_t a = factor, b = big_div(&quotient, factor);
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static uint64_t last_digit(const struct big *value)
{
    struct big quotient = *value;
    return big_div(&quotient, 10);
}

void big_div_ten_mod(struct big *value, const struct big *modulus)
{
    static const uint8_t negative_inverse[10] = { [1] = 9, [3] = 3, [7] = 7, [9] = 1 }; /* modulo 10 */
    const uint64_t factor = last_digit(value) * negative_inverse[last_digit(modulus)] % 10;
    ASSERT(negative_inverse[last_digit(modulus)] != 0);
    struct big multiple = *modulus;
    big_mul_add(&multiple, factor, 0);
    big_add(value, &multiple); /* multiples of 10: keeps the residue, and the last digit is 0 */
    const uint64_t remainder = big_div(value, 10);
    ASSERT(remainder == 0);
    ASSERT(big_compare(value, modulus) < 0);
}
