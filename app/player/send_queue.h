/* The answers on their way, in order: waiting to be sent, or sent and without a response. Bytes in static memory; knows
 * no connection. Three places in one ring:
 *
 *     removed | oldest: sent, unanswered ... | next: waiting ... | end: free
 *
 * An entry is never moved; send_queue_take_back turns all the sent ones into waiting ones again. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* At N = 256 and a modulus of 3, a burst of 100 digits holds 7,700 answers. Each takes an entry of 32 bytes and
     * 128 digits on average. Three such bursts fit. */
    SEND_QUEUE_BYTES = 4 * 1024 * 1024,
};

struct send_queue_entry {
    uint32_t bytes;      /* the entry's in the ring; the ring's own */
    uint16_t count;      /* digits */
    bool dropped;        /* the ring's own */
    uint64_t offered_ns; /* when it was found */
    uint64_t sent_ns;
    uint64_t stream_end; /* the end of its POST in the connection's stream: the caller's */
    uint8_t digits[];
};

void send_queue_init(void);

/* Returns the bytes of the ring in use, all entries' heads included. */
uint32_t send_queue_used_bytes(void);

/* Returns true if an answer of `count` digits fits. */
bool send_queue_has_room(size_t count);

/* Appends a waiting answer. False: there is no room. */
bool send_queue_append(const uint8_t *digits, size_t count, uint64_t now_ns);

/* Returns the first waiting answer, borrowed until it is removed or dropped; NULL: none waits. */
struct send_queue_entry *send_queue_next(void);

/* Notes that the first waiting answer was sent. */
void send_queue_sent(uint64_t now_ns, uint64_t stream_end);

/* Gives the first waiting answer up. */
void send_queue_drop(void);

/* Returns the oldest answer that was sent and has no response; NULL: there is none. */
struct send_queue_entry *send_queue_oldest(void);

/* Removes the oldest answer that was sent: its response came, or none will come. */
void send_queue_remove_oldest(void);

/* Lets the oldest answer that was sent wait again, after all that wait. Returns false if there is no room: then it is
 * removed. */
bool send_queue_send_oldest_again(void);

/* Lets all answers that were sent and have no response wait again. */
void send_queue_take_back(void);

/* Asserts the invariant of all entries. */
void send_queue_check(void);

uint32_t send_queue_waiting_count(void);
uint32_t send_queue_unanswered_count(void);
