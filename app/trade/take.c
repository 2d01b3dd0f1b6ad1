/* The strategy `take`. One order of a side is under way at a time, as its outcome decides about the next. */
#include "app/trade/strategy.h"
#include "base/assert.h"
#include "base/hot_section.h"

/* Returns true if the price is good enough to trade on this side. */
static inline bool is_reached(const struct strategy_settings *s, enum book_side side, uint32_t price)
{
    if (price == 0)
        return false;
    return side == BOOK_BUY ? price <= s->buy_at : s->sell_at != 0 && price >= s->sell_at;
}

HOT bool strategy_take(const struct strategy_settings *settings, const struct book_top *top,
                       const struct ouch_symbol *symbol, struct strategy_order *order)
{
    ASSERT(settings->shares > 0);
    for (enum book_side side = BOOK_BUY; side < BOOK_SIDE_COUNT; side++) {
        enum book_side other = book_other(side);
        if (!is_reached(settings, side, top->price[other]) || symbol->open_shares[side] > 0)
            continue;
        uint64_t shares = min_u64(strategy_room(settings, symbol, side), top->shares[other]);
        if (shares == 0)
            continue;
        *order = (struct strategy_order){ STRATEGY_ENTER, side, top->price[other], (uint32_t)shares, true };
        return true;
    }
    return false;
}
