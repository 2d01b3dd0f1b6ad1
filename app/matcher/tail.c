#include "app/matcher/tail.h"

#include "base/assert.h"
#include "base/bytes.h"

#define INLINED static inline __attribute__((always_inline))

static const uint32_t word_factors[TAIL_PRIMES] = { 60, 26 };
static const uint64_t fifth = UINT64_C(0xcccccccccccccccd); /* 1/5 modulo 2^64 */

void tails_provide(struct tails *t, uint32_t prime, uint32_t factors)
{
    ASSERT(prime < TAIL_PRIMES);
    const uint32_t words = (factors + word_factors[prime] - 1) / word_factors[prime];
    ASSERT(words <= TAIL_WORDS_MAX);
    if (words <= t->words[prime])
        return;
    t->words[prime] = words;
    t->first = t->next = 0;
    memset(t->pair, 0, sizeof t->pair); /* their factors were counted up to fewer words */
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

/* Appends up to 18 digits at once to a number in words to the base 2^60. */
static void number_append_many(uint64_t *number, uint32_t words, const uint8_t *digits, uint32_t count)
{
    uint64_t value = 0, power = 1;
    for (uint32_t i = 0; i < count; i++) {
        value = value * 10 + (uint64_t)(digits[i] - '0');
        power *= 10;
    }
    for (uint32_t w = 0; w < words; w++) {
        const unsigned __int128 product = (unsigned __int128)number[w] * power + value;
        value = (uint64_t)(product >> 60);
        number[w] = (uint64_t)product & (BIT(60) - 1);
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
    t->fifths = 1;
    *tails_at(t, place) = (struct tail_place){ .zeros = 0 };
    for (uint32_t p = 0; p < TAIL_PRIMES; p++)
        tails_at(t, place)->factors[p] = (uint16_t)(t->words[p] * word_factors[p]);
}

/* Returns the unit of a place, without its power of 5. */
static uint64_t number_unit(const uint64_t *number, uint32_t words, uint32_t factors)
{
    const uint32_t w = factors / TAIL_UNIT_BITS, bit = factors % TAIL_UNIT_BITS;
    const uint64_t low = w < words ? number[w] >> bit : 0;
    return w + 1 < words ? low | number[w + 1] << (TAIL_UNIT_BITS - bit) : low;
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
        struct tail_place *place = tails_at(t, t->next + i + 1);
        place->factors[prime] = (uint16_t)factors;
        if (prime == 0)
            place->unit = number_unit(t->number[0], words, factors) * (t->fifths *= fifth);
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

/* Counts the factors of a substring that does not end in 0. */
INLINED uint32_t count_factors(const struct tails *t, uint32_t prime, const uint8_t *digits, uint32_t count)
{
    enum { MANY = 18 };
    const uint32_t words = t->words[prime];
    uint64_t number[TAIL_WORDS_MAX] = { 0 };
    for (uint32_t i = 0, part; i < count; i += part) {
        part = prime == 0 ? min_u32(count - i, MANY) : 1;
        if (prime == 0)
            number_append_many(number, words, digits + i, part);
        else
            number_append(number, words, prime, (uint64_t)(digits[i] - '0'));
    }
    return number_factors(number, words, prime);
}

/* Returns the factors of a substring, counted or remembered. */
INLINED uint32_t pair_factors(struct tails *t, uint32_t prime, const uint8_t *digits, uint32_t count, uint64_t end,
                              uint64_t *work)
{
    const uint32_t zeros = tails_at(t, end)->zeros;
    ASSERT(zeros < count);
    count -= zeros;
    end -= zeros;
    *work += TAIL_PAIRS / 2 / WORK_COUNTED;
    for (uint32_t k = 0; k < TAIL_PAIRS; k++)
        if (t->pair[k].end == end && t->pair[k].count == count && t->pair[k].prime == prime)
            return t->pair[k].factors + zeros;
    *work += (prime == 0 ? count / 4 : count) * t->words[prime] / WORK_COUNTED;
    const uint32_t factors = count_factors(t, prime, digits, count), k = t->pair_next++ % TAIL_PAIRS;
    t->pair[k].end = end;
    t->pair[k].count = (uint16_t)count;
    t->pair[k].prime = (uint16_t)prime;
    t->pair[k].factors = (uint16_t)factors;
    return factors + zeros;
}

/* Returns the factors of a substring between two places on one level, or at least `enough`. */
INLINED uint32_t level_factors(struct tails *t, uint32_t prime, uint32_t enough, const uint8_t *digits, uint32_t count,
                               uint64_t end, uint64_t *work)
{
    if (prime == 0) {
        const struct tail_place *place = tails_at(t, end);
        const uint64_t difference = place->unit - tails_at(t, end - count)->unit;
        const uint32_t further = (uint32_t)__builtin_ctzll(difference | BIT(TAIL_UNIT_BITS));
        if (further < TAIL_UNIT_BITS || place->factors[0] + further >= enough)
            return place->factors[0] + further;
    }
    return pair_factors(t, prime, digits, count, end, work);
}

uint32_t tails_missing(struct tails *t, const uint32_t exponents[TAIL_PRIMES], const uint8_t *digits, uint32_t count,
                       uint64_t end, uint64_t *work)
{
    ASSERT(end <= t->next && end - count >= t->first && digits[0] != '0');
    uint32_t missing = 0;
#pragma GCC unroll 2
    for (uint32_t p = 0; p < TAIL_PRIMES; p++) {
        const uint32_t of_end = tails_at(t, end)->factors[p], of_start = tails_at(t, end - count)->factors[p] + count;
        uint32_t factors = min_u32(of_end, of_start);
        if (of_end == of_start && of_end < exponents[p])
            factors = level_factors(t, p, exponents[p], digits, count, end, work);
        if (factors < exponents[p])
            missing = max_u32(missing, exponents[p] - factors);
    }
    return missing;
}
