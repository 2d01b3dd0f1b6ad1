/* app/trade/risk.h and the strategies: every combination of the limits' edges beside the rules written out another way,
 * and the strategies' orders. */
#include "app/trade/risk.h"

#include "tests/lib/random.h"
#include "tests/lib/test.h"

static struct risk_limits limits;
static struct risk_state state;
static struct book_top top;
static struct ouch_symbol own;
static bool whole;
static struct risk_order order;

static enum risk_verdict check(void)
{
    top.doubted = !whole;
    return risk_check(&limits, &state, &order);
}

BEFORE_EACH()
{
    limits = (struct risk_limits){ .collar_percent = 5,
                                   .shares_max = 100,
                                   .notional_max = 20000000,
                                   .position_max = 300,
                                   .open_max = 4,
                                   .rate_max = 10,
                                   .replaces_max = 5,
                                   .day_orders_max = 1000,
                                   .day_shares_max = 50000,
                                   .may_sell_short = true };
    state = (struct risk_state){ .feed_current = true,
                                 .market_open = true,
                                 .session_ready = true,
                                 .position_sure = true,
                                 .top = &top,
                                 .own = &own,
                                 .now_ns = 100 * NS_PER_S };
    top = (struct book_top){ .trading = true, .last_price = 100000, .price = { 99000, 101000 } };
    own = (struct ouch_symbol){ .position = 0 };
    whole = true;
    order = (struct risk_order){ BOOK_BUY, 100000, 100, 0 };
    assert_int_equal(check(), RISK_PASSED);
}

/* Sets fields, and expects this verdict then. */
#define EXPECT_VERDICT(verdict, ...)                                                                                   \
    do {                                                                                                               \
        __VA_ARGS__;                                                                                                   \
        assert_int_equal(check(), verdict);                                                                            \
    } while (0)

/* Returns true if the order is at most a collar worse than the middle of a quote that has one. */
static bool is_near_quote(void)
{
    __int128 middle = ((__int128)top.price[BOOK_BUY] + top.price[BOOK_SELL]) * 50, price = (__int128)order.price * 100;
    if (top.price[BOOK_BUY] == 0 || top.price[BOOK_SELL] == 0)
        return true;
    return order.side == BOOK_BUY ? price * 100 <= middle * (100 + limits.collar_percent)
                                  : price * 100 >= middle * (100 - limits.collar_percent);
}

/* Returns true if an order may leave: the rules without their order, in wider numbers. */
static bool may_leave(void)
{
    __int128 low = (__int128)top.last_price * (100 - limits.collar_percent);
    __int128 high = (__int128)top.last_price * (100 + limits.collar_percent);
    __int128 price = (__int128)order.price * 100, position = own.position;
    __int128 extra = order.shares - (__int128)order.replaced_shares;
    __int128 all = (__int128)own.open_shares[order.side] + (extra > 0 ? extra : 0);
    __int128 worst = order.side == BOOK_BUY ? position + all : all - position; /* bought, or sold short */
    bool switches = !state.stopped && state.feed_current && whole && state.market_open && top.trading
                    && state.session_ready && state.position_sure;
    bool of_order = order.price >= 1 && order.price <= 1999999900u && order.shares >= 1
                    && order.shares <= limits.shares_max
                    && (__int128)order.price * order.shares <= (__int128)limits.notional_max;
    bool near = top.last_price != 0 && price >= low && price <= high && is_near_quote();
    bool inside = position <= (__int128)limits.position_max && -position <= (__int128)limits.position_max
                  && (position >= 0 || limits.may_sell_short);
    bool held = inside && worst <= (__int128)limits.position_max
                && (order.side == BOOK_BUY || worst <= 0 || limits.may_sell_short);
    uint32_t met = own.nearest[order.side == BOOK_BUY ? BOOK_SELL : BOOK_BUY];
    bool apart = met == 0 || (order.side == BOOK_BUY ? order.price < met : order.price > met);
    bool free = order.replaced_shares > 0 || state.open_count < limits.open_max;
    bool slow = state.rate_ns == 0 || state.rate_ns + NS_PER_S <= state.now_ns;
    slow &= order.replaced_shares == 0 || state.replaces_ns == 0 || state.replaces_ns + NS_PER_S <= state.now_ns;
    bool in_day = state.day_orders < limits.day_orders_max
                  && (__int128)state.day_shares + order.shares <= (__int128)limits.day_shares_max;
    return switches && of_order && near && held && apart && free && slow && in_day;
}

