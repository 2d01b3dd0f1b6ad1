/* The strategy `take`. One order of a side is under way at a time, as its outcome decides about the next. */
#include "app/trade/strategy.h"
#include "base/assert.h"
#include "base/hot_section.h"

HOT bool strategy_take(const struct strategy_settings *settings, const struct book_top *top,
                       const struct ouch_symbol *symbol, enum book_side side, struct strategy_order *order)
{
    ASSERT(settings->shares > 0);
    enum book_side other = book_other(side);
    uint32_t price = top->price[other];
    bool reached = side == BOOK_BUY ? price <= settings->buy_at : settings->sell_at != 0 && price >= settings->sell_at;
    if (price == 0 || !reached || symbol->open_shares[side] > 0)
        return false;
    uint64_t shares = min_u64(strategy_room(settings, symbol, side), top->shares[other]);
    *order = (struct strategy_order){ STRATEGY_ENTER, price, (uint32_t)shares, .immediate = true };
    return shares > 0;
}
