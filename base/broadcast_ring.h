/* A ring of numbered records: one CPU writes, any number of others read, and none waits for another. A reader sees
 * each record whole, or knows that a younger one has taken its slot.
 *
 * Record n, counted from 1, has slot n modulo the slots. A slot begins with a stamp: 2 n - 1 while record n is being
 * written, 2 n when it is whole. A reader of record n reads the stamp, the words, and the stamp again, and has the
 * record if both were 2 n. So a slot is a sequence lock (base/seqlock.h) whose sequence says which record it holds.
 *
 * The orders are those of C11 §5.1.2.4 and §7.17.4. The writer's first stamp stands before its release fence, and the
 * words stand after it. The reader's words stand before its acquire fence, and its second look after it. So a reader
 * that has one word of a younger record finds the younger stamp. The last stamp has release and the first look acquire:
 * a reader that finds 2 n has no word of an older record.
 *
 * Readers write nothing, so no cache line has two writers. A reader polls the slot of the record that it waits for, and
 * an idle poll costs no transfer. A record that shares a line with its stamp costs one transfer for each reader. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/seqlock.h"

struct broadcast_ring {
    uint64_t *slots; /* broadcast_bytes of memory, zeroed */
    uint32_t slot_count;
    uint32_t slot_words; /* the stamp and a record's words */
    uint64_t newest;     /* the number that was given out last; written by the writing CPU */
};

static inline size_t broadcast_bytes(uint32_t slot_count, uint32_t record_words)
{
    return (size_t)slot_count * (1 + record_words) * sizeof(uint64_t);
}

static inline uint64_t *broadcast_slot(const struct broadcast_ring *ring, uint64_t number)
{
    ASSERT(number != 0);
    return ring->slots + number % ring->slot_count * ring->slot_words;
}

/* ---- The writing CPU ---- */

/* Gives out the next number. Its record is not there until it is written, and the record in its slot counts as lost. */
static inline uint64_t broadcast_number(struct broadcast_ring *ring)
{
    uint64_t number = ring->newest + 1;
    __atomic_store_n(&ring->newest, number, __ATOMIC_RELEASE);
    return number;
}

/* Begins a record of a number that was given out. Returns its words, to be written by seqlock_write_word, or NULL if
 * the slot belongs to a younger record, or holds this one already. Numbers may be written in any order. */
static inline uint64_t *broadcast_write_begin(struct broadcast_ring *ring, uint64_t number)
{
    uint64_t *slot = broadcast_slot(ring, number);
    ASSERT(number <= ring->newest);
    /* A crash may have cut an attempt short, or have come right after its end. */
    if (ring->newest - number >= ring->slot_count || *slot >= 2 * number)
        return NULL;
    __atomic_store_n(slot, 2 * number - 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    return slot + 1;
}

static inline void broadcast_write_end(struct broadcast_ring *ring, uint64_t number)
{
    __atomic_store_n(broadcast_slot(ring, number), 2 * number, __ATOMIC_RELEASE);
}

/* Changes a single word of a record that is whole. A reader has the old one or the new one. Does nothing if the slot
 * belongs to a younger record. */
static inline void broadcast_change(struct broadcast_ring *ring, uint64_t number, size_t index, uint64_t word)
{
    uint64_t *slot = broadcast_slot(ring, number);
    ASSERT(1 + index < ring->slot_words);
    if (ring->newest - number >= ring->slot_count)
        return;
    ASSERT(*slot == 2 * number);
    seqlock_write_word(&slot[1 + index], word);
}

/* ---- Any CPU ---- */

static inline uint64_t broadcast_newest(const struct broadcast_ring *ring)
{
    return __atomic_load_n(&ring->newest, __ATOMIC_ACQUIRE);
}

/* Returns the number of the oldest record that may be there: where a reader that was overrun goes on. */
static inline uint64_t broadcast_oldest(const struct broadcast_ring *ring)
{
    uint64_t newest = broadcast_newest(ring);
    return newest > ring->slot_count ? newest - ring->slot_count + 1 : 1;
}

enum broadcast_result { BROADCAST_READ, BROADCAST_NOT_YET, BROADCAST_OVERRUN };

/* Reads the words of a record; they are of use if the result is BROADCAST_READ. */
static inline enum broadcast_result broadcast_read(const struct broadcast_ring *ring, uint64_t number, uint64_t *to)
{
    const uint64_t *slot = broadcast_slot(ring, number), whole = 2 * number;
    uint64_t before = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (before != whole)
        return before < whole ? BROADCAST_NOT_YET : BROADCAST_OVERRUN;
    for (uint32_t i = 1; i < ring->slot_words; i++)
        to[i - 1] = __atomic_load_n(&slot[i], __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(slot, __ATOMIC_RELAXED) == whole ? BROADCAST_READ : BROADCAST_OVERRUN;
}
