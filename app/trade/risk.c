#include "app/trade/risk.h"

#include "base/assert.h"
#include "base/hot_section.h"
#include "base/time.h"

/* Returns true if the order's price is further from the last trade's than the collar, or worse by more than the middle
 * of the quote. A single print, or a single order far from the market, moves only one of these two. A quote of one side
 * has no middle. No product exceeds 64 bits, as a price has 32. */
static inline bool is_beyond_collar(const struct risk_state *state, const struct risk_order *order, uint64_t percent)
{
    const uint64_t last = state->last_price, price = order->price;
    const uint64_t distance = price > last ? price - last : last - price;
    const uint64_t quote = (uint64_t)state->best[BOOK_BUY] + state->best[BOOK_SELL]; /* twice its middle */
    ASSERT(percent <= RISK_COLLAR_PERCENT_MAX);
    if (last == 0 || distance * 100 > last * percent)
        return true;
    if (state->best[BOOK_BUY] == 0 || state->best[BOOK_SELL] == 0)
        return false;
    return order->side == BOOK_BUY ? price * 200 > quote * (100 + percent) : price * 200 < quote * (100 - percent);
}

/* Returns true if the order would meet a live one of our own, or a replacement of that which is under way. */
static inline bool meets_own(const struct risk_state *state, const struct risk_order *order)
{
    uint32_t other = state->nearest[book_other(order->side)];
    return other != 0 && (order->side == BOOK_BUY ? order->price >= other : order->price <= other);
}

static inline bool is_within_second(uint64_t then_ns, uint64_t now_ns)
{
    return then_ns != 0 && now_ns - then_ns < NS_PER_S;
}

HOT enum risk_verdict risk_check(const struct risk_limits *limits, const struct risk_state *state,
                                 const struct risk_order *order)
{
    ASSERT(order->side < BOOK_SIDE_COUNT && limits->rate_max <= RISK_RATE_MAX);
    if (state->stopped)
        return RISK_STOPPED;
    if (!state->feed_current)
        return RISK_FEED;
    if (!state->book_whole)
        return RISK_BOOK;
    if (!state->market_open || !state->symbol_trading)
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
    if (state->position > (int64_t)limits->position_max || state->position < -(int64_t)limits->position_max)
        return RISK_POSITION;
    if (state->position < 0 && !limits->may_sell_short)
        return RISK_SHORT;
    uint64_t more = order->shares > order->replaced_shares ? order->shares - order->replaced_shares : 0;
    int64_t held = order->side == BOOK_BUY ? state->position : -state->position;
    int64_t worst = held + (int64_t)(state->open_shares[order->side] + more);
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
