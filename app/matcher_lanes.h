/* The kernels' text, for any number of lanes. A variant's file defines LANES and the operations on its vectors (v32,
 * v64, look_state), then includes this; see app/matcher_scalar.c for the list. */
#pragma once

#include "app/matcher_kernel.h"
#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"

enum { BLOCK32 = MATCHER_STEPS * LANES, LANES64 = LANES / 2, BLOCK64 = MATCHER_STEPS * LANES64 };

/* Where the digits of step s lie, for a block that begins at position 16 * k + alignment: bytes from row[0][k]. */
#define ROW_AT(alignment, step) \
    ((((alignment) + (step)) % MATCHER_STEPS * MATCHER_ROW_WORDS + ((alignment) + (step)) / MATCHER_STEPS) * 4)
#define ROWS_AT(alignment) { \
    ROW_AT(alignment, 0), ROW_AT(alignment, 1), ROW_AT(alignment, 2), ROW_AT(alignment, 3), \
    ROW_AT(alignment, 4), ROW_AT(alignment, 5), ROW_AT(alignment, 6), ROW_AT(alignment, 7), \
    ROW_AT(alignment, 8), ROW_AT(alignment, 9), ROW_AT(alignment, 10), ROW_AT(alignment, 11), \
    ROW_AT(alignment, 12), ROW_AT(alignment, 13), ROW_AT(alignment, 14), ROW_AT(alignment, 15) }

static const uint32_t row_at[MATCHER_STEPS][MATCHER_STEPS] = {
    ROWS_AT(0), ROWS_AT(1), ROWS_AT(2), ROWS_AT(3), ROWS_AT(4), ROWS_AT(5), ROWS_AT(6), ROWS_AT(7),
    ROWS_AT(8), ROWS_AT(9), ROWS_AT(10), ROWS_AT(11), ROWS_AT(12), ROWS_AT(13), ROWS_AT(14), ROWS_AT(15),
};

static inline const char *block_at(const struct matcher_planes *planes, uint32_t begin)
{
    return (const char *)&planes->row[0][begin / MATCHER_STEPS];
}

/* One block's sums from each of its digits to its end: sum[s], and what each lane has to its right. Returns the
 * block's whole sum. */
