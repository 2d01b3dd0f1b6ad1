/* A strategy alone, for its tests: a market of real books, our orders as the test sets them, and the question what the
 * strategy wants.
 *
 *     strategy_case(&strategy_NAME, "NAME.key=1");
 *     strategy_market(1000000, 500, 1000200, 300);
 *     assert_wants(STRATEGY_ENTER, BOOK_BUY, 1000000, 100); */
#pragma once

#include "app/service/settings.h"
#include "app/trade/settings.h"
#include "app/trade/strategy.h"
#include "tests/lib/test.h"
#include "tests/lib/trade_messages.h"

enum { CASE_ORDERS_MAX = 1024 };

static const struct strategy *of_case;
static struct ouch_symbol own; /* our orders and our position */
static struct strategy_view view;
static uint64_t case_state[STRATEGY_STATE_BYTES_MAX / 8];
static struct strategy_order wanted; /* the latest answer, and its side */
static enum book_side wanted_side;

/* Adds an order of the market. */
static inline void strategy_order(char side, uint32_t shares, uint32_t price)
{
    static uint64_t reference;
    uint8_t m[64];
    book_take((struct bytes){ m, itch_add(m, 1, ++reference, side, shares, price) });
}

/* Begins a market with a best price on each side; of no shares: none. Our orders and the state stay. */
static inline void strategy_market(uint32_t bid, uint32_t bid_shares, uint32_t ask, uint32_t ask_shares)
{
    static const uint8_t name[1][ITCH_STOCK_BYTES] = { { 'A', ' ', ' ', ' ', ' ', ' ', ' ', ' ' } };
    uint8_t m[64];
    book_init(name, 1, CASE_ORDERS_MAX, 1);
    book_take((struct bytes){ m, itch_directory(m, 1, "A") });
    if (bid_shares > 0)
        strategy_order('B', bid_shares, bid);
    if (ask_shares > 0)
        strategy_order('S', ask_shares, ask);
}

/* Begins with a strategy and its settings, without orders of ours, 100 shares an order and 250 at most. */
static inline void strategy_case(const struct strategy *strategy, const char *words)
{
    static struct settings settings;
    static const char needed[] = "feed.a=0.0.0.0:1 orders=10.0.0.1:1 user=U passwd= symbols=A ";
    service_settings_begin(&settings, "trade", &trade_settings_table, NULL);
    settings_add(&settings, "test", needed, strlen(needed));
    settings_add(&settings, "test", words, strlen(words));
    assert_true(settings_finish(&settings));
    memset(&own, 0, sizeof own);
    memset(case_state, 0, sizeof case_state);
    view = (struct strategy_view){
        .top = book_top(0), .own = &own, .state = case_state, .now_ns = NS_PER_S, .shares = 100, .position_max = 250
    };
    of_case = strategy;
}

/* Asks about one side, then about the other. Returns true if the strategy wants an order. */
static inline bool strategy_wants(void)
{
    if (of_case->observe != NULL)
        of_case->observe(&view);
    for (wanted_side = BOOK_BUY; wanted_side < BOOK_SIDE_COUNT; wanted_side++)
        if (of_case->decide(&view, wanted_side, &wanted))
            return true;
    return false;
}

static inline void assert_wants(enum strategy_kind kind, enum book_side side, uint32_t price, uint32_t shares)
{
    assert_true(strategy_wants());
    assert_int_equal(wanted.kind, kind);
    assert_int_equal(wanted_side, side);
    assert_int_equal(wanted.price, price);
    assert_int_equal(wanted.shares, shares);
}

/* Lets the newest order of a side be accepted as the strategy has asked for it. */
static inline void strategy_accepted(void)
{
    own.own[wanted_side] = (struct ouch_order){
        .reference = 1, .state = OUCH_OPEN, .price = wanted.price, .open_shares = wanted.shares
    };
    own.open_shares[wanted_side] = wanted.shares;
}
