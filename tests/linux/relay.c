#include "tests/linux/relay.h"

#include <string.h>

#include "base/assert.h"
#include "tests/lib/random.h"

void relay_init(struct relay *relay, const struct relay_faults *faults, uint64_t seed)
{
    relay->faults = *faults;
    memset(relay->directions, 0, sizeof relay->directions);
    for (uint32_t i = 0; i < 2; i++)
        relay->directions[i].random = seed * 2 + i;
    transit_init(&relay->transit);
}

static void schedule(struct relay *relay, uint32_t from, const uint8_t *data, uint32_t bytes, uint64_t due_ns)
{
    if (!transit_put(&relay->transit, !from, data, bytes, due_ns))
        relay->directions[from].overflowed++;
}

void relay_put(struct relay *relay, uint32_t from, const uint8_t *data, uint32_t bytes, uint64_t now_ns)
{
    const struct relay_faults *f = &relay->faults;
    struct relay_direction *d = &relay->directions[from];
    ASSERT(bytes <= RELAY_PACKET_BYTES_MAX);
    d->packets++;
    d->bytes += bytes;
    bool lose = random_chance(&d->random, f->lose), repeat = random_chance(&d->random, f->repeat);
    bool reorder = random_chance(&d->random, f->reorder); /* all are drawn, used or not: the seed's sequence stays */
    uint64_t late_ns = random_between(&d->random, 0, f->delay_ns + 5000000);

    uint64_t left_ns = now_ns;
    if (f->bits_per_s != 0) {
        uint64_t packet_ns = bytes * UINT64_C(8000000000) / f->bits_per_s;
        uint64_t longest_ns = f->queue_packets * (RELAY_PACKET_BYTES_MAX * UINT64_C(8000000000) / f->bits_per_s);
        if (d->free_ns > now_ns + longest_ns) {
            d->overflowed++;
            return;
        }
        left_ns = d->free_ns = (d->free_ns > now_ns ? d->free_ns : now_ns) + packet_ns;
    }
    if (lose) {
        d->lost++;
        return;
    }
    if (repeat) {
        d->repeated++;
        schedule(relay, from, data, bytes, left_ns + f->delay_ns + late_ns / 2);
    }
    if (reorder) {
        d->reordered++;
        left_ns += late_ns;
    }
    schedule(relay, from, data, bytes, left_ns + f->delay_ns);
}
