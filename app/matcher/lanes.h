/* The text of the vector variants. A variant's file includes it after its LANES, the operations on its vectors that C
 * has no operator for, and the name of its SIMD_OPS.
 *
 * v32 is a vector of LANES numbers of 32 bits, v64 one of half as many of 64 bits. v16_ operations take the 16-bit
 * halves of a v32. v32_suffix makes of each lane the sum from it to the last lane. v32_at_most compares lanes and
 * returns a bit for each. _widen loads a byte for each lane. v32_lower returns the lower FILTER_LANES_MIN lanes, and
 * v32_of_lower returns a vector with these lanes and any others. */
#pragma once

#include "base/assert.h"
#include "base/hot_section.h"

#define INLINED static inline __attribute__((always_inline))

typedef uint16_t v16 __attribute__((vector_size(sizeof(v32))));

enum {
    LANES64 = LANES / 2,
    GROUP_WORDS = (1 + FILTER_ROWS) * LANES,
    CACHE_GROUP_WORDS = FILTER_GROUP / 2, /* words of one probe */
    CACHE_BLOCK_WORDS = 8 * LANES,        /* words of partial sums compared together */
};

static inline v32 v32_all(uint32_t value) { return (v32){ 0 } + value; }
static inline v64 v64_all(uint64_t value) { return (v64){ 0 } + value; }
static inline v32 v32_load(const uint32_t *at) { return *(const v32 *)at; }
static inline void v32_store(uint32_t *at, v32 value) { *(v32 *)at = value; }
static inline v32 v16_add(v32 a, v32 b) { return (v32)((v16)a + (v16)b); }

/* Writes digits as words, because the filter takes two at a time, as one number. An odd index gets its digit. An even
 * index gets the number that its digit and the next one write: digits 3 1 4 1 become 31 1 41 1. */
HOT static void lanes_write(uint32_t *row, const uint8_t *digits, size_t count)
{
    enum { MANY = 32 };
    typedef uint8_t bytes __attribute__((vector_size(MANY), aligned(1), may_alias));
    const v32 tens_and_ones = (v32)v64_all(BIT(32) | 10);
    bytes bad = { 0 };
    for (size_t at = 0; at < count; at += MANY) {
        bad |= (bytes)(*(const bytes *)(digits + at) - '0' > 9);
#pragma GCC unroll 4
        for (size_t i = 0; i < MANY; i += LANES) {
            const v32 of_lanes = v32_widen(digits + at + i) - '0';
            v32_store(row + at + i, of_lanes * tens_and_ones + (v32)((v64)of_lanes >> 32));
        }
    }
    ASSERT(_mm256_movemask_epi8((__m256i)bad) == 0);
}

/* Returns digits times weights modulo 2^64: the product with a weight's lower half, and the one with its upper half,
 * of which 32 bits count. */
INLINED v64 fractions(const uint8_t *digits, const uint64_t *weights)
{
    const v64 d = v64_widen(digits) - '0', w = *(const v64 *)weights;
    return v64_mul_low(d, w) + (v64)((v32)(d << 32) * (v32)w);
}

HOT static uint64_t lanes_sum(const uint8_t *digits, const uint64_t *weights, size_t count)
{
    enum { MANY = MODULUS_PAD };
    static const _Alignas(2 * MANY) uint8_t ones_then_zeros[2 * MANY] = { [0 ... MANY - 1] = 0xff };
    v64 sum = v64_all(0);
    for (; count >= MANY; count -= MANY, digits += MANY, weights += MANY)
#pragma GCC unroll 4
        for (int i = 0; i < MANY; i += LANES64)
            sum += fractions(digits + i, weights + i);
    /* The rest, filled up with zeros: a loop of unknown length costs more. */
    __m128i known = _mm_loadu_si128((const __m128i *)(ones_then_zeros + MANY - count));
    uint8_t rest[MANY];
    __m128i last = _mm_blendv_epi8(_mm_set1_epi8('0'), _mm_loadu_si128((const __m128i *)digits), known);
    _mm_storeu_si128((__m128i *)rest, last);
#pragma GCC unroll 4
    for (int i = 0; i < MANY; i += LANES64)
        sum += fractions(rest + i, weights + i);
    uint64_t total = 0;
#pragma GCC unroll 8
    for (int i = 0; i < LANES64; i++)
        total += sum[i];
    return total;
}

