#include "app/trade/parts.h"

#include <string.h>

#include "base/assert.h"
#include "base/trace.h"

NOT_HOT bool rehearse_order(uint64_t now_ns)
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
    uint64_t *const reason = !trade_is_armed()                          ? &shown_unrehearsed.unarmed
                             : !mold_is_current() || mold_has_backlog() ? &shown_unrehearsed.feed
                             : !found                                   ? &shown_unrehearsed.book
                                                                        : NULL;
    if (reason != NULL)
        ++*reason;
    if (reason != NULL || !transport_poll(now_ns, &event))
        return false;
    const struct trace stamps = trace;
    static uint8_t state[STRATEGY_STATE_BYTES_MAX];
    struct strategy_view *const view = &orders_views[symbol];
    const struct strategy_view seen = *view;
    memcpy(state, view->state, sizeof state);
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
    view->shares = 1;
    view->eager = true;
    orders_prepare();
    const bool was_prepared = trade.orders.prepared != NULL;
    mold_rehearsal_begin(datagram, 1);
    store_be16(datagram + MOLD_HEADER_BYTES, ITCH_ADD_BYTES);
    if (mold_take(MOLD_A, (struct bytes){ datagram, sizeof datagram }, now_ns)) {
        feed_take_messages(now_ns);
        book_take((struct bytes){ deletion, sizeof deletion });
    }
    mold_rehearsal_end();
    const enum book_side side = ouch_symbol(symbol)->position > 0 ? BOOK_SELL : BOOK_BUY;
    if (trade.orders.prepared != NULL)
        orders_place(symbol, side, &(struct strategy_order){ STRATEGY_ENTER, book_top(symbol)->last_price, 1, true },
                     now_ns);

    const bool ordered = was_prepared && trade.orders.prepared == NULL;
    shown_unrehearsed.order += !ordered;
    trade.rehearses = false;
    trade.orders.connection = connection;
    trade.orders.prepared = prepared;
    *view = seen;
    memcpy(view->state, state, sizeof state);
    trade.dirty = dirty;
    trade.counters = counters;
    book_counters = of_book;
    memcpy(trade.refused, refused, sizeof refused);
    trace = stamps;
    return ordered;
}

NOT_HOT bool rehearse_warm_up(uint64_t now_ns)
{
    const struct strategy *strategy = trade_strategy();
    (void)now_ns;
    ASSERT(!trade.rehearses);
    mold_warm();
    book_warm();
    ouch_warm();
    hot_fetch(&trade, offsetof(struct trade, rate_ns));
    hot_fetch(trade_settings.feed, sizeof trade_settings.feed);
    hot_fetch(&trade_settings.risk, sizeof trade_settings.risk);
    hot_fetch(orders_views, trade_settings.symbol_count * sizeof orders_views[0]);
    if (strategy != NULL && strategy->settings.values != NULL)
        hot_fetch(strategy->settings.values, strategy->settings.values_bytes);
    return true;
}
