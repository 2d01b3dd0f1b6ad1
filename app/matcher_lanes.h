/* The kernels' text for vectors, for any number of lanes. A variant's file defines LANES, LOOK_BITS, DIGIT_WORDS and
 * the operations on its vectors (v32, v64, look_state, vbytes), then includes this. */
#pragma once

#include <immintrin.h>

#include "app/matcher_kernel.h"
#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"

enum { BLOCK = MATCHER_STEPS * LANES };

/* Transposes COLUMNS * 16 digits into the planes; false if one is no digit. columns_load puts four columns side by side
 * into each 128 bits. */
static inline bool columns_write(uint32_t *column, const uint8_t *digits)
{
    vbytes c[4], zero = {0}, bad = {0};
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        c[i] = columns_load(digits, i) - '0';
        bad |= (vbytes)(c[i] > 9);
    }
    vbytes even[2] = {vbytes_low(c[0], c[2]), vbytes_high(c[0], c[2])};
    vbytes odd[2] = {vbytes_low(c[1], c[3]), vbytes_high(c[1], c[3])};
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) {       /* digits 4q..4q+3 of each column */
        vbytes four = q % 2 == 0 ? vbytes_low(even[q / 2], odd[q / 2]) : vbytes_high(even[q / 2], odd[q / 2]);
        vbytes low[2] = {vbytes_low(four, zero), vbytes_high(four, zero)};
#pragma GCC unroll 4
        for (int s = 0; s < 4; s++) {
            vbytes high = DIGIT_WORDS ? vwords_shift(low[s / 2], 11) : zero;
            vbytes words = s % 2 == 0 ? vwords_low(low[s / 2], high) : vwords_high(low[s / 2], high);
            memcpy(column + (4 * q + s) * MATCHER_ROW_WORDS, &words, sizeof words);
            memcpy(column - 1 + (MATCHER_STEPS + 4 * q + s) * MATCHER_ROW_WORDS, &words, sizeof words);
        }
    }
    return vbytes_none(bad);
}

static void kernel_write(union matcher_planes *planes, uint32_t begin, const uint8_t *digits, size_t count)
{
    ASSERT(begin % MATCHER_STEPS == 0);
    bool good = true;
    uint32_t *column = &planes->row[0][begin / MATCHER_STEPS];
    for (size_t done = 0; done < count; done += MATCHER_STEPS * COLUMNS, column += COLUMNS)
        good &= columns_write(column, digits + done);
    ASSERT(good);
}

static struct matcher_digit_sets kernel_digit_sets(const uint8_t digits[64])
{
    struct matcher_digit_sets sets = {0, 0, 0};
#pragma GCC unroll 2
    for (int i = 0; i < 64; i += 32) {
        __m256i d = _mm256_loadu_si256((const __m256i *)(digits + i));
        sets.zero |= (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(d, _mm256_set1_epi8('0'))) << i;
        sets.five |= (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(d, _mm256_set1_epi8('5'))) << i;
        sets.odd |= (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_slli_epi16(d, 7)) << i;
    }
    return sets;
}

/* Products with the weights' two halves are summed up apart. */
static uint64_t kernel_fraction(const uint8_t *digits, const uint64_t *weights, size_t count)
{
    uint64_t sum = 0;
    for (; count % LANES64 != 0; count--)
        sum += (uint64_t)(*digits++ - '0') * *weights++;
    v64 low = v64_all(0), high = v64_all(0);
    for (; count > 0; count -= LANES64, digits += LANES64, weights += LANES64) {
        v64 d = v64_load_bytes(digits) - '0', w = v64_load(weights);
        low += v64_mul_low(d, w);
        high += v64_mul_low(d, w >> 32);
    }
    return sum + v64_sum(low + (high << 32));
}

/* Where the digits of step 0 of a block lie; those of the next step, one row on. */
static inline const uint32_t *block_at(const union matcher_planes *planes, uint32_t begin)
{
    return &planes->row[begin % MATCHER_STEPS][begin / MATCHER_STEPS];
}

/* One block's sums from each of its digits to its end: sum[s], and what each lane has to its right. Returns the
 * block's whole sum. */
