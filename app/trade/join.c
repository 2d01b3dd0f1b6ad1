/* The strategy `join`. Its own orders are part of the market: alone at the best price it stays there. */
#include "app/trade/strategy.h"
#include "base/assert.h"
#include "base/hot_section.h"

HOT static bool decide(struct strategy_view *view, enum book_side side, struct strategy_order *order)
{
    ASSERT(view->shares > 0);
    const struct ouch_order *own = &view->own->own[side];
    uint32_t price = view->top->price[side];
    if (own->state == OUCH_SENT || own->cancelling || (own->state == OUCH_OPEN && own->price == price))
        return false; /* one message about an order at a time */
    /* OUCH 5.0 counts the executed shares in a replacement's: an order without any is simple to replace. */
    if (own->state == OUCH_OPEN)
        *order = (struct strategy_order){ .kind = price == 0 || own->executed ? STRATEGY_CANCEL : STRATEGY_REPLACE,
                                          .price = price,
                                          .shares = own->open_shares };
    else
        *order = (struct strategy_order){ .kind = STRATEGY_ENTER,
                                          .price = price,
                                          .shares = price != 0 ? strategy_room(view, side) : 0 };
    return order->shares > 0;
}

const struct strategy strategy_join = { .decide = decide };
