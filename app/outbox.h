/* The answers on their way: waiting to be sent, or sent and not yet answered, in order. Bytes in static memory; knows
 * no connection. Three places in one ring:
 *
 *     answered, gone | oldest: sent, unanswered ... | next: waiting ... | free
 *
 * An entry is never moved; outbox_take_back turns all the sent ones into waiting ones again. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* At N = 256 and a constant of 3, a burst of 100 digits holds 7,700 answers of 16 + 128 bytes on average: 1.1 MB.
     * Four such bursts. */
    OUTBOX_BYTES = 4 * 1024 * 1024,
};

struct outbox_entry {
    uint32_t bytes;                 /* of the entry in the ring; the ring's own */
    uint16_t count;                 /* digits */
    bool dropped;                   /* the ring's own */
    uint64_t offered_ns;            /* when it was found */
    uint64_t sent_ns;
    uint64_t stream_end;            /* where its POST ends in the connection's stream: the caller's */
    uint8_t digits[];
};

void outbox_init(void);
uint32_t outbox_used_bytes(void);       /* of the ring, all entries' heads included */

/* Appends an answer, waiting. False when there is no room. */
bool outbox_has_room(size_t count);
bool outbox_put(const uint8_t *digits, size_t count, uint64_t now_ns);

/* The first waiting answer; NULL when none waits. Valid until it is sent, answered and gone. */
struct outbox_entry *outbox_next(void);

/* The first waiting answer was sent, or is given up. */
void outbox_sent(uint64_t now_ns, uint64_t stream_end);
void outbox_drop(void);

/* The oldest answer that was sent and is unanswered; NULL when there is none. */
struct outbox_entry *outbox_oldest(void);

/* The oldest one was answered, or nobody will. */
void outbox_answered(void);

/* All that was sent and is unanswered waits again. */
void outbox_take_back(void);

uint32_t outbox_waiting_count(void);
uint32_t outbox_unanswered_count(void);
