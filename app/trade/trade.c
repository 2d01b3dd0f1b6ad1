#include "app/trade/trade.h"

#include <assert.h>
#include <string.h>

#include "app/nasdaq/link.h"
#include "app/nasdaq/mold.h"
#include "app/service/control.h"
#include "app/service/rehearsal.h"
#include "app/service/service.h"
#include "app/service/slow.h"
#include "app/service/stats.h"
#include "app/trade/book.h"
#include "app/trade/ouch.h"
#include "app/trade/risk.h"
#include "app/trade/settings.h"
#include "app/trade/strategy.h"
#include "base/assert.h"
#include "base/format.h"
#include "base/histogram.h"
#include "base/hot_section.h"
#include "base/log.h"
#include "base/time.h"
#include "base/trace.h"
#include "net/transport_path.h"

enum {
    TURN_NS = 20 * NS_PER_US, /* after this a turn begins no further piece of work */
    POLL_NS = NS_PER_MS,      /* from one check of the timers to the next */
    RECONSIDER_NS = 100 * NS_PER_MS,
    CATCH_UP_NS = 100 * NS_PER_MS, /* for all datagrams that wait in rings and a socket */
    EVENTS_PER_TURN_MAX = 64,
    SHOWN_COUNT_MAX = 16, /* symbols on the status page */
    SHOWN_VALUE_COUNT = 7,
    SHOWN_NAME_BYTES = 32,
    COUNTER_SAID_COUNT_MAX = 128,
    LEAVE_S = 3, /* for the cancellations before the program ends */
    SNAPSHOT_WAIT_S_MAX = 64,
    SNAPSHOT_END_BYTES = 21, /* GLIMPSE 5.0: `G`, and the next message's number in 20 digits */
};

static_assert((int)RISK_OPEN_MAX < (int)OUCH_ORDER_COUNT_MAX, "an order that risk.open= permits finds a place");

/* clang-format off */
#define TRADE_COUNTERS(X) \
    X(turns) X(events) X(ticks) X(orders) X(waited) X(feed_losses) X(snapshots) X(stops_loss) X(stops_rejects) \
    X(drop_stranger) X(drop_source) X(drop_snapshot)
/* The first four are 0 or 1; profit and loss of the day in units of 0.0001, one of them 0. */
#define SWITCHES(X) X(stopped) X(feed_current) X(session_ready) X(market_open) X(profit) X(loss)
/* clang-format on */

static struct trade {
    /* A tick touches the first lines. */
    _Alignas(64) strategy *strategy; /* NULL: nothing is ordered */
    bool stopped, feed_heard, cancel_all;
    bool rehearses;               /* nothing is noted, and no order that stands is touched */
    enum program_verdict verdict; /* the way home has begun */
    uint64_t dirty;               /* a bit for each symbol that the strategy looks at later */
    uint64_t sells_first;         /* a bit for each symbol whose latest order bought */
    uint64_t (*clock_ns)(void);
    uint64_t turn_ends_ns;
    uint64_t caught_up_ns;                 /* datagrams until then may be as old as a pause */
    uint32_t source[2];                    /* the hosts that send the feed's lines; 0: not heard yet */
    uint64_t names[BOOK_SYMBOL_COUNT_MAX]; /* the symbols, as they stand in messages */
    struct link orders, snapshot;
    uint64_t snapshot_due_ns, snapshot_wait_s; /* the next load, and the time from it to the one after */
    bool doubted;                              /* the books are rebuilt because a message contradicted them */
    uint64_t rate_ns[RISK_RATE_MAX];           /* when the latest orders left */
    uint32_t rate_next;
    struct {
        uint32_t next;
        uint64_t ns[RISK_REPLACES_MAX]; /* when the latest replacements left */
    } replaces[BOOK_SYMBOL_COUNT_MAX];
    struct value {
        int64_t shares;                  /* held before the session */
        int64_t first_price, last_price; /* that were heard; 0: none */
    } values[BOOK_SYMBOL_COUNT_MAX];
    uint32_t rehearsed; /* the latest rehearsal's symbol */
    bool query_due;
    bool settled;        /* the orders' session has been ready since the start */
    const char *trouble; /* the reason at the latest look why orders stay back; NULL: none */
    uint64_t leaving_ns, next_poll_ns, next_reconsider_ns, ns_per_cycle_32;
    struct trade_counters {
        TRADE_COUNTERS(COUNTER_MEMBER)
    } counters;
    uint64_t refused[RISK_VERDICT_COUNT];
    bool said[COUNTER_SAID_COUNT_MAX];
    struct {
        SWITCHES(COUNTER_MEMBER)
    } switches;
    struct {
        char names[SHOWN_VALUE_COUNT][SHOWN_NAME_BYTES];
        uint64_t values[SHOWN_VALUE_COUNT];
    } shown[SHOWN_COUNT_MAX];
} trade;

/* ---- statistics ---- */

#define ROW(name) COUNTER("trade.", trade.counters, name),
static const struct counter counter_table[] = { TRADE_COUNTERS(ROW) };
static const struct counter_group counter_group = { counter_table, ARRAY_COUNT(counter_table) };

#define REFUSED_ROW(verdict, name) { "risk.refused_" #name, &trade.refused[RISK_##verdict] },
static const struct counter refused_table[] = { RISK_LIMITS(REFUSED_ROW) };
static const struct counter_group refused_group = { refused_table, ARRAY_COUNT(refused_table) };

