/* The price levels of a side of a book. Inline: the way of a tick goes through. Knows no order. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "app/trade/book.h"
#include "base/assert.h"
#include "base/hot_section.h"

enum { LEVELS_NEAR_COUNT = 8 }; /* that are counted, before bisection */

/* The levels of a side, the best one last. A key grows with the quality of its price. */
struct side {
    uint32_t count;
    uint32_t keys[BOOK_LEVEL_COUNT_MAX];
    uint64_t shares[BOOK_LEVEL_COUNT_MAX];
};

/* Returns a key that is greater for a better price; the same function turns a key into its price. */
static inline uint32_t key_of(enum book_side side, uint32_t price) { return side == BOOK_BUY ? price : ~price; }

/* Returns how many levels are worse than a key: the place of the key's level, if there is one. Few branches depend on
 * the key: the levels near the best are counted, and the search among the others has as many steps for each key. */
static inline uint32_t level_place(const struct side *s, uint32_t key)
{
    uint32_t begin = 0, left = s->count;
    if (left == 0 || s->keys[left - 1] < key)
        return left;
    if (left > LEVELS_NEAR_COUNT) {
        const uint32_t *near = &s->keys[left - LEVELS_NEAR_COUNT];
        uint32_t better = 0;
#pragma GCC unroll 8
        for (uint32_t i = 0; i < LEVELS_NEAR_COUNT; i++) {
            better += near[i] >= key;
            HOT_KEEP(better); /* else GCC counts by vectors, which the kernel has not */
        }
        left -= better;
        if (better < LEVELS_NEAR_COUNT)
            return left;
    }
    while (left > 1) {
        const uint32_t half = left / 2;
        begin += s->keys[begin + half - 1] < key ? half : 0;
        left -= half;
    }
    return begin + (left == 1 && s->keys[begin] < key);
}

/* Adds shares to a level, which is made if there is none. Returns false if the side has no place for it. */
static inline bool level_add(struct side *s, uint32_t key, uint32_t shares)
{
    uint32_t at = level_place(s, key);
    if (at < s->count && s->keys[at] == key) {
        s->shares[at] += shares;
        return true;
    }
    if (s->count == BOOK_LEVEL_COUNT_MAX)
        return false;
    if (at < s->count) { /* the best level moves nothing, and calls nobody */
        memmove(&s->keys[at + 1], &s->keys[at], (s->count - at) * sizeof s->keys[0]);
        memmove(&s->shares[at + 1], &s->shares[at], (s->count - at) * sizeof s->shares[0]);
    }
    s->keys[at] = key;
    s->shares[at] = shares;
    s->count++;
    return true;
}

/* Takes an order's shares from its level, which goes with the last of them. */
static inline void level_remove(struct side *s, uint32_t key, uint32_t shares)
{
    uint32_t at = level_place(s, key);
    ASSERT(at < s->count && s->keys[at] == key && s->shares[at] >= shares);
    s->shares[at] -= shares;
    if (s->shares[at] > 0)
        return;
    s->count--;
    memmove(&s->keys[at], &s->keys[at + 1], (s->count - at) * sizeof s->keys[0]);
    memmove(&s->shares[at], &s->shares[at + 1], (s->count - at) * sizeof s->shares[0]);
}
