/* Frame memory of the hosted network devices: receive frames that the stack borrows, and transmit buffers.
 *
 * Checks the rules of net/netdev.h for a stack. The stack borrows no more frames than it may, releases none twice, and
 * uses no transmit buffer that it does not hold. Under AddressSanitizer the bytes after a received frame are out of
 * bounds. */
#pragma once

#include "net/netdev.h"

enum {
    FRAME_POOL_RX_COUNT = 2 * NETDEV_RX_BORROWED_MAX, /* borrowed frames, and as many that wait */
    FRAME_POOL_TX_COUNT = 64,
    FRAME_POOL_HEADROOM_BYTES = 66, /* 2 past a multiple of 16, with room for a driver's header */
    FRAME_POOL_BUFFER_BYTES = 1600,
};

struct frame_pool {
    uint8_t rx_memory[FRAME_POOL_RX_COUNT][FRAME_POOL_BUFFER_BYTES] __attribute__((aligned(64)));
    uint8_t tx_memory[FRAME_POOL_TX_COUNT][FRAME_POOL_BUFFER_BYTES] __attribute__((aligned(64)));
    struct tx_buffer tx[FRAME_POOL_TX_COUNT];
    uint16_t rx_free[FRAME_POOL_RX_COUNT];
    uint32_t rx_free_count;
    bool rx_is_out[FRAME_POOL_RX_COUNT];
    bool rx_stays; /* asserts that the stack changes no untagged frame */
    uint64_t rx_sum[FRAME_POOL_RX_COUNT];
    uint32_t rx_out_count; /* frames that the stack has borrowed */
};

void frame_pool_init(struct frame_pool *pool);

/* Takes a free frame for bytes that arrive; `frame->data` has room for any frame with its tags. False: none is free. */
bool frame_pool_rx_take(struct frame_pool *pool, struct frame *frame);

/* Sets a frame's length and lends the frame to the stack. */
void frame_pool_rx_lend(struct frame_pool *pool, struct frame *frame, uint32_t bytes);

/* Frees a frame that was not lent. */
void frame_pool_rx_put_back(struct frame_pool *pool, const struct frame *frame);

/* Frees a frame that the stack releases. */
void frame_pool_rx_release(struct frame_pool *pool, const struct frame *frame);

struct tx_buffer *frame_pool_tx_acquire(struct frame_pool *pool);
void frame_pool_tx_release(struct frame_pool *pool, struct tx_buffer *buffer);

/* Returns the number of transmit buffers that the stack holds. */
uint32_t frame_pool_tx_held_count(const struct frame_pool *pool);

/* Asserts that the stack may publish `bytes` of a buffer. */
void frame_pool_tx_check(const struct frame_pool *pool, const struct tx_buffer *buffer, uint32_t bytes);
