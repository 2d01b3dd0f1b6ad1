/* app/digest/: the methods by published values, and every variant that this CPU can run against its scalar twin. */
#include "app/digest/base64_ops.h"
#include "app/digest/chains.h"
#include "app/digest/mercha_ops.h"
#include "app/digest/nabhash_ops.h"
#include "app/digest/settings.h"
#include "app/digest/variants.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"

enum { BODY_BYTES_MAX = 3 * MERCHA_GROUP_BYTES };
static uint8_t body[BODY_BYTES_MAX];

BEFORE_EACH()
{
    digest_settings.rounds_max = 1000000;
    digest_variants_choose(false, 2000000);
    digest_chains_clear(NULL);
    random_fill(body, sizeof body);
}

/* Returns a method's result, with the body cut into random pieces. */
static const char *result_of(const struct method *method, const char *query, const uint8_t *data, size_t bytes)
{
    static char text[METHOD_OUT_BYTES(BODY_BYTES_MAX) + METHOD_RESULT_BYTES_MAX + 1];
    static union method_job job;
    struct method_result result = { .bytes = 0 };
    const struct method_request request = { .query = text_of(query) };
    random_fill(&job, sizeof job); /* another request's */
    const char *reason = method->begin(&job, &request);
    size_t used = 0;
    if (reason != NULL)
        return reason;
    for (size_t at = 0; at < bytes;) {
        size_t part = min_size(bytes - at, 1 + random_below(random_below(4) ? 100 : 5000));
        uint8_t *exact = malloc(part);
        memcpy(exact, data + at, part);
        used += method->take(&job, exact, part, (uint8_t *)text + used);
        free(exact);
        at += part;
    }
    if (method->end(&job, &result) == METHOD_REFUSED)
        return result.refusal;
    memcpy(text + used, result.text, result.bytes);
    text[used + result.bytes] = '\0';
    return text;
}

