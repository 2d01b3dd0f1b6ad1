/* The kernel in general registers: for machines without vectors, and for hypervisors that do not know them. The
 * compiler is told to use no others (tools/make/flags.mk).
 *
 * Looks are taken two at a time. Small constants are hashed: a cell holds the newest place that fell into it, and
 * places are chained, so that a suspect costs no search. Keys are 48 bits wide: an equal one is a partner. */
#include "app/matcher_kernel.h"

#include <assert.h>

#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"

enum { EIGHT = 8, LOOK_BITS = 32, PAIR = 2 };

static const uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;

/* Bit 8 i + j of the result is bit 8 j + i. */
static inline uint64_t bits_transposed(uint64_t bits)
{
    uint64_t swap = (bits ^ bits >> 7) & 0x00aa00aa00aa00aa;
    bits ^= swap ^ swap << 7;
    swap = (bits ^ bits >> 14) & 0x0000cccc0000cccc;
    bits ^= swap ^ swap << 14;
    swap = (bits ^ bits >> 28) & 0x00000000f0f0f0f0;
    return bits ^ swap ^ swap << 28;
}

/* The top bit of each byte below 128 that is not 0. */
static inline uint64_t bytes_not_zero(uint64_t bytes) { return (bytes + 0x7f * ones) & tops; }

static void scalar_write(struct matcher_digits *to, uint32_t begin, const uint8_t *digits, size_t count,
                         bool hashed)
{
    (void)hashed;
    uint64_t bad = 0;
    for (size_t i = 0; i < count; i += EIGHT) {
        uint64_t text = load_le64(digits + i), digit = text ^ '0' * ones;
        bad |= digit | (digit + (128 - 10) * ones);     /* a byte of 10 or more gets its top bit, here or there */
        store_le64(to->planes.digit + begin + i, digit);
    }
    ASSERT((bad & tops) == 0);
}

static uint64_t scalar_zeros(const uint8_t digits[64])
{
    uint64_t not_zero = 0;      /* bit i of byte j: digit 8 i + j */
#pragma GCC unroll 8
    for (int i = 0; i < EIGHT; i++)
        not_zero |= bytes_not_zero(load_le64(digits + EIGHT * i) ^ '0' * ones) >> (7 - i);
    return ~bits_transposed(not_zero);
}

static uint64_t scalar_fraction(const uint8_t *digits, const uint64_t *weights, size_t count)
{
    uint64_t sum = 0;
#pragma GCC unroll 8
    for (size_t i = 0; i < count; i++)
        sum += (uint64_t)(digits[i] - '0') * weights[i];
    return sum;
}

static uint32_t scalar_follow(const uint8_t *digits, const uint64_t *weights, uint32_t count, uint64_t tolerance,
                              uint64_t *fraction)
{
    for (uint32_t taken = 1; taken <= count; taken++) {
        *fraction += (uint64_t)(digits[taken - 1] - '0') * weights[taken - 1];
        if (*fraction + tolerance <= 2 * tolerance)
            return taken;
    }
    return 0;
}

static bool scalar_look(const union matcher_planes *planes, const struct matcher_look *look,
                        uint64_t starts[MATCHER_POSITIONS / 64])
{
    uint32_t sum = look->offset;
    bool any = false;
#pragma GCC unroll 8
    for (uint32_t at = MATCHER_SEGMENT_AT, end = at - look->block_count * MATCHER_STEPS; at-- > end;) {
        sum += planes->digit[at] * look->weights.word[at];
        if (sum <= look->limit) {
            starts[at / 64] |= BIT(at % 64);
            any = true;
        }
    }
    return any;
}

/* A vector of the sweep is a pair: two looks in a word. A digit times the word is both lanes' product, if what the
 * lower lane carries is no harm to the upper one. The lower lane's weights count as -2^31 .. 2^31 - 1 (the rows are
 * made that way), so that a digit adds or takes 4.5 units at most. Looks reach N digits: 4.5 N units;
 * constant_fill_weights allows for them. */
enum { GROUP_WORDS = MATCHER_GROUP_ROWS * PAIR, CELLS_LOOKS = 8 };

static inline uint32_t pair_lane(uint64_t pair, uint32_t lane) { return (uint32_t)(pair >> 32 * lane); }

/* Adds the digits of a group, the last one first, and tells the sum from each of them on. */
#define PAIR_EACH(sum, digits, row, ...) \
    _Pragma("GCC unroll 8") for (int s = MATCHER_GROUP - 1; s >= 0; s--) { \
        sum += (digits)[s] * load_le64((row) + (s + 1) * PAIR); \
        __VA_ARGS__; \
    }

