#include "app/digest/capacity.h"

#include <string.h>

#include "app/digest/chains.h"
#include "app/digest/variants.h"
#include "base/assert.h"
#include "base/bytes.h"

enum {
    UNIT = 1000000,
    TURN_NS_MAX = NS_PER_S,
    /* A time without chains moves the speed as much as a tenth of that time at full speed. */
    FORGETTING = 10,
};

static struct {
    uint64_t speed, waiting;    /* the means, in millionths */
    struct capacity_turn turn;  /* the one that goes on */
    bool begun;                 /* there is a turn that goes on */
    uint64_t begin_ns, turn_ns; /* when the window and the turn began */
    uint64_t done, promised;    /* rounds, in turns with chains throughout */
    uint64_t busy_ns;           /* these turns */
    uint64_t waiting_ns;        /* a nanosecond for each waiting request */
} capacity;

void digest_capacity_init(void)
{
    memset(&capacity, 0, sizeof capacity);
    capacity.speed = UNIT;
    ASSERT(digest_chains_width() > 0);
}

/* Moves a mean towards a value that held for a time: a low pass of the first order, by backward differences. */
static uint64_t mean_move(uint64_t mean, uint64_t value, uint64_t ns)
{
    const uint64_t us = ns / NS_PER_US, smooth_us = CAPACITY_SMOOTH_NS / NS_PER_US;
    ASSERT(value <= UINT32_MAX);
    return (mean * smooth_us + value * us) / (smooth_us + us);
}

static void window_end(uint64_t now_ns)
{
    const uint64_t window_ns = now_ns - capacity.begin_ns;
    ASSERT(window_ns >= CAPACITY_WINDOW_NS);
    capacity.waiting = mean_move(capacity.waiting, capacity.waiting_ns / (window_ns / NS_PER_US) * (UNIT / 1000),
                                 window_ns);
    if (capacity.promised > 0)
        capacity.speed = mean_move(capacity.speed, min_u64(capacity.done * UNIT / capacity.promised, UNIT),
                                   capacity.busy_ns);
    capacity.speed = mean_move(capacity.speed, UNIT, (window_ns - min_u64(capacity.busy_ns, window_ns)) / FORGETTING);
    capacity.begin_ns = now_ns;
    capacity.done = capacity.promised = capacity.busy_ns = capacity.waiting_ns = 0;
}

void digest_capacity_turn(const struct capacity_turn *turn, uint64_t now_ns)
{
    const struct capacity_turn *last = &capacity.turn;
    ASSERT(now_ns >= capacity.turn_ns);
    if (!capacity.begun)
        capacity.begin_ns = capacity.turn_ns = now_ns;
    const uint64_t ns = min_u64(now_ns - capacity.turn_ns, TURN_NS_MAX);
    capacity.waiting_ns += last->waiting * ns;
    if (last->chains_left > 0) {
        capacity.done += last->rounds_own + turn->rounds_taken;
        capacity.promised += digest_chains_rate(last->chains_left) * ns / VARIANTS_CHAIN_SLICE_NS;
        capacity.busy_ns += ns;
    }
    capacity.begun = true;
    capacity.turn = *turn;
    capacity.turn_ns = now_ns;
    if (now_ns - capacity.begin_ns >= CAPACITY_WINDOW_NS)
        window_end(now_ns);
}

uint64_t digest_capacity_free(void)
{
    const uint64_t width = digest_chains_width();
    const uint64_t all = digest_chains_rate(width) * (NS_PER_S / 1000) / (VARIANTS_CHAIN_SLICE_NS / 1000);
    ASSERT(capacity.speed <= UNIT);
    return all * capacity.speed / UNIT * width * 1000 / (width * 1000 + capacity.waiting / 1000);
}
