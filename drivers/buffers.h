/* The transmit buffers of a card: their memory, the free ones, and the holders of the others (net/netdev.h). Each
 * driver of a card uses them; its own part is the ring. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/hot_section.h"
#include "base/secrets.h"
#include "kernel/memory/memory.h"
#include "net/netdev.h"

/* 25 cache lines, an odd number, so that the buffers' first lines spread over all sets of the L1 cache. */
enum { TX_BUFFER_BYTES = 1600, TX_POOL_BYTES = NETDEV_TX_BUFFER_COUNT * TX_BUFFER_BYTES };
static_assert(TX_BUFFER_BYTES % 128 == 64, "an odd number of cache lines");
static_assert(TX_POOL_BYTES % 4096 == 0, "whole pages: gVNIC's page lists");

/* The first line is all that a frame needs besides its buffer, while fewer than 27 buffers are taken. The free ones
 * stand from free[taken_count] on; the one used last comes first, as it is the warmest. */
struct tx_pool {
    _Alignas(64) uint8_t *frames; /* the frame of the first buffer */
    uint16_t taken_count;
    uint16_t free[NETDEV_TX_BUFFER_COUNT];
    struct tx_buffer buffer[NETDEV_TX_BUFFER_COUNT];
};

/* The free buffers of the used card, as the newest call of its driver saw them. */
struct buffer_levels {
    uint64_t rx_buffers_free, tx_buffers_free;
};

static inline uint8_t *tx_pool_frame(const struct tx_pool *pool, uint16_t index)
{
    return pool->frames + (size_t)index * TX_BUFFER_BYTES;
}

/* Takes the memory. A frame begins `offset` bytes into its buffer. Returns the memory's begin. */
static inline uint8_t *tx_pool_init(struct tx_pool *pool, uint32_t offset)
{
    uint8_t *memory = memory_take(TX_POOL_BYTES, 4096, "transmit buffers");
    ASSERT(offset % 16 == 2 && offset + NETDEV_FRAME_BYTES_MAX <= TX_BUFFER_BYTES);
    secrets_hold(memory, TX_POOL_BYTES); /* logins */
    pool->frames = memory + offset;
    pool->taken_count = 0;
    for (uint16_t i = 0; i < NETDEV_TX_BUFFER_COUNT; i++) {
        pool->free[i] = i;
        pool->buffer[i] = (struct tx_buffer){ .data = tx_pool_frame(pool, i), .index = i };
    }
    return memory;
}

static inline bool tx_pool_is_empty(const struct tx_pool *pool) { return pool->taken_count == NETDEV_TX_BUFFER_COUNT; }

/* Takes a buffer for the stack; NULL, and counted, if none is free. */
static inline struct tx_buffer *tx_pool_take(struct tx_pool *pool, uint64_t *none_count)
{
    if (__builtin_expect(tx_pool_is_empty(pool), 0)) {
        ++*none_count;
        return NULL;
    }
    struct tx_buffer *buffer = &pool->buffer[pool->free[pool->taken_count++]];
    ASSERT(buffer->holders == 0);
    buffer->holders = TX_HELD_BY_STACK;
    buffer->data = tx_pool_frame(pool, buffer->index);
    return buffer;
}

/* Ends the hold of the stack, or of the device. */
static inline void tx_pool_release(struct tx_pool *pool, struct tx_buffer *buffer, uint8_t holder)
{
    ASSERT(buffer->holders & holder);
    buffer->holders &= (uint8_t)~holder;
    if (buffer->holders != 0)
        return;
    ASSERT(pool->taken_count > 0);
    pool->free[--pool->taken_count] = buffer->index;
}

/* Returns true if a frame may be published: the device does not hold it, and its ring has room. Counts the others. */
static inline bool tx_pool_may_publish(const struct tx_buffer *buffer, bool has_room, uint64_t *held_count,
                                       uint64_t *full_count)
{
    const bool held = (buffer->holders & TX_HELD_BY_DEVICE) != 0;
    *held_count += held;
    *full_count += !held && !has_room;
    return !held && has_room;
}

/* Fetches the lines that the next frame touches. */
static inline void tx_pool_fetch(const struct tx_pool *pool)
{
    hot_fetch(pool, 1);
    if (tx_pool_is_empty(pool))
        return;
    const uint16_t next = pool->free[pool->taken_count];
    hot_fetch(&pool->free[pool->taken_count], 1);
    hot_fetch(&pool->buffer[next], 1);
    hot_fetch(pool->frames + (size_t)next * TX_BUFFER_BYTES, 2 * HOT_LINE_BYTES);
}

/* Asserts the invariant. `sent_count` buffers are the device's. */
static inline void tx_pool_check(const struct tx_pool *pool, uint32_t sent_count)
{
    uint32_t free = 0, sent = 0;
    for (uint32_t i = 0; i < NETDEV_TX_BUFFER_COUNT; i++) {
        ASSERT(pool->buffer[i].index == i);
        free += pool->buffer[i].holders == 0;
        sent += (pool->buffer[i].holders & TX_HELD_BY_DEVICE) != 0;
    }
    ASSERT(free == NETDEV_TX_BUFFER_COUNT - (uint32_t)pool->taken_count);
    ASSERT(sent == sent_count);
}
