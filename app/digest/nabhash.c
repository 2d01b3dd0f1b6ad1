/* /nabhash: NABHash of the body. */
#include "app/digest/method.h"
#include "app/digest/nabhash_ops.h"
#include "base/assert.h"

enum { LANE_COUNT = 4, LANE_BYTES = 16 };

METHOD_VARIANTS(nabhash, &digest_nabhash_scalar, &digest_nabhash_aesni, &digest_nabhash_vaes)

static const char *nabhash_begin(union method_job *job, const struct method_request *request)
{
    static const uint8_t initial[LANE_BYTES] = { 0x5A, 0x82, 0x79, 0x99, 0x6E, 0xD9, 0xEB, 0xA1,
                                                 0x8F, 0x1B, 0xBC, 0xDC, 0xCA, 0x62, 0xC1, 0xD6 };
    (void)request;
    job->nabhash = (struct nabhash_job){ .rest.bytes = 0 };
    for (int lane = 0; lane < LANE_COUNT; lane++)
        memcpy(job->nabhash.lanes + lane * LANE_BYTES, initial, LANE_BYTES);
    return NULL;
}

static size_t nabhash_take(union method_job *job, const uint8_t *data, size_t bytes, uint8_t *out)
{
    struct nabhash_job *hash = &job->nabhash;
    struct bytes left = { data, bytes };
    (void)out;
    ASSERT(bytes > 0);
    if (digest_method_rest_fill(&hash->rest, &left))
        ops->blocks(hash->lanes, hash->rest.block, 1);
    ops->blocks(hash->lanes, left.data, left.count / METHOD_BLOCK_BYTES);
    digest_method_rest_keep(&hash->rest, left);
    return 0;
}

static enum method_end nabhash_end(union method_job *job, struct method_result *result)
{
    struct nabhash_job *hash = &job->nabhash;
    size_t filled = hash->rest.bytes % METHOD_BLOCK_BYTES;
    if (filled > 0) {
        memset(hash->rest.block + filled, 0, METHOD_BLOCK_BYTES - filled);
        ops->blocks(hash->lanes, hash->rest.block, 1);
    }
    for (uint8_t *lane = hash->lanes; lane < hash->lanes + sizeof hash->lanes; lane += LANE_BYTES)
        store_le64(lane, load_le64(lane) ^ hash->rest.bytes);
    ops->join(hash->lanes);
    result->bytes = (size_t)(digest_method_hex_write(result->text, hash->lanes, LANE_BYTES) - result->text);
    ASSERT(result->bytes == 2 * LANE_BYTES);
    return METHOD_ENDED;
}

const struct method digest_method_nabhash = {
    .use = nabhash_use, .begin = nabhash_begin, .take = nabhash_take, .end = nabhash_end
};