static inline __attribute__((always_inline)) uint32_t
look_block(const union matcher_planes *planes, uint32_t begin, const uint32_t *weights, v32 sum[MATCHER_STEPS],
           v32 *right)
{
    const uint32_t *block = block_at(planes, begin);
    v32 lane = v32_all(0);
#pragma GCC unroll 16
    for (int s = MATCHER_STEPS - 1; s >= 0; s--) {
        lane += v32_weigh(v32_load(block + s * MATCHER_ROW_WORDS), v32_load(weights + s * LANES));
        sum[s] = lane;
    }
    v32 from_here = v32_suffix(lane);
    *right = from_here - lane;
    return v32_first(from_here);
}

/* The first blocks of a look, from the last. Tells whether a start is hot. *sum, at first the offset, becomes the sum
 * from the first digit on. */
static inline __attribute__((always_inline)) bool
look_blocks(const union matcher_planes *planes, uint32_t end, const struct matcher_look *look, uint32_t blocks,
            uint32_t *sum)
{
    look_state state[2] = {look_start(), look_start()};
    const uint32_t *weights = look->weights;
    uint32_t limit = look->limit;
    for (; blocks > 0; blocks--) {
        v32 sums[MATCHER_STEPS], right;
        end -= BLOCK;
        uint32_t whole = look_block(planes, end, weights, sums, &right);
        right += v32_all(*sum);
#pragma GCC unroll 16
        for (int s = 0; s < MATCHER_STEPS; s++)
            look_test(&state[s % 2], sums[s] + right, limit);
        *sum += whole;
        weights += BLOCK;
    }
    return look_hot(state, limit);
}

/* Whether some old start may be hot, given what the digits behind it come to: its upper 16 bits and theirs, and a carry
 * or none, are at most those of the limit. */
static inline bool slot_may_be_hot(const struct matcher_slot *slot, uint32_t count, uint32_t sum, uint32_t limit)
{
    v32 least = v32_all(UINT32_MAX), moved = v16_all((uint16_t)((sum << (32 - LOOK_BITS) >> 16) + 1));
    for (uint32_t i = 0; i < count / 2; i += 2 * LANES)
        least = v16_min(least, v16_min(v16_add(v32_load(slot->values + i), moved),
                                       v16_add(v32_load(slot->values + i + LANES), moved)));
    return v16_any_at_most(least, (uint16_t)((limit << (32 - LOOK_BITS) >> 16) + 1));
}

/* The digits of the segment are new; the starts before the blocks that hold them are in a slot. */
static bool kernel_look(const union matcher_planes *planes, const uint8_t *digits, const struct matcher_look *look,
                        uint32_t number)
{
    uint32_t known = number * look->digits, before = known - look->skip_digits, end = MATCHER_SEGMENT_AT + before;
    uint32_t sum = matcher_look_offset(look, digits + known, LOOK_BITS);
    if (number - 1 >= look->slot_count)
        return look_blocks(planes, end, look, look->block_count, &sum);
    uint32_t blocks = (before + BLOCK - 1) / BLOCK;
    bool hot = look_blocks(planes, end, look, blocks, &sum);
    return hot | slot_may_be_hot(&look->slots[number - 1], (look->block_count - blocks) * BLOCK, sum, look->limit);
}

static void kernel_look_which(const union matcher_planes *planes, const uint8_t *digits,
                              const struct matcher_look *look, uint32_t number, uint64_t starts[MATCHER_POSITIONS / 64])
{
    uint32_t known = number * look->digits, offset = matcher_look_offset(look, digits + known, LOOK_BITS);
    uint32_t end = MATCHER_SEGMENT_AT + known - look->skip_digits;
    for (uint32_t block = 0; block < look->block_count; block++) {
        v32 sum[MATCHER_STEPS], right;
        end -= BLOCK;
        uint32_t whole = look_block(planes, end, look->weights + block * BLOCK, sum, &right);
        right += v32_all(offset);
#pragma GCC unroll 16
        for (int s = 0; s < MATCHER_STEPS; s++)
            for (uint32_t hot = look_hot_lanes(sum[s] + right, look->limit); hot != 0; hot &= hot - 1) {
                uint32_t start = end + MATCHER_STEPS * (uint32_t)__builtin_ctz(hot) + (uint32_t)s;
                starts[start / 64] |= BIT(start % 64);
            }
        offset += whole;
    }
}

