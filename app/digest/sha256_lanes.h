/* Rounds of one chain a lane, in vectors. A file sets LANES and v32, a type of LANES 32-bit words, includes this
 * header, and so has a variant. */
#include "app/digest/sha256_ops.h"
#include "base/assert.h"

static inline v32 rotate(v32 x, int n) { return x >> n | x << (32 - n); }

/* FIPS 180-4 §6.2.2, step 3. */
#define ROUND(a, b, c, d, e, f, g, h, wk)                                                                              \
    do {                                                                                                               \
        v32 t1 = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + (wk);                     \
        d += t1;                                                                                                       \
        h = t1 + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) | (c & (a | b)));                           \
    } while (0)

/* Does 8 rounds from t on: the names come round again, so nothing is moved. */
#define ROUNDS8(s, wk_of, t)                                                                                           \
    do {                                                                                                               \
        ROUND(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], wk_of((t) + 0));                                         \
        ROUND(s[7], s[0], s[1], s[2], s[3], s[4], s[5], s[6], wk_of((t) + 1));                                         \
        ROUND(s[6], s[7], s[0], s[1], s[2], s[3], s[4], s[5], wk_of((t) + 2));                                         \
        ROUND(s[5], s[6], s[7], s[0], s[1], s[2], s[3], s[4], wk_of((t) + 3));                                         \
        ROUND(s[4], s[5], s[6], s[7], s[0], s[1], s[2], s[3], wk_of((t) + 4));                                         \
        ROUND(s[3], s[4], s[5], s[6], s[7], s[0], s[1], s[2], wk_of((t) + 5));                                         \
        ROUND(s[2], s[3], s[4], s[5], s[6], s[7], s[0], s[1], wk_of((t) + 6));                                         \
        ROUND(s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[0], wk_of((t) + 7));                                         \
    } while (0)

/* Returns word t of the schedule plus its constant; the ring w holds the last 16. */
static inline v32 first_wk(v32 w[16], int t)
{
    if (t >= 16) {
        v32 a = w[(t + 1) & 15], b = w[(t + 14) & 15];
        w[t & 15] += (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10)
                     + w[(t + 9) & 15];
    }
    return w[t & 15] + sha256_k[t];
}

/* Spreads 16 bits into the four characters of their hexadecimal digits, the first in the highest byte. */
static inline v32 hex_of(v32 bits)
{
    v32 digits = (bits & 0xf) | (bits & 0xf0) << 4 | (bits & 0xf00) << 8 | (bits & 0xf000) << 12;
    v32 letters = (digits + 0x06060606) >> 4 & 0x01010101; /* a byte of 10 or more */
    return digits + 0x30303030 + letters * ('a' - '9' - 1);
}

static void lanes_rounds(uint32_t *const digests[], uint32_t rounds)
{
    v32 digest[8];
    ASSERT(rounds > 0);
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < 8; i++)
            digest[i][lane] = digests[lane][i];
    for (; rounds > 0; rounds--) {
        v32 w[16], s[8], middle[8];
        for (int i = 0; i < 8; i++) {
            w[2 * i] = hex_of(digest[i] >> 16);
            w[2 * i + 1] = hex_of(digest[i]);
            s[i] = (v32){ 0 } + sha256_initial[i];
        }
#define FIRST_WK(t)  first_wk(w, t)
#define SECOND_WK(t) digest_sha256_second_wk[t]
#pragma GCC unroll 8
        for (int t = 0; t < 64; t += 8)
            ROUNDS8(s, FIRST_WK, t);
        for (int i = 0; i < 8; i++)
            middle[i] = s[i] += sha256_initial[i];
#pragma GCC unroll 8
        for (int t = 0; t < 64; t += 8)
            ROUNDS8(s, SECOND_WK, t);
        for (int i = 0; i < 8; i++)
            digest[i] = s[i] + middle[i];
    }
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < 8; i++)
            digests[lane][i] = digest[i][lane];
}

/* Takes one stream, which has nothing to fill lanes with, as the scalar variant does. */
static void lanes_blocks(uint32_t state[8], const uint8_t *data, size_t count)
{
    digest_sha256_scalar.blocks(state, data, count);
}
