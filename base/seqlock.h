/* A block of 64-bit words that one CPU writes and others read whole: a reader that has met the writer notices.
 *
 * The words are atomic themselves, so a torn read is thrown away, never undefined (Boehm, "Can seqlocks get along with
 * programming language memory models?", MSPC 2012, figure 6). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed: nothing written yet. */
struct seqlock {
    uint64_t sequence; /* odd while the writer is at work */
};

static inline void seqlock_write_begin(struct seqlock *lock)
{
    __atomic_store_n(&lock->sequence, lock->sequence + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void seqlock_write_word(uint64_t *shared, uint64_t word)
{
    __atomic_store_n(shared, word, __ATOMIC_RELAXED);
}

static inline void seqlock_write_end(struct seqlock *lock)
{
    __atomic_store_n(&lock->sequence, lock->sequence + 1, __ATOMIC_RELEASE);
}

/* Tries once to read the block. Returns false, and `to` is of no use, if it met the writer. */
static inline bool seqlock_read(const struct seqlock *lock, const uint64_t *shared, uint64_t *to, size_t words)
{
    uint64_t before = __atomic_load_n(&lock->sequence, __ATOMIC_ACQUIRE);
    for (size_t i = 0; i < words; i++)
        to[i] = __atomic_load_n(&shared[i], __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return (before & 1) == 0 && __atomic_load_n(&lock->sequence, __ATOMIC_RELAXED) == before;
}