static void kernel_remember(const union matcher_planes *planes, const struct matcher_look *look)
{
    for (uint32_t number = 1; number <= look->slot_count; number++) {
        uint32_t *values = look->slots[number - 1].values;
        uint32_t before = number * look->digits - look->skip_digits, offset = 0;
        for (uint32_t block = (before + BLOCK - 1) / BLOCK; block < look->block_count; block++) {
            v32 sum[MATCHER_STEPS], right;
            uint32_t begin = MATCHER_SEGMENT_AT + before - (block + 1) * BLOCK;
            uint32_t whole = look_block(planes, begin, look->weights + block * BLOCK, sum, &right);
            right += v32_all(offset);
#pragma GCC unroll 8
            for (int s = 0; s < MATCHER_STEPS; s += 2, values += LANES) {
                v32 a = (sum[s] + right) << (32 - LOOK_BITS), b = (sum[s + 1] + right) << (32 - LOOK_BITS);
                v32_store(values, a >> 16 | (b & v32_all(0xffff0000)));
            }
            offset += whole;
        }
    }
}

/* The keys of the prefixes that end after each digit of a block: step s of lane l in keys[s * LANES + l]. Bit
 * 15 - s of edges[l] says that the key lies so near the edge of its cell that an equal residue's may lie in the next. */
static inline __attribute__((always_inline)) void
keys_block(const union matcher_planes *planes, struct matcher_hash *hash, uint32_t at, uint32_t *edges)
{
    const uint32_t *block = block_at(planes, hash->base + at), *weights = hash->lanes.weights + at;
    v32 sum[MATCHER_STEPS], lane = v32_all(0);
#pragma GCC unroll 16
    for (int s = MATCHER_STEPS - 1; s >= 0; s--) {
        sum[s] = lane;
        lane += v32_mul(v32_load(block + s * MATCHER_ROW_WORDS), v32_load(weights + s * LANES));
    }
    v32 from_here = v32_suffix(lane);
    hash->carry += v32_first(from_here);
    /* Up to a digit = all of the block less what is behind the digit. */
    v32 before = v32_all((uint32_t)hash->carry) - (from_here - lane), near = v32_all(0);
    v32 before_moved = before + v32_all(hash->reach);
    uint32_t edge_mask = hash->lanes.edge_mask;
#pragma GCC unroll 16
    for (int s = 0; s < MATCHER_STEPS; s++) {
        /* Behind a 0 the key is the same again. Its cell would be written and read at once, and the processor would
         * have read it too soon: a cell of its own instead. */
        v32 digits = v32_load(block + s * MATCHER_ROW_WORDS);
        v32_store(hash->lanes.keys + at + s * LANES,
                  v32_if_zero(digits, ((1u << MATCHER_CELL_BITS) + (uint32_t)s) << (MATCHER_KEY_BITS - MATCHER_CELL_BITS),
                              (before - sum[s]) >> (32 - MATCHER_KEY_BITS)));
        if (edges != NULL)
            near = v32_append_zero_under(near, before_moved - sum[s], edge_mask);
    }
    if (edges != NULL)
        v32_store(edges, near);
}

/* The cell of a key: its upper half word. */
static inline uint64_t key_cell(const uint8_t *key)
{
    return load_le16(key + 2);
}

static void kernel_insert(const union matcher_planes *planes, struct matcher_hash *hash, uint32_t count)
{
    memset(hash->lanes.taken, 0, sizeof hash->lanes.taken);
    hash->lanes.taken[0] = 1;       /* the key before the first digit */
    hash->carry = 0;
    for (uint32_t at = 0; at < count; at += BLOCK) {
        keys_block(planes, hash, at, NULL);
        const uint8_t *keys = (const uint8_t *)(hash->lanes.keys + at);
        for (size_t i = 0; i < BLOCK * sizeof(uint32_t); i += sizeof(uint32_t))
            hash->lanes.taken[key_cell(keys + i)] = 1;
    }
}