TEST(nabhash_has_the_published_values)
{
    static const struct {
        const char *input;
        size_t bytes;
        const char *hash;
    } rows[] = {
        { "\x00", 1, "741892770d81d644519a99a6bdfe072a" },
        { "\xde\xad\xbe\xef", 4, "9041d0d440fe93f69515b771619aa54c" },
        { "Meng Zhuo is the author of NABHash", 34, "be7b4ad42ddd356e7abd8755902961dd" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
        assert_string_equal(result_of(&digest_method_nabhash, "", (const uint8_t *)rows[i].input, rows[i].bytes),
                            rows[i].hash);
}

TEST(mercha_has_the_published_values)
{
    static const char query[] = "key=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f&nonce="
                                "000102030405060708090A0B";
    static const char lines[] =
        "af94b4fb51892c43b1d92ed9276533b2b220de3ed95ff3227a7956ca2d697d1385db099afd2041e287f660ab507b71c1"
        "60c30a7fb5e494143bffd4861892e584\n"
        "d54b26737ae056b6b0502be8b5b332779a90e77c05f6dcd94f0de78a1203ebf4d1f06f3406a2f861f55ca953b06d4520"
        "1e89b338c949fad9ee0e6fe868537c1e";
    uint32_t x = 1;
    for (size_t i = 0; i < 1024; i++) {
        x = (1103515245 * x + 12345) & 0x7fffffff;
        body[i] = (uint8_t)(x % 255);
    }
    assert_string_equal(result_of(&digest_method_mercha, query, body, 1024), lines);
    for (size_t bytes = 0; bytes < 512; bytes += 32)
        if (bytes != 128 && bytes != 256)
            assert_non_null(strstr(result_of(&digest_method_mercha, query, body, bytes), "64 * 2^k"));
}

/* Computes the root over blocks of the body by the definition, from the leaves up. */
static void tree_of(const struct mercha_job *job, uint32_t first, uint32_t blocks, uint32_t node[16])
{
    uint32_t right[16];
    if (blocks == 1) {
        digest_mercha_block(job, first, body + METHOD_BLOCK_BYTES * first, node);
        return;
    }
    tree_of(job, first, blocks / 2, node);
    tree_of(job, first + blocks / 2, blocks / 2, right);
    digest_mercha_join(node, right, node);
}

/* Plays the lengths below, at and above one group of blocks, whose tree a variant computes at once. */
TEST(mercha_has_root_and_left_child_at_each_length)
{
    static const char query[] = "key=0000000000000000000000000000000000000000000000000000000000000000&nonce="
                                "000000000000000000000000";
    static const struct mercha_job zero;
    for (uint32_t blocks = 2; blocks <= 2 * MERCHA_GROUP_BLOCKS; blocks *= 2) {
        char lines[METHOD_RESULT_BYTES_MAX + 1] = "";
        uint32_t root[16], left[16];
        tree_of(&zero, 0, blocks, root);
        tree_of(&zero, 0, blocks / 2, left);
        uint8_t *end = digest_method_hex_write((uint8_t *)lines, root, sizeof root);
        *end++ = '\n';
        digest_method_hex_write(end, left, sizeof left);
        assert_string_equal(result_of(&digest_method_mercha, query, body, (size_t)METHOD_BLOCK_BYTES * blocks), lines);
    }
}

/* Takes the parts from the last to the first one. */
TEST(mercha_of_parts_in_any_order_is_that_of_the_whole)
{
    enum { PARTS = 3 };
    static const char query[] = "key=0000000000000000000000000000000000000000000000000000000000000000&nonce="
                                "000000000000000000000001";
    static uint8_t four[(1 + PARTS) * MERCHA_GROUP_BYTES];
    static union method_job job, whole;
    static const size_t at[PARTS + 1] = { 0, 1, 3, 4 }; /* in groups */
    const struct method_request request = { .query = text_of(query) };
    const struct method *mercha = &digest_method_mercha;
    struct method_part parts[PARTS];
    struct method_result result, expected;
    random_fill(four, sizeof four);
    assert_null(mercha->begin(&job, &request));
    assert_null(mercha->begin(&whole, &request));
    for (size_t i = PARTS; i-- > 0;)
        mercha->part_take(&job, at[i] * MERCHA_GROUP_BYTES, four + at[i] * MERCHA_GROUP_BYTES,
                          (at[i + 1] - at[i]) * MERCHA_GROUP_BYTES, &parts[i]);
    for (size_t i = 0; i < PARTS; i++)
        mercha->part_join(&job, &parts[i]);
    mercha->take(&whole, four, sizeof four, NULL);
    assert_int_equal(mercha->end(&job, &result), METHOD_ENDED);
    assert_int_equal(mercha->end(&whole, &expected), METHOD_ENDED);
    assert_int_equal(result.bytes, expected.bytes);
    assert_memory_equal(result.text, expected.text, result.bytes);
}

TEST(mercha_refuses_bad_keys)
{
    assert_non_null(strstr(result_of(&digest_method_mercha, "", body, 128), "key= must be"));
    assert_non_null(strstr(result_of(&digest_method_mercha, "key=00&nonce=00", body, 128), "key= must be"));
    assert_non_null(
        strstr(result_of(&digest_method_mercha,
                         "nonce=0&key=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", body, 128),
               "nonce= must be"));
    assert_non_null(strstr(result_of(&digest_method_mercha,
                                     "key=x00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", body, 128),
                           "key= must be"));
}

TEST(mercha_of_many_groups_is_that_of_the_scalar_steps)
{
    static const char query[] = "key=e95d23c24b2674d7547b81cabdd108ce6bf0230ecbb8460f5a7b94b0fc1f74c4&nonce="
                                "218772b801af290067947a6c";
    char all[METHOD_RESULT_BYTES_MAX + 1], scalar[METHOD_RESULT_BYTES_MAX + 1];
    strcpy(all, result_of(&digest_method_mercha, query, body, 2 * MERCHA_GROUP_BYTES));
    digest_variants_choose(true, 2000000);
    strcpy(scalar, result_of(&digest_method_mercha, query, body, 2 * MERCHA_GROUP_BYTES));
    assert_string_equal(all, scalar);
}

TEST(sha256_is_that_of_base)
{
    for (size_t bytes = 0; bytes < 300; bytes++) {
        struct sha256 hash;
        uint8_t digest[SHA256_BYTES];
        char hex[2 * SHA256_BYTES + 1] = "";
        sha256_begin(&hash);
        sha256_add(&hash, body, bytes);
        sha256_finish(&hash, digest);
        digest_method_hex_write((uint8_t *)hex, digest, sizeof digest);
        assert_string_equal(result_of(&digest_method_sha256, "", body, bytes), hex);
    }
}

TEST(rounds_beyond_the_setting_are_refused)
{
    static const char *const queries[] = { "rounds=0",       "rounds=1000001", "rounds=",
                                           "rounds=1x",      "rounds=-1",      "rounds=99999999999999999999",
                                           "rounds&rounds=0" };
    for (size_t i = 0; i < ARRAY_COUNT(queries); i++)
        assert_non_null(strstr(result_of(&digest_method_sha256, queries[i], body, 3), "rounds= must be"));
    assert_non_null(strstr(result_of(&digest_method_sha256, "x=3&y&rounds=1", (const uint8_t *)"abc", 3), "ba7816bf"));
}

TEST(base64_has_the_values_of_its_rfc)
{
    /* RFC 4648 §10. */
    static const char *const rows[] = { "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy" };
    for (size_t bytes = 0; bytes < ARRAY_COUNT(rows); bytes++)
        assert_string_equal(result_of(&digest_method_base64, "", (const uint8_t *)"foobar", bytes), rows[bytes]);
}

/* ---- Variants ---- */

TEST(the_schedule_of_the_second_block_is_right)
{
    uint32_t w[64] = { 0x80000000, [15] = 512 };
    for (int t = 16; t < 64; t++) {
        uint32_t a = w[t - 15], b = w[t - 2];
        w[t] = w[t - 16] + w[t - 7] + ((a >> 7 | a << 25) ^ (a >> 18 | a << 14) ^ a >> 3)
               + ((b >> 17 | b << 15) ^ (b >> 19 | b << 13) ^ b >> 10);
    }
    for (int t = 0; t < 64; t++)
        assert_int_equal(digest_sha256_second_wk[t], w[t] + sha256_k[t]);
}

/* Plays rounds by base/sha256.h. */
static void rounds_played(uint32_t digest[8], uint32_t rounds)
{
    for (; rounds > 0; rounds--) {
        uint8_t bytes[32], hex[64];
        struct sha256 hash;
        for (size_t i = 0; i < 8; i++)
            store_be32(bytes + 4 * i, digest[i]);
        digest_method_hex_write(hex, bytes, sizeof bytes);
        sha256_begin(&hash);
        sha256_add(&hash, hex, sizeof hex);
        sha256_finish(&hash, bytes);
        for (size_t i = 0; i < 8; i++)
            digest[i] = load_be32(bytes + 4 * i);
    }
}

TEST(variants_of_sha256_equal_the_scalar_one)
{
    for (size_t v = 0; digest_sha256_all[v] != NULL; v++) {
        const struct sha256_ops *ops = digest_sha256_all[v];
        uint32_t expected[SHA256_LANES_MAX][8], got[SHA256_LANES_MAX][8], *lanes[SHA256_LANES_MAX];
        if (!digest_variants_usable(ops->name))
            continue;
        for (uint32_t run = 1; run < 8; run++) {
            random_fill(got, sizeof got);
            memcpy(expected, got, sizeof got);
            for (size_t i = 0; i < SHA256_LANES_MAX; i++) {
                lanes[i] = got[i];
                if (i < ops->lanes)
                    rounds_played(expected[i], run);
            }
            ops->rounds(lanes, run);
            assert_memory_equal(got, expected, sizeof got);
            digest_sha256_scalar.blocks(expected[0], body + run, run);
            ops->blocks(got[0], body + run, run);
            assert_memory_equal(got, expected, sizeof got);
        }
    }
}

TEST(variants_of_nabhash_equal_the_scalar_one)
{
    for (size_t v = 0; digest_nabhash_all[v] != NULL; v++) {
        if (!digest_variants_usable(digest_nabhash_all[v]->name))
            continue;
        for (size_t blocks = 0; blocks < 20; blocks++) {
            uint8_t expected[64], got[64];
            random_fill(got, sizeof got);
            memcpy(expected, got, sizeof got);
            digest_nabhash_scalar.blocks(expected, body + blocks, blocks);
            digest_nabhash_scalar.join(expected);
            digest_nabhash_all[v]->blocks(got, body + blocks, blocks);
            digest_nabhash_all[v]->join(got);
            assert_memory_equal(got, expected, 16);
        }
    }
}

TEST(variants_of_mercha_equal_the_scalar_one)
{
    struct mercha_job job;
    for (size_t v = 0; digest_mercha_all[v] != NULL; v++) {
        if (!digest_variants_usable(digest_mercha_all[v]->name))
            continue;
        for (uint32_t run = 0; run < 4; run++) {
            uint32_t expected[2][16], got[2][16]; /* the root and its left child */
            random_fill(&job, sizeof job);
            digest_mercha_scalar.group(&job, run * MERCHA_GROUP_BLOCKS, body + run, expected[0], expected[1]);
            digest_mercha_all[v]->group(&job, run * MERCHA_GROUP_BLOCKS, body + run, got[0], got[1]);
            assert_memory_equal(got, expected, sizeof got);
        }
    }
}

TEST(variants_of_base64_equal_the_scalar_one)
{
    for (size_t v = 0; digest_base64_all[v] != NULL; v++) {
        if (!digest_variants_usable(digest_base64_all[v]->name))
            continue;
        for (size_t triples = 0; triples < 200; triples++) {
            uint8_t *exact = malloc(triples * 3 + 1), *expected = malloc(triples * 4 + 1),
                    *got = malloc(triples * 4 + 1);
            random_fill(exact, triples * 3);
            digest_base64_scalar.encode(expected, exact, triples);
            digest_base64_all[v]->encode(got, exact, triples);
            assert_memory_equal(got, expected, triples * 4);
            free(exact), free(expected), free(got);
        }
    }
}

/* ---- Chains ---- */

TEST(every_other_slice_is_of_the_shortest_chains_and_all_end_right)
{
    enum { COUNT = 40 };
    static struct chain chains[COUNT];
    static uint32_t expected[COUNT][8];
    uint64_t ended_rounds = 0, slice = 0;
    digest_chains_clear(NULL);
    for (size_t i = 0; i < COUNT; i++) {
        random_fill(chains[i].digest, sizeof chains[i].digest);
        memcpy(expected[i], chains[i].digest, sizeof expected[i]);
        chains[i].rounds_left = 1 + random_below(500);
        rounds_played(expected[i], (uint32_t)chains[i].rounds_left);
        digest_chains_add(&chains[i]);
    }
    while (digest_chains_count() > 0) {
        uint64_t least = UINT64_MAX;
        for (size_t i = 0; i < COUNT; i++)
            if (chains[i].rounds_left > 0 && chains[i].rounds_left < least)
                least = chains[i].rounds_left;
        const bool is_of_shortest = slice++ % 2 == 0;
        uint64_t rounds = digest_chains_work();
        assert_true(rounds > 0);
        for (size_t i = 0; is_of_shortest && i < COUNT; i++)
            assert_true(chains[i].rounds_left == 0 || chains[i].rounds_left + rounds >= least);
        ended_rounds += rounds;
    }
    for (size_t i = 0; i < COUNT; i++)
        assert_memory_equal(chains[i].digest, expected[i], sizeof expected[i]);
    assert_true(ended_rounds > COUNT);
    assert_int_equal(digest_chains_work(), 0);
}

/* Adds a short chain for each that ends. A long one ends nevertheless, in twice the time that it takes alone. */
TEST(a_long_chain_ends_among_short_ones)
{
    enum { SHORT_COUNT = 40, SHORT_SLICES = 10, LONG_SLICES = 50 };
    static struct chain shorts[SHORT_COUNT], long_one;
    const uint64_t slice_rounds = digest_variants.chain_rounds[SHA256_LANES_MAX];
    digest_chains_clear(NULL);
    long_one.rounds_left = LONG_SLICES * slice_rounds;
    digest_chains_add(&long_one);
    for (int slices = 0; long_one.rounds_left > 0; slices++) {
        assert_true(slices < 2 * LONG_SLICES);
        for (size_t i = 0; i < SHORT_COUNT; i++) {
            if (shorts[i].rounds_left > 0)
                continue;
            shorts[i].rounds_left = SHORT_SLICES * slice_rounds;
            digest_chains_add(&shorts[i]);
        }
        digest_chains_work();
    }
    digest_chains_clear(NULL);
}
