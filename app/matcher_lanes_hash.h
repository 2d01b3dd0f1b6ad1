/* The kernels' text for vectors, second part: prefix values hashed. Included by app/matcher_lanes.h. */
#pragma once

enum { KEY_WORD = 64 };     /* digits that are worked on together */

/* The cell of a key is its upper half word. A 0 does not change the prefix value: its cell would be written and read at
 * once, and the processor would have read it too soon. It gets a cell of its own instead. */
static const uint32_t zero_keys[MATCHER_STEPS] = {
#define ZERO_KEY(lane) ((1u << MATCHER_CELL_BITS) + (lane)) << (MATCHER_KEY_BITS - MATCHER_CELL_BITS)
    ZERO_KEY(0), ZERO_KEY(1), ZERO_KEY(2), ZERO_KEY(3), ZERO_KEY(4), ZERO_KEY(5), ZERO_KEY(6), ZERO_KEY(7),
    ZERO_KEY(8), ZERO_KEY(9), ZERO_KEY(10), ZERO_KEY(11), ZERO_KEY(12), ZERO_KEY(13), ZERO_KEY(14), ZERO_KEY(15),
#undef ZERO_KEY
};

/* The keys of the prefixes that end after each of up to 64 digits, a multiple of 16. Returns which of them lie so near
 * the edge of their cell that an equal residue's may lie in the next. */
static inline __attribute__((always_inline)) uint64_t
keys_make(const struct matcher_digits *digits, struct matcher_hash *hash, uint32_t at, uint32_t count)
{
    const uint32_t *word = digits->word + hash->base + at, *weights = hash->lanes.weights + at;
    uint32_t *keys = hash->lanes.keys + at;
    const v32 zero_key = v32_load(zero_keys), reach = v32_all(hash->reach), edge_mask = v32_all(hash->lanes.edge_mask);
    v32 carry = v32_all((uint32_t)hash->carry);
    uint64_t near = 0;
    for (uint32_t sixteen = 0; sixteen < count; sixteen += MATCHER_STEPS) {
        uint64_t near_here = 0;
#pragma GCC unroll 2
        for (uint32_t i = 0; i < MATCHER_STEPS; i += LANES) {
            v32 digit = v32_load(word + sixteen + i);
            v32 sums = v32_prefix(v32_mul(digit, v32_load(weights + sixteen + i))), key = carry + sums;
            carry += v32_all_last(sums);
            v32_store(keys + sixteen + i, v32_if_zero(digit, zero_key, key >> (32 - MATCHER_KEY_BITS)));
            near_here |= (uint64_t)v32_zeros((key + reach) & edge_mask) << i;
        }
        near |= near_here << sixteen;
    }
    hash->carry = v32_first(carry);
    return near;
}

static inline uint64_t key_cell(const uint8_t *key)
{
    return load_le16(key + 2);
}

static void kernel_insert(const struct matcher_digits *digits, struct matcher_hash *hash, uint32_t count)
{
    memset(hash->lanes.taken, 0, sizeof hash->lanes.taken);
    hash->lanes.taken[0] = 1;       /* the key before the first digit */
    hash->carry = 0;
    for (uint32_t at = 0; at < count; at += KEY_WORD) {
        keys_make(digits, hash, at, KEY_WORD);
        const uint8_t *keys = (const uint8_t *)(hash->lanes.keys + at);
#pragma GCC unroll 16
        for (size_t i = 0; i < KEY_WORD * sizeof(uint32_t); i += sizeof(uint32_t))
            hash->lanes.taken[key_cell(keys + i)] = 1;
    }
}

static void kernel_probe(const struct matcher_digits *digits, struct matcher_hash *hash, uint32_t at, uint32_t count,
                         uint64_t *found)
{
    uint8_t *taken = hash->lanes.taken;
    for (uint32_t done = 0; done < count; done += KEY_WORD) {
        /* In sixteens: what is behind the digits are zeros. */
        const uint32_t left = (uint32_t)min_size(count - done, KEY_WORD);
        const uint32_t many = (left + MATCHER_STEPS - 1) / MATCHER_STEPS * MATCHER_STEPS;
        uint64_t near = keys_make(digits, hash, at + done, many);
        uint64_t empty = 0;                 /* the first digit in the highest bit */
        const uint8_t *key = (const uint8_t *)(hash->lanes.keys + at + done), *end = key + many * sizeof(uint32_t);
        for (; key < end; key += MATCHER_STEPS * sizeof(uint32_t))
#pragma GCC unroll 16
            for (size_t s = 0; s < MATCHER_STEPS; s++) {
                /* empty = 2 * empty + (taken[cell] == 0), taken[cell] = 1: three instructions, which GCC does not
                 * find. */
                uint64_t cell = key_cell(key + s * sizeof(uint32_t));
                __asm__("cmpb $1, (%[taken], %[cell])\n\tadc %[empty], %[empty]\n\tmovb $1, (%[taken], %[cell])"
                        : [empty] "+r"(empty), "+m"(*(uint8_t (*)[sizeof hash->lanes.taken])taken)
                        : [taken] "r"(taken), [cell] "r"(cell) : "cc");
            }
        found[done / KEY_WORD] = matcher_bits_reversed(~empty << (KEY_WORD - many)) | near;
    }
}

static uint32_t kernel_partners(const struct matcher_hash *hash, uint32_t at, uint32_t from, uint16_t *partners,
                                uint32_t max)
{
    const uint32_t *keys = hash->lanes.keys, reach = hash->reach / (1 << (32 - MATCHER_KEY_BITS)) + 1;
    const uint32_t mask = (UINT32_C(1) << MATCHER_KEY_BITS) - 1, key = keys[at];
    const v32 moved = v32_all(key + reach);
    uint32_t count = 0;
    if (((key + reach) & mask) <= 2 * reach)
        partners[count++] = MATCHER_NO_DIGIT;
    for (uint32_t first = from / KEY_WORD * KEY_WORD; first <= at; first += KEY_WORD) {
        v32 least = v32_all(UINT32_MAX);
#pragma GCC unroll 8
        for (uint32_t i = 0; i < KEY_WORD; i += LANES)
            least = v32_min(least, (moved - v32_load(keys + first + i)) & v32_all(mask));
        if (!v32_at_most(least, 2 * reach))
            continue;
        for (uint32_t i = first; i < first + KEY_WORD; i += LANES) {
            uint32_t near = v32_at_most((moved - v32_load(keys + i)) & v32_all(mask), 2 * reach);
            for (; near != 0; near &= near - 1) {
                uint32_t other = i + (uint32_t)__builtin_ctz(near);
                if (keys[other] > mask || other < from || other >= at)
                    continue;
                if (count < max)
                    partners[count] = (uint16_t)other;
                count++;
            }
        }
    }
    return count;
}
