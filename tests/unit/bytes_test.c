/* base/bytes.h */
#include "base/secrets.h"
#include "base/vectors.h"
#include "tests/lib/test.h"

TEST(loads_and_stores_are_in_the_stated_order)
{
    uint8_t b[9] = { 0, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08 }; /* from b + 1: unaligned on purpose */
    assert_int_equal(load_be16(b + 1), 0x0102);
    assert_int_equal(load_be32(b + 1), 0x01020304);
    assert_int_equal(load_be64(b + 1), 0x0102030405060708);
    assert_int_equal(load_le16(b + 1), 0x0201);
    assert_int_equal(load_le32(b + 1), 0x04030201);
    store_be32(b + 3, 0xa1b2c3d4);
    assert_int_equal(b[3], 0xa1);
    assert_int_equal(b[6], 0xd4);
}

/* Plays a kernel that has switched on no vector state, then the state of AVX. */
TEST(vectors_follow_the_state_that_is_given)
{
    bool had_avx2 = vectors_avx2(), had_sha = vectors_sha();
    vectors_set_state(0);
    assert_false(vectors_avx2() || vectors_avx512() || vectors_sha() || vectors_aes());
    vectors_set_state(0x7);
    assert_int_equal(vectors_avx2(), had_avx2);
    assert_int_equal(vectors_sha(), had_sha);
    assert_false(vectors_avx512());
}

TEST(secrets_are_wiped_and_nothing_else)
{
    static uint8_t memory[64] = "a correct-horse, a correct-hors, \0\0\0\0\0\0\0\0 correct-horse", held[] = "password";
    static const uint8_t expected[64] = "a \0\0\0\0\0\0\0\0\0\0\0\0\0, a correct-hors, \0\0\0\0\0\0\0\0 "
                                        "\0\0\0\0\0\0\0\0\0\0\0\0\0";
    secrets_note("correct-horse", 13);
    secrets_note("correct-horse", 13);
    secrets_note("cor", 3); /* too short */
    secrets_hold(held, sizeof held - 1);
    secrets_wipe(memory, memory + 3, memory + 14); /* one byte short of its end */
    assert_int_equal(memory[2], 'c');
    secrets_wipe(memory, memory + 3, memory + sizeof memory);
    assert_int_equal(memory[2], 0);
    secrets_wipe(memory + 3, memory + sizeof memory, memory + sizeof memory);
    assert_memory_equal(memory, expected, sizeof memory);
    assert_int_equal(held[0], 'p');
    secrets_forget();
    for (size_t i = 0; i < sizeof held; i++)
        assert_int_equal(held[i], 0);
    memcpy(memory, "correct-horse", 13);
    secrets_wipe(memory, memory + 1, memory + sizeof memory);
    assert_int_equal(memory[0], 'c'); /* forgotten */
    secrets_note("corr", 4);
    secrets_note("correct-horse", 13);
    secrets_note("correct", 7);
    secrets_wipe(memory, memory + 1, memory + sizeof memory);
    assert_memory_equal(memory, expected + 2, 13); /* the longest of those that begin there */
    secrets_forget();
}

/* Copies every length on both ways; ASan sees a byte read beyond `from`. */
TEST(copies_copy_all_and_no_more)
{
    enum { BYTES_MAX = 700 };
    static uint8_t to[BYTES_MAX + 2];
    for (size_t bytes = 0; bytes <= BYTES_MAX; bytes++) {
        uint8_t *from = malloc(bytes > 0 ? bytes : 1);
        assert_non_null(from);
        for (size_t i = 0; i < bytes; i++)
            from[i] = (uint8_t)(1 + i % 251);
        memset(to, 0, sizeof to);
        copy_here(to + 1, from, bytes);
        assert_int_equal(to[0], 0);
        assert_memory_equal(to + 1, from, bytes);
        assert_int_equal(to[1 + bytes], 0);
        free(from);
    }
}
