/* app/trade/book.c: books out of ITCH messages, beside a plain model, and messages that contradict them. */
#include "app/trade/book.h"

#include "tests/lib/random.h"
#include "tests/lib/test.h"
#include "tests/lib/trade_messages.h"

enum { ORDERS_MAX = 4000, MODEL_MAX = 300, LOCATE_A = 7, LOCATE_B = 300, LOCATE_OTHER = 9, PRICE = 1000000 };
static const uint8_t names[][ITCH_STOCK_BYTES] = { { 'A', 'A', 'A', 'A', ' ', ' ', ' ', ' ' },
                                                   { 'B', 'B', ' ', ' ', ' ', ' ', ' ', ' ' } };
static uint8_t m[64];
static uint32_t seen; /* the symbol that assert_top looks at */

static int take(uint32_t bytes)
{
    uint8_t *exact = test_malloc(bytes);
    memcpy(exact, m, bytes);
    int changed = book_take((struct bytes){ exact, bytes });
    test_free(exact);
    return changed;
}

BEFORE_EACH()
{
    seen = 0;
    book_init(names, 2, ORDERS_MAX, UINT64_C(0x8c5f3a91d27e640b));
    take(itch_directory(m, LOCATE_A, "AAAA"));
    take(itch_directory(m, LOCATE_B, "BB"));
    take(itch_directory(m, LOCATE_OTHER, "CCC"));
    assert_int_equal(book_levels.whole, 1);
}

static int add(uint64_t reference, char side, uint32_t shares, uint32_t price)
{
    return take(itch_add(m, LOCATE_A, reference, side, shares, price));
}

static void assert_top(uint32_t bid, uint64_t bid_shares, uint32_t ask, uint64_t ask_shares)
{
    const struct book_top *top = book_top(seen);
    assert_int_equal(top->price[BOOK_BUY], bid);
    assert_int_equal(top->shares[BOOK_BUY], bid_shares);
    assert_int_equal(top->price[BOOK_SELL], ask);
    assert_int_equal(top->shares[BOOK_SELL], ask_shares);
    book_check();
}

TEST(depth_and_trades_are_given_out)
{
    struct book_level level;
    struct book_order order;
    struct book_trade trade;
    uint64_t number = 0;
    add(1, 'S', 100, PRICE + 100);
    add(2, 'S', 30, PRICE);
    add(3, 'S', 20, PRICE + 100);
    assert_true(book_level(0, BOOK_SELL, 1, &level) && level.price == PRICE + 100 && level.shares == 120);
    assert_false(book_level(0, BOOK_SELL, 2, &level) || book_level(0, BOOK_BUY, 0, &level));
    assert_true(book_find(3, &order) && order.shares == 20 && order.price == PRICE + 100 && order.side == BOOK_SELL);
    assert_false(book_find(4, &order) || book_trade(0, &number, &trade));
    take(itch_reduce(m, ITCH_EXECUTED, LOCATE_A, 2, 10));
    assert_true(book_trade(0, &number, &trade) && trade.price == PRICE && trade.shares == 10);
    assert_false(book_trade(0, &number, &trade));
    for (uint32_t i = 0; i < 20; i++)
        take(itch_reduce(m, ITCH_EXECUTED, LOCATE_A, 1, 1 + i / 19));
    uint32_t count = 0; /* more than there are places */
    while (book_trade(0, &number, &trade))
        count++;
    assert_true(count == BOOK_TRADE_COUNT && trade.price == PRICE + 100 && trade.shares == 2);
}

