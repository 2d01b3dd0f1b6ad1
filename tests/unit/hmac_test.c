/* base/hmac.c against RFC 4231's vectors. */
#include "base/hmac.h"
#include "tests/lib/test.h"

static const char *hex(const uint8_t *bytes)
{
    static char out[2 * SHA256_BYTES + 1];
    for (size_t i = 0; i < SHA256_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return out;
}

/* RFC 4231 §4.2-4.8. */
TEST(hmac_gives_the_vectors_of_rfc_4231)
{
    static uint8_t aa[131], ascending[25], dd[50], cd[50], b0[20], c0[20];
    memset(aa, 0xaa, sizeof aa);
    memset(dd, 0xdd, sizeof dd);
    memset(cd, 0xcd, sizeof cd);
    memset(b0, 0x0b, sizeof b0);
    memset(c0, 0x0c, sizeof c0);
    for (size_t i = 0; i < sizeof ascending; i++)
        ascending[i] = (uint8_t)(i + 1);
    static const char larger_key[] = "Test Using Larger Than Block-Size Key - Hash Key First";
    static const char larger_both[] =
        "This is a test using a larger than block-size key and a larger than block-size data. "
        "The key needs to be hashed before being used by the HMAC algorithm.";
    const struct {
        const void *key;
        size_t key_bytes;
        const void *data;
        size_t bytes, compared;
        const char *expected;
    } vectors[] = {
        { b0, 20, "Hi There", 8, 64, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
        { "Jefe", 4, "what do ya want for nothing?", 28, 64,
          "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
        { aa, 20, dd, 50, 64, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe" },
        { ascending, 25, cd, 50, 64, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b" },
        { c0, 20, "Test With Truncation", 20, 32, "a3b6167473100ee06e0c796c2955552b" },
        { aa, 131, larger_key, 54, 64, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
        { aa, 131, larger_both, 152, 64, "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2" },
    };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        struct hmac_key key;
        uint8_t mac[SHA256_BYTES];
        hmac_key_set(&key, vectors[i].key, vectors[i].key_bytes);
        hmac(&key, vectors[i].data, vectors[i].bytes, mac);
        assert_memory_equal(hex(mac), vectors[i].expected, vectors[i].compared);
    }
}

TEST(comparison_sees_every_bit)
{
    uint8_t a[32] = { 0 }, b[32] = { 0 };
    assert_true(bytes_equal_constant_time(a, b, 32));
    for (size_t bit = 0; bit < 256; bit++) {
        b[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(bytes_equal_constant_time(a, b, 32));
        b[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}