HOT static void lanes_candidates(const struct modulus_probe *probe, const uint8_t *at, uint32_t least, uint32_t n,
                                 struct candidates *list)
{
    ASSERT(n <= MATCHER_N_DIGITS_MAX && probe->digits > 0);
    const v32 limits = v32_all(probe->limit);
    v32 sums = v32_all(probe->offset);
    for (uint32_t t = LANES; t < n + LANES - 1; t += LANES) { /* digits before the position: t is the first one's */
        const v32 digits = v32_widen(at - t) - '0';
        sums = v32_all(sums[0]) + v32_suffix(digits * v32_load(probe->weights + MODULUS_AFTER - t));
        uint32_t hits = v32_at_most(sums, limits);
        if (__builtin_expect(hits == 0, 1))
            continue;
        for (hits &= ~v32_at_most(digits, v32_all(0)); hits != 0; hits &= hits - 1) {
            const uint32_t before = t - (uint32_t)__builtin_ctz(hits);
            if (before < least || before >= n || before <= MODULUS_YOUNG_DIGITS)
                continue;
            if (list->count++ == CANDIDATES_MAX)
                return;
            list->before[list->count - 1] = before;
        }
    }
}

/* Up to three vectors of probes, the last one first: it starts with the latest digits. */
struct batch {
    v32 sum[FILTER_BATCH], least[FILTER_BATCH]; /* the sums, and the least ones so far */
    const uint32_t *row[FILTER_BATCH], *digits; /* the next group's rows of weights, and its digits */
};

/* Loads all lanes, or the lower ones alone. The next functions compute as many. */
INLINED v32 load(const uint32_t *at, bool lower) { return lower ? v32_of_lower(*(const v32_half *)at) : v32_load(at); }
INLINED v32 sum_of(v32 a, v32 b, bool lower)
{
    return lower ? v32_of_lower(v32_lower(a) + v32_lower(b)) : (v32)(a + b);
}
INLINED v32 product_of(v32 a, v32 b, bool lower)
{
    return lower ? v32_of_lower(v32_lower(a) * v32_lower(b)) : (v32)(a * b);
}
INLINED v32 least_of(v32 a, v32 b, bool lower)
{
    return lower ? v32_of_lower((v32_half)_mm256_min_epu32((__m256i)v32_lower(a), (__m256i)v32_lower(b)))
                 : v32_min(a, b);
}

/* Takes the first `count` vectors through `groups` groups of digits, from the last digit of a group to its first. At
 * each digit, a lane's sum is that of the start there. `lower`: the first vector's lower lanes are enough. */
INLINED void take_groups(struct batch *b, const bool lower, const int count, int32_t groups)
{
    for (; groups > 0; groups--, b->digits -= FILTER_GROUP) {
#pragma GCC unroll 3
        for (int j = 0; j < count; j++)
            b->sum[j] = sum_of(b->sum[j], load(b->row[j], lower && j == 0), lower && j == 0);
#pragma GCC unroll 4
        for (int row = FILTER_ROWS - 1; row >= 0; row--) {
            const v32 pair = v32_all(b->digits[2 * row]), last = v32_all(b->digits[2 * row + 1]);
#pragma GCC unroll 3
            for (int j = 0; j < count; j++) {
                const bool part = lower && j == 0;
                const v32 weights = load(b->row[j] + (row + 1) * LANES, part);
                const v32 from_last = sum_of(b->sum[j], product_of(last, weights, part), part);
                b->sum[j] = sum_of(b->sum[j], product_of(pair, weights, part), part);
                b->least[j] = least_of(b->least[j], least_of(from_last, b->sum[j], part), part);
            }
        }
#pragma GCC unroll 3
        for (int j = 0; j < count; j++)
            b->row[j] += GROUP_WORDS;
    }
}

