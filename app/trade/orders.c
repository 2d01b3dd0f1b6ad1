#include "app/trade/parts.h"

#include <assert.h>
#include <string.h>

#include "app/service/slow.h"
#include "base/assert.h"
#include "base/format.h"
#include "base/log.h"
#include "base/trace.h"
#include "net/transport_path.h"

static_assert((int)RISK_OPEN_MAX < (int)OUCH_ORDER_COUNT_MAX, "an order that risk.open= permits finds a place");

/* For a host's answer, if there is another one: to a cancellation; to the account query, or from response to response
 * while the day is repeated before it. */
#define CANCELLATION_NS NS_PER_S
#define QUERY_NS        (3 * NS_PER_S)

struct strategy_view orders_views[BOOK_SYMBOL_COUNT_MAX];

void orders_begin(void)
{
    static _Alignas(64) uint8_t states[BOOK_SYMBOL_COUNT_MAX][STRATEGY_STATE_BYTES_MAX];
    const struct strategy *strategy = trade_strategy();
    memset(states, 0, sizeof states);
    for (uint32_t i = 0; i < trade_settings.symbol_count; i++)
        orders_views[i] = (struct strategy_view){ .top = book_top(i),
                                                  .own = ouch_symbol(i),
                                                  .state = states[i],
                                                  .shares = trade_settings.shares,
                                                  .position_max = trade_settings.risk.position_max,
                                                  .symbol = i };
    if (strategy == NULL)
        return;
    ASSERT(strategy->decide != NULL && strategy->state_bytes <= STRATEGY_STATE_BYTES_MAX);
    trade.decide = strategy->decide;
    trade.observe = strategy->observe;
}

NOT_HOT void orders_wake(uint64_t now_ns)
{
    ASSERT(trade_settings.symbol_count <= BOOK_SYMBOL_COUNT_MAX);
    for (uint32_t i = 0; i < trade_settings.symbol_count; i++) {
        struct strategy_view *view = &orders_views[i];
        if (view->wake_ns == 0 || now_ns < view->wake_ns)
            continue;
        view->wake_ns = 0;
        trade.dirty |= BIT(i);
    }
}

NOT_HOT void orders_stop(const char *by)
{
    log_line("trade: stopped: %s", by);
    trade.stopped = true;
    trade.cancel_all = true;
}

NOT_HOT void orders_watch_limits(void)
{
    ASSERT(trade_settings.rejects_max > 0);
    if (trade.stopped)
        return;
    const int64_t profit = shown_profit_of_day();
    if (profit <= -(int64_t)trade_settings.loss_max) {
        trade.counters.stops_loss++;
        orders_stop("the day's loss has reached risk.loss=");
    } else if (ouch_levels.rejects >= trade_settings.rejects_max) {
        trade.counters.stops_rejects++;
        orders_stop("as many orders as risk.rejects= says were rejected");
    }
}

/* ---- an order ---- */

NOT_HOT void orders_prepare(void)
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
        orders_prepare();
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
    audit_cancel(own->next_reference != 0 ? own->next_reference : own->reference);
    ouch_cancelled(own->reference, now_ns);
    return true;
}

/* Counts an order that has left, and stamps it; off the path. */
NOT_HOT static void note_order(uint32_t symbol, enum book_side side, const struct strategy_order *order,
                               const struct ouch_order *own, uint64_t now_ns)
{
    ASSERT(symbol < trade_settings.symbol_count);
    if (trade.rehearses)
        return;
    uint64_t total_ns, stage_ns[SLOWEST_STAGE_COUNT];
    trace_way(trade.ns_per_cycle_32, &total_ns, stage_ns);
    if (total_ns != 0)
        histogram_add(&shown_tick_to_order, total_ns);
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
    audit_order(symbol, side, order, (uint32_t)ouch_levels.next_reference, own != NULL ? own->reference : 0);
    if (own != NULL)
        ouch_replaced(own->reference, order->shares, order->price);
    else
        ouch_entered(symbol, side, order->shares, order->price, order->immediate);
}

/* Sends an order if no limit forbids it: one that enters the market, or one in the place of the newest own order of its
 * side. Inlined for both cases. */
