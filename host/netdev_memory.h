/* A network device in memory, for tests: frames are fed to it and taken from it. Two of them make a wire. */
#pragma once

#include "host/frame_pool.h"
#include "net/netdev.h"

struct netdev_memory {
    struct netdev device;       /* first: the stack gets a pointer to this */
    struct frame_pool pool;
    struct frame fed[FRAME_POOL_RX_COUNT];              /* ring of frames the stack has not borrowed yet */
    uint32_t fed_first, fed_count;
    struct {
        uint32_t bytes;
        uint8_t data[NETDEV_FRAME_BYTES_MAX];
    } sent[FRAME_POOL_TX_COUNT];                        /* ring of frames the stack has sent */
    uint32_t sent_first, sent_count;
    uint32_t sent_max;          /* tx_publish fails beyond it: FRAME_POOL_TX_COUNT unless a test lowers it */
};

/* With checksum the stack may leave the L4 checksum to the device, which completes it before the frame is seen here. */
void netdev_memory_init(struct netdev_memory *memory, const uint8_t mac[NETDEV_MAC_BYTES], bool checksum);

/* A frame for the stack, copied. False when FRAME_POOL_RX_COUNT are on their way or held. */
bool netdev_memory_feed(struct netdev_memory *memory, const void *data, uint32_t bytes, bool checksum_good);

/* The oldest frame the stack sent, its length; 0: none. `out` has room for NETDEV_FRAME_BYTES_MAX. */
uint32_t netdev_memory_take(struct netdev_memory *memory, uint8_t *out);

/* Carries what each has sent to the other. Returns the number of frames; what does not fit is lost. */
uint32_t netdev_memory_exchange(struct netdev_memory *a, struct netdev_memory *b);
