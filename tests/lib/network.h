/* The network between two devices in memory, in virtual time. Loses, repeats, reorders, delays, corrupts and truncates
 * frames by a seed, and turns perfect at a given time so that every game can end. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tests/lib/netdev_memory.h"
#include "tests/lib/transit.h"

enum { NETWORK_FRAMES_MAX = 2048 }; /* more are lost, as in a full queue */

/* Chances in 10,000 a frame; times in ns, one way. */
struct network_faults {
    uint32_t lose, repeat, reorder, corrupt, truncate;
    uint64_t delay_least_ns, delay_most_ns;
};

struct network {
    struct netdev_memory *ends[2];
    struct network_faults faults;
    uint64_t perfect_from_ns;
    uint64_t random;
    uint64_t frames, lost, repeated, reordered, corrupted, truncated;
    struct transit transit;
};

void network_init(struct network *network, struct netdev_memory *a, struct netdev_memory *b,
                  const struct network_faults *faults, uint64_t perfect_from_ns, uint64_t seed);

/* Takes the frames that both have sent. */
void network_take(struct network *network, uint64_t now_ns);

/* Gives the earliest frame that has arrived by now to its receiver. Returns false if none has arrived. */
bool network_deliver(struct network *network, uint64_t now_ns);

/* Returns the time at which the next frame arrives, or UINT64_MAX if none is in transit. */
uint64_t network_next_ns(const struct network *network);