TEST(best_of_both_sides_follows_each_message)
{
    assert_int_equal(add(1, 'B', 100, PRICE), 0);
    assert_int_equal(add(2, 'B', 50, PRICE - 100), -1); /* below the best */
    assert_int_equal(add(3, 'S', 70, PRICE + 200), 0);
    assert_int_equal(add(4, 'S', 30, PRICE + 100), 0);
    assert_top(PRICE, 100, PRICE + 100, 30);
    assert_int_equal(take(itch_reduce(m, ITCH_EXECUTED, LOCATE_A, 4, 10)), 0);
    assert_top(PRICE, 100, PRICE + 100, 20);
    assert_int_equal(book_top(0)->last_price, PRICE + 100);
    take(itch_reduce(m, ITCH_CANCEL, LOCATE_A, 1, 40));
    assert_top(PRICE, 60, PRICE + 100, 20);
    take(itch_reduce(m, ITCH_DELETE, LOCATE_A, 4, 0));
    assert_top(PRICE, 60, PRICE + 200, 70);
    take(itch_replace(m, LOCATE_A, 1, 9, 80, PRICE + 50));
    assert_top(PRICE + 50, 80, PRICE + 200, 70);
    take(itch_executed_at(m, LOCATE_A, 9, 80, 'Y', PRICE + 10));
    assert_top(PRICE - 100, 50, PRICE + 200, 70);
    assert_int_equal(book_top(0)->last_price, PRICE + 10);
    take(itch_executed_at(m, LOCATE_A, 3, 1, 'N', PRICE + 20)); /* counted elsewhere as a trade */
    assert_int_equal(book_top(0)->last_price, PRICE + 10);
    assert_int_equal(take(itch_trade(m, LOCATE_A, PRICE + 30)), 0);
    assert_int_equal(book_top(0)->last_price, PRICE + 30);
    assert_true(book_is_whole());
}

TEST(symbols_have_books_of_their_own_and_others_are_skipped)
{
    add(1, 'B', 100, PRICE);
    assert_int_equal(take(itch_add(m, LOCATE_B, 2, 'B', 5, 2 * PRICE)), 1);
    assert_int_equal(take(itch_add(m, LOCATE_OTHER, 3, 'B', 5, 3 * PRICE)), -1);
    assert_top(PRICE, 100, 0, 0);
    assert_int_equal(book_top(1)->price[BOOK_BUY], 2 * PRICE);
    assert_int_equal(book_counters.skipped, 1);
    assert_int_equal(book_levels.orders_used, 2);
    assert_true(book_is_whole());
}

TEST(trading_states_and_market_hours_are_kept)
{
    assert_false(book_market_is_open() || book_top(0)->trading);
    assert_int_equal(take(itch_event(m, 'O')), -1);
    assert_false(book_market_is_open());
    take(itch_event(m, ITCH_MARKET_OPENS));
    assert_true(book_market_is_open());
    assert_int_equal(take(itch_action(m, LOCATE_A, 'T')), 0);
    assert_true(book_top(0)->trading && !book_top(1)->trading);
    assert_int_equal(take(itch_action(m, LOCATE_A, 'T')), -1);
    assert_int_equal(take(itch_action(m, LOCATE_A, 'H')), 0);
    assert_false(book_top(0)->trading);
    take(itch_event(m, ITCH_MARKET_CLOSES));
    assert_false(book_market_is_open());
}

/* Each row is a message that nobody may act on. */
TEST(operational_halt_of_our_market_stops_a_symbol_until_it_is_lifted)
{
    take(itch_action(m, LOCATE_A, 'T'));
    assert_int_equal(take(itch_halt(m, LOCATE_A, 'B', 'H')), -1); /* another market's */
    assert_true(book_top(0)->trading);
    assert_int_equal(take(itch_halt(m, LOCATE_A, 'Q', 'H')), 0);
    assert_false(book_top(0)->trading);
    assert_int_equal(take(itch_action(m, LOCATE_A, 'T')), -1);
    assert_int_equal(take(itch_halt(m, LOCATE_A, 'X', 'T')), -1);
    assert_false(book_top(0)->trading);
    assert_int_equal(take(itch_halt(m, LOCATE_A, 'Q', 'T')), 0);
    assert_true(book_top(0)->trading);
    take(itch_halt(m, LOCATE_A, 'Q', 'H'));
    take(itch_action(m, LOCATE_A, 'H'));
    assert_int_equal(take(itch_halt(m, LOCATE_A, 'Q', 'T')), -1); /* the trading state is a halt still */
    assert_false(book_top(0)->trading);
    assert_true(book_is_whole());
    for (int begins_session = 0; begins_session <= 1; begins_session++) { /* the next one knows no halt */
        take(itch_action(m, LOCATE_A, 'T'));
        take(itch_halt(m, LOCATE_A, 'Q', 'H'));
        while (!book_clear_slice(begins_session))
            continue;
        take(itch_directory(m, LOCATE_A, "AAAA"));
        assert_int_equal(take(itch_halt(m, LOCATE_A, begins_session ? 'B' : 'Q', 'T')), -1);
        assert_int_equal(take(itch_action(m, LOCATE_A, 'T')), 0);
    }
}

