/* One stream of numbered messages out of two lines of datagrams that each may lose some. Nasdaq MoldUDP64 1.00. Knows
 * no socket, no clock and no message's meaning: datagrams in, messages out, each once and in order.
 *
 * The first copy of a sequence number wins, whichever line brings it. Datagrams after a gap wait in a store of
 * MOLD_STORE_COUNT. The gap waits `gap_wait_ns` for the other line. Then its messages are requested from the rerequest
 * server, by requests of MOLD_ASK_COUNT, for MOLD_WINDOW messages at the same time. One whose answer was overtaken is
 * sent again at once, and each MOLD_AGAIN_NS. All are after MOLD_RETRY_NS without progress. After MOLD_RETRIES_MAX of
 * these the gap is lost: only a snapshot helps. A gap that is longer than MOLD_GAP_MAX messages is lost at once. If the
 * latest datagram of each line says after MOLD_STRAY_NS that nothing is missing, there is no gap: the number of an
 * earlier one was wrong.
 *
 *     for (bool due = mold_take(line, datagram, now_ns); due; due = mold_advance())
 *         while (mold_next(&message)) ...
 *     bytes = mold_request(now_ns, request)        in each turn, some times; 0: there is nothing to ask for */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/counters.h"
#include "base/time.h"

enum mold_line { MOLD_A, MOLD_B, MOLD_REREQUEST, MOLD_LINE_COUNT };

enum { MOLD_SESSION_BYTES = 10 };

/* Begins each datagram, and is all of a request. The integers are big-endian. */
struct mold_header_wire {
    uint8_t session[MOLD_SESSION_BYTES];
    uint64_t sequence; /* the first message's */
    uint16_t count;    /* 0: a heartbeat; 0xffff: the session's end */
} __attribute__((packed));
static_assert(sizeof(struct mold_header_wire) == 20, "MoldUDP64 1.00, Downstream Packet Header");

struct mold_block_wire { /* then the message */
    uint16_t bytes;
} __attribute__((packed));
static_assert(sizeof(struct mold_block_wire) == 2, "MoldUDP64 1.00, Message Block");

enum {
    MOLD_HEADER_BYTES = sizeof(struct mold_header_wire),
    MOLD_LENGTH_BYTES = sizeof(struct mold_block_wire),
    MOLD_DATAGRAM_BYTES_MAX = 1472, /* an Ethernet frame's */
    MOLD_AHEAD_COUNT = 6,
    MOLD_STORE_COUNT = 1024, /* 8 ms at 5 million messages a second */
    MOLD_COUNT_MAX = 0xfffe, /* messages of a datagram */
    MOLD_ASK_COUNT = 27,     /* messages of a request: ITCH's longest fit one datagram */
    MOLD_WINDOW = 64 * MOLD_ASK_COUNT,
    MOLD_RETRIES_MAX = 20,
    MOLD_GAP_MAX = 1000000,
};
#define MOLD_RETRY_NS (20 * NS_PER_MS)
#define MOLD_AGAIN_NS (2 * NS_PER_MS) /* a request whose answer was overtaken */
#define MOLD_STRAY_NS (100 * NS_PER_MS)

/* Begins before the first datagram. `session`: the only one that is joined, padded with blanks; NULL: any. Then ours is
 * that of the first datagram, until it ends, is silent for `timeout_ns`, or brings no message for so long while another
 * one does. The end of a session joins nothing. After a change all is held until mold_resume, as after mold_hold. */
void mold_init(uint64_t gap_wait_ns, uint64_t timeout_ns, const uint8_t session[MOLD_SESSION_BYTES]);

/* Takes a datagram of a line, borrowed until mold_next has returned false. Returns true if messages are due. */
bool mold_take(enum mold_line line, struct bytes datagram, uint64_t now_ns);

/* Returns the next message, borrowed until the next call; false: none is due. */
static inline bool mold_next(struct bytes *message);

/* Returns a message that mold_next will return later, MOLD_AHEAD_COUNT messages before at most, so that the caller can
 * fetch what the message needs. Call after each mold_next, until false: no further one is near. */
static inline bool mold_ahead(struct bytes *message);

/* Returns the number of the message that mold_next will return next. */
uint64_t mold_next_number(void);

/* Returns how many messages the lines have spoken of that have not been returned. */
uint64_t mold_missing(void);

/* Makes the next stored datagram's messages due, when mold_next has returned false. Returns false if there is none:
 * the gap has ended, or the next one has begun. A caller that has no time may call later: mold_has_backlog. */
bool mold_advance(void);
static inline bool mold_has_backlog(void);

/* Writes the request that is due now to `request`. Returns its bytes; 0: none is due. */
uint32_t mold_request(uint64_t now_ns, uint8_t request[MOLD_HEADER_BYTES]);
uint64_t mold_next_deadline_ns(void);

/* Returns true if nothing that the lines have announced is missing, so the latest message is the present. */
static inline bool mold_is_current(void);
/* Returns true if a gap cannot be filled; datagrams wait in the store for mold_resume. */
bool mold_is_lost(void);
static inline bool mold_has_ended(void);

/* Returns our session; all bytes 0: none yet. */
const uint8_t *mold_session(void);

/* Returns when the latest datagram of the session came on a line; on line A or B; 0: none yet. */
uint64_t mold_line_heard_ns(enum mold_line line);
uint64_t mold_heard_ns(void);

/* Stores what comes from now on until mold_resume, as after a gap that cannot be filled: the caller has made something
 * wrong of the earlier messages. */
void mold_hold(void);

/* Goes on at a sequence number, which a snapshot names. Stored messages may be due: mold_advance. The latest datagram
 * of each line says how far the feed has come: a wrong number of an earlier one is forgotten. */
void mold_resume(uint64_t sequence, uint64_t now_ns);

/* Fetches the memory of the next datagram into the caches. */
void mold_warm(void);

/* Keeps the state, and writes the header of a datagram with the next `count` messages. No message may be missing. After
 * the datagram has been taken, mold_rehearsal_end puts the state back. */
void mold_rehearsal_begin(uint8_t header[MOLD_HEADER_BYTES], uint32_t count);
void mold_rehearsal_end(void);

/* Returns true if no line that is heard has reached the next message. The number of mold_resume was beyond the feed, or
 * a host has fewer messages than the one before. */
bool mold_is_ahead(void);

/* Asserts the invariant. */
void mold_check(void);

/* first_...: datagrams that brought messages first; sessions: joined after the first; missed_a, missed_b: messages
 * that this line has passed over; strays: gaps that were none. */
#define MOLD_COUNTERS(X)                                                                                               \
    X(DATAGRAMS, datagrams_a), X(DATAGRAMS, datagrams_b), X(COUNT, datagrams_rerequested), X(FIRST, first_a),          \
        X(FIRST, first_b), X(COUNT, first_rerequested), X(COUNT, messages), X(COUNT, heartbeats),                      \
        X(COUNT, duplicates), X(COUNT, gaps), X(COUNT, requests), X(ALERT, lost), X(MISSED, missed_a),                 \
        X(MISSED, missed_b), X(ALERT, strays), X(COUNT, holds), X(COUNT, sessions), X(COUNT, stored),                  \
        X(DROP_FRAME, drop_length), X(DROP_FRAME, drop_session), X(DROP_FRAME, drop_sequence),                         \
        X(DROP_FRAME, drop_store_full), X(ALERT, backwards)
extern struct mold_counters {
    uint64_t MOLD_COUNTERS(COUNTER_MEMBER);
} mold_counters;
extern const struct counter_group mold_counter_group;

#include "app/nasdaq/mold_state.h"