static inline __attribute__((always_inline)) bool place(uint32_t symbol, enum book_side side,
                                                        const struct strategy_order *order, bool enters,
                                                        uint64_t now_ns)
{
    const struct ouch_symbol *own = orders_views[symbol].own;
    const struct ouch_order *newest = enters ? NULL : &own->own[side];
    const struct risk_state state = {
        .stopped = trade.stopped,
        .feed_current = trade.feed_heard && mold_is_current(),
        .market_open = book_market_is_open() && !ouch_day_is_over(),
        .session_ready = link_is_up(&trade.orders) && ouch_is_ready(),
        .position_sure = ouch_is_sure(),
        .top = orders_views[symbol].top,
        .own = own,
        .open_count = ouch_levels.open,
        .day_orders = ouch_levels.next_reference - 1, /* each took one, and so did those of earlier runs */
        .day_shares = ouch_counters.shares_ordered,
        .now_ns = now_ns,
        .rate_ns = trade.rate_ns[trade.rate_next],
        .replaces_ns = enters ? 0 : trade.replaces[symbol].ns[trade.replaces[symbol].next],
    };
    const struct risk_order asked = { side, order->price, order->shares, enters ? 0 : newest->open_shares };
    enum risk_verdict verdict = risk_check(&trade_settings.risk, &state, &asked);
    if (__builtin_expect(verdict != RISK_PASSED, 0)) {
        trade.refused[verdict]++;
        return false;
    }
    trace_stamp_fine(TRACE_MATCHED);
    bool short_sale = side == BOOK_SELL && own->position < (int64_t)(own->open_shares[BOOK_SELL] + order->shares);
    bool sent = enters ? enter(symbol, side, order, short_sale, now_ns) : replace(newest, order, now_ns);
    if (sent)
        note_order(symbol, side, order, newest, now_ns);
    else
        trade.counters.waited++;
    return true;
}

/* Replaces or cancels the newest own order of a side. */
HOT __attribute__((noinline)) static bool change(uint32_t symbol, enum book_side side,
                                                 const struct strategy_order *order, uint64_t now_ns)
{
    ASSERT(order->kind != STRATEGY_ENTER);
    if (order->kind == STRATEGY_REPLACE)
        return place(symbol, side, order, false, now_ns);
    cancel(&orders_views[symbol].own->own[side], now_ns);
    return true;
}

HOT bool orders_place(uint32_t symbol, enum book_side side, const struct strategy_order *order, uint64_t now_ns)
{
    return order->kind == STRATEGY_ENTER ? place(symbol, side, order, true, now_ns)
                                         : change(symbol, side, order, now_ns);
}

HOT void orders_consider(uint32_t symbol, uint64_t now_ns)
{
    struct strategy_order order;
    trade.dirty |= BIT(symbol);
    if (!trade_is_armed() || !mold_is_current())
        return;
    trade.dirty &= ~BIT(symbol);
    if (__builtin_expect((trade.cancel_symbols & BIT(symbol)) != 0, 0))
        return; /* an end of its orders wakes the strategy */
    struct strategy_view *view = &orders_views[symbol];
    view->now_ns = now_ns;
    if (trade.observe != NULL)
        trade.observe(view);
    enum book_side side = trade.sells_first & BIT(symbol) ? BOOK_SELL : BOOK_BUY;
    for (uint32_t asked = 0; asked < BOOK_SIDE_COUNT; asked++, side = book_other(side))
        if (trade.decide(view, side, &order) && orders_place(symbol, side, &order, now_ns)) {
            trade.dirty |= BIT(symbol);
            return;
        }
}

NOT_HOT void orders_consider_more(uint64_t now_ns)
{
    ASSERT(trade_is_armed());
    for (uint32_t symbol = 0; symbol < trade_settings.symbol_count && !trade_turn_is_over(); symbol++)
        if (trade.dirty & BIT(symbol))
            orders_consider(symbol, now_ns);
}

NOT_HOT void orders_watch_host(uint64_t now_ns)
{
    ASSERT(now_ns >= trade.orders_heard_ns);
    if (trade_settings.orders[1].address == 0 || !link_is_up(&trade.orders))
        return;
    const uint64_t since_ns = ouch_levels.open == 0 ? UINT64_MAX : ouch_cancel_waits_since_ns();
    if (since_ns <= now_ns && now_ns - since_ns >= CANCELLATION_NS)
        link_leave(&trade.orders, "it does not answer a cancellation", now_ns);
    else if (!ouch_is_ready() && now_ns - trade.orders_heard_ns >= QUERY_NS)
        link_leave(&trade.orders, "it does not answer the account query", now_ns);
}

static bool is_foreign(const struct ouch_order *o) { return o->symbol == trade_settings.symbol_count; }