/* Returns the upper 16 bits of sums, plus 1 for a carry of the lower bits, in both halves of a lane. The sums are over
 * the block's digits; partial sums of the window get this added. */
static inline v32 cache_moves(v32 sum)
{
    const v32 half = sum >> 16;
    return v16_add(half | half << 16, v32_all(0x10001));
}

INLINED void take_all(struct batch *b, const bool lower, const int32_t top[FILTER_BATCH], int32_t bottom)
{
    take_groups(b, lower, 1, top[0] - top[1]);
    take_groups(b, lower, 2, top[1] - top[2]);
    take_groups(b, lower, 3, top[2] - bottom + 1);
}

/* Takes `count` probes from pass->first on through the digits, down to the block's first group if the rest is cached.
 * Returns those that are hits there. The vectors join group by group, as filter.c draws. */
INLINED uint64_t take_batch(const struct filter *filter, const uint32_t *block, bool cached, uint32_t count,
                            struct filter_pass *pass)
{
    const uint32_t vectors = (count + LANES - 1) / LANES;
    const struct filter_vector *v = &filter->vector[pass->first / LANES];
    const int32_t bottom = cached && v->bottom < 0 ? 0 : v->bottom;
    int32_t top[FILTER_BATCH] = { filter_top_group(&filter->probe[pass->first + count - 1]) };
    struct batch b;
    ASSERT(vectors >= 1 && vectors <= FILTER_BATCH);
#pragma GCC unroll 3
    for (uint32_t j = 0; j < FILTER_BATCH; j++) {
        /* An absent vector has its top below the bottom, and takes no group. */
        const struct filter_vector *of = v + (j < vectors ? vectors - 1 - j : 0);
        if (j > 0)
            top[j] = j < vectors ? of->top : bottom - 1;
        b.row[j] = of->group0 - (ptrdiff_t)top[j] * GROUP_WORDS;
        b.sum[j] = v32_load(of->start);
        b.least[j] = v32_all(UINT32_MAX);
    }
    ASSERT(top[0] - bottom < FILTER_GROUPS_MAX);
    b.digits = block + FILTER_GROUP * top[0] - FILTER_GROUP_BEFORE;
    if (LANES > (int)FILTER_LANES_MIN && (count - 1) % LANES < FILTER_LANES_MIN)
        take_all(&b, true, top, bottom);
    else
        take_all(&b, false, top, bottom);

    uint64_t hits = 0;
#pragma GCC unroll 3
    for (uint32_t j = 0; j < FILTER_BATCH; j++) {
        if (j >= vectors)
            break;
        uint32_t at = (vectors - 1 - j) * LANES;
        hits |= (uint64_t)v32_at_most(b.least[j], v32_all(filter->limit)) << at;
        v32_store(pass->moves + at, cache_moves(b.sum[j]));
    }
    return hits & (BIT(count) - 1);
}

/* Returns the least moved sums, in 16 bits each, of a part of a probe's cache. */
static inline v32 cache_block_least(const uint32_t *cache, v32 moves)
{
    v32 a = v16_add(v32_load(cache), moves);
#pragma GCC unroll 8
    for (int i = LANES; i < CACHE_BLOCK_WORDS; i += LANES)
        a = v16_min(a, v16_add(v32_load(cache + i), moves));
    return a;
}

