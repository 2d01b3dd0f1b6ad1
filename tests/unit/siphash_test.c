/* base/siphash.h, by the vectors of the paper's reference implementation: key 00..0f, input 00..(n-1). */
#include "base/siphash.h"
#include "tests/lib/test.h"

TEST(outputs_are_the_published_ones)
{
    uint8_t bytes[64];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    struct siphash_key key = siphash_key_from(bytes);
    assert_true(siphash(key, bytes, 0) == 0x726fdb47dd0e0e31);
    assert_true(siphash(key, bytes, 1) == 0x74f839c593dc67fd);
    assert_true(siphash(key, bytes, 7) == 0xab0200f58b01d137);
    assert_true(siphash(key, bytes, 8) == 0x93f5f5799a932462);
    assert_true(siphash(key, bytes, 15) == 0xa129ca6149be45e5); /* the paper's appendix A */
    assert_true(siphash(key, bytes, 63) == 0x958a324ceb064572);
}

TEST(one_bit_of_key_or_input_changes_about_half_the_output)
{
    uint8_t input[12] = { 0 };
    struct siphash_key key = { 1, 2 };
    uint64_t plain = siphash(key, input, sizeof input);
    for (size_t bit = 0; bit < 8 * sizeof input; bit++) {
        input[bit / 8] ^= (uint8_t)(1 << bit % 8);
        int changed = __builtin_popcountll(plain ^ siphash(key, input, sizeof input));
        input[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_in_range(changed, 12, 52); /* five standard deviations of 4 around 32 */
    }
    key.k1 ^= 1;
    assert_in_range(__builtin_popcountll(plain ^ siphash(key, input, sizeof input)), 12, 52);
}
