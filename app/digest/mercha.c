/* /mercha?key=HEX64&nonce=HEX24: ChaCha20 over the body, and a Merkle tree over the cipher text. */
#include "app/digest/method.h"

#include "app/digest/mercha_ops.h"
#include "base/assert.h"
#include "base/text.h"

enum { BLOCK_BYTES = 64, GROUP_LEVEL = 6 };

METHOD_VARIANTS(mercha, &digest_mercha_scalar, &digest_mercha_avx2, &digest_mercha_avx512)

#define GROUP_COUNT_MAX (UINT64_C(1) << (MERCHA_LEVEL_COUNT - 1 - GROUP_LEVEL))

static const char wrong_length[] = "the body of /mercha is 64 * 2^k bytes, k from 1 to 32";

static bool is_right_length(uint64_t bytes)
{
    uint64_t blocks = bytes / BLOCK_BYTES;
    return bytes % BLOCK_BYTES == 0 && blocks >= 2 && (blocks & (blocks - 1)) == 0 && blocks >> MERCHA_LEVEL_COUNT == 0;
}

/* Reads hexadecimal digits as words, least significant byte first. */
static bool words_read(struct bytes text, uint32_t *words, size_t count)
{
    if (text.data == NULL || text.count != 8 * count)
        return false;
    for (size_t i = 0; i < text.count; i++) {
        int digit = text_hex_digit(text.data[i]);
        if (digit < 0)
            return false;
        ASSERT(digit < 16);
        words[i / 8] |= (uint32_t)digit << (i % 8 / 2 * 8 + (i % 2 == 0 ? 4 : 0));
    }
    return true;
}

static const char *mercha_begin(union method_job *job, const struct method_request *request)
{
    struct mercha_job *tree = &job->mercha;
    tree->bytes = 0;
    memset(tree->key, 0, sizeof tree->key);
    memset(tree->nonce, 0, sizeof tree->nonce);
    if (!words_read(digest_method_query_value(request->query, "key"), tree->key, ARRAY_COUNT(tree->key)))
        return "key= must be 64 hexadecimal digits";
    if (!words_read(digest_method_query_value(request->query, "nonce"), tree->nonce, ARRAY_COUNT(tree->nonce)))
        return "nonce= must be 24 hexadecimal digits";
    return request->has_length && !is_right_length(request->length) ? wrong_length : NULL;
}

/* Adds the node number `index` of a level. Nodes come from left to right, so each right one meets its left one. */
static void node_add(struct mercha_job *tree, uint32_t level, uint64_t index, const uint32_t added[16])
{
    uint32_t node[16];
    memcpy(node, added, sizeof node);
    for (; (index & 1) != 0; level++, index >>= 1) {
        ASSERT(level + 1 < MERCHA_LEVEL_COUNT);
        digest_mercha_join(tree->nodes[level], node, node);
    }
    memcpy(tree->nodes[level], node, sizeof tree->nodes[level]);
}

/* Ciphers and joins whole groups, each for itself. */
static void mercha_part_take(const union method_job *job, uint64_t at, const uint8_t *data, size_t bytes,
                             struct method_part *part)
{
    ASSERT(at % MERCHA_GROUP_BYTES == 0 && bytes % MERCHA_GROUP_BYTES == 0 && bytes <= METHOD_RUN_BYTES_MAX);
    part->count = bytes / MERCHA_GROUP_BYTES;
    for (size_t i = 0; i < part->count; i++)
        ops->group(&job->mercha, (uint32_t)(at / BLOCK_BYTES + i * MERCHA_GROUP_BLOCKS), data + i * MERCHA_GROUP_BYTES,
                   part->nodes[i], part->left);
}

static void groups_add(struct mercha_job *tree, uint64_t first, const struct method_part *part)
{
    /* The left child is in the result if this group is the whole body. */
    memcpy(tree->nodes[GROUP_LEVEL - 1], part->left, sizeof part->left);
    for (size_t i = 0; i < part->count; i++)
        node_add(tree, GROUP_LEVEL, first + i, part->nodes[i]);
}

static void mercha_part_join(union method_job *job, const struct method_part *part)
{
    struct mercha_job *tree = &job->mercha;
    ASSERT(tree->bytes % MERCHA_GROUP_BYTES == 0);
    groups_add(tree, tree->bytes / MERCHA_GROUP_BYTES, part);
    tree->bytes += part->count * MERCHA_GROUP_BYTES;
}

static size_t mercha_take(union method_job *job, const uint8_t *data, size_t bytes, uint8_t *out)
{
    struct mercha_job *tree = &job->mercha;
    (void)out;
    while (bytes > 0) {
        size_t filled = tree->bytes % MERCHA_GROUP_BYTES, part = min_size(bytes, MERCHA_GROUP_BYTES - filled);
        if (part < MERCHA_GROUP_BYTES)
            memcpy(tree->rest + filled, data, part);
        const uint64_t group = tree->bytes / MERCHA_GROUP_BYTES;
        if (filled + part == MERCHA_GROUP_BYTES && group < GROUP_COUNT_MAX) { /* a longer body is refused at the end */
            struct method_part nodes;
            mercha_part_take(job, group * MERCHA_GROUP_BYTES, part < MERCHA_GROUP_BYTES ? tree->rest : data,
                             MERCHA_GROUP_BYTES, &nodes);
            groups_add(tree, group, &nodes);
        }
        ASSERT(part > 0 && filled + part <= MERCHA_GROUP_BYTES);
        tree->bytes += part;
        data += part;
        bytes -= part;
    }
    return 0;
}

static uint8_t *node_write(uint8_t *out, const uint32_t node[16])
{
    uint8_t bytes[BLOCK_BYTES];
    for (size_t i = 0; i < 16; i++)
        store_le32(bytes + 4 * i, node[i]);
    return digest_method_hex_write(out, bytes, sizeof bytes);
}

static enum method_end mercha_end(union method_job *job, struct method_result *result)
{
    struct mercha_job *tree = &job->mercha;
    uint64_t blocks = tree->bytes / BLOCK_BYTES;
    result->refusal = wrong_length;
    if (!is_right_length(tree->bytes))
        return METHOD_REFUSED;
    for (uint64_t i = 0; blocks < MERCHA_GROUP_BLOCKS && i < blocks; i++) {
        uint32_t node[16];
        digest_mercha_block(tree, (uint32_t)i, tree->rest + i * BLOCK_BYTES, node);
        node_add(tree, 0, i, node);
    }
    unsigned level = (unsigned)__builtin_ctzll(blocks);
    ASSERT(level >= 1 && level < MERCHA_LEVEL_COUNT);
    uint8_t *end = node_write(result->text, tree->nodes[level]);
    *end++ = '\n';
    result->bytes = (size_t)(node_write(end, tree->nodes[level - 1]) - result->text);
    return METHOD_ENDED;
}

const struct method digest_method_mercha = {
    .part_bytes = MERCHA_GROUP_BYTES,
    .use = mercha_use,
    .begin = mercha_begin,
    .take = mercha_take,
    .part_take = mercha_part_take,
    .part_join = mercha_part_join,
    .end = mercha_end,
};
