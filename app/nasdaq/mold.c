#include "app/nasdaq/mold.h"

#include <string.h>

#include "base/assert.h"
#include "base/hot_section.h"

enum { COUNT_END = 0xffff };
#define SEQUENCE_MAX (UINT64_C(1) << 62)

struct mold mold;
struct mold_counters mold_counters;
enum { COUNTER_DATAGRAMS = COUNTER_LABELLED, COUNTER_FIRST, COUNTER_MISSED };
static const char help[] = "Market data lines (MoldUDP64)";
static const struct counter_metric metrics[] = {
    { "mold_datagrams", help, "line", "datagrams_", "", COUNTER_COUNT },
    { "mold_first", help, "line", "first_", "", COUNTER_COUNT },
    { "mold_missed", help, "line", "missed_", "", COUNTER_COUNT },
};
const struct counter_group mold_counter_group = COUNTER_GROUP_LABELLED("mold.", help, MOLD_COUNTERS, mold_counters,
                                                                       metrics);

void mold_init(uint64_t gap_wait_ns, uint64_t timeout_ns, const uint8_t session[MOLD_SESSION_BYTES])
{
    memset(&mold, 0, offsetof(struct mold, store));
    memset(&mold_counters, 0, sizeof mold_counters);
    mold.next = mold.announced = 1; /* MoldUDP64 1.00: a session's first message has the number 1 */
    mold.gap_wait_ns = gap_wait_ns;
    mold.timeout_ns = timeout_ns;
    mold.pinned = session != NULL;
    if (mold.pinned)
        memcpy(mold.session, session, MOLD_SESSION_BYTES);
    mold.request_ns = mold.ends_at = UINT64_MAX;
    for (uint32_t i = 0; i < MOLD_STORE_COUNT; i++)
        mold.stored[i] = (uint16_t)i;
}

uint64_t mold_next_number(void) { return mold.next; }
uint64_t mold_missing(void) { return mold.announced - mold.next; }
bool mold_is_lost(void) { return mold.lost; }
const uint8_t *mold_session(void) { return mold.session; }
uint64_t mold_line_heard_ns(enum mold_line line) { return mold.heard_ns[line]; }
uint64_t mold_heard_ns(void) { return mold.heard_ns[mold.heard_ns[MOLD_A] >= mold.heard_ns[MOLD_B] ? MOLD_A : MOLD_B]; }

/* Passes over the number of a line that is silent: its host may be dead, and that of the other line have gone back. */
bool mold_is_ahead(void)
{
    const uint64_t heard_ns = mold_heard_ns();
    ASSERT(mold.next > 0);
    for (enum mold_line line = MOLD_A; line <= MOLD_B; line++)
        if (mold.line_next[line] >= mold.next && heard_ns - mold.heard_ns[line] < mold.timeout_ns)
            return false;
    return true;
}

uint64_t mold_next_deadline_ns(void) { return mold.lost ? UINT64_MAX : mold.request_ns; }

/* ---- the store ---- */

static struct mold_stored *stored_at(uint32_t i) { return &mold.store[mold.stored[i]]; }

static void store_remove_first(void)
{
    ASSERT(mold.stored_count > 0);
    uint16_t place = mold.stored[0];
    mold.stored_count--;
    memmove(mold.stored, mold.stored + 1, mold.stored_count * sizeof mold.stored[0]);
    mold.stored[mold.stored_count] = place;
}

/* Writes a header with our session. */
static void write_header(struct mold_header_wire *header, uint64_t sequence, uint64_t count)
{
    ASSERT(count <= MOLD_COUNT_MAX);
    memcpy(header->session, mold.session, MOLD_SESSION_BYTES);
    store_be64(&header->sequence, sequence);
    store_be16(&header->count, (uint16_t)count);
}

/* Keeps a datagram that begins after a gap. If the store is full the datagram is dropped, for the older ones are needed
 * first; while a snapshot is awaited the oldest is dropped instead. */
