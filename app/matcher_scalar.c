/* The kernel for any x86-64, in general registers alone: some hypervisors interpret the kernel's instructions and know
 * no others. What each function does stands in app/matcher_kernel.h; here it is done digit by digit. */
#include <stdbool.h>
#include <stdint.h>

#include "app/matcher_kernel.h"
#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"

enum { LANES = 4, BLOCK32 = MATCHER_STEPS * LANES, LANES64 = LANES / 2, BLOCK64 = MATCHER_STEPS * LANES64 };

/* Where the digits of step 0 of a block lie; those of the next step, one row on. */
static inline const uint32_t *block_at(const struct matcher_planes *planes, uint32_t begin)
{
    return &planes->row[begin % MATCHER_STEPS][begin / MATCHER_STEPS];
}

static bool kernel_look(const struct matcher_planes *planes, uint32_t end, const struct matcher_look *look,
                        uint32_t offset)
{
    const uint32_t *weights = look->weights, mask = look->mask;
    uint32_t sum = offset;
    bool hot = false;
    for (uint32_t left = look->block_count; left > 0; left--, weights += BLOCK32) {
        end -= BLOCK32;
        for (int lane = LANES - 1; lane >= 0; lane--) {
            const uint32_t *digits = block_at(planes, end) + lane, *lane_weights = weights + lane;
#pragma GCC unroll 16
            for (int s = MATCHER_STEPS - 1; s >= 0; s--) {
                sum += digits[s * MATCHER_ROW_WORDS] * lane_weights[s * LANES];
                hot |= (sum & mask) == 0;
            }
        }
    }
    return hot;
}

static void kernel_look_which(const struct matcher_planes *planes, uint32_t end, const struct matcher_look *look,
                              uint32_t offset, uint64_t starts[MATCHER_POSITIONS / 64])
{
    const uint32_t *weights = look->weights;
    uint32_t sum = offset;
    for (uint32_t left = look->block_count; left > 0; left--, weights += BLOCK32) {
        end -= BLOCK32;
        for (int i = BLOCK32 - 1; i >= 0; i--) {
            int lane = i / MATCHER_STEPS, s = i % MATCHER_STEPS;
            sum += block_at(planes, end)[s * MATCHER_ROW_WORDS + lane] * weights[s * LANES + lane];
            if ((sum & look->mask) == 0) {
                uint32_t start = end + (uint32_t)i;
                starts[start / 64] |= BIT(start % 64);
            }
        }
    }
}

static inline bool near_zero(uint64_t fraction, uint64_t tolerance)
{
    return fraction + tolerance <= 2 * tolerance;
}

static void kernel_match(const struct matcher_planes *planes, uint32_t end, const struct matcher_decide *decide,
                         uint64_t *lengths)
{
    const uint64_t *weights = decide->weights;
    uint64_t sum = 0;
    for (uint32_t block = 0; block < decide->block_count; block++, weights += BLOCK64) {
        uint32_t begin = end - (block + 1) * BLOCK64;
        for (int i = BLOCK64 - 1; i >= 0; i--) {
            int lane = i / MATCHER_STEPS, s = i % MATCHER_STEPS;
            sum += block_at(planes, begin)[s * MATCHER_ROW_WORDS + lane] * weights[s * LANES64 + lane];
            if (near_zero(sum, decide->tolerance)) {
                uint32_t length = end - begin - (uint32_t)i;
                lengths[length / 64] |= BIT(length % 64);
            }
        }
    }
}

static void kernel_follow(const struct matcher_planes *planes, uint32_t start, const struct matcher_decide *decide,
                          uint64_t *lengths)
{
    const uint64_t *weights = decide->weights;
    uint64_t sum = 0;
    for (uint32_t block = 0; block < decide->block_count; block++, weights += BLOCK64) {
        uint32_t begin = start + block * BLOCK64;
        for (int i = 0; i < BLOCK64; i++) {
            int lane = i / MATCHER_STEPS, s = i % MATCHER_STEPS;
            sum += block_at(planes, begin)[s * MATCHER_ROW_WORDS + lane] * weights[s * LANES64 + lane];
            if (near_zero(sum, decide->tolerance)) {
                uint32_t length = block * BLOCK64 + (uint32_t)i + 1;
                lengths[length / 64] |= BIT(length % 64);
            }
        }
    }
}

static void kernel_insert(const struct matcher_planes *planes, uint32_t begin, const uint32_t *weights,
                          const struct matcher_keys *keys, uint32_t *carry, uint8_t *taken)
{
    (void)keys;
    ASSERT(begin % MATCHER_STEPS == 0);
    const uint32_t *block = block_at(planes, begin);
    for (int i = 0; i < BLOCK32; i++) {
        int lane = i / MATCHER_STEPS, s = i % MATCHER_STEPS;
        *carry += block[s * MATCHER_ROW_WORDS + lane] * weights[s * LANES + lane];
        taken[*carry >> MATCHER_CELL_SHIFT] = 1;
    }
}

static bool kernel_probe(const struct matcher_planes *planes, uint32_t begin, const uint8_t *digits, uint32_t count,
                         const uint32_t *weights, const struct matcher_keys *keys, uint32_t *carry, bool hit_before,
                         uint8_t *taken, uint64_t *hits)
{
    ASSERT(begin % MATCHER_STEPS == 0);
    const uint32_t *block = block_at(planes, begin);
    uint64_t found = 0;
    uint32_t key = *carry;
    bool hit = hit_before;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t lane = i / MATCHER_STEPS, s = i % MATCHER_STEPS, digit = digits[i] & 15u;
        if (digit != 0) {               /* a 0 does not change the prefix value: what it follows, it is */
            key += block[s * MATCHER_ROW_WORDS + lane] * weights[s * LANES + lane];
            uint8_t *cell = &taken[key >> MATCHER_CELL_SHIFT];
            hit = *cell != 0 || ((key + keys->tolerance) & keys->edge_mask) == 0;
            *cell = 1;
        }
        bool may_end = !(keys->even && digit % 2 != 0) && !(keys->five && digit % 5 != 0);
        found |= (uint64_t)(hit && may_end) << i;
    }
    *carry = key;
    hits[0] = found;
    return hit;
}
_Static_assert(BLOCK32 == 64, "hits: one word a block");

static void kernel_write(struct matcher_planes *planes, uint32_t begin, const uint8_t *digits, size_t count)
{
    ASSERT(begin % MATCHER_STEPS == 0);
    bool good = true;
    for (size_t done = 0; done < count; done += MATCHER_STEPS) {
        uint32_t *column = &planes->row[0][(begin + done) / MATCHER_STEPS];
#pragma GCC unroll 16
        for (int s = 0; s < MATCHER_STEPS; s++) {
            uint32_t digit = (uint32_t)digits[done + (size_t)s] - '0';
            good &= digit <= 9;
            column[s * MATCHER_ROW_WORDS] = column[(MATCHER_STEPS + s) * MATCHER_ROW_WORDS - 1] = MATCHER_DIGIT_WORD(digit);
        }
    }
    ASSERT(good);
}

const struct matcher_kernel matcher_kernel_scalar = {
    .lanes = LANES, .look = kernel_look, .look_which = kernel_look_which, .match = kernel_match,
    .follow = kernel_follow, .insert = kernel_insert, .probe = kernel_probe, .write = kernel_write,
};