TEST(each_switch_alone_holds_every_order_back)
{
    bool *const switches[] = { &state.feed_current, &whole, &state.market_open, &top.trading, &state.session_ready,
                               &state.position_sure };
    const enum risk_verdict verdicts[] = { RISK_FEED, RISK_BOOK, RISK_MARKET, RISK_MARKET, RISK_SESSION, RISK_SESSION };
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++) {
        EXPECT_VERDICT(verdicts[i], *switches[i] = false);
        *switches[i] = true;
    }
    EXPECT_VERDICT(RISK_STOPPED, state.stopped = true);
    /* All 128 states of the switches: one passes. */
    int passed = 0;
    for (unsigned bits = 0; bits < 128; bits++) {
        state.stopped = bits & 64;
        for (size_t i = 0; i < 6; i++)
            *switches[i] = bits >> i & 1;
        bool passes = check() == RISK_PASSED;
        assert_int_equal(passes, may_leave());
        passed += passes;
    }
    assert_int_equal(passed, 1);
}

TEST(each_limit_holds_at_its_edge)
{
    order.price = 105000, order.shares = 1;
    memset(top.price, 0, sizeof top.price);
    EXPECT_VERDICT(RISK_PASSED);
    EXPECT_VERDICT(RISK_COLLAR, order.price = 105001);
    EXPECT_VERDICT(RISK_PASSED, order.price = 95000);
    EXPECT_VERDICT(RISK_COLLAR, order.price = 94999);
    EXPECT_VERDICT(RISK_COLLAR, top.last_price = 0);
    test_before_each();
    EXPECT_VERDICT(RISK_COLLAR,
                   top.price[BOOK_BUY] = top.price[BOOK_SELL] = 95238); /* one print does not move the collar alone */
    EXPECT_VERDICT(RISK_PASSED, top.price[BOOK_BUY] = 95239);
    order.side = BOOK_SELL;
    EXPECT_VERDICT(RISK_PASSED, top.price[BOOK_BUY] = 100000, top.price[BOOK_SELL] = 110526);
    EXPECT_VERDICT(RISK_COLLAR, top.price[BOOK_SELL] = 110527);
    EXPECT_VERDICT(RISK_PASSED, top.price[BOOK_BUY] = 0);
    test_before_each();
    EXPECT_VERDICT(RISK_SHARES, order.shares = 101);
    EXPECT_VERDICT(RISK_SHARES, order.shares = 0);
    test_before_each();
    EXPECT_VERDICT(RISK_NOTIONAL, limits.notional_max = 100000 * 100 - 1);
    test_before_each();
    EXPECT_VERDICT(RISK_PASSED, own.position = 200);
    EXPECT_VERDICT(RISK_POSITION, own.position = 201);
    EXPECT_VERDICT(RISK_PASSED, order.replaced_shares = 99);
    test_before_each();
    order.side = BOOK_SELL;
    limits.may_sell_short = false;
    EXPECT_VERDICT(RISK_PASSED, own.position = 100);
    EXPECT_VERDICT(RISK_SHORT, own.position = 99);
    test_before_each();
    EXPECT_VERDICT(RISK_SELF, own.nearest[BOOK_SELL] = 100000);
    own.nearest[BOOK_SELL] = 100001;
    EXPECT_VERDICT(RISK_PASSED, own.nearest[BOOK_BUY] = 200000); /* on the same side */
    order.side = BOOK_SELL;
    EXPECT_VERDICT(RISK_SELF, own.nearest[BOOK_BUY] = 100000);
    EXPECT_VERDICT(RISK_PASSED, own.nearest[BOOK_BUY] = 99999);
    test_before_each();
    state.day_orders = 999;
    EXPECT_VERDICT(RISK_PASSED, state.day_shares = 49900);
    EXPECT_VERDICT(RISK_DAY_SHARES, state.day_shares = 49901);
    EXPECT_VERDICT(RISK_DAY_ORDERS, state.day_orders = 1000);
    test_before_each();
    EXPECT_VERDICT(RISK_PASSED, state.replaces_ns = 99 * NS_PER_S + 1);
    EXPECT_VERDICT(RISK_REPLACES, order.replaced_shares = 1);
    EXPECT_VERDICT(RISK_PASSED, state.replaces_ns = 99 * NS_PER_S);
    test_before_each();
    EXPECT_VERDICT(RISK_OPEN, state.open_count = 4);
    test_before_each();
    EXPECT_VERDICT(RISK_RATE, state.rate_ns = 99 * NS_PER_S + 1);
    EXPECT_VERDICT(RISK_PASSED, state.rate_ns = 99 * NS_PER_S);
    EXPECT_VERDICT(RISK_PRICE, order.price = 0);
    EXPECT_VERDICT(RISK_PRICE, order.price = RISK_PRICE_MAX + 1u);
}