/* A hot start: twice its place in the stretch, and the lane. There is one in a hundred looks or so, and a comparison and
 * a branch to here cost less than what makes a bit of it each time, which the compiler would rather have. */
static inline int32_t *pair_note(int32_t *hot, ptrdiff_t at, int32_t lane)
{
    __asm__("" : "+r"(hot));
    *hot = (int32_t)at * PAIR + lane;
    return hot + 1;
}

/* Takes two looks through the groups from..to, backwards, and notes the hot starts. Returns where the next is noted. */
static inline int32_t *pair_groups(const struct matcher_sweep_vector *v, const uint8_t *stretch, int32_t from,
                                   int32_t to, uint64_t *begin, int32_t *hot)
{
    const uint64_t upper_limit = ((uint64_t)v->limit[1] + 1) << 32;
    const uint32_t lower_limit = v->limit[0];
    const uint32_t *row = v->group0 - (ptrdiff_t)from * GROUP_WORDS;
    const uint32_t *behind = v->group0 - ((ptrdiff_t)to - 1) * GROUP_WORDS;
    const uint8_t *digits = stretch + (ptrdiff_t)from * MATCHER_GROUP - MATCHER_GROUP_BEFORE;
    uint64_t sum = *begin;
    for (; row != behind; row += GROUP_WORDS, digits -= MATCHER_GROUP) {
        sum += load_le64(row);
        PAIR_EACH(sum, digits, row,
                  if (__builtin_expect(sum < upper_limit, 0))
                      hot = pair_note(hot, digits + s - stretch, 1);
                  if (__builtin_expect((uint32_t)sum <= lower_limit, 0))
                      hot = pair_note(hot, digits + s - stretch, 0))
    }
    *begin = sum;
    return hot;
}

static inline uint32_t pair_cell(uint32_t fraction) { return fraction >> (32 - MATCHER_SLOT_CELL_BITS); }

/* The cells of what old starts of two looks come to. */
static void pair_remember(struct matcher_sweep *sweep, const void *stretch, uint32_t index)
{
    const struct matcher_sweep_vector *v = &sweep->vector[index];
    if (v->bottom >= 0)
        return;         /* no start before the burst is within N digits */
    uint8_t *cells = sweep->cells[index * PAIR / CELLS_LOOKS], bit = (uint8_t)(1 << index * PAIR % CELLS_LOOKS);
    if (bit == 1)
        memset(cells, 0, sizeof sweep->cells[0]);
    const uint8_t *digits = (const uint8_t *)stretch - MATCHER_GROUP_BEFORE;
    const uint32_t *row = v->group0;
    uint64_t sum = 0;
    for (int32_t group = -1; group >= v->bottom; group--) {
        digits -= MATCHER_GROUP;
        row += GROUP_WORDS;
        PAIR_EACH(sum, digits, row,
                  cells[pair_cell(pair_lane(sum, 0))] |= bit;
                  cells[pair_cell(pair_lane(sum, 1))] |= (uint8_t)(bit << 1))
    }
}

/* Whether an old start at `a` may be hot: a + sum at most the limit. One more, for what the lower lane carries. */
static inline uint32_t cells_hot(const struct matcher_sweep *sweep, uint32_t k, uint32_t sum, uint32_t limit)
{
    const uint8_t *cells = sweep->cells[k / CELLS_LOOKS];
    return (cells[pair_cell(-sum - 1)] | cells[pair_cell(limit - sum)]) >> k % CELLS_LOOKS & 1;
}

