#include "app/trade/parts.h"

#include "base/assert.h"
#include "base/log.h"

enum { REQUESTS_PER_TURN = 16 };

HOT void feed_take_messages(uint64_t now_ns)
{
    struct bytes message, later;
    ASSERT(trade.turn_ends_ns > 0);
    do {
        while (mold_ahead(&later))
            book_fetch(later);
        while (mold_next(&message)) {
            if (mold_ahead(&later))
                book_fetch(later);
            int symbol = book_take(message);
            if (symbol >= 0)
                orders_consider((uint32_t)symbol, now_ns);
            else if (__builtin_expect(symbol == BOOK_ASIDE, 0))
                snapshot_keep(message);
        }
    } while (__builtin_expect(mold_has_backlog(), 0) && !trade_turn_is_over() && mold_advance());
}

HOT void feed_take(enum mold_line line, struct bytes datagram, uint64_t now_ns)
{
    trade.counters.ticks++;
    if (mold_take(line, datagram, now_ns))
        feed_take_messages(now_ns);
}

/* ---- the lines ---- */

/* Takes a datagram of a host that is not known as the line's source. If the settings name none, the first host that is
 * heard becomes the source, and another one after a time of silence: if the datagram is one of the session. */
NOT_HOT static void take_source(enum mold_line line, const struct transport_event *event, uint64_t now_ns)
{
    static const char letters[] = "ab";
    ASSERT(line <= MOLD_B);
    const bool is_silent = now_ns - mold_line_heard_ns(line) >= trade_settings.feed_timeout_ns;
    if (trade.source[line] != 0 && (trade_settings.source[line] != 0 || !is_silent)) {
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

/* Says which of two lines has been silent for feed.timeout, and when it is back. */
static void watch_lines(uint64_t now_ns)
{
    for (enum mold_line line = MOLD_A; line <= MOLD_B && trade_settings.feed[MOLD_B].port != 0; line++) {
        const uint64_t since_ns = max_u64(mold_line_heard_ns(line), max_u64(trade.began_ns, trade.caught_up_ns));
        const bool is_silent = now_ns >= since_ns + trade_settings.feed_timeout_ns;
        if (is_silent == trade.line_silent[line])
            continue;
        trade.line_silent[line] = is_silent;
        trade.counters.line_losses += is_silent;
        log_line("trade: line %c is %s", line == MOLD_A ? 'a' : 'b', is_silent ? "silent" : "back");
    }
    ASSERT(trade.began_ns <= now_ns);
}

/* Holds the feed if it does not reach the next number in feed.timeout: the snapshot's was wrong, or a server with fewer
 * messages stands for the one before. */
static void watch_snapshot(uint64_t now_ns)
{
    ASSERT(trade.ahead_since_ns <= now_ns);
    if (mold_heard_ns() == 0 || mold_is_lost() || mold_has_backlog() || !mold_is_ahead()) {
        trade.ahead_since_ns = 0;
    } else if (trade.ahead_since_ns == 0) {
        trade.ahead_since_ns = now_ns;
    } else if (now_ns - trade.ahead_since_ns >= trade_settings.feed_timeout_ns) {
        if (trade_settings.snapshot.address != 0)
            snapshot_drop("the feed does not reach it");
        mold_hold();
    }
}

static bool no_session_may_follow(void) { return mold_has_ended() && trade_settings.session[0] != '\0'; }

/* Returns what ends a trouble, for the log; "": it may end by itself. */
static const char *cure_of(bool of_feed)
{
    ASSERT(of_feed || !ouch_is_sure());
    if (!of_feed)
        return "; nothing is ordered until the program is started again";
    if (no_session_may_follow())
        return ", and feed.session= lets no other one be joined";
    return mold_is_lost() || book_doubts() == trade_all_symbols()
               ? snapshot_is_missed() ? ", and nothing heals that: snapshot= is not set" : ""
               : "";
}

NOT_HOT void feed_watch(uint64_t now_ns)
{
    const uint64_t heard_ns = mold_heard_ns();
    ASSERT(heard_ns <= now_ns);
    trade.feed_heard = heard_ns > trade.caught_up_ns && now_ns - heard_ns < trade_settings.feed_timeout_ns;
    watch_lines(now_ns);
    watch_snapshot(now_ns);
    trade.switches.stuck = no_session_may_follow() || snapshot_is_missed() || !ouch_is_sure();
    const char *trouble = NULL;
    if (heard_ns == 0)
        trouble = now_ns - trade.began_ns >= trade_settings.feed_timeout_ns ? "the feed has not been heard" : NULL;
    else
        trouble = mold_has_ended()                 ? "the feed's session has ended"
                  : trade.renews                   ? "the feed's session is another one"
                  : trade.doubted                  ? "a message contradicts the books, and a snapshot is awaited"
                  : mold_is_lost()                 ? "a gap of the feed cannot be filled"
                  : heard_ns <= trade.caught_up_ns ? "the machine has stood still, and the feed's datagrams are old"
                  : !trade.feed_heard              ? "the feed is silent"
                  : book_doubts() == trade_all_symbols() ? "a message contradicts the books, or finds them full"
                                                         : NULL;
    const bool of_feed = trouble != NULL;
    if (!of_feed && !ouch_is_sure())
        trouble = ouch_contradiction();
    trade.cancel_all |= trade_settings.cancel_on_loss && !ouch_is_sure() && ouch_levels.open > 0;
    if (trouble == trade.trouble)
        return;
    log_line("trade: %s%s", trouble != NULL ? trouble : "the feed is current", trouble != NULL ? cure_of(of_feed) : "");
    trade.trouble = trouble;
    trade.counters.feed_losses += of_feed;
    trade.cancel_all |= trouble != NULL && trade_settings.cancel_on_loss;
}

void feed_rerequest(uint64_t now_ns)
{
    uint8_t request[MOLD_HEADER_BYTES];
    const struct endpoint *to = &trade_settings.rerequest;
    for (uint32_t i = 0; i < REQUESTS_PER_TURN; i++) {
        const uint32_t bytes = mold_request(now_ns, request);
        if (bytes == 0)
            return;
        if (to->address != 0)
            transport_udp_send(trade_settings.rerequest_port, to->address, to->port, request, bytes, now_ns);
    }
}
