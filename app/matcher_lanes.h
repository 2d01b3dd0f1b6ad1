/* The kernels' text for vectors, for any number of lanes. A variant's file defines LANES, LOOK_BITS, ROW_DIGITS,
 * DIGIT_WORDS and the operations on its vectors (v32, v64, look_state), then includes this. */
#pragma once

#include <immintrin.h>

#include "app/matcher_kernel.h"
#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"
#include "kernel/base/hot.h"

enum { BLOCK = MATCHER_STEPS * LANES };

typedef uint8_t vbytes __attribute__((vector_size(32)));
enum { COLUMNS = 8 };
static inline vbytes columns_load(const uint8_t *digits, int i)
{
    __m256i low = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(digits + 16 * i)));
    return (vbytes)_mm256_inserti128_si256(low, _mm_loadu_si128((const __m128i *)(digits + 64 + 16 * i)), 1);
}
static inline vbytes vbytes_low(vbytes a, vbytes b) { return (vbytes)_mm256_unpacklo_epi8((__m256i)a, (__m256i)b); }
static inline vbytes vbytes_high(vbytes a, vbytes b) { return (vbytes)_mm256_unpackhi_epi8((__m256i)a, (__m256i)b); }
static inline vbytes vwords_low(vbytes a, vbytes b) { return (vbytes)_mm256_unpacklo_epi16((__m256i)a, (__m256i)b); }
static inline vbytes vwords_high(vbytes a, vbytes b) { return (vbytes)_mm256_unpackhi_epi16((__m256i)a, (__m256i)b); }
static inline vbytes vwords_shift(vbytes a, int bits) { return (vbytes)_mm256_slli_epi16((__m256i)a, bits); }
static inline vbytes vbytes_max(vbytes a, vbytes b) { return (vbytes)_mm256_max_epu8((__m256i)a, (__m256i)b); }
static inline bool vbytes_none(vbytes a) { return _mm256_movemask_epi8((__m256i)a) == 0; }

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

static void kernel_write_planes(union matcher_planes *planes, uint32_t begin, const uint8_t *digits, size_t count)
{
    ASSERT(begin % MATCHER_STEPS == 0);
    bool good = true;
    uint32_t *column = &planes->row[0][begin / MATCHER_STEPS];
    for (size_t done = 0; done < count; done += MATCHER_STEPS * COLUMNS, column += COLUMNS)
        good &= columns_write(column, digits + done);
    ASSERT(good);
}

HOT static void kernel_write(struct matcher_digits *to, uint32_t begin, const uint8_t *digits, size_t count,
                             bool hashed)
{
    enum { MANY = 32 };
    const v32 zero = v32_all('0');
    __m256i most = _mm256_set1_epi8('0'), least = most;
    for (size_t at = 0; at < count; at += MANY) {
        __m256i d = _mm256_loadu_si256((const __m256i *)(digits + at));
        most = _mm256_max_epu8(most, d);
        least = _mm256_min_epu8(least, d);
#pragma GCC unroll 4
        for (size_t i = 0; i < MANY; i += LANES) {
            v32 digit = v32_widen(digits + at + i) - zero;
            if (ROW_DIGITS == 2)
                v32_store(to->pair + begin + at + i, v32_pairs(digit));
            else
                v32_store(to->word + begin + at + i, v32_word(digit));
        }
    }
    for (size_t at = 0; ROW_DIGITS == 2 && hashed && at < count; at += LANES)
        v32_store(to->word + begin + at, v32_word(v32_widen(digits + at) - zero));
    __m256i good = _mm256_cmpeq_epi8(_mm256_max_epu8(most, _mm256_set1_epi8('9')), _mm256_set1_epi8('9'));
    good = _mm256_and_si256(good, _mm256_cmpeq_epi8(least, _mm256_set1_epi8('0')));
    ASSERT(_mm256_movemask_epi8(good) == -1);
}

static uint64_t kernel_zeros(const uint8_t digits[64])
{
    uint64_t zeros = 0;
#pragma GCC unroll 2
    for (int i = 0; i < 64; i += 32) {
        __m256i d = _mm256_loadu_si256((const __m256i *)(digits + i));
        zeros |= (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(d, _mm256_set1_epi8('0'))) << i;
    }
    return zeros;
}

