/* A ring of records between two CPUs: one puts, the other takes, neither waits.
 *
 * A cell is a cache line. The first cell of a record holds its turn, its length and its first bytes: a short record and
 * the news of it are one line, which moves once. The turn counts the cells put before. It is written last, with
 * release, and read with acquire (C11 §5.1.2.4). No other word of a cell is read as a turn, and no turn comes again: a
 * cell of an earlier lap is never mistaken for a new one. Looking at an idle ring costs no transfer. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

enum { SPSC_LINE_BYTES = 64, SPSC_CELL_DATA_BYTES = SPSC_LINE_BYTES - 12 };

struct spsc_cell {
    /* In the first cell of a record `turn` is 1 more than the number of cells that were put before this one. */
    _Alignas(SPSC_LINE_BYTES) uint64_t turn;
    uint32_t bytes; /* the record's */
    uint8_t data[SPSC_CELL_DATA_BYTES];
};
static_assert(sizeof(struct spsc_cell) == SPSC_LINE_BYTES, "a cell is a line");

/* Cells are counted from the start of time, and fall into the ring by their remainder. Zeroed: empty. */
struct spsc {
    _Alignas(2 * SPSC_LINE_BYTES) uint64_t put;   /* the putting CPU's alone */
    uint64_t taken_seen;                          /* the putting CPU's latest reading of `taken` */
    _Alignas(2 * SPSC_LINE_BYTES) uint64_t taken; /* written by the taking CPU */
};

static inline uint64_t spsc_cells_of(size_t bytes) { return (bytes + SPSC_CELL_DATA_BYTES - 1) / SPSC_CELL_DATA_BYTES; }

/* Puts a record of at least one byte, whole or not at all. `cell_count` is a power of two. False: no room now. */
static inline bool spsc_put(struct spsc *s, struct spsc_cell *cells, size_t cell_count, const void *record,
                            size_t bytes)
{
    ASSERT(bytes > 0 && (cell_count & (cell_count - 1)) == 0);
    uint64_t put = s->put, count = spsc_cells_of(bytes);
    if (put - s->taken_seen + count > cell_count) { /* the other CPU's line is read only now */
        s->taken_seen = __atomic_load_n(&s->taken, __ATOMIC_ACQUIRE);
        if (put - s->taken_seen + count > cell_count)
            return false;
    }
    struct spsc_cell *first = &cells[put & (cell_count - 1)];
    for (size_t done = 0, n = put; done < bytes; done += SPSC_CELL_DATA_BYTES, n++)
        memcpy(cells[n & (cell_count - 1)].data, (const uint8_t *)record + done,
               min_size(bytes - done, SPSC_CELL_DATA_BYTES));
    first->bytes = (uint32_t)bytes;
    __atomic_store_n(&first->turn, put + 1, __ATOMIC_RELEASE);
    s->put = put + count;
    return true;
}

/* Takes the oldest record into a buffer that has room for every record. Returns its bytes; 0: the ring is empty. */
static inline size_t spsc_take(struct spsc *s, const struct spsc_cell *cells, size_t cell_count, void *record,
                               size_t room_bytes)
{
    uint64_t taken = s->taken;
    const struct spsc_cell *first = &cells[taken & (cell_count - 1)];
    if (__atomic_load_n(&first->turn, __ATOMIC_ACQUIRE) != taken + 1)
        return 0;
    size_t bytes = first->bytes;
    ASSERT(bytes > 0 && bytes <= room_bytes);
    for (size_t done = 0, n = taken; done < bytes; done += SPSC_CELL_DATA_BYTES, n++)
        memcpy((uint8_t *)record + done, cells[n & (cell_count - 1)].data,
               min_size(bytes - done, SPSC_CELL_DATA_BYTES));
    __atomic_store_n(&s->taken, taken + spsc_cells_of(bytes), __ATOMIC_RELEASE);
    return bytes;
}