/* OUCH 5.0, "Data Types": an order at 200,000.0000, which the market data can hold, is a market order. */
TEST(price_that_makes_a_market_order_never_leaves)
{
    limits.notional_max = UINT64_MAX;
    memset(top.price, 0, sizeof top.price);
    EXPECT_VERDICT(RISK_PRICE, top.last_price = order.price = ITCH_PRICE_MAX);
    EXPECT_VERDICT(RISK_PASSED, top.last_price = order.price = 1999999900);
}

/* Somebody has to look at such a position: no order leaves, on either side. */
TEST(no_order_leaves_while_the_position_is_beyond_a_limit)
{
    for (order.side = BOOK_BUY; order.side < BOOK_SIDE_COUNT; order.side++) {
        EXPECT_VERDICT(RISK_POSITION, own.position = -301);
        EXPECT_VERDICT(RISK_POSITION, own.position = 301);
        EXPECT_VERDICT(RISK_PASSED, own.position = order.side == BOOK_BUY ? -300 : 300);
        limits.may_sell_short = false;
        EXPECT_VERDICT(RISK_SHORT, own.position = -1);
        limits.may_sell_short = true;
    }
}

/* A product at the edge of 32 bits: 430 shares at $999 are $429,570, which 32 bits show as $21. */
TEST(products_beyond_32_bits_are_held_by_their_limits)
{
    top.last_price = order.price = 9990000;
    top.price[BOOK_BUY] = top.price[BOOK_SELL] = 0;
    order.shares = 430;
    limits.shares_max = 1000;
    limits.position_max = 1000;
    EXPECT_VERDICT(RISK_NOTIONAL, limits.notional_max = 500000000);
    EXPECT_VERDICT(RISK_PASSED, limits.notional_max = UINT64_C(9990000) * 430);
    EXPECT_VERDICT(RISK_NOTIONAL, limits.notional_max--);
    top.last_price = ITCH_PRICE_MAX; /* times 100 and times 5 % */
    order.price = RISK_PRICE_MAX - 100;
    EXPECT_VERDICT(RISK_PASSED, limits.notional_max = UINT64_MAX);
    EXPECT_VERDICT(RISK_PASSED, order.price = 1900000000);
    EXPECT_VERDICT(RISK_COLLAR, order.price--);
    top.last_price = order.price = 22500000; /* 200 times this is more than 32 bits hold */
    EXPECT_VERDICT(RISK_COLLAR, top.price[BOOK_BUY] = top.price[BOOK_SELL] = 21400000);
    EXPECT_VERDICT(RISK_PASSED, order.price = 22470000);
    limits.day_shares_max = UINT64_C(1) << 32;
    EXPECT_VERDICT(RISK_PASSED, state.day_shares = limits.day_shares_max - order.shares);
    EXPECT_VERDICT(RISK_DAY_SHARES, state.day_shares++);
    state.day_shares = 0;
    limits.position_max = UINT32_MAX;
    EXPECT_VERDICT(RISK_PASSED, own.position = UINT32_MAX - order.shares);
    EXPECT_VERDICT(RISK_POSITION, own.position++);
    own.position = 0;
    EXPECT_VERDICT(RISK_PASSED, state.now_ns = 1); /* nothing has left in this second, the machine's first */
}

