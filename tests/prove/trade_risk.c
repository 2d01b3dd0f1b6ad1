/* The limits of an order: any limits that the settings allow, any state and any order. Positions and open shares are
 * below 2^61. */
#include "app/trade/risk.h"

#define SHARES_MAX (UINT64_C(1) << 61)

void main(void)
{
    struct risk_limits limits;
    struct risk_state state;
    struct risk_order order;
    struct book_top top;
    struct ouch_symbol own;
    prove_any(&limits, sizeof limits);
    prove_any(&state, sizeof state);
    prove_any(&order, sizeof order);
    prove_any(&top, sizeof top);
    prove_any(&own, sizeof own);
    state.top = &top;
    state.own = &own;
    limits.rate_max = (uint32_t)prove_number(1, RISK_RATE_MAX);
    limits.day_shares_max = prove_number(0, SHARES_MAX);
    limits.may_sell_short = prove_number(0, 1);
    state.day_shares = prove_number(0, SHARES_MAX);
    state.stopped = prove_number(0, 1);
    state.feed_current = prove_number(0, 1);
    top.doubted = prove_number(0, 1);
    state.market_open = prove_number(0, 1);
    top.trading = prove_number(0, 1);
    state.session_ready = prove_number(0, 1);
    state.position_sure = prove_number(0, 1);
    own.position = (int64_t)prove_number(0, SHARES_MAX);
    if (prove_number(0, 1))
        own.position = -own.position;
    for (enum book_side side = BOOK_BUY; side < BOOK_SIDE_COUNT; side++) {
        own.open_shares[side] = prove_number(0, SHARES_MAX);
        order.side = side;
        enum risk_verdict verdict = risk_check(&limits, &state, &order);
        prove_holds(verdict < RISK_VERDICT_COUNT);
    }
}
