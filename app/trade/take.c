/* The strategy `take`. One order of a side is under way at a time, as its outcome decides about the next. */
#include "app/trade/strategy.h"
#include "base/assert.h"
#include "base/hot_section.h"

static struct take {
    uint32_t buy_at, sell_at; /* 0: never */
} take;

HOT static bool decide(struct strategy_view *view, enum book_side side, struct strategy_order *order)
{
    ASSERT(view->shares > 0);
    enum book_side other = book_other(side);
    uint32_t price = view->top->price[other];
    bool reached = side == BOOK_BUY ? price <= take.buy_at : take.sell_at != 0 && price >= take.sell_at;
    if (price == 0 || !(reached || view->eager) || view->own->open_shares[side] > 0)
        return false;
    uint64_t shares = min_u64(strategy_room(view, side), view->top->shares[other]);
    *order = (struct strategy_order){ STRATEGY_ENTER, price, (uint32_t)shares, .immediate = true };
    return shares > 0;
}

static const char *check(void)
{
    if (take.buy_at == 0 && take.sell_at == 0)
        return "strategy=take needs take.buy= or take.sell=";
    return take.buy_at != 0 && take.sell_at != 0 && take.buy_at >= take.sell_at
               ? "take.buy= is not less than take.sell="
               : NULL;
}

#define AT(member) SETTING_AT(struct take, member)
static const struct setting rows[] = {
    { "take.buy", SETTING_CUSTOM, AT(buy_at), .set = strategy_set_price, .unset = "never", .noun = STRATEGY_PRICE_NOUN,
      .help = "`take` buys when somebody sells at this price or a lower one" },
    { "take.sell", SETTING_CUSTOM, AT(sell_at), .set = strategy_set_price, .unset = "never",
      .noun = STRATEGY_PRICE_NOUN, .help = "`take` sells when somebody buys at this price or a higher one" },
};

const struct strategy strategy_take = {
    .decide = decide,
    .settings = { rows, ARRAY_COUNT(rows), &take, sizeof take, NULL, NULL },
    .check = check,
};
