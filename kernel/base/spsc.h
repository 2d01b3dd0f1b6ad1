/* A ring of records between two CPUs: one puts, the other takes, neither waits.
 *
 * A record is a header of fixed size and a body of up to what the ring holds. Each side writes only its own place,
 * which the other reads with acquire: what stands before a place was written before it (C11 §5.1.2.4). The places lie
 * on cache lines of their own, so that an idle look costs no transfer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernel/base/bytes.h"

/* Places are counted in bytes from the start of time and fall into the ring by their remainder. Zeroed: empty. */
struct spsc {
    _Alignas(64) uint64_t put;      /* written by the putting CPU */
    _Alignas(64) uint64_t taken;    /* written by the taking CPU */
};

/* Bytes to and from the ring, around its end. `ring_bytes` is a power of two. */
static inline void spsc_copy_in(uint8_t *ring, size_t ring_bytes, uint64_t place, const void *from, size_t bytes)
{
    size_t at = place & (ring_bytes - 1), first = min_size(bytes, ring_bytes - at);
    memcpy(ring + at, from, first);
    memcpy(ring, (const uint8_t *)from + first, bytes - first);
}

static inline void spsc_copy_out(const uint8_t *ring, size_t ring_bytes, uint64_t place, void *to, size_t bytes)
{
    size_t at = place & (ring_bytes - 1), first = min_size(bytes, ring_bytes - at);
    memcpy(to, ring + at, first);
    memcpy((uint8_t *)to + first, ring, bytes - first);
}

/* Puts a header and its body, both or neither. False: no room now. */
static inline bool spsc_put(struct spsc *s, uint8_t *ring, size_t ring_bytes, const void *header, size_t header_bytes,
                            const void *body, size_t body_bytes)
{
    uint64_t put = s->put, taken = __atomic_load_n(&s->taken, __ATOMIC_ACQUIRE);
    if (put - taken + header_bytes + body_bytes > ring_bytes)
        return false;
    spsc_copy_in(ring, ring_bytes, put, header, header_bytes);
    spsc_copy_in(ring, ring_bytes, put + header_bytes, body, body_bytes);
    __atomic_store_n(&s->put, put + header_bytes + body_bytes, __ATOMIC_RELEASE);
    return true;
}

/* Copies the oldest record's header without taking it. False: the ring is empty. */
static inline bool spsc_peek(const struct spsc *s, const uint8_t *ring, size_t ring_bytes, void *header,
                             size_t header_bytes)
{
    if (__atomic_load_n(&s->put, __ATOMIC_ACQUIRE) == s->taken)
        return false;
    spsc_copy_out(ring, ring_bytes, s->taken, header, header_bytes);
    return true;
}

/* Copies the body of the record that was peeked at, and takes it. */
static inline void spsc_take(struct spsc *s, const uint8_t *ring, size_t ring_bytes, size_t header_bytes, void *body,
                             size_t body_bytes)
{
    spsc_copy_out(ring, ring_bytes, s->taken + header_bytes, body, body_bytes);
    __atomic_store_n(&s->taken, s->taken + header_bytes + body_bytes, __ATOMIC_RELEASE);
}