NOT_HOT static void store(uint64_t sequence, uint32_t count, struct bytes blocks)
{
    ASSERT(blocks.count <= MOLD_DATAGRAM_BYTES_MAX && sequence + count > mold.next);
    uint32_t at = mold.stored_count;
    while (at > 0 && stored_at(at - 1)->sequence > sequence)
        at--;
    if (at > 0 && stored_at(at - 1)->sequence + stored_at(at - 1)->count >= sequence + count) {
        mold_counters.duplicates++;
        return;
    }
    if (mold.stored_count == MOLD_STORE_COUNT) {
        mold_counters.drop_store_full++;
        if (!mold.lost || at == 0)
            return;
        store_remove_first();
        at--;
    }
    uint16_t place = mold.stored[mold.stored_count];
    memmove(&mold.stored[at + 1], &mold.stored[at], (mold.stored_count - at) * sizeof mold.stored[0]);
    mold.stored[at] = place;
    mold.stored_count++;
    struct mold_stored *s = &mold.store[place];
    s->sequence = sequence;
    s->count = count;
    memcpy(s->data, blocks.data, blocks.count);
    mold_counters.stored++;
}

/* ---- gaps ---- */

/* Plans the request for the messages that are missing. The other line has a chance to bring them first, unless they are
 * the rest of a gap that is being filled already. */
NOT_HOT static void gap_began(bool filling)
{
    ASSERT(mold.next < mold.announced);
    mold_counters.gaps += !filling;
    mold.request_ns = mold.now_ns + (filling ? 0 : mold.gap_wait_ns);
    mold.retries = filling;
    mold.retry_ns = filling ? mold.now_ns + MOLD_RETRY_NS : 0;
    if (!filling || mold.asked < mold.next)
        mold.asked = mold.next;
    if (mold.announced - mold.next > MOLD_GAP_MAX && !mold.lost) {
        mold.lost = true;
        mold_counters.lost++;
    }
}

/* Notes that the lines have spoken of messages before `sequence`. */
static inline void announce(uint64_t sequence)
{
    if (sequence <= mold.announced)
        return;
    bool had_gap = mold.next < mold.announced;
    mold.announced = sequence;
    if (had_gap || sequence <= mold.next)
        return;
    mold.gap_ns = mold.now_ns;
    gap_began(false);
}

/* Moves to the first missing message from `*from` on. Returns the number after the last one that is missing with it. */
static uint64_t hole_at(uint64_t *from)
{
    for (uint32_t i = 0; i < mold.stored_count; i++) {
        const struct mold_stored *s = stored_at(i);
        if (s->sequence > *from)
            return s->sequence;
        *from = max_u64(*from, s->sequence + s->count);
    }
    ASSERT(*from >= mold.next);
    return mold.announced;
}

/* Returns true if a line is heard, and none that is has said by its latest datagram that a message is missing. */
static bool lines_miss_nothing(uint64_t now_ns)
{
    ASSERT(mold_heard_ns() <= now_ns);
    for (enum mold_line line = MOLD_A; line <= MOLD_B; line++)
        if (mold.line_next[line] > mold.next && now_ns - mold.heard_ns[line] < mold.timeout_ns)
            return false;
    return now_ns - mold_heard_ns() < mold.timeout_ns;
}

/* Ends a gap that has lasted, and that no line knows. Returns false if it is none of these. */
NOT_HOT static bool end_stray_gap(uint64_t now_ns)
{
    if (now_ns - mold.gap_ns < MOLD_STRAY_NS || !lines_miss_nothing(now_ns))
        return false;
    ASSERT(mold.next < mold.announced);
    mold_counters.strays++;
    mold_counters.drop_sequence += mold.stored_count;
    mold.stored_count = mold.retries = 0;
    mold.announced = mold.next;
    mold.request_ns = UINT64_MAX;
    return true;
}

