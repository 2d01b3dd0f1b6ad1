/* Chains of SHA-256: requests with rounds=N > 1, worked on in slices. Every other slice is that of the chains with the
 * fewest rounds left, so that a short one does not wait for long ones. The slices between are those of the oldest
 * chains, so that a long one is not starved. Several run side by side where the CPU does that faster. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct chain {
    uint32_t digest[8];
    uint64_t rounds_left;
    uint64_t number; /* older chains have lower ones: this module's own */
};

/* Forgets all chains; adds one; takes one out that has not ended. At most CHAIN_COUNT_MAX at once. */
enum { CHAIN_COUNT_MAX = 256 };
void digest_chains_clear(void);
void digest_chains_add(struct chain *chain);
void digest_chains_remove(struct chain *chain);

/* Returns the count of chains. */
size_t digest_chains_count(void);

/* Works for one slice. Returns the rounds done. A chain whose rounds_left is then 0 has left. */
uint64_t digest_chains_work(void);
