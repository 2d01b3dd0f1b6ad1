/* The strategy `join`. Its own orders are part of the market: alone at the best price it stays there. */
#include "app/trade/strategy.h"
#include "base/assert.h"
#include "base/hot_section.h"

HOT bool strategy_join(const struct strategy_settings *settings, const struct book_top *top,
                       const struct ouch_symbol *symbol, struct strategy_order *order)
{
    ASSERT(settings->shares > 0);
    for (enum book_side side = BOOK_BUY; side < BOOK_SIDE_COUNT; side++) {
        const struct ouch_order *own = &symbol->own[side];
        uint32_t price = top->price[side];
        if (own->state == OUCH_SENT || own->cancelling)
            continue; /* one message about an order at a time */
        if (own->state == OUCH_OPEN && own->price == price)
            continue;
        if (own->state == OUCH_OPEN) {
            /* OUCH 5.0 counts the executed shares in a replacement's: an order without any is simple to replace. */
            enum strategy_kind kind = price == 0 || own->executed ? STRATEGY_CANCEL : STRATEGY_REPLACE;
            *order = (struct strategy_order){ kind, side, price, own->open_shares, false };
            return true;
        }
        uint32_t shares = price != 0 ? strategy_room(settings, symbol, side) : 0;
        if (shares == 0)
            continue;
        *order = (struct strategy_order){ STRATEGY_ENTER, side, price, shares, false };
        return true;
    }
    return false;
}
