#include "app/matcher/hash.h"

#include <assert.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/hot_section.h"

enum { KEY_BITS_BELOW_CELL = 64 - HASH_CELL_BITS };

/* The key of the first place. Keys only grow by rounding: the residue 0 stays in the middle of its cell. */
static const uint64_t first_key = UINT64_C(1) << (KEY_BITS_BELOW_CELL - 1);

void hash_restart(struct matcher_hash *hash, uint64_t place)
{
    /* The gap makes every older start too old, so that cells need not be cleared. */
    const bool clears = hash_restart_clears(hash);
    if (clears)
        memset(hash->newest, 0, sizeof hash->newest);
    hash->first = (clears ? 0 : hash->next) + MATCHER_N_DIGITS_MAX + 1;
    hash->next = hash->first;
    hash->place = place;
    hash->key[0] = first_key;
    hash->before[0] = 0;
}

static inline uint64_t cell_of(uint64_t key) { return key >> KEY_BITS_BELOW_CELL; }

/* An older place with the same residue lies in the key's cell or in the one below. */
static_assert(MODULUS_TOLERANCE_MAX < BIT(KEY_BITS_BELOW_CELL - 1), "residue 0 never leaves its cell");

/* Returns not 0 if an older place with the same residue may lie in the cell below. */
static inline uint64_t edge_crossed(uint64_t key, uint64_t tolerance) { return cell_of(key ^ (key - tolerance)); }

static NOT_HOT uint64_t ends_near_an_edge(const uint64_t *key, uint32_t count, uint64_t tolerance)
{
    uint64_t near = 0;
    for (uint32_t i = 0; i < count; i++)
        near |= (uint64_t)(edge_crossed(key[i], tolerance) != 0) << i;
    return near;
}

HOT uint64_t hash_take(struct matcher_hash *hash, const struct matcher_modulus *c, const uint8_t *digits,
                       uint32_t count, uint32_t n)
{
    ASSERT(count <= HASH_BLOCK_DIGITS);
    ASSERT(hash_has_room(hash, count));
    const uint32_t index = hash->next - hash->first;
    const uint64_t *weight = c->key_weights + index, tolerance = c->tolerance;
    uint64_t *keys = hash->key + index + 1, key = hash->key[index], crossed = 0;
    uint16_t *before = hash->before + index + 1, *cell = &hash->newest[cell_of(key)];
    /* At the comparison below both belong to the digit's end. A start exactly n digits before it is allowed. Bit i of
     * `none` says that the newest start in the end's cell is older. A digit 0 writes the cell's start back. */
    uint64_t place = hash->next, older = hash->before[index], none = 0, oldest = place - n;
#pragma GCC unroll 4
    for (size_t i = 0; i < count; i++) {
        const uint64_t digit = (uint64_t)digits[i] - '0';
        *cell = (uint16_t)(digit != 0 ? place : older);
        key += digit * weight[i];
        keys[i] = key;
        cell = &hash->newest[cell_of(key)];
        older = *cell;
        before[i] = (uint16_t)older;
        crossed |= key ^ (key - tolerance);
        place++;
        oldest++;
        /* none = none / 2 + 2^63 (older < oldest): two instructions, which GCC does not find. */
        __asm__("cmp %[oldest], %[older]; rcr $1, %[none]"
                : [none] "+r"(none)
                : [older] "r"(older), [oldest] "r"(oldest)
                : "cc");
    }
    uint64_t found = count == 0 ? 0 : ~none >> (64 - count);
    hash->next += count;
    if (__builtin_expect(cell_of(crossed) != 0, 0))
        found |= ends_near_an_edge(keys, count, tolerance);
    return found;
}

void hash_take_back(struct matcher_hash *hash, uint32_t count)
{
    ASSERT(count <= hash->next - hash->first);
    for (; count > 0; count--) {
        const uint32_t index = --hash->next - hash->first;
        hash->newest[cell_of(hash->key[index])] = hash->before[index]; /* undoes the digit's insertion */
    }
}

struct hash_walk hash_walk_begin(const struct matcher_hash *hash, uint32_t taken)
{
    ASSERT(taken <= hash->next - hash->first);
    return (struct hash_walk){ .end = hash->first + taken, .start = hash->before[taken] };
}

/* Goes on with a walk whose next start has another residue, or is too old. */
static NOT_HOT uint32_t walk_further(const struct matcher_hash *hash, struct hash_walk *walk, uint64_t tolerance,
                                     uint32_t n, uint64_t *work)
{
    const uint32_t first = hash->first, end = walk->end;
    const uint64_t key = hash->key[end - first];
    for (uint32_t start = walk->start;;) {
        for (; start >= first && end - start <= n; *work += WORK_START) {
            const uint32_t index = start - first, length = end - start;
            ASSERT(start < end);
            walk->start = start = hash->before[index];
            if (key - hash->key[index] <= tolerance)
                return length;
        }
        if (walk->other_cell || edge_crossed(key, tolerance) == 0)
            return 0;
        walk->other_cell = true;
        for (start = hash->newest[cell_of(key - tolerance)]; start >= end; start = hash->before[start - first])
            *work += WORK_START; /* inserted after the end's digit */
    }
}

HOT uint32_t hash_walk_next(const struct matcher_hash *hash, struct hash_walk *walk, uint64_t tolerance, uint32_t n,
                            uint64_t *work)
{
    const uint32_t length = walk->end - walk->start, end = walk->end - hash->first, start = end - length;
    ASSERT(walk->end >= hash->first && walk->end <= hash->next && walk->start < walk->end);
    if (walk->start >= hash->first && length <= n && hash->key[end] - hash->key[start] <= tolerance) {
        walk->start = hash->before[start];
        return length;
    }
    return walk_further(hash, walk, tolerance, n, work);
}

void hash_check(const struct matcher_hash *hash)
{
    if (hash->next == 0)
        return; /* never begun */
    ASSERT(hash->first > MATCHER_N_DIGITS_MAX && hash->next >= hash->first);
    ASSERT(hash->next - hash->first <= MODULUS_PLACES && hash->next <= UINT16_MAX);
    ASSERT(hash->key[0] == first_key);
    for (uint32_t i = 0; i <= hash->next - hash->first; i++)
        ASSERT(hash->before[i] < hash->first + i);
    for (size_t cell = 0; cell < ARRAY_COUNT(hash->newest); cell++)
        ASSERT(hash->newest[cell] < hash->next);
}
