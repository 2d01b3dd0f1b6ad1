#include "app/trade/parts.h"

#include <string.h>

#include "base/assert.h"
#include "base/log.h"

enum {
    WAIT_S_MAX = 64,
    LATE_MESSAGES = 10000,
    KEPT_COUNT_MAX = 1 << 14, /* messages of the feed whose books are being rebuilt */
    KEPT_BYTES_MAX = 50,      /* ITCH 5.0: the longest message */
    KEPT_SLICE = 256,         /* taken in a turn: some 20 us */
};

static struct {
    uint64_t first; /* no message from this number on is missing */
    uint32_t count, taken;
    bool full;
    struct kept {
        uint64_t number;
        uint8_t bytes, data[KEPT_BYTES_MAX];
    } messages[KEPT_COUNT_MAX];
} kept;

void snapshot_keep(struct bytes message)
{
    const uint64_t number = mold_next_number() - 1;
    if (((const struct itch_head_wire *)(const void *)message.data)->type == ITCH_OPERATIONAL_HALT)
        book_take_aside(message); /* GLIMPSE 5.0 says nothing about these halts */
    if (!trade.heals)
        return;
    if (kept.count == KEPT_COUNT_MAX) {
        trade.counters.drop_kept_full += !kept.full;
        kept.full = true;
        return;
    }
    ASSERT(message.count <= KEPT_BYTES_MAX);
    struct kept *k = &kept.messages[kept.count++];
    k->number = number;
    k->bytes = (uint8_t)message.count;
    memcpy(k->data, message.data, message.count);
}

void snapshot_drop(const char *why)
{
    ASSERT(trade_settings.snapshot.address != 0);
    trade.counters.drop_snapshot++;
    log_line("trade: the snapshot does not help, and is loaded again: %s", why);
}

bool snapshot_is_missed(void)
{
    return trade_settings.snapshot.address == 0 && !trade.renews && (mold_is_lost() || book_doubts() != 0);
}

/* Ends the rebuilding of the books that are set aside. Some may be in doubt again. */
static void heal_end(bool is_whole)
{
    const uint64_t before = book_doubts();
    ASSERT(trade.heals);
    trade.snapshot.wanted = trade.heals = false;
    trade.heals_from = 0;
    book_take_back(is_whole);
    if (is_whole && book_doubts() == before)
        snapshot_drop("messages contradict its books, or find them full");
    else
        trade.counters.snapshots += is_whole;
}

/* Takes the messages of the feed that were kept, once the feed has reached the snapshot. A number that the feed does
 * not reach is none. */
static void heal_more(uint64_t now_ns)
{
    ASSERT(trade.heals_from != 0);
    if (mold_next_number() < trade.heals_from) {
        if (now_ns - trade.heals_since_ns < trade_settings.feed_timeout_ns)
            return;
        snapshot_drop("the feed does not reach it");
        trade.heals_from = 0;
        return;
    }
    for (uint32_t i = 0; i < KEPT_SLICE && kept.taken < kept.count; i++) {
        const struct kept *k = &kept.messages[kept.taken++];
        if (k->number >= trade.heals_from)
            book_take_aside((struct bytes){ k->data, k->bytes });
    }
    if (kept.taken == kept.count)
        heal_end(true);
}

/* Ends a snapshot at the feed's message with which the books go on. It is loaded again after a malformed end, and if
 * messages between the snapshot and those that were kept are missing: its server lags, and will have come to those. */
static void done(struct bytes message, uint64_t now_ns)
{
    const struct glimpse_end_wire *end = (const void *)message.data;
    uint64_t number;
    ASSERT(trade.snapshot.wanted);
    trade.snapshot.wanted = false;
    if (message.count != sizeof *end
        || !soup_read_number((struct bytes){ end->sequence, sizeof end->sequence }, &number)) {
        snapshot_drop("its end is malformed");
    } else if (trade.heals && number < kept.first) {
        snapshot_drop("it ends before the messages that are kept begin");
    } else if (trade.heals) {
        trade.heals_from = number;
        trade.heals_since_ns = now_ns;
    } else {
        trade.counters.snapshots++;
        trade.doubted = trade.renews = false;
        mold_resume(number, now_ns);
        log_line("trade: the books have been rebuilt from a snapshot; the feed goes on at message %llu",
                 (unsigned long long)number);
    }
}

void snapshot_take(uint64_t now_ns)
{
    struct bytes message;
    enum soup_event event;
    snapshot_watch_session(now_ns);
    while ((event = link_next(&trade.snapshot, &message, now_ns)) != SOUP_NOTHING) {
        if (event == SOUP_NEW_SESSION && trade.snapshot.wanted) { /* the first message is missing */
            snapshot_drop("it does not begin with its first message");
            trade.snapshot.wanted = false;
        }
        if (event != SOUP_MESSAGE || !trade.snapshot.wanted)
            continue;
        trade.snapshot_moved_ns = now_ns;
        if (message.count > 0 && message.data[0] == 'G')
            done(message, now_ns);
        else if (trade.heals)
            book_take_aside(message);
        else
            book_take(message);
    }
}