#define SWITCH_ROW(name) COUNTER("pool.trade_", trade.switches, name),
static const struct counter switch_table[] = { SWITCHES(SWITCH_ROW) };
static const struct counter_group switch_group = { switch_table, ARRAY_COUNT(switch_table) };

/* The reasons of rehearsal.refused_program. */
static struct {
    uint64_t unarmed; /* no session, or orders are held back */
    uint64_t feed;    /* the feed is not current, or messages wait */
    uint64_t book;    /* no symbol has a price, or no book has room */
    uint64_t order;   /* a limit refused the order, or it could not leave */
} unrehearsed;
static const struct counter unrehearsed_table[] = {
    COUNTER("rehearsal.refused_", unrehearsed, unarmed),
    COUNTER("rehearsal.refused_", unrehearsed, feed),
    COUNTER("rehearsal.refused_", unrehearsed, book),
    COUNTER("rehearsal.refused_", unrehearsed, order),
};
static const struct counter_group unrehearsed_group = { unrehearsed_table, ARRAY_COUNT(unrehearsed_table) };

static struct histogram tick_to_order;
static struct counter shown_table[SHOWN_COUNT_MAX * SHOWN_VALUE_COUNT];
static struct counter_group shown_group = { shown_table, 0 };

/* Returns the profit of a symbol since the session began, in units of 0.0001: cash, and the position at the last price
 * that was heard. A snapshot or a broken trade may have taken that price out of the book. Shares that were held before
 * count from the first price on. Without any price shares have no value, and there is no profit. No product or sum
 * exceeds 63 bits: a price has 31, a position is cut to 30, and cash has 61. */
static int64_t profit_of(uint32_t symbol)
{
    const struct ouch_symbol *own = ouch_symbol(symbol);
    const int64_t price = book_top(symbol)->last_price, held_max = INT64_C(1) << 30;
    struct value *v = &trade.values[symbol];
    ASSERT(symbol < trade_settings.symbol_count);
    if (price != 0)
        v->last_price = price;
    if (v->first_price == 0)
        v->first_price = price;
    if (v->first_price == 0 && (own->position != 0 || v->shares != 0))
        return 0;
    const int64_t held = own->position > held_max ? held_max : own->position < -held_max ? -held_max : own->position;
    return own->cash + held * v->last_price - v->shares * v->first_price;
}

/* Returns the sum over all symbols, 2^61 at most. */
static int64_t profit_of_day(void)
{
    const int64_t most = INT64_C(1) << 61;
    int64_t sum = 0;
    for (uint32_t i = 0; i < trade_settings.symbol_count; i++) {
        sum += profit_of(i);
        sum = sum > most ? most : sum < -most ? -most : sum;
    }
    ASSERT(sum >= -most && sum <= most);
    return sum;
}

/* Copies the best prices, the position and the open shares of the first symbols to where the page reads them. */
static void show(void)
{
    ASSERT(trade_settings.symbol_count > 0);
    for (uint32_t i = 0; i < min_u32(trade_settings.symbol_count, SHOWN_COUNT_MAX); i++) {
        const struct book_top *top = book_top(i);
        const struct ouch_symbol *own = ouch_symbol(i);
        const uint64_t values[SHOWN_VALUE_COUNT] = {
            top->price[BOOK_BUY],
            top->price[BOOK_SELL],
            top->last_price,
            own->position > 0 ? (uint64_t)own->position : 0,
            own->position < 0 ? (uint64_t)-own->position : 0,
            own->open_shares[BOOK_BUY],
            own->open_shares[BOOK_SELL],
        };
        memcpy(trade.shown[i].values, values, sizeof values);
    }
    trade.switches.stopped = trade.stopped;
    trade.switches.feed_current = trade.feed_heard && mold_is_current();
    trade.switches.session_ready = ouch_is_ready();
    trade.switches.market_open = book_market_is_open() && !ouch_day_is_over();
    const int64_t profit = profit_of_day();
    trade.switches.profit = profit > 0 ? (uint64_t)profit : 0;
    trade.switches.loss = profit < 0 ? (uint64_t)-profit : 0;
}

static void register_shown(void)
{
    static const char *const values[SHOWN_VALUE_COUNT] = { "bid",   "ask",      "last",     "long",
                                                           "short", "open_buy", "open_sell" };
    shown_group.count = 0;
    for (uint32_t i = 0; i < min_u32(trade_settings.symbol_count, SHOWN_COUNT_MAX); i++)
        for (uint32_t k = 0; k < SHOWN_VALUE_COUNT; k++) {
            char *name = trade.shown[i].names[k];
            int bytes = ITCH_STOCK_BYTES;
            while (trade_settings.symbols[i][bytes - 1] == ' ')
                bytes--;
            format(name, SHOWN_NAME_BYTES, "market.%.*s.%s", bytes, (const char *)trade_settings.symbols[i], values[k]);
            shown_table[shown_group.count++] = (struct counter){ name, &trade.shown[i].values[k] };
        }
    ASSERT(shown_group.count <= ARRAY_COUNT(shown_table));
}

static const struct counter_group *const watched_groups[] = { &book_counter_group, &mold_counter_group,
                                                              &soup_counter_group, &ouch_counter_group,
                                                              &counter_group,      &refused_group };

