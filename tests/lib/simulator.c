#include "tests/lib/simulator.h"

#include "base/assert.h"
#include "base/time.h"

/* Bounds the turns at one point in time: the longest stream of tests/sim, written byte by byte, and twice that. */
enum { TURNS_MAX = 200000 };

void simulator_play(struct simulator *simulator)
{
    bool moved = true;
    for (uint64_t turns = 0; moved; turns++) {
        ASSERT(turns <= TURNS_MAX);
        moved = network_deliver(&simulator->network, simulator->now_ns);
        for (uint32_t i = 0; i < 2; i++)
            moved |= !simulator->still[i] && endpoint_turn(&simulator->endpoints[i], simulator->now_ns);
        network_take(&simulator->network, simulator->now_ns);
        simulator->steps++;
    }
}

bool simulator_advance(struct simulator *simulator, uint64_t own_ns, uint64_t until_ns)
{
    uint64_t now_ns = simulator->now_ns, next_ns = min_ns(network_next_ns(&simulator->network), own_ns);
    for (uint32_t i = 0; i < 2; i++) {
        if (simulator->still[i])
            continue;
        uint64_t deadline_ns = endpoint_next_deadline_ns(&simulator->endpoints[i], now_ns);
        if (deadline_ns <= now_ns) /* a deadline that net_idle leaves undone would spin the kernel's loop */
            deadline_ns = now_ns + 1000;
        next_ns = min_ns(next_ns, deadline_ns);
    }
    simulator->now_ns = min_ns(next_ns, until_ns);
    return next_ns <= until_ns;
}