bool snapshot_is_due(uint64_t now_ns)
{
    const bool heals = trade.heals || (!book_is_whole() && book_doubts() != trade_all_symbols());
    return (mold_is_lost() || heals) && trade_settings.snapshot.address != 0 && !trade.snapshot.wanted
           && trade.heals_from == 0 && trade.snapshot.connection < 0 && now_ns >= trade.snapshot_due_ns;
}

void snapshot_watch_session(uint64_t now_ns)
{
    const uint8_t *const session = mold_session();
    if (mold_heard_ns() == 0 || memcmp(session, trade.session, sizeof trade.session) == 0)
        return;
    log_line("trade: the feed's session is %.10s", (const char *)session);
    trade.renews = mold_counters.sessions > 0; /* a name may be all zeros */
    memcpy(trade.session, session, sizeof trade.session);
    if (!trade.renews && mold_missing() > LATE_MESSAGES && !mold_is_lost() && trade_settings.snapshot.address != 0)
        mold_hold(); /* after so late a start a snapshot comes first */
    if (!trade.renews)
        return;
    trade.snapshot.wanted = false; /* this snapshot is of the session before */
    if (!mold_is_lost())
        mold_hold();
    trade.snapshot_due_ns = now_ns;
    trade.snapshot_wait_s = 1;
}

void snapshot_watch_books(void)
{
    const uint64_t doubts = book_doubts(), before = trade.doubts_said;
    for (uint32_t i = 0; i < trade_settings.symbol_count; i++)
        if ((doubts ^ before) & BIT(i))
            log_line("trade: %.8s: %s%s", (const char *)trade_settings.symbols[i],
                     doubts & BIT(i) ? "a message contradicts its book, or finds it full: it is not traded"
                                     : "its book is whole",
                     doubts & BIT(i) && snapshot_is_missed() ? ", and nothing heals it: snapshot= is not set" : "");
    trade.doubts_said = doubts;
    trade.dirty |= before & ~doubts;
    trade.counters.doubts += (doubts & ~before) != 0;
    trade.cancel_symbols |= trade_settings.cancel_on_loss ? doubts & ~before : 0;
    ASSERT(trade.snapshot_wait_s >= 1);
    if (doubts != trade_all_symbols() || trade.heals || mold_is_lost() || mold_has_backlog()
        || trade_settings.snapshot.address == 0)
        return;
    mold_hold();
    trade.doubted = true;
}

void snapshot_poll(uint64_t now_ns)
{
    struct link *link = &trade.snapshot;
    ASSERT(trade.heals || !link->wanted || mold_is_lost());
    if (link->wanted && link->connection < 0 && link->since_ns != 0)
        link->wanted = false; /* the connection broke: what it brought is not whole */
    if (link->wanted && now_ns - trade.snapshot_moved_ns >= SOUP_SILENCE_NS) { /* heartbeats alone are no progress */
        snapshot_drop("no message of it has come for 15 s");
        link_leave(link, "no message for 15 s", now_ns);
    }
    if (trade.heals && kept.full && !link->wanted && !mold_is_lost())
        snapshot_drop("more messages have come since it was asked for than are kept");
    if (trade.heals && (mold_is_lost() || (kept.full && !link->wanted)))
        heal_end(false);
    if (trade.heals_from != 0)
        heal_more(now_ns);
    if (trade.renews && mold_is_lost() && trade_settings.snapshot.address == 0 && book_clear_slice(true)) {
        trade.renews = false;
        mold_resume(1, now_ns);
    }
    if (!snapshot_is_due(now_ns) || !(mold_is_lost() ? book_clear_slice(trade.renews) : book_set_aside_slice()))
        return;
    if (now_ns - trade.snapshot_due_ns > WAIT_S_MAX * NS_PER_S)
        trade.snapshot_wait_s = 1;
    trade.snapshot_due_ns = now_ns + trade.snapshot_wait_s * NS_PER_S;
    trade.snapshot_wait_s = min_u64(2 * trade.snapshot_wait_s, WAIT_S_MAX);
    if (!trade.heals) { /* else all are kept for this snapshot, too */
        kept.first = mold_next_number();
        kept.count = kept.taken = 0;
        kept.full = false;
    }
    trade.heals = !mold_is_lost();
    soup_forget(&link->soup);
    link->wanted = true;
    link->since_ns = 0;
    trade.snapshot_moved_ns = now_ns;
}
