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

void matcher_big_mul_add_mod(struct matcher_big *value, uint32_t factor, uint32_t addend,
                             const struct matcher_big *modulus)
{
    ASSERT(factor <= 10);
    ASSERT(addend <= 10);
    matcher_big_mul_add(value, factor, addend);
    /* value < 10 * modulus + 10: at most 9 subtractions, or 20 where the modulus is 1. */
    while (matcher_big_compare(value, modulus) >= 0)
        matcher_big_sub(value, modulus);
}