static void register_statistics(void)
{
    histogram_clear(&tick_to_order);
    stats_add_histogram("trade.tick_to_order", &tick_to_order);
    register_shown();
    for (size_t i = 0; i < ARRAY_COUNT(watched_groups); i++)
        stats_add_counters(watched_groups[i]);
    stats_add_counters(&book_level_group);
    stats_add_counters(&ouch_level_group);
    stats_add_counters(&switch_group);
    stats_add_counters(&unrehearsed_group);
    stats_add_counters(&shown_group);
    stats_set_ways("seen_to_decided_ns decided_to_published_ns published_to_kicked_ns");
    trace.fine = true;
}

/* Logs each thing that should not happen once, when it has happened first. */
static void say_once(void)
{
    static const char *const words[] = { "drop_", "refused_", "new_sessions", "backwards", "broken", "lost" };
    bool *said = trade.said;
    for (size_t i = 0; i < ARRAY_COUNT(watched_groups); i++)
        for (size_t k = 0; k < watched_groups[i]->count; k++, said++) {
            const struct counter *c = &watched_groups[i]->counters[k];
            ASSERT(said < trade.said + COUNTER_SAID_COUNT_MAX);
            for (size_t word = 0; *c->value != 0 && !*said && word < ARRAY_COUNT(words); word++)
                if (strstr(c->name, words[word]) != NULL)
                    log_line("trade: %s has risen to %llu; from now on it is counted and not logged", c->name,
                             (unsigned long long)*c->value);
            *said = *c->value != 0;
        }
}

/* ---- the start ---- */

/* Returns true if orders may leave, as far as that changes seldom. risk_check decides again before each. */
HOT static inline bool is_armed(void)
{
    return trade.strategy != NULL && !trade.stopped && trade.feed_heard && !trade.cancel_all
           && trade.verdict == PROGRAM_ON && link_is_up(&trade.orders) && ouch_is_ready() && ouch_is_sure();
}

/* Returns a bit for each symbol. */
static uint64_t all_symbols(void) { return UINT64_MAX >> (BOOK_SYMBOL_COUNT_MAX - trade_settings.symbol_count); }

/* Holds all orders back and cancels those that are open, until an operator starts again. */
NOT_HOT static void stop(const char *by)
{
    log_line("trade: stopped: %s", by);
    trade.stopped = true;
    trade.cancel_all = true;
}

/* Stops at the limits that a single order does not break: the day's loss, and orders that are rejected. */
NOT_HOT static void watch_limits(void)
{
    ASSERT(trade_settings.rejects_max > 0);
    if (trade.stopped)
        return;
    const int64_t profit = profit_of_day();
    if (profit <= -(int64_t)trade_settings.loss_max) {
        trade.counters.stops_loss++;
        stop("the day's loss has reached risk.loss=");
    } else if (ouch_levels.rejects >= trade_settings.rejects_max) {
        trade.counters.stops_rejects++;
        stop("as many orders as risk.rejects= says were rejected");
    }
}

const char *trade_set(struct bytes word)
{
    const char *refusal = NULL;
    ASSERT(word.data != NULL || word.count == 0);
    if (text_is(word, "stop")) {
        stop("the operator has said so");
    } else if (text_is(word, "start")) {
        log_line("trade: started by the operator");
        trade.stopped = false;
        ouch_forget_rejects();
        watch_limits();
        refusal = trade.stopped ? "the day's loss has reached risk.loss=" : NULL;
    } else {
        return "the words that the running program takes are stop and start";
    }
    show();
    return refusal;
}

static bool rehearse(uint64_t now_ns);
static bool warm_up(uint64_t now_ns);

const char *trade_init(const struct program_machine *machine, uint64_t now_ns)
{
    static strategy *const strategies[] = {
        [TRADE_WATCH] = NULL, [TRADE_TAKE] = strategy_take, [TRADE_JOIN] = strategy_join
    };
    const struct trade_settings *s = &trade_settings;
    ASSERT(machine->tsc_khz > 0 && machine->now_ns != NULL && s->strategy < ARRAY_COUNT(strategies));
    memset(&trade, 0, sizeof trade);
    memset(&unrehearsed, 0, sizeof unrehearsed);
    trade.strategy = strategies[s->strategy];
    trade.dirty = all_symbols();
    trade.clock_ns = machine->now_ns;
    trade.ns_per_cycle_32 = (NS_PER_MS << 32) / machine->tsc_khz;
    trade.next_poll_ns = trade.turn_ends_ns = now_ns;
    memcpy(trade.names, s->symbols, s->symbol_count * sizeof s->symbols[0]);
    book_init(s->symbols, s->symbol_count, s->order_count_max, load_le64(machine->secret));
    mold_init(s->gap_wait_ns);
    ouch_init(s->symbols, s->symbol_count);
    for (uint32_t i = 0; i < s->position_count; i++) {
        trade.values[s->positions[i].at].shares = s->positions[i].shares;
        ouch_set_position(s->positions[i].at, s->positions[i].shares);
    }
    memcpy(trade.source, s->source, sizeof trade.source);
    memset(&soup_counters, 0, sizeof soup_counters);
    link_init(&trade.orders, "orders", &s->orders, s->user, s->password);
    link_init(&trade.snapshot, "snapshot", &s->snapshot, s->user, s->password);
    trade.orders.wanted = true;
    trade.snapshot_wait_s = 1;
    register_statistics();
    control_on_set(trade_set);
    rehearsal_add_frame(TRANSPORT_REHEARSAL_SEGMENT, s->orders.port, (struct bytes){ NULL, 0 }, rehearse);
    rehearsal_add_work(warm_up);
    for (uint32_t line = 0; line < 2; line++) {
        const struct endpoint *feed = &s->feed[line];
        bool bound = line > 0 && feed->port == s->feed[0].port;
        if (feed->port != 0 && !bound && !transport_udp_bind(feed->port))
            return "feed.a=, feed.b=: this port cannot be had";
        if (feed->address != 0 && !transport_udp_join(feed->address))
            return "feed.a=, feed.b=: this group cannot be joined";
    }
    if (s->rerequest.address != 0 && !transport_udp_bind(s->rerequest_port))
        return "rerequest.port=: this port cannot be had";
    return NULL;
}