/* A digit times a weight's lower half is 64 bits wide; times its upper half, it counts by its lower 32 bits. */
static inline __attribute__((always_inline)) void
fraction_add(v64 *low, v64 *high, const uint8_t *digits, const uint64_t *weights)
{
    v64 d = v64_load_bytes(digits) - '0', w = v64_load(weights);
    *low += v64_mul_low(d, w);
    *high += (v64)v32_mul((v32)(d << 32), (v32)w);
}

HOT static uint64_t kernel_fraction(const uint8_t *digits, const uint64_t *weights, size_t count)
{
    enum { MANY = 16 };
    static const _Alignas(2 * MANY) uint8_t ones_then_zeros[2 * MANY] = {[0 ... MANY - 1] = 0xff};
    v64 low = v64_all(0), high = v64_all(0);
    for (; count >= MANY; count -= MANY, digits += MANY, weights += MANY)
#pragma GCC unroll 4
        for (int i = 0; i < MANY; i += LANES64)
            fraction_add(&low, &high, digits + i, weights + i);
    /* The rest, and zeros: text and weights go on behind them, and loops of unknown length cost more. */
    __m128i known = _mm_loadu_si128((const __m128i *)(ones_then_zeros + MANY - count));
    uint8_t rest[MANY];
    __m128i last = _mm_blendv_epi8(_mm_set1_epi8('0'), _mm_loadu_si128((const __m128i *)digits), known);
    _mm_storeu_si128((__m128i *)rest, last);
#pragma GCC unroll 4
    for (int i = 0; i < MANY; i += LANES64)
        fraction_add(&low, &high, rest + i, weights + i);
    return v64_sum(low + high);
}

HOT static uint32_t kernel_follow(const uint8_t *digits, const uint64_t *weights, uint32_t count, uint64_t tolerance,
                              uint64_t *fraction)
{
    const v64 reach = v64_all(tolerance), limit = v64_all(2 * tolerance);
    v64 carry = v64_all(*fraction) + reach;
    for (uint32_t at = 0; at < count; at += LANES64) {
        v64 low = v64_all(0), high = low;
        fraction_add(&low, &high, digits + at, weights + at);
        v64 sums = carry + v64_prefix(low + high);
        uint32_t zero = v64_at_most(sums, limit);
        carry = v64_all_last(sums);
        if (zero == 0)
            continue;
        uint32_t taken = at + (uint32_t)__builtin_ctz(zero) + 1;
        *fraction = sums[taken - at - 1] - tolerance;
        return taken <= count ? taken : 0;
    }
    return 0;
}

/* Where the digits of step 0 of a block lie; those of the next step, one row on. */
static inline const uint32_t *block_at(const union matcher_planes *planes, uint32_t begin)
{
    return &planes->row[begin % MATCHER_STEPS][begin / MATCHER_STEPS];
}

/* One block's sums from each of its digits to its end: sum[s], and what each lane has to its right. Returns the
 * block's whole sum. */
static inline __attribute__((always_inline)) uint32_t
look_block(const uint32_t *digits, const uint32_t *weights, v32 sum[MATCHER_STEPS], v32 *right)
{
    v32 lane = v32_all(0);
#pragma GCC unroll 16
    for (int s = MATCHER_STEPS - 1; s >= 0; s--) {
        lane += v32_weigh(v32_load(digits + s * MATCHER_ROW_WORDS), v32_load(weights + s * MATCHER_ROW_WORDS));
        sum[s] = lane;
    }
    v32 from_here = v32_suffix(lane);
    *right = from_here - lane;
    return v32_first(from_here);
}

