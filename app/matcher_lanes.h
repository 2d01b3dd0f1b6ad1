/* The kernels' text, for any number of lanes. A variant's file defines LANES and the operations on its vectors (v32,
 * v64, look_state), then includes this; see app/matcher_avx2.c for the list. */
#pragma once

#include "app/matcher_kernel.h"
#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"

/* Transposes COLUMNS * 16 digits into the planes; false if one is no digit. A digit d becomes the bytes d, 0, 0, 8 * d.
 * columns_load puts four columns side by side into each 128 bits. */
static inline bool columns_write(uint32_t *column, const uint8_t *digits)
{
    vbytes c[4], zero = {0}, bad = {0};
    for (int i = 0; i < 4; i++) {
        c[i] = columns_load(digits, i) - '0';
        bad |= (vbytes)(c[i] > 9);
    }
    vbytes even[2] = {vbytes_low(c[0], c[2]), vbytes_high(c[0], c[2])};
    vbytes odd[2] = {vbytes_low(c[1], c[3]), vbytes_high(c[1], c[3])};
    for (int q = 0; q < 4; q++) {       /* digits 4q..4q+3 of each column */
        vbytes four = q % 2 == 0 ? vbytes_low(even[q / 2], odd[q / 2]) : vbytes_high(even[q / 2], odd[q / 2]);
        vbytes eight = vbytes_times_8(four);
        vbytes low[2] = {vbytes_low(four, zero), vbytes_high(four, zero)};
        vbytes high[2] = {vbytes_low(zero, eight), vbytes_high(zero, eight)};
        for (int s = 0; s < 4; s++) {
            vbytes words = s % 2 == 0 ? vwords_low(low[s / 2], high[s / 2]) : vwords_high(low[s / 2], high[s / 2]);
            memcpy(column + (4 * q + s) * MATCHER_ROW_WORDS, &words, sizeof words);
            memcpy(column - 1 + (MATCHER_STEPS + 4 * q + s) * MATCHER_ROW_WORDS, &words, sizeof words);
        }
    }
    return vbytes_none(bad);
}

enum { BLOCK32 = MATCHER_STEPS * LANES, LANES64 = LANES / 2, BLOCK64 = MATCHER_STEPS * LANES64 };

/* Where the digits of step 0 of a block lie; those of the next step, one row on. */
static inline const uint32_t *block_at(const struct matcher_planes *planes, uint32_t begin)
{
    return &planes->row[begin % MATCHER_STEPS][begin / MATCHER_STEPS];
}

/* One block's sums from each of its digits to its end: sum[s], and what each lane has to its right. Returns the
 * block's whole sum. */
static inline __attribute__((always_inline)) uint32_t
look_block(const struct matcher_planes *planes, uint32_t begin, const uint32_t *weights, v32 sum[MATCHER_STEPS],
           v32 *right)
{
    const uint32_t *block = block_at(planes, begin);
    v32 lane = v32_all(0);
#pragma GCC unroll 16
    for (int s = MATCHER_STEPS - 1; s >= 0; s--) {
        lane += v32_madd(v32_load(block + s * MATCHER_ROW_WORDS), v32_load(weights + s * LANES));
        sum[s] = lane;
    }
    v32 from_here = v32_suffix(lane);
    *right = from_here - lane;
    return v32_first(from_here);
}

static bool kernel_look(const struct matcher_planes *planes, uint32_t end, const struct matcher_look *look,
                        uint32_t offset)
{
    look_state state[4] = {look_start(), look_start(), look_start(), look_start()};    /* four chains, not one long one */
    const uint32_t *weights = look->weights;
    for (uint32_t left = look->block_count; left > 0; left--) {
        v32 sum[MATCHER_STEPS], right;
        end -= BLOCK32;
        uint32_t whole = look_block(planes, end, weights, sum, &right);
        right += v32_all(offset);
#pragma GCC unroll 16
        for (int s = 0; s < MATCHER_STEPS; s++)
            look_test(&state[s % 4], sum[s] + right, look->mask);
        offset += whole;
        weights += BLOCK32;
    }
    return look_hot(state, look->mask);
}

static void kernel_look_which(const struct matcher_planes *planes, uint32_t end, const struct matcher_look *look,
                              uint32_t offset, uint64_t starts[MATCHER_POSITIONS / 64])
{
    const uint32_t *weights = look->weights;
    for (uint32_t left = look->block_count; left > 0; left--) {
        v32 sum[MATCHER_STEPS], right;
        end -= BLOCK32;
        uint32_t whole = look_block(planes, end, weights, sum, &right);
        right += v32_all(offset);
#pragma GCC unroll 16
        for (int s = 0; s < MATCHER_STEPS; s++)
            for (uint32_t hot = v32_zero_under(sum[s] + right, look->mask); hot != 0; hot &= hot - 1) {
                uint32_t start = end + MATCHER_STEPS * (uint32_t)__builtin_ctz(hot) + (uint32_t)s;
                starts[start / 64] |= BIT(start % 64);
            }
        offset += whole;
        weights += BLOCK32;
    }
}

