/* Prefix residues of one modulus, hashed: which starts have the residue of an end. app/matcher/README.md, "Hash".
 *
 * A place is a position between two digits, numbered on from burst to burst. The key of a place is the residue of the
 * digits before it, as a 64-bit fraction. A place is inserted as a start when its digit, not 0, is known. Each place
 * remembers the newest start before it in its cell, so that the starts of a cell form a chain, the newest first. */
#pragma once

#include "app/matcher/modulus.h"

enum {
    HASH_CELL_BITS = 13,
    HASH_BLOCK_DIGITS = 64,           /* digits that are taken at once, at most */
    HASH_STALE = -2 * MODULUS_PLACES, /* as first_text: the text has no digit of the table any more */
};

struct matcher_hash {
    uint32_t first;     /* the place at index 0 of key and before */
    uint32_t next;      /* the place after the last digit taken */
    int32_t first_text; /* the text index of `first`; negative once the window has moved on */
    uint64_t key[MODULUS_PLACES + 1];
    uint16_t before[MODULUS_PLACES + 1];  /* the newest start in the same cell, an older place */
    uint16_t newest[1 << HASH_CELL_BITS]; /* the newest start in a cell */
};

/* Begins the table again at a position of the text, with no start before it. */
void hash_restart(struct matcher_hash *hash, int32_t text_index);
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
    uint32_t end, start; /* places; the next start to look at */
    bool other_cell;     /* the walk has left the end's own cell for the one below */
};
/* Starts a walk for the end after the first `taken` digits since hash_restart. */
struct hash_walk hash_walk_begin(const struct matcher_hash *hash, uint32_t taken);
/* Goes to the next start whose residue is the end's. Returns the number of digits from there to the end, or 0 if no
 * start within n digits is left. */
uint32_t hash_walk_next(const struct matcher_hash *hash, struct hash_walk *walk, uint64_t tolerance, uint32_t n);
/* Returns true if the residues at two places of the text are equal; both must have been taken. */
bool hash_residues_equal(const struct matcher_hash *hash, uint32_t start_text, uint32_t end_text, uint64_t tolerance);
/* Returns true if the table holds this position of the text. */
static inline bool hash_covers(const struct matcher_hash *hash, uint32_t text_index)
{
    return (int32_t)text_index >= hash->first_text
           && text_index - (uint32_t)hash->first_text <= hash->next - hash->first;
}

void hash_check(const struct matcher_hash *hash);
