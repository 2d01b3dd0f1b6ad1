/* The strategies of app/trade/: what each wants in a market. */
#include "tests/lib/random.h"
#include "tests/lib/strategy_case.h"

#define TAKE "strategy=take take.buy=0.1 take.sell=0.2"

TEST(take_buys_and_sells_at_its_limits)
{
    strategy_case(&strategy_take, TAKE);
    strategy_market(900, 500, 1001, 500);
    assert_false(strategy_wants());
    strategy_market(900, 500, 1000, 500);
    assert_wants(STRATEGY_ENTER, BOOK_BUY, 1000, 100);
    assert_true(wanted.immediate);
    strategy_market(900, 500, 1000, 1);
    assert_wants(STRATEGY_ENTER, BOOK_BUY, 1000, 1); /* no more than there is */
    own.open_shares[BOOK_BUY] = 1;                   /* one at a time */
    assert_false(strategy_wants());
    strategy_market(2000, 500, 2010, 500);
    own.position = -200;
    assert_wants(STRATEGY_ENTER, BOOK_SELL, 2000, 50);
    own.position = -250;
    assert_false(strategy_wants());
    strategy_case(&strategy_take, TAKE);
    strategy_market(0, 0, 0, 0);
    assert_false(strategy_wants());
    strategy_case(&strategy_take, "strategy=take take.buy=0.9999");
    strategy_market(30000, 5, 40000, 5);
    assert_false(strategy_wants());
}

TEST(join_quotes_both_sides_and_follows_the_market)
{
    strategy_case(&strategy_join, "");
    strategy_market(900, 500, 1001, 500);
    assert_wants(STRATEGY_ENTER, BOOK_BUY, 900, 100);
    strategy_accepted();
    own.own[BOOK_BUY].state = OUCH_SENT;
    assert_wants(STRATEGY_ENTER, BOOK_SELL, 1001, 100);
    own.own[BOOK_SELL] = (struct ouch_order){ .reference = 2, .state = OUCH_OPEN, .price = 1001, .open_shares = 1 };
    own.own[BOOK_BUY].state = OUCH_OPEN;
    assert_false(strategy_wants());
    strategy_market(910, 500, 1001, 500);
    assert_wants(STRATEGY_REPLACE, BOOK_BUY, 910, 100);
    own.own[BOOK_BUY].executed = true;
    assert_true(strategy_wants());
    assert_int_equal(wanted.kind, STRATEGY_CANCEL);
    own.own[BOOK_BUY].cancelling = true;
    assert_false(strategy_wants());
    strategy_market(910, 500, 0, 0); /* nobody is left there to join */
    assert_wants(STRATEGY_CANCEL, BOOK_SELL, 0, 1);
}

TEST(skew_leans_against_its_position_and_rests)
{
    strategy_case(&strategy_skew, "skew.spread=0.05 skew.lean=0.02 skew.rest=10ms");
    strategy_market(1000000, 300, 1001000, 100); /* more want to buy: the fair price is 100.0750 */
    assert_wants(STRATEGY_ENTER, BOOK_BUY, 1000200, 100);
    strategy_accepted();
    assert_wants(STRATEGY_ENTER, BOOK_SELL, 1001300, 100);
    strategy_accepted();
    assert_false(strategy_wants());
    own.position = 100;
    assert_false(strategy_wants()); /* the order rests */
    assert_int_equal(view.wake_ns, NS_PER_S + 10 * NS_PER_MS);
    view.now_ns = view.wake_ns;
    assert_wants(STRATEGY_REPLACE, BOOK_BUY, 1000000, 100);
    view.now_ns += 10 * NS_PER_MS;
    own.position = -300;
    strategy_order('S', 300, 1001100); /* the next level counts, too */
    assert_wants(STRATEGY_REPLACE, BOOK_BUY, 1000500, 100);
    strategy_market(1000000, 300, 0, 0);
    assert_wants(STRATEGY_CANCEL, BOOK_BUY, 0, 100);
}

TEST(skew_stands_nowhere_where_no_price_is_left)
{
    strategy_case(&strategy_skew, "skew.spread=0.0001 skew.lean=1");
    own.position = -100; /* wants to buy far above the best offer: a cent below it */
    strategy_market(50, 100, 99, 100);
    assert_true(strategy_wants() && wanted_side == BOOK_SELL); /* below a cent there is none */
    strategy_market(50, 100, 101, 100);
    assert_wants(STRATEGY_ENTER, BOOK_BUY, 1, 100);
    own.position = 100;
    strategy_market(ITCH_PRICE_MAX - 50, 100, ITCH_PRICE_MAX - 10, 100);
    own.own[BOOK_BUY].state = OUCH_SENT;
    assert_false(strategy_wants());
    strategy_case(&strategy_skew, "skew.spread=0.01 skew.lean=0.01"); /* the most shares, as far apart as can be */
    strategy_market(1, BOOK_SHARES_MAX, ITCH_PRICE_MAX, 100);
    for (int i = 0; i < 100; i++)
        strategy_order('B', BOOK_SHARES_MAX, 1);
    assert_wants(STRATEGY_ENTER, BOOK_BUY, ITCH_PRICE_MAX - 200, 100);
}

TEST(strategies_never_exceed_their_position)
{
    static const struct {
        const struct strategy *strategy;
        const char *words;
    } all[] = { { &strategy_take, TAKE }, { &strategy_join, "" }, { &strategy_skew, "skew.spread=0.01" } };
    random_seed(3);
    for (int i = 0; i < 20000; i++) {
        strategy_case(all[i % 3].strategy, all[i % 3].words);
        strategy_market(1 + (uint32_t)random_below(2500), 1 + (uint32_t)random_below(300),
                        1 + (uint32_t)random_below(2500), 1 + (uint32_t)random_below(300));
        own.position = (int64_t)random_below(700) - 350;
        own.open_shares[BOOK_BUY] = random_below(3) * 100;
        own.open_shares[BOOK_SELL] = random_below(3) * 100;
        if (!strategy_wants())
            continue;
        assert_int_equal(wanted.kind, STRATEGY_ENTER);
        int64_t sign = wanted_side == BOOK_BUY ? 1 : -1;
        int64_t worst = sign * own.position + (int64_t)own.open_shares[wanted_side] + wanted.shares;
        assert_true(wanted.shares > 0 && wanted.shares <= 100 && worst <= 250);
    }
}
