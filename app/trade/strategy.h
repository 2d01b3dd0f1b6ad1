/* The seam between the market and a strategy: a change of a book in, at most one order of each side out. A strategy has
 * no clock and no memory: its arguments are all that it knows. Each order passes app/trade/risk.h before it leaves. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/trade/book.h"
#include "app/trade/ouch.h"

struct strategy_settings {
    uint32_t shares;       /* in an order */
    uint32_t position_max; /* shares of a symbol, long or short, with all open orders */
    uint32_t buy_at;       /* take: buys at this price or a lower one; 0: never */
    uint32_t sell_at;      /* take: sells at this price or a higher one; 0: never */
};

enum strategy_kind { STRATEGY_ENTER, STRATEGY_REPLACE, STRATEGY_CANCEL };

struct strategy_order {
    enum strategy_kind kind;
    uint32_t price, shares;
    bool immediate; /* the part that is not executed at once is cancelled */
};

/* Returns true if the strategy wants an order of the side, and writes the order. A replacement or a cancellation is of
 * the newest own order of the side. The function is called again with the order as OUCH_SENT, and after any change. */
typedef bool strategy(const struct strategy_settings *settings, const struct book_top *top,
                      const struct ouch_symbol *symbol, enum book_side side, struct strategy_order *order);

/* Buys or sells when the best opposite price reaches a limit, up to a position. */
strategy strategy_take;
/* Keeps an order at the best bid and one at the best ask, and moves them with the market. */
strategy strategy_join;

/* Returns the shares that may be ordered on a side before the position could exceed its bound, at most those of one
 * order. */
static inline uint32_t strategy_room(const struct strategy_settings *settings, const struct ouch_symbol *symbol,
                                     enum book_side side)
{
    int64_t held = side == BOOK_BUY ? symbol->position : -symbol->position;
    int64_t room = (int64_t)settings->position_max - held - (int64_t)symbol->open_shares[side];
    return room <= 0 ? 0 : room < settings->shares ? (uint32_t)room : settings->shares;
}
