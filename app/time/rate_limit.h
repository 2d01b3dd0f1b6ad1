/* A bound on how often one address is answered. One request in four above the bound is answered all the same, drawn by
 * a secret: requests under a forged address must not shut its owner out. A reply is no longer than its request. Some
 * thousand addresses are remembered, in sets of four. A secret decides the set of an address, so nobody can choose whom
 * to push out. A new address takes the place of the one in its set that could first ask a whole burst again. */
#pragma once

#include <stdint.h>

#include "base/siphash.h"

enum rate_verdict {
    RATE_PASS,
    RATE_KISS, /* the first refusal since the address was last quiet: send a kiss-o'-death */
    RATE_LEAK, /* above the rate, and to be answered: drawn by lot */
    RATE_DROP,
};

/* Begins with nobody remembered. `rate` a second on the average and `burst` at once pass; rate 0: all do. */
void rate_limit_init(struct siphash_key key, uint32_t rate, uint32_t burst);

/* Takes a request of an address. */
enum rate_verdict rate_limit_take(uint32_t address, uint64_t now_ns);

/* Keeps what rate_limit_take changes for an address, and puts it back: for a rehearsal. */
void rate_limit_keep(uint32_t address);
void rate_limit_put_back(void);