/* The same with 64-bit fractions: from each digit on (or from behind it on) to the block's end. */
static inline __attribute__((always_inline)) uint64_t
decide_block(const struct matcher_planes *planes, uint32_t begin, const uint64_t *weights, bool from_behind,
             v64 sum[MATCHER_STEPS], v64 *right)
{
    const uint32_t *block = block_at(planes, begin);
    v64 lane = v64_all(0);
#pragma GCC unroll 16
    for (int s = MATCHER_STEPS - 1; s >= 0; s--) {
        if (from_behind)
            sum[s] = lane;
        lane += v64_mul(v64_load_digits(block + s * MATCHER_ROW_WORDS), v64_load(weights + s * LANES64));
        if (!from_behind)
            sum[s] = lane;
    }
    v64 from_here = v64_suffix(lane);
    *right = from_here - lane;
    return v64_first(from_here);
}

static void kernel_match(const struct matcher_planes *planes, uint32_t end, const struct matcher_decide *decide,
                         uint64_t *lengths)
{
    uint64_t offset = 0;
    const uint64_t *weights = decide->weights;
    for (uint32_t block = 0; block < decide->block_count; block++) {
        v64 sum[MATCHER_STEPS], right;
        uint32_t begin = end - (block + 1) * BLOCK64;
        uint64_t whole = decide_block(planes, begin, weights, false, sum, &right);
        right += v64_all(offset);
#pragma GCC unroll 16
        for (int s = 0; s < MATCHER_STEPS; s++)
            for (uint32_t hit = v64_near_zero(sum[s] + right, decide->tolerance); hit != 0; hit &= hit - 1) {
                uint32_t length = end - (begin + MATCHER_STEPS * (uint32_t)__builtin_ctz(hit) + (uint32_t)s);
                lengths[length / 64] |= BIT(length % 64);
            }
        offset += whole;
        weights += BLOCK64;
    }
}

static void kernel_follow(const struct matcher_planes *planes, uint32_t start, const struct matcher_decide *decide,
                          uint64_t *lengths)
{
    uint64_t before = 0;
    const uint64_t *weights = decide->weights;
    for (uint32_t block = 0; block < decide->block_count; block++) {
        v64 sum[MATCHER_STEPS], right;
        uint32_t begin = start + block * BLOCK64;
        /* Up to a digit = all of the block less what is behind the digit. */
        before += decide_block(planes, begin, weights, true, sum, &right);
        right -= v64_all(before);
#pragma GCC unroll 16
        for (int s = 0; s < MATCHER_STEPS; s++)
            for (uint32_t hit = v64_near_zero(sum[s] + right, decide->tolerance); hit != 0; hit &= hit - 1) {
                uint32_t length = block * BLOCK64 + MATCHER_STEPS * (uint32_t)__builtin_ctz(hit) + (uint32_t)s + 1;
                lengths[length / 64] |= BIT(length % 64);
            }
        weights += BLOCK64;
    }
}

/* The cells of the prefixes that end after each digit of a block: step s of lane l in cells[s * LANES + l]. Bit s of
 * edges[l] says that the key lies so near the edge of its cell that an equal residue's may lie in the next one.
 * `carry` is the key before the block, and becomes the key behind it. */
static inline __attribute__((always_inline)) void
keys_block(const struct matcher_planes *planes, uint32_t begin, const uint32_t *weights, const struct matcher_keys *keys,
           uint32_t *carry, uint32_t *cells, uint32_t *edges)
{
    ASSERT(begin % MATCHER_STEPS == 0);
    const uint32_t *block = block_at(planes, begin);
    v32 sum[MATCHER_STEPS], lane = v32_all(0);
#pragma GCC unroll 16
    for (int s = MATCHER_STEPS - 1; s >= 0; s--) {
        sum[s] = lane;
        lane += v32_mul(v32_load(block + s * MATCHER_ROW_WORDS), v32_load(weights + s * LANES));
    }
    v32 from_here = v32_suffix(lane);
    *carry += v32_first(from_here);
    /* Up to a digit = all of the block less what is behind the digit. */
    v32 before = v32_all(*carry) - (from_here - lane), near = v32_all(0);
    v32 before_moved = before + v32_all(keys->tolerance);
#pragma GCC unroll 16
    for (int s = 0; s < MATCHER_STEPS; s++) {
        /* Behind a 0 the key is the same again. Its cell would be written and read at once, and the processor would
         * have read it too soon: a cell of its own instead. */
        v32 digits = v32_load(block + s * MATCHER_ROW_WORDS);
        v32_store(cells + s * LANES,
                  v32_if_zero(digits, MATCHER_CELLS + (uint32_t)s, (before - sum[s]) >> MATCHER_CELL_SHIFT));
        if (edges != NULL)
            near = v32_add_bit_where_zero_under(near, before_moved - sum[s], keys->edge_mask, s);
    }
    if (edges != NULL)
        v32_store(edges, near);
}

