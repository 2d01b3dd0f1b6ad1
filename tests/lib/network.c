#include "tests/lib/network.h"

#include <string.h>

#include "tests/lib/random.h"

void network_init(struct network *network, struct netdev_memory *a, struct netdev_memory *b,
                  const struct network_faults *faults, uint64_t perfect_from_ns, uint64_t seed)
{
    memset(network, 0, offsetof(struct network, transit));
    transit_init(&network->transit);
    network->ends[0] = a;
    network->ends[1] = b;
    network->faults = *faults;
    network->perfect_from_ns = perfect_from_ns;
    network->random = seed;
}

static void schedule(struct network *network, uint32_t to, const uint8_t *data, uint32_t bytes, uint64_t arrives_ns)
{
    if (network->transit.count == NETWORK_FRAMES_MAX || !transit_put(&network->transit, to, data, bytes, arrives_ns))
        network->lost++;
}

static void send(struct network *network, uint32_t from, uint8_t *data, uint32_t bytes, uint64_t now_ns)
{
    const struct network_faults *f = &network->faults;
    uint64_t *random = &network->random;
    uint64_t arrives_ns = now_ns + f->delay_least_ns;
    network->frames++;
    if (now_ns >= network->perfect_from_ns) {
        schedule(network, !from, data, bytes, arrives_ns);
        return;
    }
    arrives_ns += random_between(random, 0, f->delay_most_ns - f->delay_least_ns)
                  / 16; /* jitter keeps the order, mostly */
    if (random_chance(random, f->lose)) {
        network->lost++;
        return;
    }
    if (random_chance(random, f->reorder)) {
        network->reordered++;
        arrives_ns = now_ns + random_between(random, f->delay_least_ns, f->delay_most_ns);
    }
    if (random_chance(random, f->repeat)) {
        network->repeated++;
        schedule(network, !from, data, bytes, now_ns + random_between(random, f->delay_least_ns, 2 * f->delay_most_ns));
    }
    if (random_chance(random, f->corrupt)) { /* one bit, after the Ethernet header: every checksum must see it */
        network->corrupted++;
        uint64_t bit = random_between(random, 14 * 8, bytes * 8 - 1);
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    if (random_chance(random, f->truncate)) {
        network->truncated++;
        bytes = (uint32_t)random_between(random, 14, bytes);
    }
    schedule(network, !from, data, bytes, arrives_ns);
}

void network_take(struct network *network, uint64_t now_ns)
{
    uint8_t data[NETDEV_FRAME_BYTES_MAX];
    for (uint32_t from = 0; from < 2; from++)
        for (uint32_t bytes; (bytes = netdev_memory_take(network->ends[from], data)) != 0;)
            send(network, from, data, bytes, now_ns);
}

bool network_deliver(struct network *network, uint64_t now_ns)
{
    uint32_t to, bytes;
    const uint8_t *frame = transit_get(&network->transit, &to, &bytes, now_ns);
    if (frame != NULL && !netdev_memory_feed(network->ends[to], frame, bytes, false))
        network->lost++; /* the endpoint's receive ring is full */
    return frame != NULL;
}

uint64_t network_next_ns(const struct network *network) { return transit_next_ns(&network->transit); }