/* Takes two looks through the stretch. If a cell says that an old start may be hot, it goes on to the old ones. */
static inline bool pair_sweep(const struct matcher_sweep *sweep, const uint8_t *stretch, uint32_t left, bool slots,
                              uint32_t count, struct matcher_sweep_state *state)
{
    const struct matcher_sweep_vector *v = &sweep->vector[state->first / PAIR];
    const int32_t last = (int32_t)((left + MATCHER_GROUP_BEFORE - 1) / MATCHER_GROUP);
    const int32_t top = last < v->top ? last : v->top, bottom = slots && v->bottom < 0 ? 0 : v->bottom;
    static_assert(sizeof state->marks / sizeof *state->marks >= MATCHER_SWEEP_GROUPS_MAX * MATCHER_GROUP * PAIR,
                  "a note for each digit and lane");
    int32_t *const first = (int32_t *)state->marks, *hot = first;
    uint64_t sum = load_le64(v->start);
    if (top >= bottom)
        hot = pair_groups(v, stretch, top, bottom, &sum, hot);
    if (bottom > v->bottom) {
        uint32_t old_hot = cells_hot(sweep, state->first, pair_lane(sum, 0), v->limit[0]) |
                           (cells_hot(sweep, state->first + 1, pair_lane(sum, 1), v->limit[1]) & (count - 1));
        if (__builtin_expect(old_hot != 0, 0))
            hot = pair_groups(v, stretch, -1, v->bottom, &sum, hot);
    }
    state->noted = (uint32_t)(hot - first);
    state->young = 0;
    for (; hot > first; hot--)
        state->young |= BIT(hot[-1] & 1);
    state->young &= BIT(count) - 1;
    return state->young != 0;
}

/* Goes on to the next pair, the latest first: returns how many looks it has. */
static inline uint32_t pair_next(struct matcher_sweep_state *state)
{
    const uint32_t end = state->needed - state->next;
    state->first = (end - 1) / PAIR * PAIR;
    state->next += end - state->first;
    return end - state->first;
}

static bool scalar_sweep(const struct matcher_sweep *sweep, const void *stretch, uint32_t left, bool slots,
                         struct matcher_sweep_state *state)
{
    state->old = 0;
    while (state->next < state->needed) {
        const uint32_t count = pair_next(state);
        if (__builtin_expect(pair_sweep(sweep, stretch, left, slots, count, state), 0))
            return true;
    }
    return false;
}

static uint32_t scalar_starts(const struct matcher_sweep *sweep, const void *stretch,
                              const struct matcher_sweep_state *state, uint32_t k, int32_t oldest,
                              int32_t *starts, uint32_t max)
{
    const uint8_t *digits = stretch;
    const int32_t *hot = (const int32_t *)state->marks;
    uint32_t count = 0;
    (void)sweep;
    for (uint32_t i = 0; i < state->noted; i++) {
        const int32_t at = hot[i] >> 1;
        if ((hot[i] & 1) == (int32_t)k && at >= oldest && digits[at] != 0 && count++ < max)
            starts[count - 1] = at;
    }
    return count;
}

/* Digits, weights and keys by place. */
struct places {
    const uint8_t *digits;
    const uint64_t *weights;
    uint64_t *keys;
    struct matcher_hash *hash;
};

static inline struct places places_of(const struct matcher_digits *digits, struct matcher_hash *hash)
{
    const size_t first = hash->plain.first;
    return (struct places){
        .digits = digits->planes.digit + hash->base - first, .weights = hash->plain.weights - first,
        .keys = hash->plain.keys - first, .hash = hash,
    };
}

/* The key behind a digit. Returns the place before it in its cell. */
static inline uint64_t place(const struct places *p, size_t at, uint64_t *key)
{
    *key += p->digits[at] * p->weights[at];
    uint64_t cell = *key >> (64 - MATCHER_CELL_BITS), before = p->hash->plain.last[cell];
    p->keys[at] = *key + before;
    p->hash->plain.last[cell] = (uint16_t)at;
    return before;
}

/* Weights are rounded up, so that of two keys of equal residues the later one is greater by 0 to `reach`: the earlier
 * one may lie in another cell only if the key less `reach` does. */
static inline uint64_t edge_crossed(const struct matcher_hash *hash, uint64_t key)
{
    return (key ^ (key - hash->reach)) >> (64 - MATCHER_CELL_BITS);
}

static void scalar_insert(const struct matcher_digits *digits, struct matcher_hash *hash, uint32_t count)
{
    if (hash->plain.next == 0 || hash->plain.next + MATCHER_HASHED_DIGITS > UINT16_MAX) {
        memset(hash->plain.last, 0, sizeof hash->plain.last);
        hash->plain.next = 1;
    }
    hash->plain.first = hash->plain.next;
    hash->plain.next += count;
    hash->plain.window = count;
    const struct places places = places_of(digits, hash);
    uint64_t key = 0;
#pragma GCC unroll 8
    for (size_t at = hash->plain.first, end = hash->plain.next; at < end; at++)
        place(&places, at, &key);
    hash->carry = key;
}

/* bits = 2 * bits + (place < oldest): two instructions, which GCC does not find. */
static inline uint64_t append_none(uint64_t bits, uint64_t place, uint64_t oldest)
{
    __asm__("cmp %[oldest], %[place]\n\tadc %[bits], %[bits]"
            : [bits] "+r"(bits) : [place] "r"(place), [oldest] "r"(oldest) : "cc");
    return bits;
}