/* Begins to request all that is missing, for the first time or again. Returns false if nothing is, or if that was in
 * vain too often. */
static bool ask_from_the_beginning(uint64_t now_ns)
{
    if (end_stray_gap(now_ns))
        return false;
    mold.asked = mold.next;
    mold.answered = mold.cut_at = 0;
    mold.retry_ns = now_ns + MOLD_RETRY_NS;
    if (mold.retries++ < MOLD_RETRIES_MAX)
        return true;
    mold.lost = true;
    mold.request_ns = UINT64_MAX;
    mold_counters.lost++;
    return false;
}

uint32_t mold_request(uint64_t now_ns, uint8_t request[MOLD_HEADER_BYTES])
{
    if (mold.next != mold.moved_next) {
        mold.moved_next = mold.next;
        mold.moved_ns = now_ns;
    }
    if (now_ns < mold.request_ns || mold.lost || mold.unsettled)
        return 0;
    ASSERT(mold.next < mold.announced);
    if (now_ns >= mold.retry_ns && !ask_from_the_beginning(now_ns))
        return 0;
    uint64_t from = mold.asked;
    const bool is_overtaken = (mold.answered > mold.next || mold.cut_at == mold.next) && mold.next < mold.asked;
    if (is_overtaken && (mold.again != mold.next || now_ns >= mold.again_ns)) {
        from = mold.again = mold.next;
        mold.again_ns = now_ns + MOLD_AGAIN_NS;
    }
    const uint64_t end = hole_at(&from);
    if (from >= end || from >= mold.next + MOLD_WINDOW) {
        mold.request_ns = is_overtaken ? min_u64(mold.retry_ns, mold.again_ns) : mold.retry_ns;
        return 0;
    }
    const uint64_t count = min_u64(end - from, MOLD_ASK_COUNT);
    write_header((struct mold_header_wire *)request, from, count);
    mold.asked = max_u64(mold.asked, from + count);
    mold_counters.requests++;
    return MOLD_HEADER_BYTES;
}

/* ---- datagrams ---- */

/* Returns true if a datagram holds as many blocks as its header says, and nothing else. */
static inline bool blocks_are_whole(struct bytes blocks, uint32_t count)
{
    size_t at = 0;
    for (; count > 0; count--) {
        if (blocks.count - at < MOLD_LENGTH_BYTES)
            return false;
        size_t bytes = load_be16(blocks.data + at);
        if (blocks.count - at - MOLD_LENGTH_BYTES < bytes)
            return false;
        at += MOLD_LENGTH_BYTES + bytes;
    }
    return at == blocks.count;
}

/* Makes the messages from `next` on of some blocks due. */
static inline void make_due(uint64_t sequence, uint32_t count, const uint8_t *blocks)
{
    ASSERT(sequence <= mold.next && mold.next < sequence + count);
    for (; sequence < mold.next; sequence++, count--)
        mold_block_next(&blocks);
    mold.at = mold.at_ahead = blocks;
    mold.left = count;
    mold.left_ahead = count - 1;
    mold_block_next(&mold.at_ahead);
}

/* Returns true if the session of a datagram is joined, which is not ours. */
NOT_HOT static bool join(enum mold_line line, const struct mold_header_wire *header)
{
    const uint16_t count = load_be16(&header->count);
    const bool is_silent = mold.now_ns - mold_heard_ns() >= mold.timeout_ns;
    const bool is_idle = count > 0 && mold.now_ns - mold.moved_ns >= mold.timeout_ns;
    if (line == MOLD_REREQUEST || mold.pinned || count == COUNT_END)
        return false;
    if (mold.joined && !mold_has_ended() && !is_silent && !is_idle)
        return false;
    ASSERT(mold.left == 0);
    memcpy(mold.session, header->session, MOLD_SESSION_BYTES);
    mold.moved_ns = mold.now_ns;
    if (!mold.joined)
        return true;
    mold.next = mold.announced = mold.moved_next = mold.asked = 1;
    mold.ends_at = mold.request_ns = UINT64_MAX;
    memset(mold.line_next, 0, sizeof mold.line_next);
    mold.stored_count = mold.retries = 0;
    mold.unsettled = false;
    mold.lost = true;
    mold_counters.sessions++;
    return true;
}