static bool kernel_look(const union matcher_planes *planes, const struct matcher_look *look,
                        uint64_t starts[MATCHER_POSITIONS / 64])
{
    uint32_t offset = look->offset, begin = MATCHER_SEGMENT_AT;
    const v32 limits = look_limits(v32_all(look->limit));
    bool any = false;
    for (uint32_t block = 0; block < look->block_count; block++) {
        v32 sum[MATCHER_STEPS], right;
        look_state state = look_start();
        begin -= BLOCK;
        uint32_t whole = look_block(block_at(planes, begin), block_at(&look->weights, begin), sum, &right);
        right += v32_all(offset);
        offset += whole;
#pragma GCC unroll 16
        for (int s = 0; s < MATCHER_STEPS; s++)
            state = look_test(state, sum[s] + right, limits);
        if (look_hot(state, limits) == 0)
            continue;
        any = true;
        for (uint32_t s = 0; s < MATCHER_STEPS; s++)
            for (uint32_t hot = look_hot(look_test(look_start(), sum[s] + right, limits), limits); hot != 0;
                 hot &= hot - 1) {
                uint32_t start = begin + MATCHER_STEPS * (uint32_t)__builtin_ctz(hot) + s;
                starts[start / 64] |= BIT(start % 64);
            }
    }
    return any;
}

/* The last block of old starts begins so far before the stretch; in front of it, the others. */
static inline int32_t slot_block_begin(uint32_t block)
{
    return -MATCHER_GROUP_BEFORE - (int32_t)((block + 1) * BLOCK);
}

/* The sums from each start of a block up to the stretch, in the upper bits. `offset` is what comes behind the block; it
 * becomes what is behind the next one, which lies in front of it. */
static inline __attribute__((always_inline)) void
old_block(const union matcher_planes *planes, const struct matcher_look *look, uint32_t end, uint32_t block,
          uint32_t *offset, v32 sum[MATCHER_STEPS])
{
    v32 right;
    const uint32_t begin = MATCHER_SEGMENT_AT + (uint32_t)slot_block_begin(block);
    const uint32_t whole = look_block(block_at(planes, begin), block_at(&look->weights, begin - end), sum, &right);
    right += v32_all(*offset);
    *offset += whole;
#pragma GCC unroll 16
    for (int s = 0; s < MATCHER_STEPS; s++)
        sum[s] = (sum[s] + right) << (32 - LOOK_BITS);
}

static void kernel_remember(const union matcher_planes *planes, const struct matcher_look *look, uint32_t end,
                            uint32_t blocks, uint32_t *slot)
{
    uint32_t offset = 0;
    for (uint32_t block = 0; block < blocks; block++) {
        v32 sum[MATCHER_STEPS];
        old_block(planes, look, end, block, &offset, sum);
#pragma GCC unroll 8
        for (int s = 0; s < MATCHER_STEPS; s += 2, slot += LANES)
            v32_store(slot, sum[s] >> 16 | (sum[s + 1] & v32_all(0xffff0000)));
    }
}

static void kernel_remember_cells(const union matcher_planes *planes, const struct matcher_look *look, uint32_t end,
                                  uint32_t blocks, struct matcher_cells *cells)
{
    uint64_t *const taken = cells->taken;
    uint32_t offset = 0, *at = cells->sums;
    memset(taken, 0, sizeof cells->taken);
    for (uint32_t block = 0; block < blocks; block++) {
        v32 sum[MATCHER_STEPS];
        old_block(planes, look, end, block, &offset, sum);
#pragma GCC unroll 16
        for (int s = 0; s < MATCHER_STEPS; s++)
            v32_store(at + s * LANES, sum[s]);
#pragma GCC unroll 8
        for (const uint32_t *behind = at + BLOCK; at < behind; at++) {
            const uint32_t cell = *at >> (32 - MATCHER_CELLS_BITS);
            taken[cell / 64] |= BIT(cell % 64);
        }
    }
    taken[ARRAY_COUNT(cells->taken) - 1] = taken[0];
}

/* An old start is hot if its upper 16 bits and those of the digits behind it, and a carry or none, are at most those of
 * the limit. */
static inline v32 slot_moves(v32 sum)
{
    v32 half = sum << (32 - LOOK_BITS) >> 16;
    return v16_add(half | half << 16, v16_all(1));
}

static inline int32_t min_int32(int32_t a, int32_t b) { return a < b ? a : b; }