/* ---- orders ---- */

/* Writes the next order as far as it is known into the message area, ahead of time. */
NOT_HOT static void prepare(void)
{
    struct link *link = &trade.orders;
    ASSERT(link->prepared == NULL || link->connection >= 0);
    if (link->prepared != NULL || !link_is_up(link) || !ouch_is_ready())
        return;
    uint8_t *area = transport_message(link->connection);
    if (area == NULL)
        return;
    soup_head(area, OUCH_ENTER_BYTES);
    ouch_write_template(area + SOUP_HEAD_BYTES);
    transport_message_prepare(link->connection, 0, SOUP_HEAD_BYTES + OUCH_ENTER_FIXED_BYTES);
    link->prepared = area;
}

/* Fills the prepared order in and sends it. */
HOT static bool enter(uint32_t symbol, enum book_side side, const struct strategy_order *order, bool short_sale,
                      uint64_t now_ns)
{
    struct link *link = &trade.orders;
    if (__builtin_expect(link->prepared == NULL, 0))
        prepare();
    if (__builtin_expect(link->prepared == NULL, 0))
        return false;
    ouch_fill(link->prepared + SOUP_HEAD_BYTES, trade.names[symbol], side, short_sale, order->shares, order->price,
              order->immediate);
    if (!transport_send(link->connection, 0, SOUP_HEAD_BYTES + OUCH_ENTER_BYTES, now_ns))
        return false;
    link->prepared = NULL;
    return true;
}

NOT_HOT static bool replace(const struct ouch_order *own, const struct strategy_order *order, uint64_t now_ns)
{
    uint8_t message[OUCH_REPLACE_BYTES];
    if (trade.rehearses)
        return false;
    ASSERT(own->state == OUCH_OPEN);
    ouch_write_replace(message, own, order->shares, order->price);
    return link_send(&trade.orders, message, sizeof message, now_ns);
}

NOT_HOT static bool cancel(const struct ouch_order *own, uint64_t now_ns)
{
    uint8_t message[OUCH_CANCEL_BYTES];
    if (trade.rehearses)
        return false;
    ASSERT(!own->cancelling);
    ouch_write_cancel(message, own);
    if (!link_send(&trade.orders, message, sizeof message, now_ns))
        return false;
    ouch_cancelled(own->reference);
    return true;
}

/* Counts an order that has left, and stamps it; off the path. */
NOT_HOT static void note_order(uint32_t symbol, enum book_side side, const struct strategy_order *order,
                               const struct ouch_order *own, uint64_t now_ns)
{
    static const char *const sides[] = { "buy", "sell" };
    ASSERT(symbol < trade_settings.symbol_count);
    if (trade.rehearses)
        return;
    uint64_t total_ns, stage_ns[SLOWEST_STAGE_COUNT];
    trace_way(trade.ns_per_cycle_32, &total_ns, stage_ns);
    if (total_ns != 0)
        histogram_add(&tick_to_order, total_ns);
    slow_note(total_ns, stage_ns, now_ns);
    trace.fine = trade.counters.orders++ % TRACE_FINE_EACH == 0;
    trade.rate_ns[trade.rate_next] = now_ns;
    if (++trade.rate_next == trade_settings.risk.rate_max)
        trade.rate_next = 0;
    if (own != NULL) {
        uint32_t *const next = &trade.replaces[symbol].next;
        trade.replaces[symbol].ns[*next] = now_ns;
        *next = (*next + 1) % trade_settings.risk.replaces_max;
    }
    trade.sells_first = (trade.sells_first & ~BIT(symbol)) | (side == BOOK_BUY ? BIT(symbol) : 0);
    soup_sent(&trade.orders.soup, now_ns);
    log_line("trade: %s %s %u %.8s at %u.%04u", own != NULL ? "replaced:" : "entered:", sides[side], order->shares,
             (const char *)trade_settings.symbols[symbol], order->price / ITCH_PRICE_UNIT,
             order->price % ITCH_PRICE_UNIT);
    if (own != NULL)
        ouch_replaced(own->reference, order->shares, order->price);
    else
        ouch_entered(symbol, side, order->shares, order->price, order->immediate);
}

/* Sends what the strategy wants if no limit forbids it: all orders leave here. Returns true if the strategy is to look
 * again; false: it was refused. */
