/* The hash of prefix residues where keys of equal residues lie on either side of a cell's edge. */
#include "app/matcher/hash.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"

enum { N = 64, DIGITS = 2000 };

static struct matcher_hash hash;
static struct matcher_modulus modulus;
static uint8_t text[DIGITS];
static uint64_t work;

/* Returns how many of the last N starts before an end have an equal key, by comparing all. */
static uint32_t count_equal(uint32_t end)
{
    uint32_t count = 0;
    for (uint32_t start = end > N ? end - N : 0; start < end; start++)
        count += text[start] != '0' && hash.key[end] - hash.key[start] <= modulus.tolerance;
    return count;
}

static uint32_t count_walked(uint32_t end)
{
    struct hash_walk walk = hash_walk_begin(&hash, end);
    uint32_t count = 0;
    for (uint32_t length, last = 0; (length = hash_walk_next(&hash, &walk, modulus.tolerance, N, &work)) != 0;
         count++) {
        assert_in_range(length, 1, N);
        assert_int_not_equal(text[end - length], '0');
        assert_int_not_equal(length, last);
        last = length;
    }
    return count;
}

/* Checks keys at a cell's edge. The first digit raises the key to just below an edge. Each other digit adds the
 * rounding error 1, or goes to another edge. Some digits go there and back to a little below. Then the cell below an
 * edge gets starts that are newer than the end. */
TEST(hash_finds_equal_residues_across_an_edge)
{
    uint32_t crossed = 0;
    for (unsigned seed = 1; seed <= 200; seed++) {
        random_state = seed;
        modulus.tolerance = 9 * N;
        for (uint32_t i = 0; i < DIGITS; i++) {
            text[i] = (uint8_t)('0' + random_below(10));
            modulus.key_weights[i] = random_below(97) == 0 ? UINT64_C(1) << 51 : 1;
            if (seed % 2 == 0 && i % 20 >= 18) {
                text[i] = '1';
                modulus.key_weights[i] = i % 20 == 18 ? UINT64_C(1) << 51 : 0 - (UINT64_C(1) << 51) - 9;
            }
        }
        text[0] = '1';
        modulus.key_weights[0] = (UINT64_C(1) << 50) - random_below(3000);
        hash_restart(&hash, 0);
        for (uint32_t at = 0; at < DIGITS; at += 50) {
            const uint64_t found = hash_take(&hash, &modulus, text + at, 50, N);
            for (uint32_t end = at + 1; end <= at + 50; end++) {
                const uint32_t equal = count_equal(end);
                assert_int_equal(count_walked(end), equal);
                assert_true(equal == 0 || (found >> (end - at - 1) & 1) != 0);
            }
        }
        for (uint32_t i = 1; i <= DIGITS; i++)
            crossed += (hash.key[i] ^ (hash.key[i] - modulus.tolerance)) >> 51 != 0;
        hash_check(&hash);
    }
    assert_true(crossed > 1000);
}

TEST(restart_clears_the_hash)
{
    memset(&modulus, 0, sizeof modulus);
    modulus.tolerance = 9 * N;
    memset(text, '1', DIGITS);
    for (int i = 0; i < 100; i++) { /* places wrap in between */
        hash_restart(&hash, 0);
        assert_int_equal(hash_take(&hash, &modulus, text, 2, N), 3);
        assert_int_equal(count_walked(1), 1);
        assert_int_equal(count_walked(2), 2);
        for (uint32_t at = 2; at + 50 <= DIGITS; at += 50)
            hash_take(&hash, &modulus, text + at, 50, N);
        assert_int_equal(count_walked(1902), N);
        hash_check(&hash);
    }
}