static inline v32 slot_block_least(const uint32_t *slot, v32 moves)
{
    v32 least = v16_add(v32_load(slot), moves);
#pragma GCC unroll 8
    for (int i = LANES; i < BLOCK / 2; i += LANES)
        least = v16_min(least, v16_add(v32_load(slot + i), moves));
    return least;
}

/* The least of some blocks of old starts, moved. N = 256 is one or two of them. */
static inline v32 slot_least(const uint32_t *slot, uint32_t blocks, uint32_t move)
{
    const v32 moves = v32_all(move);
    v32 least = slot_block_least(slot, moves);
    if (blocks == 1)
        return least;
    least = v16_min(least, slot_block_least(slot + BLOCK / 2, moves));
    for (uint32_t block = 2; block < blocks; block++)
        least = v16_min(least, slot_block_least(slot + block * (BLOCK / 2), moves));
    return least;
}

static inline uint32_t slot_hot(v32 least, uint32_t limit)
{
    return v16_zeros(v16_sub_saturated(least, v32_all(limit)));
}

/* The looks at work that have old starts that may be hot, given what these are moved by. */
static inline uint64_t slots_hot(const struct matcher_sweep *sweep, uint32_t first, uint32_t count,
                                 const uint32_t *moves)
{
    const uint32_t *slot = sweep->slots + first * sweep->slot_words;
    const uint8_t *blocks = sweep->old_blocks + first;
    v32 least[MATCHER_BUNDLE * LANES], all = v32_all(UINT32_MAX);
    uint32_t k = 0;
    for (; k < count && blocks[k] > 0; k++, slot += sweep->slot_words) {
        least[k] = slot_least(slot, blocks[k], moves[k]);
        all = v16_min(all, least[k]);
    }
    if (__builtin_expect(slot_hot(all, sweep->slot_limit) == 0, 1))
        return 0;
    uint64_t hot = 0;
    while (k-- > 0)
        hot |= (uint64_t)(slot_hot(least[k], sweep->slot_limit) != 0) << k;
    return hot;
}

/* Whether one of a look's old starts is hot: if there is one by the slot, its block's sums tell. */
HOT static __attribute__((noinline)) bool
old_hot(const struct matcher_sweep *sweep, uint32_t look, uint32_t sum, uint32_t limit)
{
    const uint32_t *slot = sweep->slots + look * sweep->slot_words, *sums = sweep->old[look].sums;
    const uint32_t blocks = sweep->old_blocks[look];
    const v32 moves = slot_moves(v32_all(sum)), from = v32_all(sum << (32 - LOOK_BITS));
    uint32_t hot = 0;
    for (uint32_t block = 0; block < blocks; block++, slot += BLOCK / 2)
        hot |= (uint32_t)(slot_hot(slot_block_least(slot, moves), sweep->slot_limit) != 0) << block;
    v32 least = v32_all(UINT32_MAX);
    for (; hot != 0; hot &= hot - 1) {
        const uint32_t *at = sums + (uint32_t)__builtin_ctz(hot) * BLOCK;
#pragma GCC unroll 16
        for (int i = 0; i < BLOCK; i += LANES)
            least = v32_min(least, v32_load(at + i) + from);
    }
    return v32_at_most(least, limit << (32 - LOOK_BITS)) != 0;
}

/* The same by cells. An old start is hot if it is from..from + limit: less than 4 cells' width, so that one load has
 * the bits of all cells in question. */
static inline uint64_t cells_hot(const struct matcher_sweep *sweep, uint32_t first, uint32_t count,
                                 const uint32_t *sums)
{
    enum { IN_CELL = 32 - MATCHER_CELLS_BITS };
    uint32_t byte[MATCHER_BUNDLE * LANES], asked[MATCHER_BUNDLE * LANES];
    for (uint32_t k = 0; k < count; k += LANES) {
        const v32 from = 0 - (v32_load(sums + k) << (32 - LOOK_BITS)), cell = from >> IN_CELL;
        const v32 limit = v32_load(sweep->vector[(first + k) / LANES].limit) << (32 - LOOK_BITS);
        const v32 more = ((from & v32_all((1 << IN_CELL) - 1)) + limit) >> IN_CELL;
        v32_store(byte + k, cell / 8);
        v32_store(asked + k, ((v32_all(2) << more) - 1) << cell % 8);
    }
    uint64_t taken = 0, hot = 0;
    for (uint32_t k = 0; k < count; k++)
        taken |= (uint64_t)((load_le32((const uint8_t *)sweep->old[first + k].taken + byte[k]) & asked[k]) != 0) << k;
    for (; __builtin_expect(taken != 0, 0); taken &= taken - 1) {
        const uint32_t k = (uint32_t)__builtin_ctzll(taken), look = first + k;
        hot |= (uint64_t)old_hot(sweep, look, sums[k], sweep->vector[look / LANES].limit[look % LANES]) << k;
    }
    return hot;
}