HOT static bool place(uint32_t symbol, enum book_side side, const struct strategy_order *order, uint64_t now_ns)
{
    const struct ouch_symbol *own = ouch_symbol(symbol);
    const struct book_top *top = book_top(symbol);
    const struct ouch_order *newest = order->kind == STRATEGY_ENTER ? NULL : &own->own[side];
    if (order->kind == STRATEGY_CANCEL) {
        cancel(newest, now_ns);
        return true;
    }
    const struct risk_state state = {
        .stopped = trade.stopped,
        .feed_current = trade.feed_heard && mold_is_current(),
        .book_whole = book_is_whole(),
        .market_open = book_market_is_open() && !ouch_day_is_over(),
        .symbol_trading = top->trading,
        .session_ready = link_is_up(&trade.orders) && ouch_is_ready(),
        .position_sure = ouch_is_sure(),
        .last_price = top->last_price,
        .best = { top->price[BOOK_BUY], top->price[BOOK_SELL] },
        .position = own->position,
        .open_shares = { own->open_shares[BOOK_BUY], own->open_shares[BOOK_SELL] },
        .nearest = { own->nearest[BOOK_BUY], own->nearest[BOOK_SELL] },
        .open_count = ouch_levels.open,
        .day_orders = ouch_levels.next_reference - 1, /* each took one, and so did those of earlier runs */
        .day_shares = ouch_counters.shares_ordered,
        .now_ns = now_ns,
        .rate_ns = trade.rate_ns[trade.rate_next],
        .replaces_ns = newest != NULL ? trade.replaces[symbol].ns[trade.replaces[symbol].next] : 0,
    };
    const struct risk_order asked = { side, order->price, order->shares, newest != NULL ? newest->open_shares : 0 };
    enum risk_verdict verdict = risk_check(&trade_settings.risk, &state, &asked);
    if (__builtin_expect(verdict != RISK_PASSED, 0)) {
        trade.refused[verdict]++;
        return false;
    }
    trace_stamp_fine(TRACE_MATCHED);
    bool short_sale = side == BOOK_SELL && own->position < (int64_t)(own->open_shares[BOOK_SELL] + order->shares);
    bool sent = newest == NULL ? enter(symbol, side, order, short_sale, now_ns) : replace(newest, order, now_ns);
    if (sent)
        note_order(symbol, side, order, newest, now_ns);
    else
        trade.counters.waited++;
    return true;
}

/* Lets the strategy look at a symbol. Orders follow from the present alone: if messages of the feed are missing or have
 * come late, the strategy looks when all are there. An order that is refused does not keep the other side waiting, and
 * the side that has ordered last is asked last. */
HOT static inline void consider(uint32_t symbol, uint64_t now_ns)
{
    struct strategy_order order;
    trade.dirty |= BIT(symbol);
    if (!is_armed() || !mold_is_current())
        return;
    trade.dirty &= ~BIT(symbol);
    enum book_side side = trade.sells_first & BIT(symbol) ? BOOK_SELL : BOOK_BUY;
    for (uint32_t asked = 0; asked < BOOK_SIDE_COUNT; asked++, side = book_other(side))
        if (trade.strategy(&trade_settings.trading, book_top(symbol), ouch_symbol(symbol), side, &order)
            && place(symbol, side, &order, now_ns)) {
            trade.dirty |= BIT(symbol);
            return;
        }
}

/* Asks to cancel all live orders, as many as can leave now. Nothing is ordered until none is left: a cancellation that
 * the exchange rejects is asked for again. */
NOT_HOT static void cancel_all(uint64_t now_ns)
{
    uint32_t at = 0;
    const struct ouch_order *o;
    ASSERT(trade.cancel_all);
    if (!link_is_up(&trade.orders) || !ouch_is_ready())
        return;
    while ((o = ouch_next_live(&at)) != NULL)
        if (!cancel(o, now_ns))
            return;
    trade.cancel_all = ouch_levels.open > 0;
}

/* ---- the feed ---- */

static inline bool turn_is_over(void) { return trade.clock_ns() >= trade.turn_ends_ns; }

/* Takes the messages that are due, and stored ones while there is time. */
HOT static void take_messages(uint64_t now_ns)
{
    struct bytes message;
    ASSERT(trade.turn_ends_ns > 0);
    do {
        while (mold_next(&message)) {
            for (struct bytes later; mold_ahead(&later);)
                book_fetch(later);
            int symbol = book_take(message);
            if (symbol >= 0)
                consider((uint32_t)symbol, now_ns);
        }
    } while (__builtin_expect(mold_has_backlog(), 0) && !turn_is_over() && mold_advance());
}

HOT static inline void take_feed(enum mold_line line, struct bytes datagram, uint64_t now_ns)
{
    trade.counters.ticks++;
    if (mold_take(line, datagram, now_ns))
        take_messages(now_ns);
}

/* ---- rehearsals: app/service/rehearsal.h ---- */

/* Plays a datagram that adds a share below the best ask of the next symbol that has one, and the order of one share
 * that follows at any price. If none follows, an order of its own is sent. The order leaves over the rehearsal's
 * connection. All that changes is put back. */
