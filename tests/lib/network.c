#include "tests/lib/network.h"

#include <string.h>

#include "tests/lib/random.h"

void network_init(struct network *network, struct netdev_memory *a, struct netdev_memory *b,
                  const struct network_faults *faults, uint64_t perfect_from_ns, uint64_t seed)
{
    memset(network, 0, offsetof(struct network, in_transit));
    network->ends[0] = a;
    network->ends[1] = b;
    network->faults = *faults;
    network->perfect_from_ns = perfect_from_ns;
    network->random = seed;
}

static void schedule(struct network *network, uint32_t to, const uint8_t *data, uint32_t bytes, uint64_t arrives_ns)
{
    if (network->count == NETWORK_FRAMES_MAX) {
        network->lost++;
        return;
    }
    struct network_frame *frame = &network->in_transit[network->count++];
    frame->arrives_ns = arrives_ns;
    frame->order = network->order++;
    frame->to = to;
    frame->bytes = bytes;
    memcpy(frame->data, data, bytes);
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

static int64_t earliest(const struct network *network)
{
    int64_t best = -1;
    for (uint32_t i = 0; i < network->count; i++) {
        const struct network_frame *frame = &network->in_transit[i], *other = &network->in_transit[best < 0 ? i : best];
        if (best < 0 || frame->arrives_ns < other->arrives_ns
            || (frame->arrives_ns == other->arrives_ns && frame->order < other->order))
            best = i;
    }
    return best;
}

bool network_deliver(struct network *network, uint64_t now_ns)
{
    int64_t index = earliest(network);
    if (index < 0 || network->in_transit[index].arrives_ns > now_ns)
        return false;
    struct network_frame *frame = &network->in_transit[index];
    if (!netdev_memory_feed(network->ends[frame->to], frame->data, frame->bytes, false))
        network->lost++; /* the endpoint's receive ring is full */
    *frame = network->in_transit[--network->count];
    return true;
}

uint64_t network_next_ns(const struct network *network)
{
    int64_t index = earliest(network);
    return index < 0 ? UINT64_MAX : network->in_transit[index].arrives_ns;
}