enum { BUNDLE = MATCHER_BUNDLE, GROUP_ROWS = MATCHER_GROUP / ROW_DIGITS, GROUP_WORDS = (1 + GROUP_ROWS) * LANES };

/* What is kept of a group and a vector. */
struct mark { uint32_t sum[LANES], hot[LANES]; };

/* Up to three vectors of looks, the one with the latest looks first. They share the broadcast digit. */
struct bundle {
    v32 sum[BUNDLE], limits[BUNDLE];
    look_state all[BUNDLE];
    /* Of the next group: its rows of weights, its digits, what is kept of it. */
    const uint32_t *row[BUNDLE], *digits;
    struct mark *mark;
};

/* Takes a vector through one row of weights: the sums from its last digit on, then those from its first. */
static inline __attribute__((always_inline)) look_state
look_row(look_state hot, v32 *sum, v32 first, v32 last, v32 weights, v32 limits)
{
    if (ROW_DIGITS == 2)
        hot = look_test(hot, *sum + v32_weigh(last, weights), limits);
    *sum += v32_weigh(first, weights);
    return look_test(hot, *sum, limits);
}

/* Takes the first `count` of them through so many groups, backwards. */
static inline __attribute__((always_inline)) void sweep_groups(struct bundle *b, const int count, int32_t groups)
{
    for (; groups > 0; groups--, b->digits -= MATCHER_GROUP, b->mark += BUNDLE) {
        look_state hot[BUNDLE];
#pragma GCC unroll 3
        for (int j = 0; j < count; j++) {
            b->sum[j] += v32_load(b->row[j]);
            v32_store(b->mark[j].sum, b->sum[j]);
            hot[j] = look_start();
        }
#pragma GCC unroll 8
        for (int row = GROUP_ROWS - 1; row >= 0; row--) {
            const v32 first = v32_all(b->digits[row * ROW_DIGITS]),
                      last = v32_all(b->digits[(row + 1) * ROW_DIGITS - 1]);
#pragma GCC unroll 3
            for (int j = 0; j < count; j++)
                hot[j] = look_row(hot[j], &b->sum[j], first, last, v32_load(b->row[j] + (row + 1) * LANES),
                                  b->limits[j]);
        }
#pragma GCC unroll 3
        for (int j = 0; j < count; j++) {
            look_store(b->mark[j].hot, hot[j]);
            b->all[j] = look_merge(b->all[j], hot[j]);
            b->row[j] += GROUP_WORDS;
        }
    }
}

/* Takes the looks first..first + count through the stretch; tells whether one has a hot start there. */
static inline __attribute__((always_inline)) bool
sweep_bundle(const struct matcher_sweep *sweep, const uint32_t *stretch, uint32_t left, bool slots, uint32_t count,
             struct matcher_sweep_state *state)
{
    const uint32_t vectors = (count + LANES - 1) / LANES;
    const struct matcher_sweep_vector *v = &sweep->vector[state->first / LANES];
    const int32_t bottom = slots && v->bottom < 0 ? 0 : v->bottom;
    int32_t top[BUNDLE] = {(int32_t)(left + MATCHER_GROUP_BEFORE - 1) / MATCHER_GROUP};
    struct bundle b;
#pragma GCC unroll 3
    for (uint32_t j = 0; j < BUNDLE; j++) {
        const struct matcher_sweep_vector *of = v + (j < vectors ? vectors - 1 - j : 0);
        top[j] = j < vectors ? min_int32(of->top, top[0]) : bottom - 1;
        b.row[j] = of->group0 - (ptrdiff_t)top[j] * GROUP_WORDS;
        b.sum[j] = v32_load(of->start);
        b.limits[j] = look_limits(v32_load(of->limit));
        b.all[j] = look_start();
    }
    b.digits = stretch + MATCHER_GROUP * top[0] - MATCHER_GROUP_BEFORE;
    b.mark = (struct mark *)state->marks;
    state->vectors = vectors;
    state->top = top[0];
    state->bottom = bottom;
    sweep_groups(&b, 1, top[0] - top[1]);
    sweep_groups(&b, 2, top[1] - top[2]);
    sweep_groups(&b, 3, top[2] - bottom + 1);