static void kernel_insert(const struct matcher_planes *planes, uint32_t begin, const uint32_t *weights,
                          const struct matcher_keys *keys, uint32_t *carry, uint8_t *taken)
{
    uint32_t cells[BLOCK32];
    keys_block(planes, begin, weights, keys, carry, cells, NULL);
    for (int i = 0; i < BLOCK32; i++)
        taken[cells[i]] = 1;
}

/* Which of 64 digits are 0, are 5, are odd. */
struct digit_sets {
    uint64_t zero, five, odd;
};

static inline struct digit_sets digit_sets(const uint8_t *digits)
{
    struct digit_sets sets = {0, 0, 0};
    for (int i = 0; i < 64; i += 16) {
        __m128i d = _mm_loadu_si128((const __m128i *)(digits + i));
        sets.zero |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(d, _mm_set1_epi8('0'))) << i;
        sets.five |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(d, _mm_set1_epi8('5'))) << i;
        sets.odd |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_slli_epi16(d, 7)) << i;
    }
    return sets;
}

static inline uint64_t bits_reversed(uint64_t bits)
{
    bits = __builtin_bswap64(bits);
    bits = (bits & 0x0f0f0f0f0f0f0f0f) << 4 | (bits >> 4 & 0x0f0f0f0f0f0f0f0f);
    bits = (bits & 0x3333333333333333) << 2 | (bits >> 2 & 0x3333333333333333);
    return (bits & 0x5555555555555555) << 1 | (bits >> 1 & 0x5555555555555555);
}

static bool kernel_probe(const struct matcher_planes *planes, uint32_t begin, const uint8_t *digits, uint32_t count,
                         const uint32_t *weights, const struct matcher_keys *keys, uint32_t *carry, bool hit_before,
                         uint8_t *taken, uint64_t *hits)
{
    uint32_t cells[BLOCK32], edges[LANES];
    keys_block(planes, begin, weights, keys, carry, cells, edges);
    uint64_t before = hit_before;
    for (uint32_t at = 0; at < count; at += 64) {       /* four lanes */
        uint64_t found = 0, near = 0;       /* found: the first digit in the highest bit */
        for (uint32_t lane = at / MATCHER_STEPS; lane < at / MATCHER_STEPS + 4; lane++) {
            if (MATCHER_STEPS * lane >= count) {
                found <<= MATCHER_STEPS;
                continue;
            }
#pragma GCC unroll 16
            for (int s = 0; s < MATCHER_STEPS; s++) {
                uint64_t cell = cells[s * LANES + (int)lane];
                found = found * 2 + taken[cell];
                /* taken[cell] = 1; in C, GCC adds the two up beforehand, once more a digit. */
                __asm__("movb $1, (%1, %2)" : "+m"(*(uint8_t (*)[MATCHER_CELLS + MATCHER_STEPS])taken) : "r"(taken), "r"(cell));
            }
            near |= (uint64_t)edges[lane] << (MATCHER_STEPS * lane - at);
        }
        /* A 0 does not change the prefix value: it is a hit exactly if what it follows is one. Added to the first bit
         * of a run of zeros, a carry runs through them all. */
        struct digit_sets sets = digit_sets(digits + at);
        uint64_t hit = (bits_reversed(found) | near) & ~sets.zero, first = (hit << 1 | before) & sets.zero;
        hit |= sets.zero & ~(sets.zero + first);
        before = hit >> 63;
        if (keys->even)
            hit &= ~sets.odd;
        if (keys->five)
            hit &= sets.five | sets.zero;
        hits[at / 64] = hit;
    }
    return before;
}

static void kernel_write(struct matcher_planes *planes, uint32_t begin, const uint8_t *digits, size_t count)
{
    ASSERT(begin % MATCHER_STEPS == 0);
    bool good = true;
    uint32_t *column = &planes->row[0][begin / MATCHER_STEPS];
    for (size_t done = 0; done < count; done += MATCHER_STEPS * COLUMNS, column += COLUMNS)
        good &= columns_write(column, digits + done);
    ASSERT(good);
}

#define MATCHER_KERNEL \
    { .lanes = LANES, .halves = true, .look = kernel_look, .look_which = kernel_look_which, .match = kernel_match, \
      .follow = kernel_follow, .insert = kernel_insert, .probe = kernel_probe, .write = kernel_write }
