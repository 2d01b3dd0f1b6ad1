#include "tests/linux/relay.h"

#include <string.h>

#include "base/assert.h"
#include "tests/lib/random.h"

void relay_init(struct relay *relay, const struct relay_faults *faults, uint64_t seed)
{
    relay->faults = *faults;
    relay->order = relay->count = 0;
    memset(relay->directions, 0, sizeof relay->directions);
    for (uint32_t i = 0; i < 2; i++)
        relay->directions[i].random = seed * 2 + i;
    for (uint32_t i = 0; i < RELAY_PACKETS_MAX; i++)
        relay->free_slots[i] = (uint16_t)i;
}

/* ---- A heap by arrival ---- */

static bool earlier(const struct relay_packet *a, const struct relay_packet *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static void heap_push(struct relay *relay, struct relay_packet packet)
{
    uint32_t at = relay->count++;
    while (at > 0 && earlier(&packet, &relay->heap[(at - 1) / 2])) {
        relay->heap[at] = relay->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    relay->heap[at] = packet;
}

static struct relay_packet heap_pop(struct relay *relay)
{
    struct relay_packet first = relay->heap[0], last = relay->heap[--relay->count];
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < relay->count; at = child) {
        if (child + 1 < relay->count && earlier(&relay->heap[child + 1], &relay->heap[child]))
            child++;
        if (!earlier(&relay->heap[child], &last))
            break;
        relay->heap[at] = relay->heap[child];
    }
    relay->heap[at] = last;
    return first;
}

/* ---- A packet's faults ---- */

static void schedule(struct relay *relay, uint32_t from, const uint8_t *data, uint32_t bytes, uint64_t due_ns)
{
    if (relay->count == RELAY_PACKETS_MAX) {
        relay->directions[from].overflowed++;
        return;
    }
    uint16_t slot = relay->free_slots[relay->count];
    memcpy(relay->data[slot], data, bytes);
    heap_push(relay, (struct relay_packet){ due_ns, relay->order++, slot, (uint16_t)bytes, (uint8_t)!from });
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

const uint8_t *relay_get(struct relay *relay, uint32_t *to, uint32_t *bytes, uint64_t now_ns)
{
    if (relay_next_ns(relay) > now_ns)
        return NULL;
    struct relay_packet packet = heap_pop(relay);
    relay->free_slots[relay->count] = packet.slot;
    *to = packet.to;
    *bytes = packet.bytes;
    return relay->data[packet.slot];
}

uint64_t relay_next_ns(const struct relay *relay) { return relay->count != 0 ? relay->heap[0].due_ns : UINT64_MAX; }