    uint64_t young = 0;
#pragma GCC unroll 3
    for (uint32_t j = 0; j < BUNDLE; j++) {
        if (j >= vectors)
            break;
        uint32_t at = (vectors - 1 - j) * LANES;
        young |= (uint64_t)look_hot(b.all[j], b.limits[j]) << at;
        v32_store(state->sums + at, b.sum[j]);
        v32_store(state->moves + at, slot_moves(b.sum[j]));
    }
    state->young = young & (BIT(count) - 1);
    return state->young != 0;
}

/* Goes on to the next looks, `most` of them or what is left: returns how many. */
static inline uint32_t looks_next(struct matcher_sweep_state *state, uint32_t most)
{
    const uint32_t count = (uint32_t)min_size(state->needed - state->next, most);
    state->first = state->next;
    state->next += count;
    return count;
}

/* Where its loops fall on lines costs up to 7 ns of 245 for a first answer (bench_matcher first, Zen 3): so it stays
 * where it is when something in front of it grows. */
HOT static __attribute__((aligned(HOT_LINE_BYTES))) bool
kernel_sweep(const struct matcher_sweep *sweep, const void *stretch, uint32_t left, bool slots,
             struct matcher_sweep_state *state)
{
    for (;;) {
        if (state->slots_due) {
            state->slots_due = false;
            const uint32_t count = state->next - state->first;
            state->old = state->next <= sweep->cells_filled ? cells_hot(sweep, state->first, count, state->sums)
                                                            : slots_hot(sweep, state->first, count, state->moves);
            if (__builtin_expect(state->old != 0, 0)) {
                state->young = 0;
                return true;
            }
        }
        if (state->next == state->needed)
            return false;
        const uint32_t count = looks_next(state, BUNDLE * LANES);
        state->slots_due = slots;
        if (__builtin_expect(sweep_bundle(sweep, stretch, left, slots, count, state), 0)) {
            state->old = 0;
            return true;
        }
    }
}

/* A list of starts; those that do not fit are counted only. */
struct starts {
    const uint32_t *stretch;
    int32_t *list;
    uint32_t count, max;
    int32_t oldest;
};

/* Adds a start, unless it is a digit 0 or too old. (In slots those that are too old have one sum for all: they are hot
 * once in 2^15 looks, but all at once.) */
static inline void starts_add(struct starts *starts, int32_t at)
{
    if (at < starts->oldest || starts->stretch[at] < (ROW_DIGITS == 2 && at % 2 == 0 ? 10 : 1))
        return;
    if (starts->count < starts->max)
        starts->list[starts->count] = at;
    starts->count++;
}

/* The hot starts of one group, by a lane's sum before it. */
static inline void starts_of_group(struct starts *starts, const uint32_t *group0, int32_t group, uint32_t sum,
                                   uint32_t limit)
{
    const uint32_t *weight = group0 - (ptrdiff_t)group * GROUP_WORDS;
    const int32_t begin = MATCHER_GROUP * group - MATCHER_GROUP_BEFORE;
    uint32_t hot = 0;
#pragma GCC unroll 8
    for (int32_t s = MATCHER_GROUP - 1; s >= 0; s--) {
        const uint32_t from_here = sum + word_weigh(starts->stretch[begin + s], weight[(s / ROW_DIGITS + 1) * LANES]);
        hot |= (uint32_t)look_sum_hot(from_here, limit) << s;
        if (s % ROW_DIGITS == 0)
            sum = from_here;
    }
    for (; hot != 0; hot &= hot - 1)
        starts_add(starts, begin + __builtin_ctz(hot));
}

