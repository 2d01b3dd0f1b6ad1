/* /sha256?rounds=N: SHA-256 of the body. With N > 1 the hexadecimal characters of one round are the input of the next
 * one (app/digest/chains.h). */
#include "app/digest/method.h"
#include "app/digest/settings.h"
#include "app/digest/sha256_ops.h"
#include "base/assert.h"
#include "base/text.h"

enum { LENGTH_AT = 56 };

METHOD_VARIANTS(sha256, &digest_sha256_scalar, &digest_sha256_shani, &digest_sha256_shani2, &digest_sha256_avx2,
                &digest_sha256_avx512)

static const char *sha256_start(union method_job *job, const struct method_request *request)
{
    struct bytes rounds = digest_method_query_value(request->query, "rounds");
    job->sha256 = (struct sha256_job){ .rounds = 1 };
    memcpy(job->sha256.state, sha256_initial, sizeof sha256_initial);
    if (rounds.data != NULL && !text_number(rounds, 1, digest_settings.rounds_max, &job->sha256.rounds))
        return "rounds= must be a number from 1 to the setting rounds.max=";
    ASSERT(job->sha256.rounds >= 1);
    return NULL;
}

static size_t sha256_take(union method_job *job, const uint8_t *data, size_t bytes, uint8_t *out)
{
    struct sha256_job *hash = &job->sha256;
    struct bytes left = { data, bytes };
    (void)out;
    ASSERT(bytes > 0);
    if (digest_method_rest_fill(&hash->rest, &left))
        ops->blocks(hash->state, hash->rest.block, 1);
    ops->blocks(hash->state, left.data, left.count / METHOD_BLOCK_BYTES);
    digest_method_rest_keep(&hash->rest, left);
    return 0;
}

/* FIPS 180-4 §5.1.1: Adds a one bit, zeros, and the length in bits as the last eight bytes of a block. */
static enum method_end sha256_end(union method_job *job, struct method_result *result)
{
    struct sha256_job *hash = &job->sha256;
    uint8_t last[2 * METHOD_BLOCK_BYTES] = { 0 }, digest[32];
    size_t filled = hash->rest.bytes % METHOD_BLOCK_BYTES, blocks = filled < LENGTH_AT ? 1 : 2;
    memcpy(last, hash->rest.block, filled);
    last[filled] = 0x80;
    store_be64(last + blocks * METHOD_BLOCK_BYTES - 8, hash->rest.bytes * 8);
    ops->blocks(hash->state, last, blocks);
    if (hash->rounds > 1)
        return METHOD_CHAIN;
    for (size_t i = 0; i < 8; i++)
        store_be32(digest + 4 * i, hash->state[i]);
    result->bytes = (size_t)(digest_method_hex_write(result->text, digest, sizeof digest) - result->text);
    ASSERT(result->bytes == 2 * sizeof digest);
    return METHOD_ENDED;
}

const struct method digest_method_sha256 = {
    .use = sha256_use, .begin = sha256_start, .take = sha256_take, .end = sha256_end
};
