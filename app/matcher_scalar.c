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

static void scalar_look_which(const union matcher_planes *planes, const uint8_t *digits,
                              const struct matcher_look *look, uint32_t number, uint64_t starts[MATCHER_POSITIONS / 64])
{
    uint32_t known = number * look->digits, sum = matcher_look_offset(look, digits + known, LOOK_BITS);
    uint32_t end = MATCHER_SEGMENT_AT + known - look->skip_digits;
    const uint32_t *weights = look->weights;
    for (uint32_t left = look->block_count; left > 0; left--, weights += MATCHER_STEPS) {
        end -= MATCHER_STEPS;
        for (uint32_t s = MATCHER_STEPS; s-- > 0;) {
            sum += planes->digit[end + s] * weights[s];
            if (sum <= look->limit)
                starts[(end + s) / 64] |= BIT((end + s) % 64);
        }
    }
}

static bool scalar_look(const union matcher_planes *planes, const uint8_t *digits, const struct matcher_look *look,
                        uint32_t number)
{
    uint64_t starts[MATCHER_POSITIONS / 64] = {0}, any = 0;
    scalar_look_which(planes, digits, look, number, starts);
    for (size_t w = 0; w < ARRAY_COUNT(starts); w++)
        any |= starts[w];
    return any != 0;
}

/* The key behind each digit, and the place before it in its cell. Returns the last key. */
static inline uint64_t place(const uint8_t *digits, uint32_t at, uint64_t key, struct matcher_hash *hash)
{
    key += digits[at] * hash->plain.weights[at];
    hash->plain.keys[at] = key;
    uint16_t *last = &hash->plain.last[key >> (64 - MATCHER_CELL_BITS)];
    hash->plain.before[at] = *last;
    *last = (uint16_t)(at + 1);
    return key;
}

static void scalar_insert(const union matcher_planes *planes, struct matcher_hash *hash, uint32_t count)
{
    memset(hash->plain.last, 0, sizeof hash->plain.last);
    hash->carry = 0;
    for (uint32_t at = 0; at < count; at++)
        hash->carry = place(planes->digit + hash->base, at, hash->carry, hash);
}

/* Whether a key lies so near the edge of its cell that an equal residue's may lie in the next one. */
static inline bool near_edge(const struct matcher_hash *hash, uint64_t key)
{
    return (key + hash->reach) << MATCHER_CELL_BITS <= (uint64_t)2 * hash->reach << MATCHER_CELL_BITS;
}

static void scalar_probe(const union matcher_planes *planes, struct matcher_hash *hash, uint32_t at, uint32_t count,
                         uint64_t *found)
{
    const uint8_t *digits = planes->digit + hash->base;
    uint64_t key = hash->carry;
    for (uint32_t done = 0; done < count; done += 64) {
        uint32_t many = (uint32_t)min_size(64, count - done);
        uint64_t empty = 0, near = 0;       /* the first digit in the highest bit of those used */
        for (uint32_t i = at + done; i < at + done + many; i++) {
            key = place(digits, i, key, hash);
            empty = 2 * empty + (hash->plain.before[i] == 0);
            near = 2 * near + near_edge(hash, key);
        }
        found[done / 64] = matcher_bits_reversed(~empty | near) >> (64 - many);
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
    bool all = near_edge(hash, key);        /* then the chain does not tell */
    uint32_t count = 0;
    if (keys_equal(hash, key, 0))
        partners[count++] = MATCHER_NO_DIGIT;
    for (uint32_t other = all ? at : hash->plain.before[at]; other > from; other = all ? other - 1 : hash->plain.before[other - 1])
        if (keys_equal(hash, hash->plain.keys[other - 1], key)) {
            if (count < max)
                partners[count] = (uint16_t)(other - 1);
            count++;
        }
    return count;
}

const struct matcher_kernel matcher_kernel_scalar = {
    .lanes = 1, .block = MATCHER_STEPS, .look_bits = LOOK_BITS, .hashes_all = true, .write = scalar_write, .digit_sets = scalar_digit_sets,
    .fraction = scalar_fraction, .look = scalar_look, .look_which = scalar_look_which, .insert = scalar_insert,
    .probe = scalar_probe, .partners = scalar_partners,
};
