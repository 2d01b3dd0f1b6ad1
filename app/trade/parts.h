/* The trading program's state, and what each of its files does for those above it. The calls go down:
 *
 *     7 trade.c      the start, events, timers, turns, the way home
 *     6 rehearse.c   a made-up tick and its order
 *     5 feed.c       messages into the books, the lines' sources, the feed's troubles
 *     4 snapshot.c   books that are rebuilt, all or some
 *     3 orders.c     the strategy's orders, through the limits, to the exchange; the orders' session
 *     2 audit.c      a line of the log for each order, and for each response
 *     1 shown.c      the state; statistics, profit and loss */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/nasdaq/link.h"
#include "app/nasdaq/mold.h"
#include "app/program.h"
#include "app/trade/book.h"
#include "app/trade/ouch.h"
#include "app/trade/risk.h"
#include "app/trade/settings.h"
#include "app/trade/strategy.h"
#include "base/counters.h"
#include "base/histogram.h"
#include "base/hot_section.h"
#include "net/transport.h"

enum {
    SHOWN_COUNT_MAX = 16, /* symbols on the status page */
    SHOWN_VALUE_COUNT = 10,
    SHOWN_NAME_BYTES = 32,
    SHOWN_SAID_COUNT_MAX = 128,
};

#define TRADE_COUNTERS(X)                                                                                              \
    X(COUNT, turns), X(COUNT, events), X(COUNT, ticks), X(COUNT, orders), X(COUNT, waited), X(COUNT, feed_losses),     \
        X(COUNT, line_losses), X(COUNT, snapshots), X(COUNT, doubts), X(COUNT, repeated), X(COUNT, stops_loss),        \
        X(COUNT, stops_rejects), X(DROP_FRAME, drop_stranger), X(DROP_FRAME, drop_source),                             \
        X(DROP_FRAME, drop_snapshot), X(DROP_FRAME, drop_kept_full)
/* The first five are 0 or 1. `stuck`: nothing but a restart, or the feed's next session, heals what keeps orders back.
 * Profit and loss of the day in units of 0.0001, one of them 0. */
#define TRADE_SWITCHES(X)                                                                                              \
    X(LEVEL, stopped), X(LEVEL, feed_current), X(LEVEL, session_ready), X(LEVEL, market_open), X(LEVEL, stuck),        \
        X(LEVEL, profit), X(LEVEL, loss)
/* The reasons of rehearsal.refused_program. `unarmed`: no session, or orders are held back. `feed`: the feed is not
 * current, or messages wait. `book`: no symbol has a price, or no book has room. `order`: a limit refused the order, or
 * the order could not leave. */
#define SHOWN_UNREHEARSED(X) X(COUNT, unarmed), X(COUNT, feed), X(COUNT, book), X(COUNT, order)