/* Returns the probes of the batch at work that are hits by their partial sums. */
static inline uint64_t cache_compare(const struct filter *filter, const struct filter_pass *pass, uint32_t count)
{
    const uint32_t *cache = filter->cache + pass->first * filter->cache_words;
    const v32 limit = v32_all(((filter->limit >> 16) + 1) * 0x10001); /* in both halves of a lane */
    uint64_t hits = 0;
    for (uint32_t k = 0; k < count; k++, cache += filter->cache_words) {
        const int32_t reach = ((int32_t)filter->n - filter->probe[pass->first + k].at) / 2;
        if (reach <= 0)
            break;
        const v32 moves = v32_all(pass->moves[k]);
        v32 a = cache_block_least(cache, moves);
        for (int32_t at = CACHE_BLOCK_WORDS; at < reach; at += CACHE_BLOCK_WORDS)
            a = v16_min(a, cache_block_least(cache + at, moves));
        hits |= (uint64_t)v16_any_at_most(a, limit) << k;
    }
    return hits;
}

HOT static void lanes_probe(const struct filter *filter, const uint32_t *block, bool first_block,
                            struct filter_pass *pass)
{
    if (pass->part != FILTER_BLOCK) {
        const uint32_t ready = filter->cached * LANES;
        const bool cached = first_block && pass->taken < ready;
        const uint32_t end = cached ? min_u32(pass->needed, ready) : pass->needed;
        const uint32_t count = min_u32(end - pass->taken, FILTER_BATCH * LANES);
        pass->part = cached ? FILTER_BLOCK : FILTER_WHOLE;
        pass->first = pass->taken;
        pass->taken += count;
        pass->hits = take_batch(filter, block, cached, count, pass);
        if (!cached || pass->hits != 0)
            return;
    }
    pass->part = FILTER_WINDOW;
    pass->hits = cache_compare(filter, pass, pass->taken - pass->first);
}

/* Adds up the window's digits for a vector's probes, and stores the upper 16 bits of each start's sums. Lanes are
 * probes here; in the cache each probe has a row of its own. */
static void lanes_fill_cache(struct filter *filter, const uint32_t *block, uint32_t index)
{
    ASSERT(index < filter->vector_count);
    const struct filter_vector *v = &filter->vector[index];
    ASSERT(-v->bottom * CACHE_GROUP_WORDS <= (int32_t)filter->cache_words);
    const uint32_t probes = min_u32(filter->probe_count - index * LANES, LANES);
    const uint32_t *row = v->group0, *text = block - FILTER_GROUP_BEFORE;
    uint32_t *cache = filter->cache + index * LANES * filter->cache_words;
    v32 sum = v32_all(0);
    for (int32_t group = -1; group >= v->bottom; group--, cache += CACHE_GROUP_WORDS) {
        v32 halves[CACHE_GROUP_WORDS];
        text -= FILTER_GROUP;
        row += GROUP_WORDS;
#pragma GCC unroll 4
        for (int r = FILTER_ROWS - 1; r >= 0; r--) {
            const v32 weights = v32_load(row + (r + 1) * LANES), from_last = sum + v32_all(text[2 * r + 1]) * weights;
            sum += v32_all(text[2 * r]) * weights;
            halves[r] = sum >> 16 | (from_last & v32_all(0xffff0000));
        }
        /* Transposed within each 128 bits: part p of transposed[k] is what probe 4 p + k has of these starts. */
        const v32 a = v32_low_words(halves[0], halves[1]), b = v32_high_words(halves[0], halves[1]);
        const v32 c = v32_low_words(halves[2], halves[3]), d = v32_high_words(halves[2], halves[3]);
        const v32 transposed[4] = { v32_low_pairs(a, c), v32_high_pairs(a, c), v32_low_pairs(b, d),
                                    v32_high_pairs(b, d) };
        const uint32_t *words = (const uint32_t *)transposed;
        for (uint32_t k = 0; k < probes; k++)
            memcpy(cache + k * filter->cache_words, words + k % 4 * LANES + k / 4 * 4,
                   CACHE_GROUP_WORDS * sizeof *cache);
    }
}

const struct simd_ops SIMD_OPS = {
    .lanes = LANES,
    .write = lanes_write,
    .sum = lanes_sum,
    .candidates = lanes_candidates,
    .fill_cache = lanes_fill_cache,
    .probe = lanes_probe,
};
