/* The limits that each order passes before it leaves. One pure function, so that a test can try all cases: it knows
 * no order book, no session and no clock, and is handed what they say. A cancellation needs no permission. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/trade/book.h"

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
    bool book_whole, market_open, symbol_trading;
    bool session_ready, position_sure; /* from the orders' session */
    uint32_t last_price;               /* the symbol's last trade; 0: none */
    uint32_t best[BOOK_SIDE_COUNT];    /* the symbol's best bid and offer; 0: none */
    int64_t position;
    uint64_t open_shares[BOOK_SIDE_COUNT]; /* all live orders' of the symbol */
    uint32_t nearest[BOOK_SIDE_COUNT];     /* their best price; 0: none */
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

/* Returns RISK_PASSED, or the first limit that the order breaks. The position is the worst that may come on the order's
 * side: all live orders of the side are executed, and this one. No order may meet a live one of our own. None leaves
 * while the position is beyond a limit already, on either side: somebody has to look at it. */
enum risk_verdict risk_check(const struct risk_limits *limits, const struct risk_state *state,
                             const struct risk_order *order);