static inline __attribute__((always_inline)) uint32_t
look_block(const struct matcher_planes *planes, uint32_t begin, const uint32_t *weights, v32 sum[MATCHER_STEPS],
           v32 *right)
{
    const char *block = block_at(planes, begin);
    const uint32_t *at = row_at[begin % MATCHER_STEPS];
    __asm__ volatile("" : "+r"(at));    /* so that the sixteen loads stay in the loop, not in spilled registers */
    v32 lane = v32_all(0);
#pragma GCC unroll 16
    for (int s = MATCHER_STEPS - 1; s >= 0; s--) {
        lane += v32_madd(v32_load(block + at[s]), v32_load(weights + s * LANES));
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
    const char *block = block_at(planes, begin);
    const uint32_t *at = row_at[begin % MATCHER_STEPS];
    __asm__ volatile("" : "+r"(at));
    v64 lane = v64_all(0);
#pragma GCC unroll 16
    for (int s = MATCHER_STEPS - 1; s >= 0; s--) {
        if (from_behind)
            sum[s] = lane;
        lane += v64_mul(v64_load_digits(block + at[s]), v64_load(weights + s * LANES64));
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

/* The cells of the prefixes that end after each digit of a block: step s of lane l in insert[s * LANES + l], and for
 * a probe in probe[]. `carry` is the key before the block, and becomes the key behind it. */
static inline __attribute__((always_inline)) void
keys_block(const struct matcher_planes *planes, uint32_t begin, const uint32_t *weights, const struct matcher_keys *keys,
           uint32_t *carry, int32_t *insert, int32_t *probe)
{
    ASSERT(begin % MATCHER_STEPS == 0);
    const char *block = block_at(planes, begin);
    v32 sum[MATCHER_STEPS], lane = v32_all(0);
#pragma GCC unroll 16
    for (int s = MATCHER_STEPS - 1; s >= 0; s--) {
        sum[s] = lane;
        lane += v32_mul(v32_load(block + row_at[0][s]), v32_load(weights + s * LANES));
    }
    v32 from_here = v32_suffix(lane);
    *carry += v32_first(from_here);
    /* Up to a digit = all of the block less what is behind the digit. */
    v32 before = v32_all(*carry) - (from_here - lane);
#pragma GCC unroll 16
    for (int s = 0; s < MATCHER_STEPS; s++) {
        v32 key = before - sum[s];
        v32 cell = key >> (int)keys->shift;
        /* Nothing begins with 0; and behind a 0 the key is the same, so that start would be found for ever. */
        v32 next = v32_load(s + 1 < MATCHER_STEPS ? block + row_at[0][s + 1] : block + row_at[0][0] + sizeof(uint32_t));
        v32_store(insert + s * LANES, v32_cell_waste_before_zero(cell, next));
        if (probe == NULL)
            continue;
        cell = v32_cell_always_near_edge(cell, key, keys->tolerance, keys->shift);
        cell = v32_cell_never_after(cell, v32_load(block + row_at[0][s]), keys->last_digits);
        v32_store(probe + s * LANES, cell);
    }
}

static void kernel_insert(const struct matcher_planes *planes, uint32_t begin, const uint32_t *weights,
                          const struct matcher_keys *keys, uint32_t *carry, uint8_t *cells)
{
    int32_t insert[BLOCK32];
    keys_block(planes, begin, weights, keys, carry, insert, NULL);
    for (int i = 0; i < BLOCK32; i++)
        cells[insert[i]] = 1;
}

static void kernel_probe(const struct matcher_planes *planes, uint32_t begin, uint32_t count, const uint32_t *weights,
                         const struct matcher_keys *keys, uint32_t *carry, uint8_t *cells, uint16_t *hits)
{
    int32_t insert[BLOCK32], probe[BLOCK32];
    keys_block(planes, begin, weights, keys, carry, insert, probe);
    for (uint32_t lane = 0; MATCHER_STEPS * lane < count; lane++) {
        uint32_t hit = 0;
        /* Digits behind the last one are zeros: they insert the last key again. */
#pragma GCC unroll 16
        for (int s = 0; s < MATCHER_STEPS; s++) {
            hit |= (uint32_t)cells[probe[s * LANES + (int)lane]] << s;
            cells[insert[s * LANES + (int)lane]] = 1;
        }
        hits[lane] = (uint16_t)hit;
    }
}

static void kernel_write(struct matcher_planes *planes, uint32_t begin, const uint8_t *digits, size_t count)
{
    ASSERT(begin % MATCHER_STEPS == 0);
    uint32_t bad = 0;
    uint32_t *column = &planes->row[0][begin / MATCHER_STEPS];
    for (; count >= MATCHER_STEPS; count -= MATCHER_STEPS, digits += MATCHER_STEPS, column++)
        for (int s = 0; s < MATCHER_STEPS; s++) {
            uint32_t digit = (uint32_t)digits[s] - '0';
            bad |= digit > 9;
            column[s * MATCHER_ROW_WORDS] = MATCHER_DIGIT_WORD(digit);
        }
    for (size_t s = 0; count > 0 && s < MATCHER_STEPS; s++) {
        uint32_t digit = s < count ? (uint32_t)digits[s] - '0' : 0;
        bad |= digit > 9;
        column[s * MATCHER_ROW_WORDS] = MATCHER_DIGIT_WORD(digit);
    }
    ASSERT(!bad);
}

#define MATCHER_KERNEL \
    { .lanes = LANES, .look = kernel_look, .look_which = kernel_look_which, .match = kernel_match, \
      .follow = kernel_follow, .insert = kernel_insert, .probe = kernel_probe, .write = kernel_write }