/* All combinations of values at the edges and at the ends of the types. */
TEST(all_combinations_of_edges_agree_with_the_rules)
{
    static const uint32_t prices[] = { 0, 1, 94999, 95000, 105000, 105001, RISK_PRICE_MAX, ITCH_PRICE_MAX, UINT32_MAX };
    static const uint32_t shares[] = { 0, 1, 100, 101, UINT32_MAX }, replaced[] = { 0, 1, 100, UINT32_MAX };
    static const uint32_t lasts[] = { 0, 1, 100000, ITCH_PRICE_MAX };
    static const uint32_t bests[] = { 0, 100000, 200000 };
    static const int64_t positions[] = { -(INT64_C(1) << 40), -301, -200, -1, 0, 99, 200, 201, INT64_C(1) << 40 };
    static const uint64_t opens[] = { 0, 1, 200, UINT64_C(1) << 40 };
    static const uint64_t notionals[] = { 0, 9500000, 20000000, UINT64_MAX };
    uint64_t passed = 0;
    limits.shares_max = 100;
#define EACH(array, i) for (size_t i = 0; i < sizeof array / sizeof array[0]; i++)
    EACH(prices, a)
    EACH(shares, b)
    EACH(replaced, c)
    EACH(lasts, d)
    EACH(positions, e)
    EACH(opens, f)
    EACH(notionals, g)
    for (unsigned bits = 0; bits < 16; bits++) {
        order = (struct risk_order){ bits & 1 ? BOOK_SELL : BOOK_BUY, prices[a], shares[b], replaced[c] };
        top.last_price = lasts[d];
        own.position = positions[e];
        top.price[BOOK_BUY] = bests[(a + e) % 3]; /* all pairs come with all prices and shares */
        top.price[BOOK_SELL] = bests[(f + g) % 2];
        own.nearest[BOOK_BUY] = bests[(b + e) % 3], own.nearest[BOOK_SELL] = bests[(c + f) % 3];
        state.replaces_ns = (e + g) % 2 ? state.now_ns - NS_PER_S + 1 : 0;
        state.day_orders = (a + f) % 4 == 3 ? 1000 : 999;
        state.day_shares = (b + g) % 4 == 3 ? 50000 : 49900;
        own.open_shares[order.side] = opens[f];
        own.open_shares[book_other(order.side)] = UINT64_C(1) << 50; /* the other side's do not count */
        limits.notional_max = notionals[g];
        limits.may_sell_short = bits & 2;
        state.open_count = bits & 4 ? limits.open_max : 0;
        state.rate_ns = bits & 8 ? state.now_ns - NS_PER_S + 1 : 0;
        bool passes = check() == RISK_PASSED;
        if (passes != may_leave())
            fail_msg("price %u shares %u replaced %u last %u bits %u", order.price, order.shares, order.replaced_shares,
                     top.last_price, bits);
        passed += passes;
    }
    assert_true(passed > 500);
}