TEST(contradictions_are_dropped_counted_and_make_the_book_doubtful)
{
    for (int row = 0, rows = 1; row < rows; row++) {
        test_before_each();
        add(1, 'B', 100, PRICE);
        rows = 0;
#define ROW(counter, bytes)                                                                                            \
    if (rows++ == row) {                                                                                               \
        assert_int_equal(take(bytes), -1);                                                                             \
        assert_int_equal(book_counters.counter, 1);                                                                    \
    }
        ROW(drop_known_reference, itch_add(m, LOCATE_A, 1, 'S', 5, PRICE))
        ROW(drop_side, itch_add(m, LOCATE_A, 2, 'X', 5, PRICE))
        ROW(drop_shares, itch_add(m, LOCATE_A, 2, 'B', 0, PRICE))
        ROW(drop_shares, itch_add(m, LOCATE_A, 2, 'B', 1u << 26, PRICE))
        ROW(drop_price, itch_add(m, LOCATE_A, 2, 'B', 5, 0))
        ROW(drop_price, itch_add(m, LOCATE_A, 2, 'B', 5, ITCH_PRICE_MAX + 1u))
        ROW(drop_locate, itch_add(m, 4711, 2, 'B', 5, PRICE))
        ROW(drop_unknown_reference, itch_reduce(m, ITCH_DELETE, LOCATE_A, 2, 0))
        ROW(drop_unknown_reference, itch_reduce(m, ITCH_DELETE, LOCATE_B, 1, 0)) /* the order is another symbol's */
        ROW(drop_excess, itch_reduce(m, ITCH_CANCEL, LOCATE_A, 1, 101))
        ROW(drop_directory, itch_directory(m, LOCATE_A, "BB"))
        ROW(drop_directory, itch_directory(m, 12, "AAAA"))
        ROW(drop_shares, itch_reduce(m, ITCH_CANCEL, LOCATE_A, 1, 0))
        ROW(drop_length, (memset(m, 0, sizeof m), m[0] = ITCH_ADD, 35))
        assert_false(book_is_whole());
        assert_top(PRICE, 100, 0, 0);
    }
}

TEST(unknown_types_are_counted_and_change_nothing)
{
    m[0] = 'z';
    assert_int_equal(take(20), -1);
    assert_int_equal(book_take((struct bytes){ m, 0 }), -1);
    assert_int_equal(book_counters.drop_type, 2);
    assert_true(book_is_whole());
}

TEST(replacement_of_an_order_by_one_that_is_bad_removes_the_order)
{
    add(1, 'B', 100, PRICE);
    assert_int_equal(take(itch_replace(m, LOCATE_A, 1, 2, 0, PRICE)), 0);
    assert_top(0, 0, 0, 0);
    assert_false(book_is_whole());
}

TEST(full_tables_drop_and_are_cleared_in_slices)
{
    for (uint64_t i = 0; i < ORDERS_MAX; i++)
        add(1000 + i, 'B', 1, PRICE + (uint32_t)(i % 7));
    assert_true(book_is_whole());
    assert_int_equal(add(1, 'S', 1, 2 * PRICE), -1);
    assert_int_equal(book_counters.drop_orders_full, 1);
    assert_false(book_is_whole());
    book_check();
    while (!book_clear_slice(true))
        continue;
    assert_true(book_is_whole());
    assert_top(0, 0, 0, 0);
    assert_int_equal(add(1, 'S', 1, 2 * PRICE), -1); /* the directory is forgotten, too */
    assert_int_equal(book_counters.drop_locate, 1);
}