extern struct trade {
    /* A tick touches the first lines. */
    _Alignas(64) strategy_decide *decide; /* the strategy's; NULL: nothing is ordered */
    void (*observe)(struct strategy_view *view);
    bool stopped, feed_heard, cancel_all;
    uint64_t cancel_symbols;      /* a bit for each symbol whose orders are being cancelled */
    bool rehearses;               /* nothing is noted, and no order that stands is touched */
    enum program_verdict verdict; /* the way home has begun */
    uint64_t dirty;               /* a bit for each symbol that the strategy looks at later */
    uint64_t sells_first;         /* a bit for each symbol whose latest order bought */
    uint64_t (*clock_ns)(void);
    uint64_t turn_ends_ns;
    uint64_t began_ns;
    bool line_silent[2];
    uint64_t caught_up_ns;                 /* datagrams until then may be as old as a pause */
    uint32_t source[2];                    /* the hosts that send the feed's lines; 0: not heard yet */
    uint64_t names[BOOK_SYMBOL_COUNT_MAX]; /* the symbols, as they stand in messages */
    struct link orders, snapshot;
    uint64_t snapshot_due_ns, snapshot_wait_s; /* the next load, and the time from it to the one after */
    uint64_t snapshot_moved_ns;                /* when the load began, or its latest message came */
    bool doubted;                              /* all books are rebuilt because a message contradicted them */
    uint8_t session[MOLD_SESSION_BYTES];       /* the feed's, as it was said */
    bool renews;                               /* the books are emptied for a new session of the feed */
    bool heals;                                /* books are set aside, and snapshots are for them alone */
    uint64_t heals_from;                       /* the feed's number after the snapshot; 0: not known yet */
    uint64_t heals_since_ns;                   /* when it came; the feed must reach it in feed.timeout */
    uint64_t ahead_since_ns;                   /* the books are ahead of the feed since then; 0: not */
    uint64_t doubts_said;                      /* a bit for each symbol whose doubt was said */
    uint64_t rate_ns[RISK_RATE_MAX];           /* when the latest orders left */
    uint32_t rate_next;
    struct {
        uint32_t next;
        uint64_t ns[RISK_REPLACES_MAX]; /* when the latest replacements left */
    } replaces[BOOK_SYMBOL_COUNT_MAX];
    struct value {
        int64_t shares;                  /* held before the day */
        int64_t first_price, last_price; /* that were heard; 0: none */
    } values[BOOK_SYMBOL_COUNT_MAX];
    uint32_t rehearsed; /* the latest rehearsal's symbol */
    bool query_due;
    bool settled;             /* the orders' session has been ready since the start */
    const char *trouble;      /* the reason at the latest look why orders stay back; NULL: none */
    uint64_t orders_heard_ns; /* when the orders' host last accepted a login or sent a response */
    uint64_t leaving_ns, next_poll_ns, next_reconsider_ns, ns_per_cycle_32;
    struct trade_counters {
        uint64_t TRADE_COUNTERS(COUNTER_MEMBER);
    } counters;
    uint64_t refused[RISK_VERDICT_COUNT];
    bool said[SHOWN_SAID_COUNT_MAX];
    struct {
        uint64_t TRADE_SWITCHES(COUNTER_MEMBER);
    } switches;
    uint64_t shown[SHOWN_COUNT_MAX][SHOWN_VALUE_COUNT];
} trade;

extern struct shown_unrehearsed {
    uint64_t SHOWN_UNREHEARSED(COUNTER_MEMBER);
} shown_unrehearsed;
extern struct histogram shown_tick_to_order;

/* Returns a bit for each symbol. */
static inline uint64_t trade_all_symbols(void)
{
    return UINT64_MAX >> (BOOK_SYMBOL_COUNT_MAX - trade_settings.symbol_count);
}

static inline bool trade_turn_is_over(void) { return trade.clock_ns() >= trade.turn_ends_ns; }

/* Returns true if orders may leave, as far as that changes seldom. risk_check decides again before each. */
static inline bool trade_is_armed(void)
{
    return trade.decide != NULL && !trade.stopped && trade.feed_heard && !trade.cancel_all
           && trade.verdict == PROGRAM_ON && link_is_up(&trade.orders) && ouch_is_ready() && ouch_is_sure();
}

/* ---- shown.c ---- */

/* Gives the statistics to the service. */
void shown_register(void);
/* Copies the best prices, the position and the open shares of the first symbols to where the page reads them. */
void shown_refresh(void);
/* Logs each alert once, when it has risen first. */
void shown_say_once(void);
/* Returns the sum over all symbols, 2^61 at most. */
int64_t shown_profit_of_day(void);
/* Begins the profit of another day: positions count from the last price of the day before. */
void shown_begin_day(void);

/* ---- audit.c: each line begins with `order` and the order's reference ---- */

/* Logs an order that leaves, in the place of another one unless `replaced` is 0; or a cancellation. */
void audit_order(uint32_t symbol, enum book_side side, const struct strategy_order *order, uint32_t reference,
                 uint32_t replaced);
void audit_cancel(uint32_t reference);
/* Logs a response, after ouch_take, which returned `symbol`. `is_repeated`: the exchange repeats the day after a start,
 * and executions alone are logged again. */
void audit_response(struct bytes message, int symbol, bool is_repeated);

/* ---- orders.c ---- */

/* The strategy's views, one for each symbol. */
extern struct strategy_view orders_views[BOOK_SYMBOL_COUNT_MAX];
/* Begins with the strategy of the settings. */
void orders_begin(void);
/* Lets the strategy look at the symbols whose timers are due. */
void orders_wake(uint64_t now_ns);

/* Holds all orders back and cancels those that are open, until an operator starts again. */
void orders_stop(const char *by);
/* Stops at the limits that a single order does not break: the day's loss, and orders that are rejected. */
void orders_watch_limits(void);
/* Writes the next order as far as it is known into the message area, ahead of time. */
void orders_prepare(void);
/* Sends what the strategy wants if no limit forbids it: all orders leave here. Returns true if the strategy is to look
 * again; false: it was refused. */