static inline uint64_t key_behind(const struct matcher_hash *hash, uint32_t at)
{
    return hash->plain.keys[at] & ~(BIT(MATCHER_PLACE_BITS) - 1);
}

static __attribute__((noinline, cold)) uint64_t edges(const struct matcher_hash *hash, uint32_t at, uint32_t count)
{
    uint64_t near = 0;
    for (uint32_t i = 0; i < count; i++)
        near |= (uint64_t)(edge_crossed(hash, key_behind(hash, at + i)) != 0) << i;
    return near;
}

static void scalar_probe(const struct matcher_digits *digits, struct matcher_hash *hash, uint32_t at, uint32_t count,
                         uint64_t *found)
{
    const struct places places = places_of(digits, hash);
    uint64_t key = hash->carry, less_reach = 0 - (uint64_t)hash->reach;
    __asm__("" : "+r"(less_reach));     /* added with `lea`: GCC would copy and subtract */
    for (uint32_t done = 0; done < count; done += 64) {
        uint32_t many = (uint32_t)min_size(64, count - done);
        uint64_t empty = 0, crossed = 0;        /* empty: the first digit in the highest bit of those used */
        const size_t from = hash->plain.first + at + done, oldest = from - hash->plain.window;
#pragma GCC unroll 8
        for (size_t i = from; i < from + many; i++) {
            empty = append_none(empty, place(&places, i, &key), oldest);
            crossed |= key ^ (key + less_reach);
        }
        found[done / 64] = matcher_bits_reversed(~empty) >> (64 - many);
        if (crossed >> (64 - MATCHER_CELL_BITS) != 0)
            found[done / 64] |= edges(hash, at + done, many);
    }
    hash->carry = key;
    hash->plain.next += count;
}

/* How many digits there were at the place before a digit's in the same cell; 0 if there is none. */
static inline uint32_t digits_before(const struct matcher_hash *hash, uint32_t at)
{
    uint32_t before = hash->plain.keys[at] & (BIT(MATCHER_PLACE_BITS) - 1);
    return before < hash->plain.first ? 0 : before - hash->plain.first + 1;
}

static inline bool keys_equal(const struct matcher_hash *hash, uint64_t earlier, uint64_t key)
{
    return key - earlier <= hash->reach;
}

/* Cells are shared by chance, once in 64 digits at N = 256: no branch depends on what they hold. */
static uint64_t scalar_confirm(const struct matcher_hash *hash, uint32_t at, uint64_t found)
{
    uint64_t confirmed = 0;
    for (; found != 0; found &= found - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(found), other = digits_before(hash, at + i);
        uint64_t key = key_behind(hash, at + i);
        bool edge = edge_crossed(hash, key) != 0;
        other += other == 0;        /* there is one, or the key is near an edge */
        bool equal = keys_equal(hash, key_behind(hash, other - 1), key), more = digits_before(hash, other - 1) != 0;
        confirmed |= (uint64_t)(edge | equal | more) << i;
    }
    return confirmed;
}

static uint32_t scalar_partners(const struct matcher_hash *hash, uint32_t at, uint32_t from, uint16_t *partners,
                                uint32_t max)
{
    uint64_t key = key_behind(hash, at);
    bool all = edge_crossed(hash, key) != 0;    /* then the chain does not tell */
    uint32_t count = 0, other = all ? at : digits_before(hash, at);
    for (; other > from; other = all ? other - 1 : digits_before(hash, other - 1))
        if (keys_equal(hash, key_behind(hash, other - 1), key)) {
            if (count < max)
                partners[count] = (uint16_t)(other - 1);
            count++;
        }
    return count;
}

const struct matcher_kernel matcher_kernel_scalar = {
    .lanes = 1, .sweep_lanes = PAIR, .stretch = MATCHER_STRETCH_DIGITS_MAX, .look_digits_min = 16, .looks_max = 8, .block = MATCHER_STEPS,
    .look_bits = LOOK_BITS, .row_digits = 1, .write = scalar_write, .zeros = scalar_zeros, .fraction = scalar_fraction,
    .follow = scalar_follow, .look = scalar_look, .remember_vector = pair_remember, .sweep = scalar_sweep,
    .starts = scalar_starts, .insert = scalar_insert, .probe = scalar_probe, .confirm = scalar_confirm,
    .partners = scalar_partners,
};
