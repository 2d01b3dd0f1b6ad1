/* A network device in memory, for tests: a test feeds frames and takes frames. Two devices make a wire. */
#pragma once

#include "net/netdev.h"
#include "tests/lib/frame_pool.h"

struct netdev_memory {
    struct netdev device; /* first: the stack gets a pointer to this */
    struct frame_pool pool;
    struct frame fed[FRAME_POOL_RX_COUNT]; /* ring of frames the stack has not borrowed yet */
    uint32_t fed_first, fed_count;
    struct {
        uint32_t bytes;
        uint8_t data[NETDEV_FRAME_BYTES_MAX];
    } sent[FRAME_POOL_TX_COUNT]; /* ring of frames the stack has sent */
    uint32_t sent_first, sent_count;
    uint32_t sent_max; /* tx_publish fails beyond this: FRAME_POOL_TX_COUNT, unless a test lowers it */
};

/* Sets up a device. With `checksum` the stack may leave the L4 checksum to the device, which completes the field. */
void netdev_memory_init(struct netdev_memory *memory, const uint8_t mac[NETDEV_MAC_BYTES], bool checksum);

/* Gives the stack a frame (copied). Returns false if FRAME_POOL_RX_COUNT frames wait or are borrowed. */
bool netdev_memory_feed(struct netdev_memory *memory, const void *data, uint32_t bytes, bool checksum_good);

/* Takes the oldest frame that the stack sent and returns its length; 0: none. `out` has NETDEV_FRAME_BYTES_MAX
 * bytes. */
uint32_t netdev_memory_take(struct netdev_memory *memory, uint8_t *out);

/* Carries the frames that each has sent to the other. Returns their number; frames that find no room are lost. */
uint32_t netdev_memory_exchange(struct netdev_memory *a, struct netdev_memory *b);