/* Returns true if the datagram's header is one of our session. */
static inline bool is_of_session(enum mold_line line, const struct mold_header_wire *header)
{
    return __builtin_expect(memcmp(mold.session, header->session, MOLD_SESSION_BYTES) == 0, 1) || join(line, header);
}

/* Notes an answer: later ones may have overtaken it, or the server may have sent less than was asked for. */
static void note_answer(uint64_t sequence, uint32_t count)
{
    ASSERT(sequence <= SEQUENCE_MAX);
    if (count < MOLD_ASK_COUNT)
        mold.cut_at = sequence + count;
    if (sequence > mold.next)
        mold.answered = max_u64(mold.answered, sequence);
    if (mold.next < mold.announced && mold.retries > 0)
        mold.request_ns = mold.now_ns;
}

/* Notes a datagram that is not the next one of its line, or an answer of the rerequest server. */
NOT_HOT static void note_jump(enum mold_line line, uint64_t sequence, uint32_t count)
{
    ASSERT(line < MOLD_LINE_COUNT);
    if (line == MOLD_REREQUEST)
        note_answer(sequence, count);
    else if (sequence < mold.line_next[line])
        mold_counters.backwards++;
    else if (mold.line_next[line] != 0)
        *(line == MOLD_A ? &mold_counters.missed_a : &mold_counters.missed_b) += sequence - mold.line_next[line];
}

/* Counts a datagram that brings no message. */
static inline bool skip(uint64_t *counter)
{
    ++*counter;
    return false;
}

HOT bool mold_take(enum mold_line line, struct bytes datagram, uint64_t now_ns)
{
    static uint64_t *const datagrams[] = { &mold_counters.datagrams_a, &mold_counters.datagrams_b,
                                           &mold_counters.datagrams_rerequested };
    static uint64_t *const firsts[] = { &mold_counters.first_a, &mold_counters.first_b,
                                        &mold_counters.first_rerequested };
    ASSERT(line < MOLD_LINE_COUNT && mold.left == 0);
    ++*datagrams[line];
    mold.now_ns = now_ns;
    if (datagram.count < MOLD_HEADER_BYTES || datagram.count > MOLD_DATAGRAM_BYTES_MAX)
        return skip(&mold_counters.drop_length);
    const struct mold_header_wire *header = (const void *)datagram.data;
    const struct bytes blocks = { datagram.data + sizeof *header, datagram.count - sizeof *header };
    const uint64_t sequence = load_be64(&header->sequence);
    const uint32_t header_count = load_be16(&header->count);
    const uint32_t count = header_count == COUNT_END ? 0 : header_count;
    if (sequence == 0 || sequence > SEQUENCE_MAX)
        return skip(&mold_counters.drop_sequence);
    if (!blocks_are_whole(blocks, count))
        return skip(&mold_counters.drop_length);
    if (!is_of_session(line, header))
        return skip(&mold_counters.drop_session);
    if (sequence + count > mold.ends_at)
        return skip(&mold_counters.drop_sequence);
    mold.joined = true;
    mold.heard_ns[line] = now_ns;
    if (__builtin_expect(sequence != mold.line_next[line], 0))
        note_jump(line, sequence, count);
    mold.line_next[line] = line == MOLD_REREQUEST ? 0 : sequence + count;
    if (count == 0) { /* a heartbeat, or the end: the number is the next message's */
        if (header_count == COUNT_END && mold.ends_at == UINT64_MAX && sequence >= mold.next)
            mold.ends_at = sequence;
        announce(sequence);
        return skip(&mold_counters.heartbeats);
    }
    if (sequence + count <= mold.next)
        return skip(&mold_counters.duplicates);
    if (__builtin_expect(sequence > mold.next || mold.lost, 0)) {
        announce(sequence + count);
        if (sequence + count > mold.next)
            store(sequence, count, blocks);
        return false;
    }
    if (sequence + count > mold.announced)
        mold.announced = sequence + count;
    mold.unsettled |= mold.request_ns != UINT64_MAX;
    ++*firsts[line];
    make_due(sequence, count, blocks.data);
    return true;
}

