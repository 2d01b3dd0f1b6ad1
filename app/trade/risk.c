#include "app/trade/risk.h"

#include "base/assert.h"
#include "base/hot_section.h"
#include "base/time.h"

/* Returns true if the price is further from the last one than the collar. No product exceeds 64 bits, as a price has
 * 31. */
static inline bool is_beyond_collar(uint32_t price, uint32_t last_price, uint32_t percent)
{
    uint64_t distance = price > last_price ? price - last_price : last_price - price;
    return distance * 100 > (uint64_t)last_price * percent;
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
    if (state->last_price == 0 || is_beyond_collar(order->price, state->last_price, limits->collar_percent))
        return RISK_COLLAR;
    if (order->shares == 0 || order->shares > limits->shares_max)
        return RISK_SHARES;
    if ((uint64_t)order->price * order->shares > limits->notional_max)
        return RISK_NOTIONAL;
    uint64_t more = order->shares > order->replaced_shares ? order->shares - order->replaced_shares : 0;
    int64_t held = order->side == BOOK_BUY ? state->position : -state->position;
    int64_t worst = held + (int64_t)(state->open_shares[order->side] + more);
    if (worst > (int64_t)limits->position_max)
        return RISK_POSITION;
    if (order->side == BOOK_SELL && worst > 0 && !limits->may_sell_short)
        return RISK_SHORT;
    if (order->replaced_shares == 0 && state->open_count >= limits->open_max)
        return RISK_OPEN;
    if (state->rate_ns != 0 && state->now_ns - state->rate_ns < NS_PER_S)
        return RISK_RATE;
    return RISK_PASSED;
}