NOT_HOT void orders_cancel(uint64_t now_ns)
{
    uint32_t at = 0;
    const struct ouch_order *o;
    ASSERT(trade.cancel_all || trade.cancel_symbols != 0 || ouch_levels.foreign != 0);
    if (!link_is_up(&trade.orders) || !ouch_is_ready())
        return;
    while ((o = ouch_next_live(&at)) != NULL)
        if ((trade.cancel_all || is_foreign(o) || trade.cancel_symbols & BIT(o->symbol)) && !cancel(o, now_ns))
            return;
    trade.cancel_all = trade.cancel_all && ouch_levels.open > 0;
    for (uint32_t i = 0; i < trade_settings.symbol_count; i++)
        if (ouch_symbol(i)->open_shares[BOOK_BUY] + ouch_symbol(i)->open_shares[BOOK_SELL] == 0)
            trade.cancel_symbols &= ~BIT(i);
}

/* Writes an order and a phrase about it. Returns the bytes. */
static size_t write_order(char *text, size_t bytes, const struct ouch_order *o, const char *what)
{
    ASSERT(o->side < BOOK_SIDE_COUNT);
    return format(text, bytes, "order %u %s: %s %u %.8s at %u.%04u", o->reference, what,
                  o->side == BOOK_BUY ? "buy" : "sell", o->open_shares, (const char *)o->name,
                  o->price / ITCH_PRICE_UNIT, o->price % ITCH_PRICE_UNIT);
}

static void log_order(const struct ouch_order *o, const char *what)
{
    char text[128];
    write_order(text, sizeof text, o, what);
    log_line("trade: %s", text);
}

NOT_HOT const char *orders_leave(void)
{
    static char text[1100]; /* less than control.h's bound; more orders than fit are in the log */
    const struct ouch_order *o;
    size_t at = 0;
    ASSERT(ouch_levels.open <= OUCH_ORDER_COUNT_MAX);
    if (!trade_settings.cancel_on_exit)
        return NULL;
    if (!trade.stopped)
        orders_stop("the operator is about to end the program");
    for (uint32_t place = 0; (o = ouch_next_open(&place)) != NULL && at + 1 < sizeof text;) {
        at += at > 0 ? format(text + at, sizeof text - at, "\n") : 0;
        at += write_order(text + at, sizeof text - at, o, "is open");
    }
    return at > 0 ? text : NULL;
}

NOT_HOT void orders_log_left_open(void)
{
    const struct ouch_order *o;
    for (uint32_t at = 0; (o = ouch_next_open(&at)) != NULL;)
        log_order(o, "stays open");
}

/* ---- the orders' session ---- */

void orders_take_responses(uint64_t now_ns)
{
    struct bytes message;
    enum soup_event event;
    while ((event = link_next(&trade.orders, &message, now_ns)) != SOUP_NOTHING) {
        trade.orders_heard_ns = now_ns;
        if (event == SOUP_MESSAGE) {
            int symbol = ouch_take(message, now_ns);
            audit_response(message, symbol, !trade.settled);
            if (symbol >= 0)
                trade.dirty |= BIT((uint32_t)symbol);
            orders_watch_limits();
            continue;
        }
        if (ouch_logged_in(event == SOUP_NEW_SESSION))
            shown_begin_day();
        trade.settled = trade.settled && event == SOUP_LOGGED_IN;
        trade.query_due = true;
        trade.cancel_all |= (trade_settings.cancel_on_loss || trade.stopped) && ouch_levels.open > 0;
    }
}

void orders_poll_session(uint64_t now_ns)
{
    static const uint8_t query = 'Q';
    ASSERT(!ouch_is_ready() || trade.settled);
    if (trade.query_due && link_send(&trade.orders, &query, 1, now_ns))
        trade.query_due = false;
    bool all_came = trade.settled || trade.orders.soup.idle;
    if (!ouch_is_ready() && link_is_up(&trade.orders) && all_came && ouch_settle(now_ns)) {
        const struct ouch_order *o;
        trade.cancel_all |= !trade.settled && trade_settings.cancel_on_start && ouch_levels.open > 0;
        for (uint32_t at = 0; (o = ouch_next_open(&at)) != NULL;)
            if (is_foreign(o))
                log_order(o, "is cancelled, as its symbol is not traded here");
            else if (!trade.settled && trade.cancel_all)
                log_order(o, "is cancelled, as an earlier run has left it");
        trade.settled = true;
        log_line("orders: ready, %llu open, next reference %llu", (unsigned long long)ouch_levels.open,
                 (unsigned long long)ouch_levels.next_reference);
    }
}
