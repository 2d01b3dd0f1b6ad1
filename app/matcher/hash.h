/* Prefix residues of one modulus, hashed: which starts have the residue of an end. app/matcher/README.md, "Hash".
 *
 * The key of a place is the residue of the digits before it, as a 64-bit fraction. A place is inserted as a start when
 * its digit, not 0, is known. Each place remembers the newest start before it in its cell, so that the starts of a cell
 * form a chain, the newest first. The table numbers its places with 16 bits. */
#pragma once

#include "app/matcher/modulus.h"
#include "app/matcher/work.h"

enum {
    HASH_CELL_BITS = 13,
    HASH_BLOCK_DIGITS = 64, /* digits that are taken at once, at most */
    /* All starts of a window in one cell, then those of a block after the end in the other cell. */
    HASH_WALK_WORK_MAX = WORK_START * (MATCHER_N_DIGITS_MAX + 256 + 1),
};

struct matcher_hash {
    uint64_t place; /* the stream's place at index 0 of key and before */
    /* Numbers of places: that of index 0, and that after the last digit taken. next = 0: the table has not begun. */
    uint32_t first, next;
    uint64_t key[MODULUS_PLACES + 1];
    uint16_t before[MODULUS_PLACES + 1];  /* the newest start in the same cell, an older place */
    uint16_t newest[1 << HASH_CELL_BITS]; /* the newest start in a cell */
};

/* Returns true if hash_restart clears the cells. */
static inline bool hash_restart_clears(const struct matcher_hash *hash)
{
    return hash->next == 0 || hash->next + MATCHER_N_DIGITS_MAX + 1 + MODULUS_PLACES > UINT16_MAX;
}
/* Begins the table again at a place of the stream, with no start before it. */
void hash_restart(struct matcher_hash *hash, uint64_t place);
/* Returns true if the table has room for `digits` more digits. */
static inline bool hash_has_room(const struct matcher_hash *hash, uint32_t digits)
{
    return hash->next - hash->first + digits <= MODULUS_PLACES;
}

/* Takes up to HASH_BLOCK_DIGITS digits. Returns the ends, the one after the first digit as bit 0, that may have a start
 * with the same residue at most n digits before. */
uint64_t hash_take(struct matcher_hash *hash, const struct matcher_modulus *modulus, const uint8_t *digits,
                   uint32_t count, uint32_t n);
/* Undoes hash_take for the last `count` digits. */
void hash_take_back(struct matcher_hash *hash, uint32_t count);
/* A walk through the starts of one end, the newest first. */
struct hash_walk {
    uint32_t end, start; /* numbers of places; the next start to look at */
    bool other_cell;     /* the walk has left the end's own cell for the one below */
};
/* Starts a walk for the end after the first `taken` digits since hash_restart. */
struct hash_walk hash_walk_begin(const struct matcher_hash *hash, uint32_t taken);
/* Goes to the next start whose residue is the end's. Returns the number of digits from there to the end, or 0 if no
 * start within n digits is left. The caller has paid WORK_START for the first start that it looks at. Each further one
 * is added to `work`: HASH_WALK_WORK_MAX at most. */
uint32_t hash_walk_next(const struct matcher_hash *hash, struct hash_walk *walk, uint64_t tolerance, uint32_t n,
                        uint64_t *work);
void hash_check(const struct matcher_hash *hash);