NOT_HOT static bool rehearse(uint64_t now_ns)
{
    enum { HEAD_BYTES = MOLD_HEADER_BYTES + MOLD_LENGTH_BYTES };
    uint8_t datagram[HEAD_BYTES + ITCH_ADD_BYTES], deletion[ITCH_DELETE_BYTES];
    struct transport_event event;
    ASSERT(!trade.rehearses);
    bool found = false;
    for (uint32_t i = 0; i < trade_settings.symbol_count && !found; i++) {
        trade.rehearsed = (trade.rehearsed + 1) % trade_settings.symbol_count;
        found = book_rehearsal(trade.rehearsed, datagram + HEAD_BYTES, deletion);
    }
    const uint32_t symbol = trade.rehearsed;
    ASSERT(symbol < trade_settings.symbol_count);
    uint64_t *const reason = !is_armed()                                ? &unrehearsed.unarmed
                             : !mold_is_current() || mold_has_backlog() ? &unrehearsed.feed
                             : !found                                   ? &unrehearsed.book
                                                                        : NULL;
    if (reason != NULL)
        ++*reason;
    if (reason != NULL || !transport_poll(now_ns, &event))
        return false;
    const struct trace stamps = trace;
    const struct strategy_settings trading = trade_settings.trading;
    const struct trade_counters counters = trade.counters;
    const struct book_counters of_book = book_counters;
    const uint64_t dirty = trade.dirty;
    const int connection = trade.orders.connection;
    uint8_t *const prepared = trade.orders.prepared;
    uint64_t refused[RISK_VERDICT_COUNT];
    memcpy(refused, trade.refused, sizeof refused);

    trade.rehearses = true;
    trade.orders.connection = event.connection;
    trade.orders.prepared = NULL;
    trade_settings.trading.shares = 1;
    trade_settings.trading.buy_at = UINT32_MAX;
    prepare();
    const bool was_prepared = trade.orders.prepared != NULL;
    mold_rehearsal_begin(datagram, 1);
    store_be16(datagram + MOLD_HEADER_BYTES, ITCH_ADD_BYTES);
    if (mold_take(MOLD_A, (struct bytes){ datagram, sizeof datagram }, now_ns)) {
        take_messages(now_ns);
        book_take((struct bytes){ deletion, sizeof deletion });
    }
    mold_rehearsal_end();
    const enum book_side side = ouch_symbol(symbol)->position > 0 ? BOOK_SELL : BOOK_BUY;
    if (trade.orders.prepared != NULL)
        place(symbol, side, &(struct strategy_order){ STRATEGY_ENTER, book_top(symbol)->last_price, 1, true }, now_ns);

    const bool ordered = was_prepared && trade.orders.prepared == NULL;
    unrehearsed.order += !ordered;
    trade.rehearses = false;
    trade.orders.connection = connection;
    trade.orders.prepared = prepared;
    trade_settings.trading = trading;
    trade.dirty = dirty;
    trade.counters = counters;
    book_counters = of_book;
    memcpy(trade.refused, refused, sizeof refused);
    trace = stamps;
    return ordered;
}

NOT_HOT static bool warm_up(uint64_t now_ns)
{
    (void)now_ns;
    ASSERT(!trade.rehearses);
    mold_warm();
    book_warm();
    ouch_warm();
    hot_fetch(&trade, offsetof(struct trade, rate_ns));
    hot_fetch(trade_settings.feed, sizeof trade_settings.feed);
    hot_fetch(&trade_settings.trading, sizeof trade_settings.trading + sizeof trade_settings.risk);
    return true;
}

/* ---- snapshots ---- */

/* Ends a snapshot at the feed's message with which the books go on. After a malformed end it is loaded again. */
static void snapshot_done(struct bytes end, uint64_t now_ns)
{
    uint64_t sequence;
    ASSERT(trade.snapshot.wanted && mold_is_lost());
    trade.snapshot.wanted = false;
    if (end.count != SNAPSHOT_END_BYTES
        || !soup_read_number((struct bytes){ end.data + 1, SOUP_SEQUENCE_BYTES }, &sequence)) {
        trade.counters.drop_snapshot++;
        return;
    }
    trade.counters.snapshots++;
    trade.doubted = false;
    mold_resume(sequence, now_ns);
    log_line("trade: the books have been rebuilt from a snapshot; the feed goes on at message %llu",
             (unsigned long long)sequence);
}

static void take_snapshot(uint64_t now_ns)
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

/* Returns true if the books are to be forgotten: a gap cannot be filled, and no snapshot is being loaded. */
static bool is_clearing(uint64_t now_ns)
{
    return mold_is_lost() && trade_settings.snapshot.address != 0 && !trade.snapshot.wanted
           && trade.snapshot.connection < 0 && now_ns >= trade.snapshot_due_ns;
}

/* Holds the feed when a message has contradicted the books, so that a snapshot rebuilds them. */
static void watch_books(void)
{
    ASSERT(trade.snapshot_wait_s >= 1);
    if (book_is_whole() || mold_is_lost() || mold_has_backlog() || trade_settings.snapshot.address == 0)
        return;
    mold_hold();
    trade.doubted = true;
}

/* Rebuilds the books when the feed has a gap that cannot be filled: forgets them, then loads a snapshot. The pauses
 * between two loads double up to a minute, until the books have been whole for that time. */
