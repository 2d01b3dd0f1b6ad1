#include "app/matcher/tail.h"

#include "base/assert.h"
#include "base/bytes.h"

#define INLINED static inline __attribute__((always_inline))

static const uint32_t word_factors[TAIL_PRIMES] = { 60, 26 };

void tails_provide(struct tails *t, uint32_t prime, uint32_t factors)
{
    const uint32_t words = (factors + word_factors[prime] - 1) / word_factors[prime];
    ASSERT(prime < TAIL_PRIMES && words <= TAIL_WORDS_MAX);
    if (words <= t->words[prime])
        return;
    t->words[prime] = words;
    t->first = t->next = 0;
}

/* Appends a digit to a number. The prime is known when this is compiled. */
INLINED void number_append(uint64_t *number, uint32_t words, uint32_t prime, uint64_t digit)
{
    const uint64_t base = prime == 0 ? UINT64_C(1) << 60 : UINT64_C(1490116119384765625); /* 5^26 */
    for (uint32_t w = 0; w < words; w++) {
        const uint64_t product = number[w] * 10 + digit;
        digit = product / base;
        number[w] = product % base;
    }
}

INLINED uint32_t number_factors(const uint64_t *number, uint32_t words, uint32_t prime)
{
    uint32_t w = 0, factors = 0;
    while (w < words && number[w] == 0)
        w++;
    if (w == words)
        return words * word_factors[prime];
    if (prime == 0)
        return w * word_factors[prime] + (uint32_t)__builtin_ctzll(number[w]);
    for (uint64_t word = number[w]; word % 5 == 0; word /= 5)
        factors++;
    return w * word_factors[prime] + factors;
}

void tails_restart(struct tails *t, uint64_t place)
{
    ASSERT(place > 0);
    t->first = t->next = place;
    memset(t->number, 0, sizeof t->number);
    *tails_at(t, place) = (struct tail_place){ .zeros = 0 };
    for (uint32_t p = 0; p < TAIL_PRIMES; p++)
        tails_at(t, place)->factors[p] = (uint16_t)(t->words[p] * word_factors[p]);
}

/* Takes digits for one prime. The factors of a number with a last digit that is not 0 are few, unless the digits before
 * were made for it: README, "Tails", bounds how often. */
INLINED void take(struct tails *t, const uint8_t *digits, uint32_t count, uint32_t prime)
{
    const uint32_t words = t->words[prime], most = words * word_factors[prime];
    uint32_t factors = tails_at(t, t->next)->factors[prime];
    for (uint32_t i = 0; words > 0 && i < count; i++) {
        const uint32_t digit = (uint32_t)(digits[i] - '0');
        number_append(t->number[prime], words, prime, digit);
        if (digit == 0)
            factors = min_u32(factors + 1, most);
        else
            factors = digit % (prime == 0 ? 2 : 5) == 0 ? number_factors(t->number[prime], words, prime) : 0;
        tails_at(t, t->next + i + 1)->factors[prime] = (uint16_t)factors;
    }
}

void tails_take(struct tails *t, const uint8_t *digits, uint32_t count)
{
    ASSERT(t->next > 0 && count < TAIL_PLACES);
    uint32_t zeros = tails_at(t, t->next)->zeros;
    for (uint32_t i = 0; i < count; i++) {
        zeros = digits[i] == '0' ? min_u32(zeros + 1, TAIL_PLACES) : 0;
        *tails_at(t, t->next + i + 1) = (struct tail_place){ .zeros = (uint16_t)zeros };
    }
    take(t, digits, count, 0);
    take(t, digits, count, 1);
    t->next += count;
}

/* Counts the factors of a substring, and remembers them with the place after its last digit that is not 0. */
INLINED uint32_t pair_factors(struct tails *t, uint32_t prime, const uint8_t *digits, uint32_t count, uint64_t end)
{
    const uint32_t zeros = tails_at(t, end)->zeros, words = t->words[prime];
    ASSERT(zeros < count);
    count -= zeros;
    struct tail_place *last = tails_at(t, end - zeros);
    if (last->pair_digits[prime] != count) {
        uint64_t number[TAIL_WORDS_MAX] = { 0 };
        for (uint32_t i = 0; i < count; i++)
            number_append(number, words, prime, (uint64_t)(digits[i] - '0'));
        last->pair_digits[prime] = (uint16_t)count;
        last->pair_factors[prime] = (uint16_t)number_factors(number, words, prime);
    }
    return last->pair_factors[prime] + zeros;
}

uint32_t tails_missing(struct tails *t, const uint32_t exponents[TAIL_PRIMES], const uint8_t *digits, uint32_t count,
                       uint64_t end)
{
    ASSERT(end <= t->next && end - count >= t->first && digits[0] != '0');
    uint32_t missing = 0;
#pragma GCC unroll 2
    for (uint32_t p = 0; p < TAIL_PRIMES; p++) {
        const uint32_t of_end = tails_at(t, end)->factors[p], of_start = tails_at(t, end - count)->factors[p] + count;
        uint32_t factors = min_u32(of_end, of_start);
        if (of_end == of_start && of_end < exponents[p])
            factors = pair_factors(t, p, digits, count, end);
        if (factors < exponents[p])
            missing = max_u32(missing, exponents[p] - factors);
    }
    return missing;
}