bool orders_place(uint32_t symbol, enum book_side side, const struct strategy_order *order, uint64_t now_ns);
/* Lets the strategy look at a symbol. Orders follow from the present alone: if messages of the feed are missing or have
 * come late, the strategy looks when all are there. An order that is refused does not keep the other side waiting, and
 * the side that has ordered last is asked last. */
void orders_consider(uint32_t symbol, uint64_t now_ns);
/* Lets the strategy look at the symbols that it could not look at before, until the turn is over. */
void orders_consider_more(uint64_t now_ns);
/* Asks to cancel all live orders, or those of some symbols, as many as can leave now. Nothing is ordered until none is
 * left: a cancellation that the exchange rejects is asked for again. */
void orders_cancel(uint64_t now_ns);
/* Leaves a host that answers no cancellation for a second, or no account query for three, if there is another one. */
void orders_watch_host(uint64_t now_ns);
/* Takes what the exchange has sent over the orders' connection. */
void orders_take_responses(uint64_t now_ns);
/* Asks for the next reference after a login, and notes when all is known. After a start the exchange repeats the whole
 * day, old answers to queries among it, and a pause on the way is no end: only the server's heartbeat shows that. */
void orders_poll_session(uint64_t now_ns);
/* Holds all orders back and cancels those that are open, with cancel.on.exit=. Returns a line for each that is still
 * open, for the operator who is about to end the program; NULL: none is. */
const char *orders_leave(void);
/* Logs each order that stays open when the program ends: somebody has to look after it. */
void orders_log_left_open(void);

/* ---- snapshot.c ---- */

/* Takes what the snapshot server has sent. */
void snapshot_take(uint64_t now_ns);
/* Returns true if books are to be forgotten before a snapshot is loaded: a gap cannot be filled, or books are in doubt,
 * and no snapshot is being loaded. */
bool snapshot_is_due(uint64_t now_ns);
/* Forgets the books and then loads a snapshot: of all when the feed has a gap that cannot be filled, else of those that
 * are in doubt. The pauses between two loads double up to a minute, until the books have been whole for that time. */
void snapshot_poll(uint64_t now_ns);
/* Keeps a message of the feed whose book is being rebuilt. */
void snapshot_keep(struct bytes message);
/* Counts and logs a snapshot that has not helped: another one is loaded. */
void snapshot_drop(const char *why);
/* Returns true if books are wrong or the feed has a gap, and no snapshot server is set: nothing heals that. */
bool snapshot_is_missed(void);
/* Says which session of the feed is joined. */
void snapshot_watch_session(uint64_t now_ns);
/* Says which books have come into doubt, and cancels their orders. Holds the feed when all have. */
void snapshot_watch_books(void);

/* ---- feed.c ---- */

/* Returns true for a datagram to the line's port and group, or to our own address if the line has no group. */
static inline bool feed_is_of_line(const struct transport_event *event, enum mold_line line)
{
    const struct endpoint *feed = &trade_settings.feed[line];
    const uint32_t group = event->to_address >> 28 == 0xe ? event->to_address : 0; /* RFC 1112 §4 */
    return event->kind == TRANSPORT_DATAGRAM && event->port == feed->port && group == feed->address;
}

/* Takes a datagram of a line, of which only the line's source may send one. */
void feed_take_line(enum mold_line line, const struct transport_event *event, uint64_t now_ns);
/* Takes a datagram of the feed. */
void feed_take(enum mold_line line, struct bytes datagram, uint64_t now_ns);
/* Takes the messages that are due, and stored ones while there is time. */
void feed_take_messages(uint64_t now_ns);
/* Asks the rerequest server for the messages that are missing. */
void feed_rerequest(uint64_t now_ns);
/* Notes what keeps the strategy from looking after its orders, and cancels them. */
void feed_watch(uint64_t now_ns);

/* ---- rehearse.c: app/service/rehearsal.h ---- */

/* Plays a datagram that adds a share below the best ask of the next symbol that has one, and the order of one share
 * that follows at any price. If none follows, an order of its own is sent. The order leaves over the rehearsal's
 * connection. All that changes is put back. */
bool rehearse_order(uint64_t now_ns);
/* Fetches the memory of the way of a tick into the caches. */
bool rehearse_warm_up(uint64_t now_ns);