static void poll_snapshot(uint64_t now_ns)
{
    struct link *link = &trade.snapshot;
    ASSERT(!link->wanted || mold_is_lost());
    if (link->wanted && link->connection < 0 && link->since_ns != 0)
        link->wanted = false; /* the connection broke: what it brought is not whole */
    if (!is_clearing(now_ns) || !book_clear_slice())
        return;
    if (now_ns - trade.snapshot_due_ns > SNAPSHOT_WAIT_S_MAX * NS_PER_S)
        trade.snapshot_wait_s = 1;
    trade.snapshot_due_ns = now_ns + trade.snapshot_wait_s * NS_PER_S;
    trade.snapshot_wait_s = min_u64(2 * trade.snapshot_wait_s, SNAPSHOT_WAIT_S_MAX);
    soup_forget(&link->soup);
    link->wanted = true;
    link->since_ns = 0;
}

/* ---- the orders' session ---- */

static void take_responses(uint64_t now_ns)
{
    struct bytes message;
    enum soup_event event;
    while ((event = link_next(&trade.orders, &message, now_ns)) != SOUP_NOTHING) {
        if (event == SOUP_MESSAGE) {
            int symbol = ouch_take(message, now_ns);
            if (symbol >= 0)
                trade.dirty |= BIT((uint32_t)symbol);
            watch_limits();
            continue;
        }
        ouch_logged_in(event == SOUP_NEW_SESSION);
        trade.query_due = true;
        trade.cancel_all |= (trade_settings.cancel_on_loss || trade.stopped) && ouch_levels.open > 0;
    }
}

/* Asks for the next reference after a login, and notes when all is known. After a start the exchange repeats the whole
 * day, old answers to queries among it, and a pause on the way is no end: only the server's heartbeat shows that. */
static void poll_session(uint64_t now_ns)
{
    static const uint8_t query = 'Q';
    ASSERT(!ouch_is_ready() || trade.settled);
    if (trade.query_due && link_send(&trade.orders, &query, 1, now_ns))
        trade.query_due = false;
    bool all_came = trade.settled || trade.orders.soup.idle;
    if (!ouch_is_ready() && link_is_up(&trade.orders) && all_came && ouch_settle(now_ns)) {
        trade.settled = true;
        log_line("orders: ready, %llu open, next reference %llu", (unsigned long long)ouch_levels.open,
                 (unsigned long long)ouch_levels.next_reference);
    }
}

/* ---- events ---- */

NOT_HOT static void take_other_event(const struct transport_event *event, uint64_t now_ns)
{
    const struct trade_settings *s = &trade_settings;
    const bool is_datagram = event->kind == TRANSPORT_DATAGRAM;
    if (is_datagram && event->port == s->rerequest_port && s->rerequest.address != 0) {
        if (event->address == s->rerequest.address && event->peer_port == s->rerequest.port)
            take_feed(MOLD_REREQUEST, event->payload, now_ns);
        else
            trade.counters.drop_stranger++;
    } else if (!is_datagram && event->connection == trade.orders.connection) {
        link_event(&trade.orders, event, now_ns);
        take_responses(now_ns);
    } else if (!is_datagram && event->connection == trade.snapshot.connection) {
        link_event(&trade.snapshot, event, now_ns);
        take_snapshot(now_ns);
    } else {
        service_event(event, now_ns);
    }
}

/* Returns true for a datagram to the line's port and group, or to our own address if the line has no group. */
static inline bool is_of_line(const struct transport_event *event, enum mold_line line)
{
    const struct endpoint *feed = &trade_settings.feed[line];
    const uint32_t group = event->to_address >> 28 == 0xe ? event->to_address : 0; /* RFC 1112 §4 */
    return event->kind == TRANSPORT_DATAGRAM && event->port == feed->port && group == feed->address;
}

/* Takes a datagram of a host that is not known as the line's source. The first host that is heard becomes the source if
 * the settings name none: if the datagram is one of the session. */
NOT_HOT static void take_source(enum mold_line line, const struct transport_event *event, uint64_t now_ns)
{
    static const char letters[] = "ab";
    if (trade.source[line] != 0) {
        trade.counters.drop_source++;
        return;
    }
    ASSERT(line <= MOLD_B);
    const uint64_t dropped = mold_counters.drop_session + mold_counters.drop_length + mold_counters.drop_sequence;
    take_feed(line, event->payload, now_ns);
    if (mold_counters.drop_session + mold_counters.drop_length + mold_counters.drop_sequence != dropped)
        return;
    trade.source[line] = event->address;
    log_line("trade: line %c comes from %pI4h", letters[line], &event->address);
}

HOT static inline void take_line(enum mold_line line, const struct transport_event *event, uint64_t now_ns)
{
    if (__builtin_expect(event->address != trade.source[line], 0))
        take_source(line, event, now_ns);
    else
        take_feed(line, event->payload, now_ns);
}

HOT static inline void take_event(const struct transport_event *event, uint64_t now_ns)
{
    trade.counters.events++;
    if (is_of_line(event, MOLD_A))
        take_line(MOLD_A, event, now_ns);
    else if (is_of_line(event, MOLD_B))
        take_line(MOLD_B, event, now_ns);
    else
        take_other_event(event, now_ns);
}

/* ---- timers ---- */

/* Notes what keeps the strategy from looking after its orders, and cancels them. */
NOT_HOT static void watch(uint64_t now_ns)
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

void trade_check(void)
{
    mold_check();
    ouch_check();
    link_check(&trade.orders);
    link_check(&trade.snapshot);
    ASSERT(trade.rate_next < trade_settings.risk.rate_max);
}

