/* Packets on their way between two ends, the earliest first. Knows no clock: each packet has its time of arrival. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { TRANSIT_PACKET_BYTES_MAX = 1514, TRANSIT_PACKETS_MAX = 16384 };

struct transit_packet {
    uint64_t due_ns, order;
    uint16_t slot, bytes;
    uint8_t to;
};

struct transit {
    uint64_t order;
    uint32_t count;
    struct transit_packet heap[TRANSIT_PACKETS_MAX]; /* the earliest first; of equal times, the first that was put */
    uint16_t free_slots[TRANSIT_PACKETS_MAX];        /* the first `count` are taken */
    uint8_t data[TRANSIT_PACKETS_MAX][TRANSIT_PACKET_BYTES_MAX];
};

void transit_init(struct transit *transit);

/* Puts a copy of a packet on its way to end `to`. Returns false if TRANSIT_PACKETS_MAX packets are on their way. */
bool transit_put(struct transit *transit, uint32_t to, const uint8_t *data, uint32_t bytes, uint64_t due_ns);

/* Returns the packet that arrived first, valid until the next transit_put. Returns NULL if none has arrived yet. */
const uint8_t *transit_get(struct transit *transit, uint32_t *to, uint32_t *bytes, uint64_t now_ns);

/* Returns the time at which the next packet arrives, or UINT64_MAX if none is on its way. */
uint64_t transit_next_ns(const struct transit *transit);
