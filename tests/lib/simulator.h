/* Two endpoints and the network between them, in virtual time. */
#pragma once

#include "tests/lib/endpoint.h"
#include "tests/lib/network.h"

struct simulator {
    struct endpoint endpoints[2];
    bool still[2]; /* the endpoint's machine stands still: its stack and application do not run */
    struct network network;
    uint64_t now_ns, steps;
};

/* Plays one moment: delivers the frames that arrive now, one by one, until nothing moves. */
void simulator_play(struct simulator *simulator);

/* Moves time to the next event, which the caller has at `own_ns`, to `until_ns` at most. Returns false if there is no
 * event before. The caller has an event of its own at the time when a machine goes on. */
bool simulator_advance(struct simulator *simulator, uint64_t own_ns, uint64_t until_ns);
