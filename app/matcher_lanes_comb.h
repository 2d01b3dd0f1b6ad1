/* The kernels' text for vectors, third part: long bursts. Included by app/matcher_lanes.h. */
#pragma once

enum { COMB = MATCHER_COMB_VECTORS, COMB_CHUNK = MATCHER_COMB_BLOCK };

/* Puts side by side the bytes of two columns each: the first of the one, the first of the other, their second ones ...
 * Done log2(LANES) times, that makes rows of the columns. */
static inline __attribute__((always_inline)) void comb_interleave(vbytes c[LANES])
{
    vbytes next[LANES];
#pragma GCC unroll 8
    for (int i = 0; i < LANES / 2; i++) {
        next[2 * i] = vbytes_low(c[i], c[i + LANES / 2]);
        next[2 * i + 1] = vbytes_high(c[i], c[i + LANES / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        c[i] = next[i];
}

static void kernel_comb_write(uint32_t *row, const uint8_t *digits, uint32_t pitch, uint32_t count)
{
    vbytes most = {0};
    for (uint32_t done = 0; done < count; done += COMB_CHUNK, digits += COMB_CHUNK) {
        vbytes c[LANES];
#pragma GCC unroll 16
        for (uint32_t l = 0; l < LANES; l++) {
            c[l] = (vbytes)_mm256_loadu_si256((const __m256i *)(digits + l * pitch)) - '0';
            most = vbytes_max(most, c[l]);
        }
#pragma GCC unroll 4
        for (int ways = 1; ways < LANES; ways *= 2)
            comb_interleave(c);
        /* Through memory: taken out of registers, bytes cost an instruction more. Rows 0 to 15 are in the lower halves,
         * the others in the upper ones. */
        uint8_t bytes[LANES][COMB_CHUNK];
        memcpy(bytes, c, sizeof bytes);
        __asm__ volatile("" : "+m"(bytes));
#pragma GCC unroll 2
        for (uint32_t half = 0; half < COMB_CHUNK; half += 16)
#pragma GCC unroll 16
            for (uint32_t l = 0; l < LANES; l++)
#pragma GCC unroll 2
                for (uint32_t at = 0; at < 16; at += LANES, row += LANES)
                    v32_store(row, v32_word(v32_widen(&bytes[l][half + at])));
    }
    ASSERT(vbytes_none((vbytes)(most > 9)));
}

/* What is kept of a block and a comb. */
struct comb_mark { uint32_t sum[LANES], hot[LANES]; };

/* One digit of each comb, and what is to be tested. */
#define COMB_STEP(t, test) \
    do { \
        const v32 weights = v32_all(weight[-(t)]); \
        _Pragma("GCC unroll 4") for (int j = 0; j < count; j++) { \
            sum[j] += v32_weigh(v32_load(row[j] - (t) * LANES), weights); \
            if (test) \
                hot[j] = look_test(hot[j], sum[j], limits); \
        } \
    } while (0)
#define COMB_GO_ON(steps) \
    do { \
        weight -= (steps); \
        _Pragma("GCC unroll 4") for (int j = 0; j < count; j++) \
            row[j] -= (steps) * LANES; \
    } while (0)

/* Takes `count` combs of a constant through N digits, backwards. They share its weights. */
static inline __attribute__((always_inline)) bool
comb_bundle(const struct matcher_comb *comb, const int count, struct matcher_comb_state *state)
{
    const struct matcher_look *look = state->look;
    const uint32_t *row[COMB], *weight = look->comb + MATCHER_COMB_LAST;
    const v32 limits = look_limits(v32_all(look->limit));
    v32 sum[COMB];
    look_state hot[COMB], all[COMB];
    struct comb_mark *mark = (struct comb_mark *)state->marks;
#pragma GCC unroll 4
    for (int j = 0; j < count; j++) {
        row[j] = comb->row0 + (state->end[j] - 1) * LANES;
        sum[j] = v32_all(look->offset);
        all[j] = look_start();
    }
#pragma GCC unroll 4
    for (int t = 0; t < MATCHER_COMB_YOUNG; t++)
        COMB_STEP(t, false);
    COMB_GO_ON(MATCHER_COMB_YOUNG);
    for (uint32_t block = 0; block < comb->blocks; block++, mark += COMB) {
#pragma GCC unroll 4
        for (int j = 0; j < count; j++) {
            v32_store(mark[j].sum, sum[j]);
            hot[j] = look_start();
        }
#pragma GCC unroll 32
        for (int t = 0; t < MATCHER_COMB_BLOCK; t++)
            COMB_STEP(t, true);
        COMB_GO_ON(MATCHER_COMB_BLOCK);
#pragma GCC unroll 4
        for (int j = 0; j < count; j++) {
            look_store(mark[j].hot, hot[j]);
            all[j] = look_merge(all[j], hot[j]);
        }
    }
    state->hot = 0;
#pragma GCC unroll 4
    for (int j = 0; j < count; j++)
        state->hot |= (uint64_t)look_hot(all[j], limits) << j * LANES;
    return state->hot != 0;
}

#undef COMB_STEP
#undef COMB_GO_ON

static bool kernel_comb(const struct matcher_comb *comb, struct matcher_comb_state *state)
{
    switch (state->count) {
    case 1:
        return comb_bundle(comb, 1, state);
    case 2:
        return comb_bundle(comb, 2, state);
    case 3:
        return comb_bundle(comb, 3, state);
    default:
        return comb_bundle(comb, COMB, state);
    }
}

/* A list of starts, counted from the look; those that do not fit are counted only. */
struct comb_starts { int32_t *list, oldest; uint32_t count, max; };

/* Adds the hot starts of one block and lane. `last` is its last digit, `age` digits before the look. In the text digits
 * are in a row, so that a vector has the sums of as many starts as it has lanes. */
static inline void comb_starts_add(struct comb_starts *starts, const struct matcher_look *look, const uint8_t *last,
                                   uint32_t age, uint32_t sum)
{
    const v32 limits = look_limits(v32_all(look->limit)), zero = v32_all('0');
    for (uint32_t t = LANES; t <= MATCHER_COMB_BLOCK; t += LANES) {
        const uint8_t *digits = last + 1 - t;
        const v32 weights = v32_load(look->comb + MATCHER_COMB_LAST + 1 - age - t);
        v32 sums = v32_suffix(v32_weigh(v32_word(v32_widen(digits) - zero), weights)) + v32_all(sum);
        sum = v32_first(sums);
        for (uint32_t hot = look_hot(look_test(look_start(), sums, limits), limits); hot != 0; hot &= hot - 1) {
            const uint32_t place = (uint32_t)__builtin_ctz(hot);
            const int32_t start = (int32_t)(place - age - t);
            if (digits[place] == '0' || start < starts->oldest)
                continue;
            if (starts->count < starts->max)
                starts->list[starts->count] = start;
            starts->count++;
        }
    }
}

static uint32_t kernel_comb_starts(const struct matcher_comb *comb, const struct matcher_comb_state *state,
                                   uint32_t k, int32_t oldest, int32_t *list, uint32_t max)
{
    struct comb_starts starts = {.list = list, .max = max, .oldest = oldest};
    const uint32_t lane = k % LANES;
    const struct comb_mark *mark = (const struct comb_mark *)state->marks + k / LANES;
    const uint8_t *last = comb->text + lane * comb->pitch + state->end[k / LANES] - 1;
    uint32_t age = MATCHER_COMB_YOUNG;
    for (uint32_t block = 0; block < comb->blocks; block++, mark += COMB, age += MATCHER_COMB_BLOCK)
        if (look_stored_hot(mark->hot, lane, state->look->limit))
            comb_starts_add(&starts, state->look, last - age, age, mark->sum[lane]);
    return starts.count;
}
