/* The variants for the SHA extensions, SDM vol. 1 §5.18: one chain, and two at once. SHA256RNDS2 takes four cycles and
 * may begin every second one, so two chains hide each other's latency. */
#include <immintrin.h>

#include "app/digest/sha256_ops.h"
#include "base/assert.h"

enum { VECTORS = 4 }; /* 16 bytes each: a block, and a quarter of the schedule */

/* A state in the instructions' order: a, b, e, f and c, d, g, h, the first in the highest word. */
struct pair {
    __m128i abef, cdgh;
};

static inline struct pair pair_load(const uint32_t state[8])
{
    __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
    __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);
    return (struct pair){ _mm_alignr_epi8(badc, hgfe, 8), _mm_blend_epi16(hgfe, badc, 0xf0) };
}

static inline void pair_store(uint32_t state[8], struct pair p)
{
    __m128i feba = _mm_shuffle_epi32(p.abef, 0x1b), dchg = _mm_shuffle_epi32(p.cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

static inline struct pair pair_add(struct pair a, struct pair b)
{
    return (struct pair){ _mm_add_epi32(a.abef, b.abef), _mm_add_epi32(a.cdgh, b.cdgh) };
}

/* Does four rounds. */
static inline void rounds4(struct pair *p, __m128i wk)
{
    p->cdgh = _mm_sha256rnds2_epu32(p->cdgh, p->abef, wk);
    p->abef = _mm_sha256rnds2_epu32(p->abef, p->cdgh, _mm_shuffle_epi32(wk, 0x0e));
}

/* Returns the four words of the schedule that follow w[0] to w[3]. FIPS 180-4 §6.2.2. */
static inline __m128i schedule(const __m128i w[VECTORS])
{
    __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w[0], w[1]), _mm_alignr_epi8(w[3], w[2], 4));
    return _mm_sha256msg2_epu32(sum, w[3]);
}

static inline __m128i load_k(const uint32_t k[64], int vector)
{
    return _mm_load_si128((const __m128i *)(k + 4 * vector));
}

/* Takes a block into each of `lanes` states. Inlined with a constant count: all stays in registers. */
static inline __attribute__((always_inline)) void block_take(struct pair states[], __m128i blocks[][VECTORS], int lanes)
{
    struct pair before[2];
    ASSERT(lanes <= 2);
    for (int lane = 0; lane < lanes; lane++)
        before[lane] = states[lane];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
#pragma GCC unroll 2
        for (int lane = 0; lane < lanes; lane++) {
            __m128i *const w = blocks[lane];
            rounds4(&states[lane], _mm_add_epi32(w[0], load_k(sha256_k, i)));
            __m128i next = i < 12 ? schedule(w) : w[0];
            w[0] = w[1], w[1] = w[2], w[2] = w[3], w[3] = next;
        }
    }
    for (int lane = 0; lane < lanes; lane++)
        states[lane] = pair_add(states[lane], before[lane]);
}

/* Takes a round's second block. */
static inline __attribute__((always_inline)) void second_take(struct pair states[], int lanes)
{
    struct pair before[2];
    ASSERT(lanes <= 2);
    for (int lane = 0; lane < lanes; lane++)
        before[lane] = states[lane];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
#pragma GCC unroll 2
        for (int lane = 0; lane < lanes; lane++)
            rounds4(&states[lane], load_k(digest_sha256_second_wk, i));
    for (int lane = 0; lane < lanes; lane++)
        states[lane] = pair_add(states[lane], before[lane]);
}

/* Returns the characters of 8 bytes' hexadecimal digits as words of the schedule: 4 characters, the first highest.
 * `bytes` holds two words of a digest as they stand in memory, little-endian, in its lower half. */
static inline __m128i hex_words(__m128i bytes)
{
    const __m128i letters = _mm_setr_epi8('0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e',
                                          'f');
    const __m128i low = _mm_set1_epi8(15);
    /* A word 0xABCDEFGH lies as GH EF CD AB. Its first four characters are A B C D, in memory as D C B A. */
    const __m128i order = _mm_setr_epi8(2, 2, 3, 3, 0, 0, 1, 1, 6, 6, 7, 7, 4, 4, 5, 5);
    const __m128i odd = _mm_set1_epi16(0x00ff); /* the low digit comes first */
    __m128i twice = _mm_shuffle_epi8(bytes, order);
    __m128i digits = _mm_blendv_epi8(_mm_srli_epi16(twice, 4), twice, odd);
    return _mm_shuffle_epi8(letters, _mm_and_si128(digits, low));
}

static inline void hex_block(__m128i block[VECTORS], const uint32_t digest[8])
{
    for (int i = 0; i < VECTORS; i++)
        block[i] = hex_words(_mm_loadl_epi64((const __m128i *)(digest + 2 * i)));
}

static inline __attribute__((always_inline)) void rounds_of(uint32_t *const digests[], uint32_t rounds, int lanes)
{
    const struct pair initial = pair_load(sha256_initial);
    ASSERT(rounds > 0);
    for (; rounds > 0; rounds--) {
        struct pair states[2] = { initial, initial };
        __m128i blocks[2][VECTORS];
        for (int lane = 0; lane < lanes; lane++)
            hex_block(blocks[lane], digests[lane]);
        block_take(states, blocks, lanes);
        second_take(states, lanes);
        for (int lane = 0; lane < lanes; lane++)
            pair_store(digests[lane], states[lane]);
    }
}

static void shani_blocks(uint32_t state[8], const uint8_t *data, size_t count)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    struct pair p = pair_load(state);
    ASSERT(data != NULL || count == 0);
    for (; count > 0; count--, data += 64) {
        __m128i blocks[1][VECTORS];
        for (int i = 0; i < VECTORS; i++)
            blocks[0][i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(data + 16 * i)), swap);
        block_take(&p, blocks, 1);
    }
    pair_store(state, p);
}

static void shani_rounds(uint32_t *const digests[], uint32_t rounds) { rounds_of(digests, rounds, 1); }
static void shani_rounds2(uint32_t *const digests[], uint32_t rounds) { rounds_of(digests, rounds, 2); }

const struct sha256_ops digest_sha256_shani = {
    .name = "sha-ni",
    .lanes = 1,
    .blocks = shani_blocks,
    .rounds = shani_rounds,
};

const struct sha256_ops digest_sha256_shani2 = {
    .name = "sha-ni x2",
    .lanes = 2,
    .blocks = shani_blocks,
    .rounds = shani_rounds2,
};
