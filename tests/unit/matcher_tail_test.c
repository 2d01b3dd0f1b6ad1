/* The factors 2 and 5 of substrings, against a division of each. */
#include "app/matcher/tail.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"

enum { FIRST = 5000, DIGITS = 2000, LENGTH_MAX = 36 };

static struct tails tails;
static uint64_t work;
static uint8_t text[DIGITS];
static const uint32_t all[TAIL_PRIMES] = { 200, 100 };

/* Returns how many zeros must follow before 2^a 5^b divides a substring, by dividing its value. */
static uint32_t missing_by_division(const uint8_t *digits, uint32_t count, const uint32_t exponents[TAIL_PRIMES])
{
    static const uint32_t prime[TAIL_PRIMES] = { 2, 5 };
    uint32_t missing = 0;
    unsigned __int128 value = 0;
    for (uint32_t i = 0; i < count; i++)
        value = value * 10 + (uint32_t)(digits[i] - '0');
    for (uint32_t p = 0; p < TAIL_PRIMES; p++) {
        uint32_t factors = 0;
        for (unsigned __int128 left = value; left % prime[p] == 0; left /= prime[p])
            factors++;
        if (factors < exponents[p] && exponents[p] - factors > missing)
            missing = exponents[p] - factors;
    }
    return missing;
}

static void begin(void)
{
    memset(&tails, 0, sizeof tails);
    for (uint32_t p = 0; p < TAIL_PRIMES; p++)
        tails_provide(&tails, p, all[p]);
    tails_restart(&tails, FIRST);
}

/* Takes digits with long runs of zeros, eights and fives, in pieces of different lengths. */
TEST(factors_are_those_of_a_division)
{
    uint32_t refused = 0, counted = 0;
    for (unsigned seed = 1; seed <= 40; seed++) {
        random_state = seed;
        for (uint32_t i = 0; i < DIGITS; i++)
            text[i] = (uint8_t)(random_below(4) != 0 && i > 0 ? text[i - 1] : "0000858412345679"[random_below(16)]);
        begin();
        for (uint32_t at = 0, part; at < DIGITS; at += part) {
            part = random_below(100);
            part = part < DIGITS - at ? part : DIGITS - at;
            tails_take(&tails, text + at, part);
            for (uint32_t end = at + 1; end <= at + part; end++)
                for (uint32_t length = 1; length <= LENGTH_MAX && length <= end; length++) {
                    const uint32_t exponents[TAIL_PRIMES] = { random_below(60), random_below(30) };
                    if (text[end - length] == '0')
                        continue;
                    const uint32_t missing = tails_missing(&tails, exponents, text + end - length, length, FIRST + end,
                                                           &work);
                    assert_int_equal(missing, missing_by_division(text + end - length, length, exponents));
                    *(missing > 0 ? &refused : &counted) += 1;
                }
        }
    }
    assert_true(refused > 10000 && counted > 10000);
}

/* Plays 1, then 2^92, 2^140 or 5^40, then zeros: the start after the 1 has as many factors as make up for its digits.
 * More than one word of factors is counted, and no more than the words hold. */
TEST(factors_beyond_a_word_are_counted)
{
    static const struct {
        const char *number;
        uint32_t factors[TAIL_PRIMES];
    } rows[] = {
        { "4951760157141521099596496896", { 92, 0 } },
        { "1393796574908163946345982392040522594123776", { 140, 0 } },
        { "9094947017729282379150390625", { 0, 40 } },
    };
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        const uint32_t count = (uint32_t)strlen(rows[row].number), zeros = 120;
        memset(text, '0', sizeof text);
        text[0] = '1';
        memcpy(text + 1, rows[row].number, count);
        begin();
        tails_take(&tails, text, 1 + count + zeros);
        for (uint32_t z = 0; z <= zeros; z++)
            for (uint32_t p = 0; p < TAIL_PRIMES; p++) {
                const uint32_t exponents[TAIL_PRIMES] = { p == 0 ? all[0] : 0, p == 1 ? all[1] : 0 };
                const uint32_t has = rows[row].factors[p] + z, needs = exponents[p];
                assert_int_equal(tails_missing(&tails, exponents, text + 1, count + z, FIRST + 1 + count + z, &work),
                                 has < needs ? needs - has : 0);
            }
    }
}

TEST(an_end_admits_answers_with_the_factors_that_they_need)
{
    static const uint32_t needs[TAIL_PRIMES] = { 13, 3 };
    memset(text, '0', sizeof text);
    text[0] = '8';
    begin();
    tails_take(&tails, text, 60);
    assert_false(tails_admit(tails_at(&tails, FIRST + 10), needs)); /* 2^12 */
    assert_true(tails_admit(tails_at(&tails, FIRST + 11), needs));  /* 2^13 */
    static const uint32_t more[TAIL_PRIMES] = { 3, 3 };
    assert_false(tails_admit(tails_at(&tails, FIRST + 3), more)); /* 5^2 */
    assert_true(tails_admit(tails_at(&tails, FIRST + 4), more));
}

TEST(more_factors_make_the_tails_begin_again)
{
    begin();
    tails_take(&tails, text, 10);
    tails_provide(&tails, 0, 100); /* fewer */
    assert_int_equal(tails.next, FIRST + 10);
    tails_provide(&tails, 1, 200);
    assert_int_equal(tails.next, 0);
}
