/* The path between two endpoints, in real time. Delays, loses, repeats and reorders IP packets by a seed, over a line
 * of a given rate with a queue before it. Knows no sockets: the caller takes the packets out of `transit`.
 *
 * The n-th packet of a direction gets the same faults in each run of a seed. */
#pragma once

#include "tests/lib/transit.h"

enum { RELAY_PACKET_BYTES_MAX = 1500 };

/* Chances in 10,000 a packet and direction. */
struct relay_faults {
    uint32_t lose, repeat, reorder; /* reorder: this packet takes up to twice the delay and 5 ms */
    uint64_t delay_ns;              /* one way */
    uint64_t bits_per_s;            /* 0: no limit */
    uint32_t queue_packets;         /* the queue before the line; further packets are lost */
};

struct relay_direction {
    uint64_t random;
    uint64_t free_ns; /* the time at which the line is free again */
    uint64_t packets, bytes, lost, overflowed, repeated, reordered;
};

struct relay {
    struct relay_faults faults;
    struct relay_direction directions[2]; /* by the end that sends */
    struct transit transit;
};

void relay_init(struct relay *relay, const struct relay_faults *faults, uint64_t seed);
void relay_put(struct relay *relay, uint32_t from, const uint8_t *data, uint32_t bytes, uint64_t now_ns);
