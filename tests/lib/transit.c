#include "tests/lib/transit.h"

#include <string.h>

#include "base/assert.h"

void transit_init(struct transit *transit)
{
    transit->order = transit->count = 0;
    for (uint32_t i = 0; i < TRANSIT_PACKETS_MAX; i++)
        transit->free_slots[i] = (uint16_t)i;
}

static bool earlier(const struct transit_packet *a, const struct transit_packet *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static void heap_push(struct transit *transit, struct transit_packet packet)
{
    uint32_t at = transit->count++;
    while (at > 0 && earlier(&packet, &transit->heap[(at - 1) / 2])) {
        transit->heap[at] = transit->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    transit->heap[at] = packet;
}

static struct transit_packet heap_pop(struct transit *transit)
{
    struct transit_packet first = transit->heap[0], last = transit->heap[--transit->count];
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < transit->count; at = child) {
        if (child + 1 < transit->count && earlier(&transit->heap[child + 1], &transit->heap[child]))
            child++;
        if (!earlier(&transit->heap[child], &last))
            break;
        transit->heap[at] = transit->heap[child];
    }
    transit->heap[at] = last;
    return first;
}

bool transit_put(struct transit *transit, uint32_t to, const uint8_t *data, uint32_t bytes, uint64_t due_ns)
{
    ASSERT(bytes <= TRANSIT_PACKET_BYTES_MAX);
    if (transit->count == TRANSIT_PACKETS_MAX)
        return false;
    uint16_t slot = transit->free_slots[transit->count];
    memcpy(transit->data[slot], data, bytes);
    heap_push(transit, (struct transit_packet){ due_ns, transit->order++, slot, (uint16_t)bytes, (uint8_t)to });
    return true;
}

const uint8_t *transit_get(struct transit *transit, uint32_t *to, uint32_t *bytes, uint64_t now_ns)
{
    if (transit_next_ns(transit) > now_ns)
        return NULL;
    struct transit_packet packet = heap_pop(transit);
    transit->free_slots[transit->count] = packet.slot;
    *to = packet.to;
    *bytes = packet.bytes;
    return transit->data[packet.slot];
}

uint64_t transit_next_ns(const struct transit *transit)
{
    return transit->count != 0 ? transit->heap[0].due_ns : UINT64_MAX;
}