TEST(side_holds_its_levels_and_no_more)
{
    uint8_t order[ITCH_ADD_BYTES], deletion[ITCH_DELETE_BYTES];
    book_init(names, 2, BOOK_LEVEL_COUNT_MAX + 10, UINT64_C(0x8c5f3a91d27e640b));
    take(itch_directory(m, LOCATE_A, "AAAA"));
    for (uint32_t i = 0; i < BOOK_LEVEL_COUNT_MAX; i++)
        add(i, 'S', 1, PRICE + i * 37 % BOOK_LEVEL_COUNT_MAX);
    assert_true(book_is_whole());
    add(77777, 'S', 1, PRICE - 1);
    assert_int_equal(book_counters.drop_levels_full, 1);
    assert_top(0, 0, PRICE, 1);
    assert_int_equal(book_doubts(), BIT(0)); /* the other symbol goes on */
    assert_false(book_rehearsal(0, order, deletion));
    take(itch_reduce(m, ITCH_DELETE, LOCATE_A, 5, 0));
    assert_true(book_rehearsal(0, order, deletion));
    for (uint64_t i = 0; i < 11; i++)
        add(90000 + i, 'B', 1, PRICE - 5);
    assert_false(book_rehearsal(0, order, deletion)); /* no place is left for its order */
}

/* The other symbol's orders go meanwhile, which moves orders to slots that were looked at. */
TEST(book_in_doubt_is_rebuilt_while_the_other_goes_on)
{
    for (uint32_t round = 0; round < 50; round++) {
        const uint16_t ours = (seen = round / 2 % 2) == 0 ? LOCATE_A : LOCATE_B, other = LOCATE_A + LOCATE_B - ours;
        book_init(names, 2, ORDERS_MAX, random_next());
        take(itch_directory(m, LOCATE_A, "AAAA"));
        take(itch_directory(m, LOCATE_B, "BB"));
        for (uint64_t i = 0; i < ORDERS_MAX; i++)
            take(itch_add(m, i % 2 == 0 ? ours : other, i, 'B', 1, PRICE + (uint32_t)i));
        take(itch_reduce(m, ITCH_DELETE, ours, 77777, 0));
        assert_int_equal(book_doubts(), BIT(seen));
        uint64_t gone = 1;
        for (; !book_set_aside_slice(); gone += 2) {
            take(itch_reduce(m, ITCH_DELETE, other, gone, 0));
            assert_int_equal(take(itch_add(m, ours, 66666, 'B', 1, PRICE)), BOOK_ASIDE);
        }
        assert_int_equal(book_levels.orders_used, (ORDERS_MAX - gone + 1) / 2);
        book_check();
        assert_top(0, 0, 0, 0);
        book_take_aside((struct bytes){ m, itch_add(m, other, 5, 'B', 1, PRICE) }); /* as it is in the book */
        book_take_aside((struct bytes){ m, itch_add(m, ours, 4, 'B', 10, PRICE) });
        assert_top(PRICE, 10, 0, 0);
        book_take_back(round % 2 == 0);
        assert_int_equal(book_doubts(), round % 2 == 0 ? 0 : BIT(seen));
        assert_int_equal(take(itch_add(m, ours, 6, 'B', 10, PRICE)), (int)seen);
    }
}

TEST(book_that_is_contradicted_while_it_is_rebuilt_stays_in_doubt)
{
    take(itch_reduce(m, ITCH_DELETE, LOCATE_A, 77777, 0));
    for (int malformed = 0; malformed < 2; malformed++) {
        while (!book_set_aside_slice())
            continue;
        book_take_aside((struct bytes){ m, itch_reduce(m, ITCH_DELETE, LOCATE_A, 77777, 0) - (uint32_t)malformed });
        book_take_back(true);
        assert_true(book_doubts() == BIT(0) && book_counters.drop_length == (uint64_t)malformed);
    }
}

/* Fills half of the slots with references of a stranger, who knows the code and not the secret. They are neighbours, or
 * progressions by a power of two or another step. */