NOT_HOT static void poll_timers(uint64_t now_ns)
{
    trade.next_poll_ns = now_ns + POLL_NS;
    trace_work(TRACE_WORK_TIMERS);
    link_poll(&trade.orders, now_ns);
    link_poll(&trade.snapshot, now_ns);
    poll_session(now_ns);
    watch_books();
    watch(now_ns);
    watch_limits();
    if (now_ns >= trade.next_reconsider_ns) {
        trade.next_reconsider_ns = now_ns + RECONSIDER_NS;
        ouch_retry_cancels();
        trade.dirty = all_symbols();
    }
    show();
    say_once();
    trade_check();
}

/* Asks the rerequest server for the messages that are missing. */
static void rerequest(uint64_t now_ns)
{
    uint8_t request[MOLD_HEADER_BYTES];
    const struct endpoint *to = &trade_settings.rerequest;
    uint32_t bytes = mold_request(now_ns, request);
    if (bytes > 0 && to->address != 0)
        transport_udp_send(trade_settings.rerequest_port, to->address, to->port, request, bytes, now_ns);
}

/* Logs each order that stays open when the program ends: somebody has to look after it. */
NOT_HOT static void log_left_open(void)
{
    uint32_t at = 0;
    const struct ouch_order *o;
    while ((o = ouch_next_open(&at)) != NULL) {
        ASSERT(o->symbol < trade_settings.symbol_count);
        log_line("trade: order %u stays open: %s %u %.8s at %u.%04u", o->reference,
                 o->side == BOOK_BUY ? "buy" : "sell", o->open_shares, (const char *)trade_settings.symbols[o->symbol],
                 o->price / ITCH_PRICE_UNIT, o->price % ITCH_PRICE_UNIT);
    }
}

/* Cancels all orders on the way home, and waits a little for the exchange to say so: a lost session may come back. */
NOT_HOT static enum program_verdict leave(enum program_verdict verdict, uint64_t now_ns)
{
    ASSERT(verdict != PROGRAM_ON);
    if (trade.verdict == PROGRAM_ON) {
        trade.verdict = verdict;
        trade.leaving_ns = now_ns;
        trade.cancel_all = trade_settings.cancel_on_exit && ouch_levels.open > 0;
        log_line("trade: leaving with %llu open orders", (unsigned long long)ouch_levels.open);
    }
    show(); /* the last responses may have moved the positions */
    bool waits = trade_settings.cancel_on_exit && ouch_levels.open > 0;
    if (waits && now_ns - trade.leaving_ns < LEAVE_S * NS_PER_S)
        return PROGRAM_ON;
    log_left_open();
    return verdict;
}

/* ---- turns ---- */

/* Lets the strategy look at the symbols that it could not look at before, until the turn is over. */
NOT_HOT static void consider_more(uint64_t now_ns)
{
    ASSERT(is_armed());
    for (uint32_t symbol = 0; symbol < trade_settings.symbol_count && !turn_is_over(); symbol++)
        if (trade.dirty & BIT(symbol))
            consider(symbol, now_ns);
}

__attribute__((noinline)) static enum program_verdict idle_turn(unsigned events, uint64_t now_ns)
{
    trade.counters.turns++;
    if (mold_has_backlog() && mold_advance()) /* at least one datagram a turn, however much the events have taken */
        take_messages(now_ns);
    rerequest(now_ns);
    if (trade.cancel_all)
        cancel_all(now_ns);
    if (trade.dirty != 0 && is_armed())
        consider_more(now_ns);
    prepare();
    poll_snapshot(now_ns);
    enum program_verdict verdict = service_poll(events == 0, now_ns);
    if (now_ns >= trade.next_poll_ns)
        poll_timers(now_ns);
    transport_idle(now_ns);
    return verdict != PROGRAM_ON ? leave(verdict, now_ns) : PROGRAM_ON;
}

/* Begins to catch up with the feed after a pause of the machine. The frames that waited, here and at the host, are as
 * old as the pause, and those that found no room are lost. Nothing is ordered before a later datagram, which shows
 * whether any is missing. */
NOT_HOT static void catch_up(uint64_t now_ns)
{
    trade.caught_up_ns = now_ns + CATCH_UP_NS;
    watch(now_ns);
    trade.next_poll_ns = now_ns + POLL_NS;
}

HOT enum program_verdict trade_turn(uint64_t now_ns)
{
    struct transport_event event;
    unsigned events = 0;
    if (__builtin_expect(now_ns > trade.turn_ends_ns + trade_settings.feed_timeout_ns, 0))
        catch_up(now_ns);
    trade.turn_ends_ns = now_ns + TURN_NS;
    while (transport_poll(now_ns, &event)) {
        take_event(&event, now_ns);
        if (++events == EVENTS_PER_TURN_MAX || turn_is_over())
            break;
    }
    return idle_turn(events, now_ns);
}

uint64_t trade_next_deadline_ns(uint64_t now_ns)
{
    bool works = mold_has_backlog() || is_clearing(now_ns) || (trade.dirty != 0 && is_armed() && mold_is_current());
    if (works)
        return now_ns;
    return min_ns(min_ns(service_next_deadline_ns(now_ns), mold_next_deadline_ns()), trade.next_poll_ns);
}