static void kernel_probe(const union matcher_planes *planes, struct matcher_hash *hash, uint32_t at, uint32_t count,
                         uint64_t *found)
{
    uint8_t *taken = hash->lanes.taken;
    for (uint32_t block = 0; block < count; block += BLOCK) {
        uint32_t edges[LANES];
        keys_block(planes, hash, at + block, edges);
        const uint8_t *keys = (const uint8_t *)(hash->lanes.keys + at + block);
        uint32_t lanes = (uint32_t)min_size((count - block + MATCHER_STEPS - 1) / MATCHER_STEPS, LANES);
        for (uint32_t lane = 0; lane < lanes; lane += 4) {
            uint64_t empty = 0, near = 0;        /* the first digit in the highest bit */
            for (uint32_t l = lane; l < lane + 4; l++) {
                near = near << MATCHER_STEPS | edges[l];
                if (l >= lanes) {
                    empty <<= MATCHER_STEPS;
                    continue;
                }
                const uint8_t *key = keys + l * sizeof(uint32_t);
#pragma GCC unroll 16
                for (int s = 0; s < MATCHER_STEPS; s++) {
                    /* empty = 2 * empty + (taken[cell] == 0), taken[cell] = 1: three instructions, which GCC does not
                     * find. */
                    uint64_t cell = key_cell(key + s * LANES * (int)sizeof(uint32_t));
                    __asm__("cmpb $1, (%[taken], %[cell])\n\tadc %[empty], %[empty]\n\tmovb $1, (%[taken], %[cell])"
                            : [empty] "+r"(empty), "+m"(*(uint8_t (*)[sizeof hash->lanes.taken])taken)
                            : [taken] "r"(taken), [cell] "r"(cell) : "cc");
                }
            }
            found[(block + MATCHER_STEPS * lane) / 64] = matcher_bits_reversed(~empty | near);
        }
    }
}

/* Where the key of a digit stands, and the other way round. */
static inline uint32_t key_place(uint32_t at)
{
    return at / BLOCK * BLOCK + at % MATCHER_STEPS * LANES + at % BLOCK / MATCHER_STEPS;
}

static inline uint32_t key_at(uint32_t place)
{
    return place / BLOCK * BLOCK + place % LANES * MATCHER_STEPS + place % BLOCK / LANES;
}

static uint32_t kernel_partners(const struct matcher_hash *hash, uint32_t at, uint32_t from, uint16_t *partners,
                                uint32_t max)
{
    const uint32_t *keys = hash->lanes.keys, reach = hash->reach / (1 << (32 - MATCHER_KEY_BITS)) + 1;
    const uint32_t mask = (UINT32_C(1) << MATCHER_KEY_BITS) - 1;
    const uint32_t key = keys[at / BLOCK * BLOCK + at % MATCHER_STEPS * LANES + at % BLOCK / MATCHER_STEPS];
    const v32 moved = v32_all(key + reach);
    uint32_t count = 0;
    if (((key + reach) & mask) <= 2 * reach)
        partners[count++] = MATCHER_NO_DIGIT;
    for (uint32_t block = from / BLOCK * BLOCK; block <= at; block += BLOCK) {
        v32 least = v32_all(UINT32_MAX);
#pragma GCC unroll 16
        for (int s = 0; s < MATCHER_STEPS; s++)
            least = v32_min(least, (moved - v32_load(keys + block + s * LANES)) & v32_all(mask));
        if (!v32_at_most(least, 2 * reach))
            continue;
        for (uint32_t s = 0; s < MATCHER_STEPS; s++) {
            const uint32_t *row = keys + block + s * LANES;
            uint32_t near = v32_at_most((moved - v32_load(row)) & v32_all(mask), 2 * reach);
            for (; near != 0; near &= near - 1) {
                uint32_t lane = (uint32_t)__builtin_ctz(near), other = block + MATCHER_STEPS * lane + s;
                if (row[lane] > mask || other < from || other >= at)
                    continue;
                if (count < max)
                    partners[count] = (uint16_t)other;
                count++;
            }
        }
    }
    return count;
}

#define MATCHER_KERNEL \
    { .lanes = LANES, .block = BLOCK, .look_bits = LOOK_BITS, .digit_words = DIGIT_WORDS, .write = kernel_write, \
      .digit_sets = kernel_digit_sets, .fraction = kernel_fraction, .look = kernel_look, \
      .look_which = kernel_look_which, .remember = kernel_remember, .insert = kernel_insert, .probe = kernel_probe, \
      .partners = kernel_partners }
