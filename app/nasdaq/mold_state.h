/* The state of mold.h, and what a message in order needs of it, inline. mold.c alone writes the state, except for the
 * place in the current datagram. */
#pragma once

#include "app/nasdaq/mold.h"

/* A datagram after a gap. */
struct mold_stored {
    uint64_t sequence;
    uint32_t count;
    uint8_t data[MOLD_DATAGRAM_BYTES_MAX]; /* the blocks */
};

extern struct mold {
    /* A datagram in order touches this line. */
    _Alignas(64) uint64_t next; /* the sequence number of the next message */
    uint64_t announced;         /* the lines have spoken of messages before this one */
    const uint8_t *at;          /* the next block of the current datagram */
    uint32_t left;              /* messages from there on */
    uint32_t left_ahead;        /* messages that mold_ahead has not returned */
    const uint8_t *at_ahead;
    bool lost;
    bool unsettled; /* messages were taken after a gap: mold_advance has work */
    uint8_t session[MOLD_SESSION_BYTES];
    bool joined, pinned; /* the session is known; it is the only one that is joined */
    uint64_t heard_ns[MOLD_LINE_COUNT];
    uint64_t now_ns;
    uint64_t timeout_ns, moved_ns, moved_next; /* when messages came at the latest, and `next` after them */
    uint64_t ends_at; /* the sequence number after the session's last message, when it is known */
    uint64_t line_next[MOLD_LINE_COUNT];
    uint64_t gap_wait_ns, request_ns; /* request_ns: while there is a gap, when to ask for it */
    uint64_t gap_ns;                  /* since when messages are missing */
    uint64_t asked;                   /* all that is missing before this number has been requested */
    uint64_t retry_ns;                /* when that is requested again; 0: nothing has been requested */
    uint64_t answered;                /* the latest number of an answer that came before an earlier one */
    uint64_t cut_at;                  /* the number after an answer with less than was asked for */
    uint64_t again, again_ns;         /* the number that is requested again alone, and when */
    uint32_t retries;
    uint32_t stored_count;
    /* The places in the store: the used ones in the order of their sequence numbers, then the free ones. */
    uint16_t stored[MOLD_STORE_COUNT];
    struct mold_stored store[MOLD_STORE_COUNT];
} mold;

/* Returns the message of the block at `*at`, and moves on to the next block. */
static inline struct bytes mold_block_next(const uint8_t **at)
{
    struct bytes message = { *at + MOLD_LENGTH_BYTES, load_be16(*at) };
    *at += MOLD_LENGTH_BYTES + message.count;
    return message;
}

static inline bool mold_ahead(struct bytes *message)
{
    if (mold.left_ahead == 0 || mold.left_ahead + MOLD_AHEAD_COUNT <= mold.left)
        return false;
    *message = mold_block_next(&mold.at_ahead);
    mold.left_ahead--;
    return true;
}

static inline bool mold_next(struct bytes *message)
{
    if (mold.left == 0)
        return false;
    *message = mold_block_next(&mold.at);
    mold.left--;
    mold.next++;
    mold_counters.messages++;
    return true;
}

static inline bool mold_has_backlog(void) { return mold.unsettled && !mold.lost; }
static inline bool mold_has_ended(void) { return mold.next >= mold.ends_at; }
static inline bool mold_is_current(void)
{
    return mold.joined && !mold_has_ended() && !mold.lost && mold.next == mold.announced;
}
