/* Frame memory of the hosted network devices: receive frames that are lent to the stack, and transmit buffers.
 *
 * Checks what net/netdev.h asks of a stack: no more frames out than it may hold, none given back twice, no transmit
 * buffer used that is not held. Under AddressSanitizer the bytes behind a received frame are out of bounds. */
#pragma once

#include "net/netdev.h"

enum {
    FRAME_POOL_RX_COUNT = 2 * NETDEV_RX_BORROWED_MAX,   /* lent ones, and as many waiting */
    FRAME_POOL_TX_COUNT = 64,
    FRAME_POOL_HEADROOM_BYTES = 66,                     /* 2 past a multiple of 16, with room for a driver's header */
    FRAME_POOL_BUFFER_BYTES = 1600,
};

struct frame_pool {
    uint8_t rx_memory[FRAME_POOL_RX_COUNT][FRAME_POOL_BUFFER_BYTES] __attribute__((aligned(64)));
    uint8_t tx_memory[FRAME_POOL_TX_COUNT][FRAME_POOL_BUFFER_BYTES] __attribute__((aligned(64)));
    struct tx_buffer tx[FRAME_POOL_TX_COUNT];
    uint16_t rx_free[FRAME_POOL_RX_COUNT];
    uint32_t rx_free_count;
    bool rx_is_out[FRAME_POOL_RX_COUNT];
    uint32_t rx_out_count;                              /* lent to the stack now */
};

void frame_pool_init(struct frame_pool *pool);

/* A frame for bytes that have just arrived: `frame->data` has room for NETDEV_FRAME_BYTES_MAX. False: none left. */
bool frame_pool_rx_take(struct frame_pool *pool, struct frame *frame);

/* Its length is known now; then it is lent, or put back unused. */
void frame_pool_rx_lend(struct frame_pool *pool, struct frame *frame, uint32_t bytes);
void frame_pool_rx_put_back(struct frame_pool *pool, const struct frame *frame);

/* The stack gives it back. */
void frame_pool_rx_release(struct frame_pool *pool, const struct frame *frame);

struct tx_buffer *frame_pool_tx_acquire(struct frame_pool *pool);
void frame_pool_tx_release(struct frame_pool *pool, struct tx_buffer *buffer);

/* Held by the stack now. */
uint32_t frame_pool_tx_held_count(const struct frame_pool *pool);

/* Asserts that the stack may publish that much of it. */
void frame_pool_tx_check(const struct frame_pool *pool, const struct tx_buffer *buffer, uint32_t bytes);
