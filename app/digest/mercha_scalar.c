/* The variant in general registers. */
#include "app/digest/mercha_ops.h"

#include <string.h>

#include "base/assert.h"

const uint32_t digest_mercha_constants[4] = { 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574 };

static inline uint32_t rotate_left(uint32_t x, unsigned n) { return x << n | x >> (32 - n); }

/* RFC 8439 §2.1. */
static inline void quarter_round(uint32_t s[16], int a, int b, int c, int d)
{
    s[a] += s[b], s[d] = rotate_left(s[d] ^ s[a], 16);
    s[c] += s[d], s[b] = rotate_left(s[b] ^ s[c], 12);
    s[a] += s[b], s[d] = rotate_left(s[d] ^ s[a], 8);
    s[c] += s[d], s[b] = rotate_left(s[b] ^ s[c], 7);
}

void digest_mercha_block(const struct mercha_job *job, uint32_t counter, const uint8_t data[64], uint32_t words[16])
{
    uint32_t begin[16], s[16];
    memcpy(begin, digest_mercha_constants, sizeof digest_mercha_constants);
    memcpy(begin + 4, job->key, sizeof job->key);
    begin[12] = counter;
    memcpy(begin + 13, job->nonce, sizeof job->nonce);
    memcpy(s, begin, sizeof s);
    for (int round = 0; round < 20; round += 2) {
        for (int i = 0; i < 4; i++)
            quarter_round(s, i, 4 + i, 8 + i, 12 + i);
        for (int i = 0; i < 4; i++)
            quarter_round(s, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
    }
    for (int i = 0; i < 16; i++)
        words[i] = (s[i] + begin[i]) ^ load_le32(data + 4 * i);
}

void digest_mercha_join(const uint32_t left[16], const uint32_t right[16], uint32_t parent[16])
{
    uint32_t s[16];
    for (int i = 0; i < 8; i++) {
        s[i] = left[i] ^ right[7 - i];
        s[8 + i] = right[i] ^ left[7 - i];
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 4; i++) {
            s[i] = rotate_left(s[i] + s[4 + i], 7);
            s[8 + i] = rotate_left(s[8 + i] + s[12 + i], 7);
        }
        for (int i = 0; i < 4; i++) {
            s[i] = rotate_left(s[i] + s[8 + i], 9);
            s[4 + i] = rotate_left(s[4 + i] + s[12 + i], 9);
        }
    }
    for (int i = 0; i < 8; i++)
        s[i] += s[15 - i];
    memcpy(parent, s, sizeof s);
}

static void scalar_group(const struct mercha_job *job, uint32_t counter, const uint8_t data[MERCHA_GROUP_BYTES],
                         uint32_t root[16], uint32_t left[16])
{
    enum { ROOT_LEVEL = 6 };
    uint32_t lefts[ROOT_LEVEL + 1][16]; /* by level */
    ASSERT(counter % MERCHA_GROUP_BLOCKS == 0);
    for (uint32_t block = 0; block < MERCHA_GROUP_BLOCKS; block++) {
        uint32_t level = 0;
        digest_mercha_block(job, counter + block, data + 64 * block, root);
        for (; (block >> level & 1) != 0; level++)
            digest_mercha_join(lefts[level], root, root);
        memcpy(lefts[level], root, sizeof lefts[level]);
    }
    memcpy(left, lefts[ROOT_LEVEL - 1], sizeof lefts[ROOT_LEVEL - 1]);
}

const struct mercha_ops digest_mercha_scalar = { .name = "scalar", .group = scalar_group };