NOT_HOT bool mold_advance(void)
{
    ASSERT(mold.left == 0);
    if (!mold.unsettled || mold.lost)
        return false;
    while (mold.stored_count > 0 && stored_at(0)->sequence <= mold.next) {
        const struct mold_stored *s = stored_at(0);
        if (s->sequence + s->count > mold.next) {
            make_due(s->sequence, s->count, s->data);
            return true;
        }
        store_remove_first();
    }
    bool filling = mold.retries > 0;
    mold.unsettled = false;
    mold.request_ns = UINT64_MAX;
    if (mold.next < mold.announced && !end_stray_gap(mold.now_ns))
        gap_began(filling);
    return false;
}

void mold_hold(void)
{
    ASSERT(mold.left == 0 && !mold.lost);
    mold.lost = true;
    mold.unsettled = false;
    mold.request_ns = UINT64_MAX;
    mold_counters.holds++;
}

void mold_resume(uint64_t sequence, uint64_t now_ns)
{
    ASSERT(sequence > 0 && sequence <= SEQUENCE_MAX && mold.left == 0);
    mold.now_ns = now_ns;
    mold.lost = false;
    mold.next = mold.asked = sequence;
    mold.gap_ns = now_ns;
    mold.retries = 0;
    mold.announced = sequence;
    /* The places are needed by what comes before the next mold_advance. */
    while (mold.stored_count > 0 && stored_at(0)->sequence + stored_at(0)->count <= sequence)
        store_remove_first();
    for (enum mold_line line = MOLD_A; line <= MOLD_B; line++)
        if (mold.line_next[line] > mold.announced)
            mold.announced = mold.line_next[line];
    while (mold.stored_count > 0 && stored_at(mold.stored_count - 1)->sequence > mold.announced + MOLD_GAP_MAX) {
        mold.stored_count--;
        mold_counters.drop_sequence++;
    }
    for (uint32_t i = 0; i < mold.stored_count; i++) /* the one that begins last may end before others */
        mold.announced = max_u64(mold.announced, stored_at(i)->sequence + stored_at(i)->count);
    mold.unsettled = true;
}

void mold_warm(void)
{
    ASSERT(mold.left == 0);
    hot_fetch(&mold, offsetof(struct mold, stored));
    hot_fetch(&mold_counters, sizeof mold_counters);
}

/* The state before a rehearsal. */
static struct {
    uint8_t state[offsetof(struct mold, stored)];
    struct mold_counters counters;
} kept;

void mold_rehearsal_begin(uint8_t header[MOLD_HEADER_BYTES], uint32_t count)
{
    ASSERT(mold.left == 0 && mold_is_current() && !mold_has_backlog());
    memcpy(kept.state, &mold, sizeof kept.state);
    kept.counters = mold_counters;
    write_header((struct mold_header_wire *)header, mold.next, count);
}

void mold_rehearsal_end(void)
{
    memcpy(&mold, kept.state, sizeof kept.state);
    mold_counters = kept.counters;
}

void mold_check(void)
{
    ASSERT(mold.next <= mold.announced);
    ASSERT(mold.stored_count <= MOLD_STORE_COUNT);
    ASSERT(mold.lost || mold.unsettled || (mold.request_ns != UINT64_MAX) == (mold.next < mold.announced));
    for (uint32_t i = 1; i < mold.stored_count; i++)
        ASSERT(stored_at(i - 1)->sequence <= stored_at(i)->sequence);
}
