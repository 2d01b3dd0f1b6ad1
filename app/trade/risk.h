/* The limits that each order passes before it leaves. One pure function, so that a test can try all cases: it knows
 * no order book, no session and no clock, and is handed what they say. A cancellation needs no permission. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/trade/book.h"
#include "app/trade/ouch.h"
#include "base/assert.h"
#include "base/time.h"

enum {
    RISK_RATE_MAX = 1000,
    RISK_REPLACES_MAX = 100,
    RISK_OPEN_MAX = 64,
    RISK_SHARES_MAX = 999999,
    RISK_COLLAR_PERCENT_MAX = 100,
};
enum { RISK_PRICE_MAX = 1999999900 }; /* OUCH 5.0: 200,000 would be a market order */

struct risk_limits {
    /* An order's price is so far from the last trade's at most, and no more than that worse than the quote's middle. */
    uint32_t collar_percent; /* 100 at most */
    uint32_t shares_max;     /* in an order */
    uint64_t notional_max;   /* price times shares of an order, in units of 0.0001 */
    uint32_t position_max;   /* shares of a symbol, long or short */
    uint32_t open_max;       /* live orders in all */
    uint32_t rate_max;       /* orders in any second, RISK_RATE_MAX at most */
    uint32_t replaces_max;   /* a symbol's, in any second, RISK_REPLACES_MAX at most */
    uint32_t day_orders_max; /* orders and replacements in a day */
    uint64_t day_shares_max; /* their shares */
    bool may_sell_short;
};

/* The state when the order is to leave. */
struct risk_state {
    bool stopped;      /* the stop button */
    bool feed_current; /* nothing of the feed is missing, and it is not silent */
    bool market_open;
    bool session_ready, position_sure; /* from the orders' session */
    const struct book_top *top;        /* the symbol's best prices, and our orders */
    const struct ouch_symbol *own;
    uint64_t open_count;
    uint64_t day_orders, day_shares;
    uint64_t now_ns, rate_ns; /* rate_ns: when the rate_max-th order before this one left; 0: never */
    uint64_t replaces_ns;     /* when the symbol's replaces_max-th replacement before this one left; 0: never */
};

struct risk_order {
    enum book_side side;
    uint32_t price, shares;
    uint32_t replaced_shares; /* the open shares of the order that goes; 0: none does */
};

/* The limits in the order in which they are checked; each with the name of its counter. */
#define RISK_LIMITS(X)                                                                                                 \
    X(STOPPED, stopped), X(FEED, feed), X(BOOK, book), X(MARKET, market), X(SESSION, session), X(PRICE, price),        \
        X(COLLAR, collar), X(SHARES, shares), X(NOTIONAL, notional), X(POSITION, position), X(SHORT, short),           \
        X(SELF, self), X(OPEN, open), X(RATE, rate), X(REPLACES, replaces), X(DAY_ORDERS, day_orders),                 \
        X(DAY_SHARES, day_shares)
#define RISK_VERDICT(verdict, name) RISK_##verdict
enum risk_verdict { RISK_PASSED, RISK_LIMITS(RISK_VERDICT), RISK_VERDICT_COUNT };

/* Returns true if the order's price is further from the last trade's than the collar, or worse by more than the middle
 * of the quote. A single print, or a single order far from the market, moves only one of these two. A quote of one side
 * has no middle. No product exceeds 64 bits, as a price has 32. */
static inline bool is_beyond_collar(const struct risk_state *state, const struct risk_order *order, uint64_t percent)
{
    const uint64_t last = state->top->last_price, price = order->price;
    const uint64_t bid = state->top->price[BOOK_BUY], offer = state->top->price[BOOK_SELL];
    const uint64_t distance = price > last ? price - last : last - price;
    const uint64_t quote = bid + offer; /* twice its middle */
    ASSERT(percent <= RISK_COLLAR_PERCENT_MAX);
    if (last == 0 || distance * 100 > last * percent)
        return true;
    if (bid == 0 || offer == 0)
        return false;
    return order->side == BOOK_BUY ? price * 200 > quote * (100 + percent) : price * 200 < quote * (100 - percent);
}

/* Returns true if the order would meet a live one of our own, or a replacement of that which is under way. */
static inline bool meets_own(const struct risk_state *state, const struct risk_order *order)
{
    uint32_t other = state->own->nearest[book_other(order->side)];
    return other != 0 && (order->side == BOOK_BUY ? order->price >= other : order->price <= other);
}

static inline bool is_within_second(uint64_t then_ns, uint64_t now_ns)
{
    return then_ns != 0 && now_ns - then_ns < NS_PER_S;
}

/* Returns RISK_PASSED, or the first limit that the order breaks. The position is the worst that may come on the order's
 * side: all live orders of the side are executed, and this one. No order may meet a live one of our own. None leaves
 * while the position is beyond a limit already, on either side: somebody has to look at it. */
static inline __attribute__((always_inline)) enum risk_verdict risk_check(const struct risk_limits *limits,
                                                                          const struct risk_state *state,
                                                                          const struct risk_order *order)
{
    ASSERT(order->side < BOOK_SIDE_COUNT && limits->rate_max <= RISK_RATE_MAX);
    if (state->stopped)
        return RISK_STOPPED;
    if (!state->feed_current)
        return RISK_FEED;
    if (state->top->doubted)
        return RISK_BOOK;
    if (!state->market_open || !state->top->trading)
        return RISK_MARKET;
    if (!state->session_ready || !state->position_sure)
        return RISK_SESSION;
    if (order->price == 0 || order->price > RISK_PRICE_MAX)
        return RISK_PRICE;
    if (is_beyond_collar(state, order, limits->collar_percent))
        return RISK_COLLAR;
    if (order->shares == 0 || order->shares > limits->shares_max)
        return RISK_SHARES;
    if ((uint64_t)order->price * order->shares > limits->notional_max)
        return RISK_NOTIONAL;
    const int64_t position = state->own->position;
    if (position > (int64_t)limits->position_max || position < -(int64_t)limits->position_max)
        return RISK_POSITION;
    if (position < 0 && !limits->may_sell_short)
        return RISK_SHORT;
    uint64_t more = order->shares > order->replaced_shares ? order->shares - order->replaced_shares : 0;
    int64_t held = order->side == BOOK_BUY ? position : -position;
    int64_t worst = held + (int64_t)(state->own->open_shares[order->side] + more);
    if (worst > (int64_t)limits->position_max)
        return RISK_POSITION;
    if (order->side == BOOK_SELL && worst > 0 && !limits->may_sell_short)
        return RISK_SHORT;
    if (meets_own(state, order))
        return RISK_SELF;
    if (order->replaced_shares == 0 && state->open_count >= limits->open_max)
        return RISK_OPEN;
    if (is_within_second(state->rate_ns, state->now_ns))
        return RISK_RATE;
    if (order->replaced_shares != 0 && is_within_second(state->replaces_ns, state->now_ns))
        return RISK_REPLACES;
    if (state->day_orders >= limits->day_orders_max)
        return RISK_DAY_ORDERS;
    if (state->day_shares + order->shares > limits->day_shares_max)
        return RISK_DAY_SHARES;
    return RISK_PASSED;
}
