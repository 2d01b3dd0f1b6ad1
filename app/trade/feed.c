#include "app/trade/parts.h"

#include "base/assert.h"
#include "base/log.h"

enum { SNAPSHOT_WAIT_S_MAX = 64 };

HOT void feed_take_messages(uint64_t now_ns)
{
    struct bytes message;
    ASSERT(trade.turn_ends_ns > 0);
    do {
        while (mold_next(&message)) {
            for (struct bytes later; mold_ahead(&later);)
                book_fetch(later);
            int symbol = book_take(message);
            if (symbol >= 0)
                orders_consider((uint32_t)symbol, now_ns);
        }
    } while (__builtin_expect(mold_has_backlog(), 0) && !trade_turn_is_over() && mold_advance());
}

HOT void feed_take(enum mold_line line, struct bytes datagram, uint64_t now_ns)
{
    trade.counters.ticks++;
    if (mold_take(line, datagram, now_ns))
        feed_take_messages(now_ns);
}

/* ---- snapshots ---- */

/* Ends a snapshot at the feed's message with which the books go on. After a malformed end it is loaded again. */
static void snapshot_done(struct bytes message, uint64_t now_ns)
{
    const struct glimpse_end_wire *end = (const void *)message.data;
    uint64_t sequence;
    ASSERT(trade.snapshot.wanted && mold_is_lost());
    trade.snapshot.wanted = false;
    if (message.count != sizeof *end
        || !soup_read_number((struct bytes){ end->sequence, sizeof end->sequence }, &sequence)) {
        trade.counters.drop_snapshot++;
        return;
    }
    trade.counters.snapshots++;
    trade.doubted = false;
    mold_resume(sequence, now_ns);
    log_line("trade: the books have been rebuilt from a snapshot; the feed goes on at message %llu",
             (unsigned long long)sequence);
}

void feed_take_snapshot(uint64_t now_ns)
{
    struct bytes message;
    enum soup_event event;
    while ((event = link_next(&trade.snapshot, &message, now_ns)) != SOUP_NOTHING) {
        if (event == SOUP_NEW_SESSION && trade.snapshot.wanted) { /* the first message is missing */
            trade.snapshot.wanted = false;
            trade.counters.drop_snapshot++;
        }
        if (event != SOUP_MESSAGE || !trade.snapshot.wanted)
            continue;
        if (message.count > 0 && message.data[0] == 'G')
            snapshot_done(message, now_ns);
        else
            book_take(message);
    }
}

bool feed_is_clearing(uint64_t now_ns)
{
    return mold_is_lost() && trade_settings.snapshot.address != 0 && !trade.snapshot.wanted
           && trade.snapshot.connection < 0 && now_ns >= trade.snapshot_due_ns;
}

void feed_watch_books(void)
{
    ASSERT(trade.snapshot_wait_s >= 1);
    if (book_is_whole() || mold_is_lost() || mold_has_backlog() || trade_settings.snapshot.address == 0)
        return;
    mold_hold();
    trade.doubted = true;
}

void feed_poll_snapshot(uint64_t now_ns)
{
    struct link *link = &trade.snapshot;
    ASSERT(!link->wanted || mold_is_lost());
    if (link->wanted && link->connection < 0 && link->since_ns != 0)
        link->wanted = false; /* the connection broke: what it brought is not whole */
    if (!feed_is_clearing(now_ns) || !book_clear_slice())
        return;
    if (now_ns - trade.snapshot_due_ns > SNAPSHOT_WAIT_S_MAX * NS_PER_S)
        trade.snapshot_wait_s = 1;
    trade.snapshot_due_ns = now_ns + trade.snapshot_wait_s * NS_PER_S;
    trade.snapshot_wait_s = min_u64(2 * trade.snapshot_wait_s, SNAPSHOT_WAIT_S_MAX);
    soup_forget(&link->soup);
    link->wanted = true;
    link->since_ns = 0;
}

/* ---- the lines ---- */

/* Takes a datagram of a host that is not known as the line's source. The first host that is heard becomes the source if
 * the settings name none: if the datagram is one of the session. */
NOT_HOT static void take_source(enum mold_line line, const struct transport_event *event, uint64_t now_ns)
{
    static const char letters[] = "ab";
    ASSERT(line <= MOLD_B);
    if (trade.source[line] != 0) {
        trade.counters.drop_source++;
        return;
    }
    const uint64_t dropped = mold_counters.drop_session + mold_counters.drop_length + mold_counters.drop_sequence;
    feed_take(line, event->payload, now_ns);
    if (mold_counters.drop_session + mold_counters.drop_length + mold_counters.drop_sequence != dropped)
        return;
    trade.source[line] = event->address;
    log_line("trade: line %c comes from %pI4h", letters[line], &event->address);
}

HOT void feed_take_line(enum mold_line line, const struct transport_event *event, uint64_t now_ns)
{
    if (__builtin_expect(event->address != trade.source[line], 0))
        take_source(line, event, now_ns);
    else
        feed_take(line, event->payload, now_ns);
}

NOT_HOT void feed_watch(uint64_t now_ns)
{
    const uint64_t heard_ns = mold_heard_ns();
    ASSERT(heard_ns <= now_ns);
    trade.feed_heard = heard_ns > trade.caught_up_ns && now_ns - heard_ns < trade_settings.feed_timeout_ns;
    const char *trouble = NULL;
    if (heard_ns != 0)
        trouble = mold_has_ended()                 ? "the feed's session has ended"
                  : trade.doubted                  ? "a message contradicts the books, and a snapshot is awaited"
                  : mold_is_lost()                 ? "a gap of the feed cannot be filled"
                  : heard_ns <= trade.caught_up_ns ? "the machine has stood still, and the feed's datagrams are old"
                  : !trade.feed_heard              ? "the feed is silent"
                  : !book_is_whole()               ? "a message contradicts the books, or finds them full"
                                                   : NULL;
    const bool of_feed = trouble != NULL;
    if (!of_feed && !ouch_is_sure())
        trouble = ouch_contradiction();
    if (trouble == trade.trouble)
        return;
    log_line("trade: %s", trouble != NULL ? trouble : "the feed is current");
    trade.trouble = trouble;
    trade.counters.feed_losses += of_feed;
    trade.cancel_all |= trouble != NULL && trade_settings.cancel_on_loss;
}

void feed_rerequest(uint64_t now_ns)
{
    uint8_t request[MOLD_HEADER_BYTES];
    const struct endpoint *to = &trade_settings.rerequest;
    uint32_t bytes = mold_request(now_ns, request);
    if (bytes > 0 && to->address != 0)
        transport_udp_send(trade_settings.rerequest_port, to->address, to->port, request, bytes, now_ns);
}
