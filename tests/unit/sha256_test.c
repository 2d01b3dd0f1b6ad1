/* SHA-256 against the examples of FIPS 180-4 (NIST "SHA256.pdf" and the CAVP long message), and split anywhere. */
#include "base/sha256.h"
#include "tests/lib/test.h"

static void digest_of(uint8_t digest[SHA256_BYTES], const char *text, size_t bytes, size_t split)
{
    struct sha256 hash;
    sha256_begin(&hash);
    sha256_add(&hash, text, split);
    sha256_add(&hash, text + split, bytes - split);
    sha256_finish(&hash, digest);
}

TEST(sha256_of_known_messages_is_as_published)
{
    static const struct {
        const char *text;
        uint32_t first, last;
    } known[] = {
        { "", 0xe3b0c442, 0x7852b855 },
        { "abc", 0xba7816bf, 0xf20015ad },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 0x248d6a61, 0x19db06c1 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
        uint8_t digest[SHA256_BYTES];
        digest_of(digest, known[i].text, strlen(known[i].text), 0);
        assert_int_equal(load_be32(digest), known[i].first);
        assert_int_equal(load_be32(digest + 28), known[i].last);
    }
}

TEST(sha256_of_a_million_a_is_as_published)
{
    char text[1000];
    memset(text, 'a', sizeof text);
    struct sha256 hash;
    uint8_t digest[SHA256_BYTES];
    sha256_begin(&hash);
    for (int i = 0; i < 1000; i++)
        sha256_add(&hash, text, sizeof text);
    sha256_finish(&hash, digest);
    static const uint8_t published[SHA256_BYTES] = {
        0xcd, 0xc7, 0x6e, 0x5c, 0x99, 0x14, 0xfb, 0x92, 0x81, 0xa1, 0xc7, 0xe2, 0x84, 0xd7, 0x3e, 0x67,
        0xf1, 0x80, 0x9a, 0x48, 0xa4, 0x97, 0x20, 0x0e, 0x04, 0x6d, 0x39, 0xcc, 0xc7, 0x11, 0x2c, 0xd0,
    };
    assert_memory_equal(digest, published, sizeof published);
}

TEST(sha256_does_not_depend_on_where_the_message_is_split)
{
    char text[200];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 7);
    for (size_t bytes = 0; bytes <= sizeof text; bytes++) {
        uint8_t whole[SHA256_BYTES], parts[SHA256_BYTES];
        digest_of(whole, text, bytes, 0);
        for (size_t split = 0; split <= bytes; split += 13) {
            digest_of(parts, text, bytes, split);
            assert_memory_equal(whole, parts, sizeof whole);
        }
    }
}
