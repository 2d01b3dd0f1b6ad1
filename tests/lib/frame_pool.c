/* Frame memory of the hosted devices. */
#include "tests/lib/frame_pool.h"

#include "base/assert.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#endif
#endif
#ifndef ASAN_POISON_MEMORY_REGION
#define ASAN_POISON_MEMORY_REGION(at, bytes)   ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

void frame_pool_init(struct frame_pool *pool)
{
    pool->rx_free_count = 0;
    pool->rx_out_count = 0;
    for (uint16_t i = 0; i < FRAME_POOL_RX_COUNT; i++) {
        pool->rx_free[pool->rx_free_count++] = i;
        pool->rx_is_out[i] = false;
    }
    for (uint16_t i = 0; i < FRAME_POOL_TX_COUNT; i++)
        pool->tx[i] = (struct tx_buffer){ .data = pool->tx_memory[i] + FRAME_POOL_HEADROOM_BYTES, .index = i };
}

bool frame_pool_rx_take(struct frame_pool *pool, struct frame *frame)
{
    if (pool->rx_free_count == 0)
        return false;
    uint16_t index = pool->rx_free[--pool->rx_free_count];
    ASAN_UNPOISON_MEMORY_REGION(pool->rx_memory[index], FRAME_POOL_BUFFER_BYTES);
    *frame = (struct frame){ .data = pool->rx_memory[index] + FRAME_POOL_HEADROOM_BYTES, .cookie = index };
    return true;
}

/* Returns a frame's sum, by FNV-1a; 0 for one with a VLAN tag. A capture copies all others when the stack gives them
 * back: net/capture/capture.c. */
static uint64_t frame_sum(const struct frame *frame)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (uint32_t i = 0; i < frame->bytes; i++)
        sum = (sum ^ frame->data[i]) * UINT64_C(0x100000001b3);
    return frame->bytes >= 14 && netdev_frame_is_tagged(frame->data) ? 0 : sum;
}

void frame_pool_rx_lend(struct frame_pool *pool, struct frame *frame, uint32_t bytes)
{
    ASSERT(bytes <= NETDEV_FRAME_BYTES_MAX + NETDEV_TAGS_BYTES_MAX);
    ASSERT(pool->rx_out_count < NETDEV_RX_BORROWED_MAX);
    frame->bytes = bytes;
    pool->rx_out_count++;
    pool->rx_is_out[frame->cookie] = true;
    pool->rx_sum[frame->cookie] = pool->rx_stays ? frame_sum(frame) : 0;
    uint8_t *end = pool->rx_memory[frame->cookie] + FRAME_POOL_BUFFER_BYTES;
    ASAN_POISON_MEMORY_REGION(frame->data + bytes, (size_t)(end - (frame->data + bytes)));
}

void frame_pool_rx_put_back(struct frame_pool *pool, const struct frame *frame)
{
    ASSERT(!pool->rx_is_out[frame->cookie]);
    pool->rx_free[pool->rx_free_count++] = (uint16_t)frame->cookie;
}

void frame_pool_rx_release(struct frame_pool *pool, const struct frame *frame)
{
    ASSERT(frame->cookie < FRAME_POOL_RX_COUNT);
    ASSERT(pool->rx_is_out[frame->cookie]);
    ASSERT(pool->rx_sum[frame->cookie] == 0 || pool->rx_sum[frame->cookie] == frame_sum(frame));
    pool->rx_is_out[frame->cookie] = false;
    pool->rx_out_count--;
    ASAN_POISON_MEMORY_REGION(pool->rx_memory[frame->cookie], FRAME_POOL_BUFFER_BYTES);
    pool->rx_free[pool->rx_free_count++] = (uint16_t)frame->cookie;
}

struct tx_buffer *frame_pool_tx_acquire(struct frame_pool *pool)
{
    for (size_t i = 0; i < FRAME_POOL_TX_COUNT; i++) {
        struct tx_buffer *buffer = &pool->tx[i];
        if (buffer->holders != 0)
            continue;
        buffer->holders = TX_HELD_BY_STACK;
        buffer->data = pool->tx_memory[i] + FRAME_POOL_HEADROOM_BYTES;
        return buffer;
    }
    return NULL;
}

void frame_pool_tx_release(struct frame_pool *pool, struct tx_buffer *buffer)
{
    ASSERT(buffer == &pool->tx[buffer->index]);
    ASSERT(buffer->holders & TX_HELD_BY_STACK);
    buffer->holders &= (uint8_t)~TX_HELD_BY_STACK;
}

uint32_t frame_pool_tx_held_count(const struct frame_pool *pool)
{
    uint32_t count = 0;
    for (size_t i = 0; i < FRAME_POOL_TX_COUNT; i++)
        count += (pool->tx[i].holders & TX_HELD_BY_STACK) != 0;
    return count;
}

void frame_pool_tx_check(const struct frame_pool *pool, const struct tx_buffer *buffer, uint32_t bytes)
{
    const uint8_t *memory = pool->tx_memory[buffer->index];
    ASSERT(buffer->holders & TX_HELD_BY_STACK);
    ASSERT(bytes >= 14 && bytes <= NETDEV_FRAME_BYTES_MAX);
    ASSERT(buffer->data >= memory + FRAME_POOL_HEADROOM_BYTES);
    ASSERT(buffer->data + bytes <= memory + FRAME_POOL_HEADROOM_BYTES + NETDEV_FRAME_BYTES_MAX);
}
