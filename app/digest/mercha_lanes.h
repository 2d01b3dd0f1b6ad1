/* ChaCha20 and the tree in vectors. Each lane has a run of blocks of its own, so cipher and tree are lane by lane until
 * one node a lane is left. A file sets LANES and v32, a type of LANES 32-bit words. It defines rotate16, rotate8 and
 * transpose, includes this header, and so has a variant. */
#include "app/digest/mercha_ops.h"
#include "base/assert.h"
#include "base/bytes.h"

enum { LANE_BLOCKS = MERCHA_GROUP_BLOCKS / LANES, LANE_LEVELS = LANES == 8 ? 3 : 2 };
typedef v32 v32_unaligned __attribute__((aligned(1), may_alias));

static inline v32 rotate_left(v32 x, int n) { return x << n | x >> (32 - n); }

/* RFC 8439 §2.1. */
static inline __attribute__((always_inline)) void quarter_round(v32 s[16], int a, int b, int c, int d)
{
    s[a] += s[b], s[d] = rotate16(s[d] ^ s[a]);
    s[c] += s[d], s[b] = rotate_left(s[b] ^ s[c], 12);
    s[a] += s[b], s[d] = rotate8(s[d] ^ s[a]);
    s[c] += s[d], s[b] = rotate_left(s[b] ^ s[c], 7);
}

/* Loads word i of each lane's block into words[i]. */
static inline __attribute__((always_inline)) void words_load(v32 words[16], const uint8_t *data)
{
#pragma GCC unroll 2
    for (int part = 0; part < 16; part += LANES) {
#pragma GCC unroll 16
        for (int lane = 0; lane < LANES; lane++)
            words[part + lane] = *(const v32_unaligned *)(data + lane * LANE_BLOCKS * 64 + 4 * part);
        transpose(words + part);
    }
}

/* Ciphers one block of each lane. */
static void blocks_cipher(const struct mercha_job *job, uint32_t counter, const uint8_t *data, v32 node[16])
{
    v32 s[16], counters = { 0 };
    for (int lane = 0; lane < LANES; lane++)
        counters[lane] = counter + (uint32_t)(lane * LANE_BLOCKS);
    for (int i = 0; i < 4; i++)
        s[i] = (v32){ 0 } + digest_mercha_constants[i];
    for (int i = 0; i < 8; i++)
        s[4 + i] = (v32){ 0 } + job->key[i];
    s[12] = counters;
    for (int i = 0; i < 3; i++)
        s[13 + i] = (v32){ 0 } + job->nonce[i];
    for (int round = 0; round < 20; round += 2) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            quarter_round(s, i, 4 + i, 8 + i, 12 + i);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            quarter_round(s, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
    }
    words_load(node, data);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        node[i] ^= s[i] + digest_mercha_constants[i];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        node[4 + i] ^= s[4 + i] + job->key[i];
    node[12] ^= s[12] + counters;
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++)
        node[13 + i] ^= s[13 + i] + job->nonce[i];
    ASSERT(counter <= UINT32_MAX - (LANES - 1) * LANE_BLOCKS); /* none of the counters has wrapped */
}

/* Joins two nodes of each lane into their parent, which takes the place of the right one. */
static void nodes_join(const v32 left[16], v32 right[16])
{
    v32 s[16];
    ASSERT(left != right);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        s[i] = left[i] ^ right[7 - i];
        s[8 + i] = right[i] ^ left[7 - i];
    }
    for (int round = 0; round < 10; round++) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            s[i] = rotate_left(s[i] + s[4 + i], 7);
            s[8 + i] = rotate_left(s[8 + i] + s[12 + i], 7);
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            s[i] = rotate_left(s[i] + s[8 + i], 9);
            s[4 + i] = rotate_left(s[4 + i] + s[12 + i], 9);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        right[i] = i < 8 ? s[i] + s[15 - i] : s[i];
}

/* Joins the last nodes, one of each lane. A row of four words is a vector, so a node is four of them. */
typedef uint32_t row __attribute__((vector_size(16)));
static inline row row_rotate(row x, int n) { return x << n | x >> (32 - n); }
static inline row row_reverse(row x) { return __builtin_shufflevector(x, x, 3, 2, 1, 0); }

static inline void last_join(const row left[4], const row right[4], row parent[4])
{
    row a = left[0] ^ row_reverse(right[1]), b = left[1] ^ row_reverse(right[0]);
    row c = right[0] ^ row_reverse(left[1]), d = right[1] ^ row_reverse(left[0]);
    for (int round = 0; round < 10; round++) {
        a = row_rotate(a + b, 7), c = row_rotate(c + d, 7);
        a = row_rotate(a + c, 9), b = row_rotate(b + d, 9);
    }
    parent[0] = a + row_reverse(d), parent[1] = b + row_reverse(c);
    parent[2] = c, parent[3] = d;
}

/* Lays the lanes' nodes out one after the other, and joins them to one. Returns that one, and its left child. */
static void lanes_join(v32 nodes[16], uint32_t root[16], uint32_t left[16])
{
    row rows[LANES][4];
#pragma GCC unroll 2
    for (int part = 0; part < 16; part += LANES) {
        transpose(nodes + part);
        for (int lane = 0; lane < LANES; lane++)
            memcpy(&rows[lane][part / 4], &nodes[part + lane], sizeof nodes[0]);
    }
    for (int count = LANES / 2; count > 1; count /= 2)
        for (int i = 0; i < count; i++)
            last_join(rows[2 * i], rows[2 * i + 1], rows[i]);
    ASSERT(sizeof rows[0] == 64);
    memcpy(left, rows[0], sizeof rows[0]);
    last_join(rows[0], rows[1], rows[0]);
    memcpy(root, rows[0], sizeof rows[0]);
}

static void lanes_group(const struct mercha_job *job, uint32_t counter, const uint8_t data[MERCHA_GROUP_BYTES],
                        uint32_t root[16], uint32_t left[16])
{
    v32 lefts[LANE_LEVELS + 1][16], nodes[16]; /* lefts by level */
    ASSERT(counter % MERCHA_GROUP_BLOCKS == 0);
    for (uint32_t block = 0; block < LANE_BLOCKS; block++) {
        uint32_t level = 0;
        blocks_cipher(job, counter + block, data + 64 * block, nodes);
        for (; (block >> level & 1) != 0; level++)
            nodes_join(lefts[level], nodes);
        memcpy(lefts[level], nodes, sizeof nodes);
    }
    lanes_join(nodes, root, left);
}
