/* The kernel in general registers: for machines without vectors, and for hypervisors that do not know them. The
 * compiler is told to use no others (tools/make/flags.mk).
 *
 * All constants are hashed here. A cell holds the newest place that fell into it, and places are chained, so that a
 * suspect costs no search. Keys are 64 bits wide: an equal one is a partner. */
#include "app/matcher_kernel.h"
#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"

enum { EIGHT = 8, LOOK_BITS = 32 };

static const uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;

/* Bit i of the result is the top bit of byte i. */
static inline uint64_t tops_gathered(uint64_t bytes)
{
    return (bytes >> 7 & ones) * 0x0102040810204080 >> 56;
}

/* The top bit of each byte below 128 that is not 0. */
static inline uint64_t bytes_not_zero(uint64_t bytes) { return (bytes + 0x7f * ones) & tops; }

static void scalar_write(union matcher_planes *planes, uint32_t begin, const uint8_t *digits, size_t count)
{
    uint64_t bad = 0;
    for (size_t i = 0; i < count; i += EIGHT) {
        uint64_t text = load_le64(digits + i), digit = text ^ '0' * ones;
        bad |= digit | (digit + (128 - 10) * ones);     /* a byte of 10 or more gets its top bit, here or there */
        store_le64(planes->digit + begin + i, digit);
    }
    ASSERT((bad & tops) == 0);
}

static struct matcher_digit_sets scalar_digit_sets(const uint8_t digits[64])
{
    struct matcher_digit_sets sets = {0, 0, 0};
    for (int i = 0; i < 64; i += EIGHT) {
        uint64_t text = load_le64(digits + i);
        sets.zero |= (tops_gathered(bytes_not_zero(text ^ '0' * ones)) ^ 0xff) << i;
        sets.five |= (tops_gathered(bytes_not_zero(text ^ '5' * ones)) ^ 0xff) << i;
        sets.odd |= tops_gathered(text << 7) << i;
    }
    return sets;
}

static uint64_t scalar_fraction(const uint8_t *digits, const uint64_t *weights, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (uint64_t)(digits[i] - '0') * weights[i];
    return sum;
}

static bool scalar_look(const union matcher_planes *planes, const struct matcher_look *look,
                        uint64_t starts[MATCHER_POSITIONS / 64])
{
    uint32_t sum = look->offset;
    bool any = false;
    for (uint32_t at = MATCHER_SEGMENT_AT, end = at - look->block_count * MATCHER_STEPS; at-- > end;) {
        sum += planes->digit[at] * look->weights.word[at];
        if (sum <= look->limit) {
            starts[at / 64] |= BIT(at % 64);
            any = true;
        }
    }
    return any;
}

/* The key behind each digit. Returns the place before it in its cell. Places count from 1. */
static inline uint64_t place(const uint8_t *digits, size_t at, uint64_t *key, struct matcher_hash *hash, uint16_t *last)
{
    *key += digits[at - 1] * hash->plain.weights[at - 1];
    uint64_t cell = *key >> (64 - MATCHER_CELL_BITS), before = last[cell];
    hash->plain.keys[at - 1] = *key;
    hash->plain.before[at - 1] = (uint16_t)before;
    last[cell] = (uint16_t)at;
    return before;
}

/* Keys begin at `reach`, so that an equal residue's may lie in another cell if that of the key less 2 * reach does. */
static inline uint64_t edge_crossed(const struct matcher_hash *hash, uint64_t key)
{
    return (key ^ (key - 2 * (uint64_t)hash->reach)) >> (64 - MATCHER_CELL_BITS);
}

static void scalar_insert(const union matcher_planes *planes, struct matcher_hash *hash, uint32_t count)
{
    memset(hash->plain.last, 0, sizeof hash->plain.last);
    uint64_t key = hash->reach;
    for (size_t at = 1; at <= count; at++)
        place(planes->digit + hash->base, at, &key, hash, hash->plain.last);
    hash->carry = key;
}

/* 2 * bits + (value == 0): two instructions, which GCC does not find. */
static inline uint64_t append_zero(uint64_t bits, uint64_t value)
{
    __asm__("cmp $1, %[value]\n\tadc %[bits], %[bits]" : [bits] "+r"(bits) : [value] "r"(value) : "cc");
    return bits;
}

static __attribute__((noinline, cold)) uint64_t edges(const struct matcher_hash *hash, uint32_t at, uint32_t count)
{
    uint64_t near = 0;
    for (uint32_t i = 0; i < count; i++)
        near |= (uint64_t)(edge_crossed(hash, hash->plain.keys[at + i]) != 0) << i;
    return near;
}

static void scalar_probe(const union matcher_planes *planes, struct matcher_hash *hash, uint32_t at, uint32_t count,
                         uint64_t *found)
{
    const uint8_t *digits = planes->digit + hash->base;
    uint16_t *last = hash->plain.last;
    uint64_t key = hash->carry, reach = 2 * (uint64_t)hash->reach;
    for (uint32_t done = 0; done < count; done += 64) {
        uint32_t many = (uint32_t)min_size(64, count - done);
        uint64_t empty = 0, crossed = 0;        /* empty: the first digit in the highest bit of those used */
#pragma GCC unroll 4
        for (size_t i = at + done + 1, end = i + many; i < end; i++) {
            empty = append_zero(empty, place(digits, i, &key, hash, last));
            crossed |= key ^ (key - reach);
        }
        found[done / 64] = matcher_bits_reversed(~empty) >> (64 - many);
        if (crossed >> (64 - MATCHER_CELL_BITS) != 0)
            found[done / 64] |= edges(hash, at + done, many);
    }
    hash->carry = key;
}

static inline bool keys_equal(const struct matcher_hash *hash, uint64_t a, uint64_t b)
{
    return a - b + hash->reach <= 2 * (uint64_t)hash->reach;
}

static uint32_t scalar_partners(const struct matcher_hash *hash, uint32_t at, uint32_t from, uint16_t *partners,
                                uint32_t max)
{
    uint64_t key = hash->plain.keys[at];
    bool all = edge_crossed(hash, key) != 0;    /* then the chain does not tell */
    uint32_t count = 0, other = all ? at : hash->plain.before[at];
    if (keys_equal(hash, key, hash->reach))
        partners[count++] = MATCHER_NO_DIGIT;
    for (; other > from; other = all ? other - 1 : hash->plain.before[other - 1])
        if (keys_equal(hash, hash->plain.keys[other - 1], key)) {
            if (count < max)
                partners[count] = (uint16_t)(other - 1);
            count++;
        }
    return count;
}

const struct matcher_kernel matcher_kernel_scalar = {
    .lanes = 1, .block = MATCHER_STEPS, .look_bits = LOOK_BITS, .hashes_all = true,
    .write = scalar_write, .digit_sets = scalar_digit_sets,
    .fraction = scalar_fraction, .look = scalar_look, .insert = scalar_insert, .probe = scalar_probe, .partners = scalar_partners,
};
