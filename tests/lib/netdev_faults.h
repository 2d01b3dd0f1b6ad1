/* A network device that loses, doubles, swaps and corrupts the frames of the device below it, by a seed. */
#pragma once

#include "net/netdev.h"
#include "tests/lib/frame_pool.h"

/* Chances in 10,000, for each frame in each direction. Corruption flips one bit; the device below must not offload. */
struct faults {
    uint32_t lose, duplicate, swap, corrupt;
};

struct faults_counters {
    uint64_t lost, duplicated, swapped, corrupted;
};

struct netdev_faults {
    struct netdev device; /* first: the stack gets a pointer to this */
    struct netdev *below;
    struct faults faults;
    struct faults_counters counters;
    uint64_t random;
    struct frame_pool pool;
    struct frame rx_again, rx_held; /* a copy to come next; a frame that waits for its successor */
    bool has_rx_again, has_rx_held;
    uint32_t tx_held_bytes; /* 0: no frame waits for its successor */
    uint8_t tx_held[NETDEV_FRAME_BYTES_MAX];
};

void netdev_faults_init(struct netdev_faults *self, struct netdev *below, struct faults faults, uint64_t seed);
