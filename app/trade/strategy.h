/* The seam between the market and a strategy. A strategy is a file of this folder, which defines `strategy_NAME`, and a
 * row of STRATEGIES: README.md builds one. Each order that it wants passes app/trade/risk.h before it leaves.
 *
 * All that a strategy knows stands in its view of a symbol: the best prices, our orders, the time, and its own state.
 * book_level (book.h) has the prices further away, and book_trade the latest trades. A strategy keeps nothing but its
 * state. Rehearsals (app/service/rehearsal.h) play made-up ticks through it and put view and state back afterwards. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/trade/book.h"
#include "app/trade/ouch.h"
#include "base/settings.h"

/* The strategies by name, each with what it does, for the help of `strategy=`. */
/* clang-format off */
#define STRATEGIES(X) \
    X(take, "trades at prices that reach a limit") \
    X(join, "keeps an order at the best bid and ask") \
    X(skew, "makes a market around a fair price, and leans against its position")
/* clang-format on */

enum { STRATEGY_STATE_BYTES_MAX = 512 };

/* A symbol as its strategy sees it: one cache line. */
struct strategy_view {
    _Alignas(64) const struct book_top *top;
    const struct ouch_symbol *own;
    void *state;           /* the strategy's own for this symbol, zero at the start */
    uint64_t now_ns;       /* since the start of the program */
    uint64_t wake_ns;      /* the strategy's timer: it looks again then, to a millisecond; 0: none */
    uint32_t shares;       /* shares=, in an order */
    uint32_t position_max; /* shares of the symbol, long or short, with all open orders */
    uint32_t symbol;       /* for book_level and book_trade */
    bool eager;            /* a rehearsal: an order at any price is welcome */
};

enum strategy_kind { STRATEGY_ENTER, STRATEGY_REPLACE, STRATEGY_CANCEL };

struct strategy_order {
    enum strategy_kind kind;
    uint32_t price, shares;
    bool immediate; /* the part that is not executed at once is cancelled */
};

/* Returns true if the strategy wants an order of the side, and writes the order. A replacement or a cancellation is of
 * the newest own order of the side. The function is called again with the order as OUCH_SENT, after any change, when
 * the view's timer is due, and ten times a second. */
typedef bool strategy_decide(struct strategy_view *view, enum book_side side, struct strategy_order *order);

struct strategy {
    strategy_decide *decide;
    /* Looks at the symbol once before each question about its sides. May be NULL. */
    void (*observe)(struct strategy_view *view);
    uint32_t state_bytes; /* a symbol's, STRATEGY_STATE_BYTES_MAX at most */
    struct settings_table settings;
    /* Checks the settings of the strategy that is chosen. NULL, or a message. May itself be NULL. */
    const char *(*check)(void);
};

#define STRATEGY_DECLARE(name, help) extern const struct strategy strategy_##name;
STRATEGIES(STRATEGY_DECLARE)

/* Reads a price with up to four decimals: `.set` of a SETTING_CUSTOM. */
struct settings_refusal strategy_set_price(void *member, struct bytes value);
#define STRATEGY_PRICE_NOUN "a price like 101.25, at most four decimals"

/* Returns the shares that may be ordered on a side before the position could exceed its bound, at most those of one
 * order. */
static inline uint32_t strategy_room(const struct strategy_view *view, enum book_side side)
{
    int64_t held = side == BOOK_BUY ? view->own->position : -view->own->position;
    int64_t room = (int64_t)view->position_max - held - (int64_t)view->own->open_shares[side];
    return room <= 0 ? 0 : room < view->shares ? (uint32_t)room : view->shares;
}