TEST(no_progression_of_references_makes_long_searches)
{
    random_seed(20261128);
    uint64_t longest = 0;
    for (uint32_t i = 0; i < 70; i++) {
        const uint64_t other = random_next() | 1, step = i < 60 ? UINT64_C(1) << i : i < 65 ? other : i - 62;
        book_init(names, 2, ORDERS_MAX, random_next());
        take(itch_directory(m, LOCATE_A, "AAAA"));
        for (uint64_t k = 0; k < ORDERS_MAX; k++)
            add(1 + k * step, 'B', 1, PRICE);
        longest = longest > book_levels.search_max ? longest : book_levels.search_max;
    }
    assert_true(longest < 200); /* with random slots: 40 to 100 */
}

/* ---- beside a model that keeps a list of orders ---- */

struct model_order {
    uint64_t reference;
    uint32_t shares, price;
    bool sell;
};
static struct model_order model[MODEL_MAX];
static uint32_t model_count;

static void model_best(bool sell, uint32_t *price, uint64_t *shares)
{
    *price = 0;
    *shares = 0;
    for (uint32_t i = 0; i < model_count; i++) {
        const struct model_order *o = &model[i];
        if (o->sell != sell)
            continue;
        if (*price == 0 || (sell ? o->price < *price : o->price > *price)) {
            *price = o->price;
            *shares = 0;
        }
        if (o->price == *price)
            *shares += o->shares;
    }
}

/* Draws a message about an order of the model, or a new one, and plays it on the model. Returns its bytes. */
static uint32_t draw(uint64_t *next_reference)
{
    uint32_t price = PRICE + (uint32_t)random_below(60) * 100;
    uint32_t kind = (uint32_t)random_below(10);
    if (model_count < 5 || (kind < 5 && model_count < MODEL_MAX)) {
        bool sell = random_below(2) != 0;
        struct model_order o = { (*next_reference += 1 + random_below(3)), 1 + (uint32_t)random_below(500), price,
                                 sell };
        model[model_count++] = o;
        return itch_add(m, LOCATE_A, o.reference, sell ? 'S' : 'B', o.shares, o.price);
    }
    uint32_t at = (uint32_t)random_below(model_count);
    struct model_order *o = &model[at];
    uint64_t reference = o->reference;
    uint32_t shares = 1 + (uint32_t)random_below(o->shares);
    if (kind == 5) {
        *o = (struct model_order){ ++*next_reference, 1 + (uint32_t)random_below(500), price, o->sell };
        return itch_replace(m, LOCATE_A, reference, o->reference, o->shares, o->price);
    }
    if (kind == 6)
        shares = o->shares;
    o->shares -= shares;
    if (o->shares == 0)
        *o = model[--model_count];
    if (kind == 6)
        return itch_reduce(m, ITCH_DELETE, LOCATE_A, reference, 0);
    return kind == 7   ? itch_reduce(m, ITCH_CANCEL, LOCATE_A, reference, shares)
           : kind == 8 ? itch_executed_at(m, LOCATE_A, reference, shares, 'Y', price)
                       : itch_reduce(m, ITCH_EXECUTED, LOCATE_A, reference, shares);
}

TEST(best_equals_that_of_a_list_after_each_of_many_messages)
{
    random_seed(20261126);
    uint64_t next_reference = random_next() >> 20;
    model_count = 0;
    for (int i = 0; i < 30000; i++) {
        uint32_t price[2];
        uint64_t shares[2];
        struct book_top before = *book_top(0);
        int changed = take(draw(&next_reference));
        for (int side = 0; side < 2; side++) {
            model_best(side == BOOK_SELL, &price[side], &shares[side]);
            assert_int_equal(book_top(0)->price[side], price[side]);
            assert_int_equal(book_top(0)->shares[side], shares[side]);
        }
        assert_int_equal(changed, memcmp(&before, book_top(0), sizeof before) != 0 ? 0 : -1);
        if (i % 5000 == 0)
            book_check();
    }
    assert_int_equal(book_levels.orders_used, model_count);
    assert_true(book_is_whole());
    book_check();
}