/* Those in groups. Which groups are hot is gathered before these are gone through: branches on what is not known
 * beforehand cost more. */
static inline void starts_young(struct starts *starts, const struct matcher_sweep_vector *v, uint32_t lane,
                                const struct mark *mark, int32_t top, int32_t bottom)
{
    enum { MANY = 64 };
    const uint32_t limit = v->limit[lane];
    for (; top >= bottom; top -= MANY, mark += MANY * BUNDLE) {
        const int32_t many = min_int32(top - bottom + 1, MANY);
        uint64_t hot = 0;
        for (int32_t i = 0; i < many; i++)
            hot |= (uint64_t)look_stored_hot(mark[i * BUNDLE].hot, lane, limit) << i;
        for (; hot != 0; hot &= hot - 1) {
            int32_t i = __builtin_ctzll(hot);
            starts_of_group(starts, v->group0 + lane, top - i, mark[i * BUNDLE].sum[lane], limit);
        }
    }
}

/* Those in a slot. */
HOT static __attribute__((noinline)) void
starts_old(struct starts *starts, const uint32_t *slot, uint32_t blocks, uint32_t move, uint32_t limit)
{
    const v32 moves = v32_all(move);
    for (uint32_t block = 0; block < blocks; block++, slot += BLOCK / 2) {
        if (slot_hot(slot_block_least(slot, moves), limit) == 0)
            continue;
        for (uint32_t s = 0; s < MATCHER_STEPS; s += 2)
            for (uint32_t hot = slot_hot(v16_add(v32_load(slot + s / 2 * LANES), moves), limit); hot != 0;) {
                uint32_t place = (uint32_t)__builtin_ctz(hot) / V16_MASK_BITS;
                hot &= ~(((UINT32_C(1) << V16_MASK_BITS) - 1) << V16_MASK_BITS * place);
                starts_add(starts, slot_block_begin(block) + (int32_t)(place / 2 * MATCHER_STEPS + s + place % 2));
            }
    }
}

HOT static uint32_t kernel_starts(const struct matcher_sweep *sweep, const void *stretch,
                              const struct matcher_sweep_state *state, uint32_t k, int32_t oldest, int32_t *list,
                              uint32_t max)
{
    struct starts starts = {.stretch = stretch, .list = list, .max = max, .oldest = oldest};
    const uint32_t lane = k % LANES, look = state->first + k, j = state->vectors - 1 - k / LANES;
    const struct matcher_sweep_vector *v = &sweep->vector[look / LANES];
    const int32_t top = min_int32(state->top, v->top);
    const struct mark *marks = (const struct mark *)state->marks + (state->top - top) * BUNDLE + j;
    if ((state->young >> k & 1) != 0)
        starts_young(&starts, v, lane, marks, top, state->bottom);
    if ((state->old >> k & 1) != 0)
        starts_old(&starts, sweep->slots + look * sweep->slot_words, sweep->old_blocks[look], state->moves[k],
                   sweep->slot_limit);
    return starts.count;
}

#include "app/matcher_lanes_hash.h"
#include "app/matcher_lanes_comb.h"

#define MATCHER_KERNEL \
    { .lanes = LANES, .sweep_lanes = LANES, .stretch = MATCHER_STRETCH_DIGITS, .block = BLOCK, \
      .look_digits_min = MATCHER_LOOK_DIGITS_MIN, \
      .look_bits = LOOK_BITS, .row_digits = ROW_DIGITS, .digit_words = DIGIT_WORDS, .write = kernel_write, \
      .write_planes = kernel_write_planes, .zeros = kernel_zeros, .fraction = kernel_fraction, \
      .follow = kernel_follow, .look = kernel_look, \
      .remember = kernel_remember, .remember_cells = kernel_remember_cells, .sweep = kernel_sweep, \
      .starts = kernel_starts, \
      .comb_write = kernel_comb_write, .comb = kernel_comb, .comb_starts = kernel_comb_starts, \
      .insert = kernel_insert, .probe = kernel_probe, .partners = kernel_partners }
