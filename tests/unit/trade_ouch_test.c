/* app/trade/ouch.c: our orders, the responses to them, and what a lost connection leaves open. */
#include "app/trade/ouch.h"

#include "tests/lib/test.h"
#include "tests/lib/trade_messages.h"

enum { PRICE = 1000000, AAAA = 0, BB = 1 };
static const uint8_t names[][ITCH_STOCK_BYTES] = { { 'A', 'A', 'A', 'A', ' ', ' ', ' ', ' ' },
                                                   { 'B', 'B', ' ', ' ', ' ', ' ', ' ', ' ' } };
static uint8_t m[128];
static uint64_t now_ns;

static int take(uint32_t bytes)
{
    uint8_t *exact = test_malloc(bytes);
    memcpy(exact, m, bytes);
    int symbol = ouch_take((struct bytes){ exact, bytes }, now_ns);
    test_free(exact);
    ouch_check();
    return symbol;
}

static uint32_t next_is(uint32_t reference) { return ouch_response(m, 'Q', reference, 13); }

/* Lets the session become ready. */
static void become_ready(uint32_t next_reference)
{
    take(next_is(next_reference));
    assert_false(ouch_settle(now_ns));
    now_ns += OUCH_QUIET_NS;
    assert_true(ouch_settle(now_ns));
}

static void log_in(uint32_t next_reference)
{
    ouch_logged_in(false);
    become_ready(next_reference);
}

BEFORE_EACH()
{
    now_ns = NS_PER_S;
    ouch_init(names, 2);
    log_in(1);
}

static void entered(uint32_t symbol, enum book_side side, uint32_t quantity, uint32_t price)
{
    ouch_entered(symbol, side, quantity, price, false);
}

/* Enters an order, which the exchange accepts. */
static void opened(uint32_t reference, uint32_t symbol, enum book_side side, uint32_t quantity, uint32_t price)
{
    entered(symbol, side, quantity, price);
    const char letter = side == BOOK_BUY ? 'B' : 'S';
    take(ouch_accepted(m, reference, letter, quantity, symbol == AAAA ? "AAAA" : "BB", price, 'L'));
}

static void assert_symbol(uint32_t symbol, int64_t position, uint64_t open_buy, uint64_t open_sell)
{
    assert_true(ouch_symbol(symbol)->position == position);
    assert_int_equal(ouch_symbol(symbol)->open_shares[BOOK_BUY], open_buy);
    assert_int_equal(ouch_symbol(symbol)->open_shares[BOOK_SELL], open_sell);
}

/* Starts again, in the middle of the day. */
static void start_afresh(void)
{
    ouch_init(names, 2);
    ouch_logged_in(false);
}

TEST(messages_have_the_fields_of_the_specification)
{
    uint8_t message[OUCH_ENTER_BYTES + 1];
    message[OUCH_ENTER_BYTES] = 0xee;
    ouch_write_template(message);
    ouch_fill(message, load_le64("AAAA    "), BOOK_SELL, true, 300, PRICE, true);
    assert_memory_equal(message, "O\0\0\0\1T\0\0\1\54AAAA    \0\0\0\0\0\17\102\1003YPNNperegrine     \0\0\356", 48);
    ouch_fill(message, load_le64("AAAA    "), BOOK_BUY, false, 300, PRICE, false);
    assert_int_equal(message[5], 'B');
    assert_int_equal(message[26], '0');
    entered(AAAA, BOOK_BUY, 300, PRICE);
    ouch_write_replace(message, &ouch_symbol(AAAA)->own[BOOK_BUY], 200, PRICE + 1);
    assert_memory_equal(message, "U\0\0\0\1\0\0\0\2\0\0\0\310\0\0\0\0\0\17\102\1010YNperegrine     \0\0", 40);
    ouch_write_cancel(message, &ouch_symbol(AAAA)->own[BOOK_BUY]);
    assert_memory_equal(message, "X\0\0\0\1\0\0\0\0", 9);
}

TEST(order_is_accepted_executed_and_ends)
{
    entered(AAAA, BOOK_BUY, 100, PRICE);
    assert_symbol(AAAA, 0, 100, 0);
    assert_int_equal(ouch_symbol(AAAA)->own[BOOK_BUY].state, OUCH_SENT);
    assert_int_equal(take(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'L')), AAAA);
    assert_int_equal(ouch_symbol(AAAA)->own[BOOK_BUY].state, OUCH_OPEN);
    assert_int_equal(take(ouch_executed(m, 1, 40, PRICE, 900)), AAAA);
    assert_symbol(AAAA, 40, 60, 0);
    assert_true(ouch_symbol(AAAA)->own[BOOK_BUY].executed);
    assert_int_equal(ouch_levels.open, 1);
    take(ouch_executed(m, 1, 60, PRICE, 901));
    assert_symbol(AAAA, 100, 0, 0);
    assert_int_equal(ouch_symbol(AAAA)->own[BOOK_BUY].state, OUCH_FREE);
    assert_int_equal(ouch_levels.open, 0);
    opened(2, AAAA, BOOK_SELL, 30, PRICE);
    take(ouch_executed(m, 2, 30, PRICE, 902));
    assert_symbol(AAAA, 70, 0, 0);
    opened(3, BB, BOOK_BUY, 10, PRICE);
    take(ouch_executed(m, 3, 10, PRICE, 903));
    memcpy(m, "S\0\0\0\0\0\0\0\0E", 10);
    take(10);
    assert_true(ouch_logged_in(true) && ouch_is_sure()); /* the next day */
    for (uint32_t symbol = AAAA; symbol <= BB; symbol++)
        assert_int_equal((uint64_t)ouch_symbol(symbol)->cash | ouch_symbol(symbol)->fills, 0);
    assert_symbol(BB, 10, 0, 0);
}

TEST(immediate_order_may_be_dead_on_arrival_and_its_rest_is_cancelled)
{
    entered(BB, BOOK_SELL, 100, PRICE);
    take(ouch_accepted(m, 1, 'T', 100, "BB", PRICE, 'L'));
    take(ouch_executed(m, 1, 10, PRICE, 1));
    take(ouch_decrement(m, 1, 90));
    assert_symbol(BB, -10, 0, 0);
    entered(BB, BOOK_SELL, 100, PRICE);
    take(ouch_accepted(m, 2, 'S', 100, "BB", PRICE, 'D'));
    assert_symbol(BB, -10, 0, 0);
    entered(BB, BOOK_SELL, 100, PRICE);
    take(ouch_response(m, 'J', 3, 29));
    assert_symbol(BB, -10, 0, 0);
    assert_int_equal(ouch_counters.rejected, 1);
}

TEST(replacement_counts_once_and_follows_the_fate_of_its_original)
{
    opened(1, AAAA, BOOK_BUY, 100, PRICE);
    ouch_replaced(1, 150, PRICE + 100);
    assert_symbol(AAAA, 0, 150, 0); /* one of the two is executed: the larger one at the worst */
    assert_int_equal(ouch_levels.open, 1);
    assert_int_equal(take(ouch_replaced_by(m, 1, 2, 'B', 150, "AAAA", PRICE + 100)), AAAA);
    assert_symbol(AAAA, 0, 150, 0);
    assert_int_equal(ouch_symbol(AAAA)->own[BOOK_BUY].price, PRICE + 100);
    ouch_replaced(2, 150, PRICE);
    take(ouch_executed(m, 2, 150, PRICE, 1)); /* before the replacement arrived: the exchange ignores that one */
    assert_symbol(AAAA, 150, 0, 0);
    assert_int_equal(ouch_levels.open, 0);
    opened(4, AAAA, BOOK_BUY, 10, PRICE);
    ouch_replaced(4, 10, PRICE);
    take(ouch_response(m, 'J', 5, 29)); /* the original stays */
    assert_symbol(AAAA, 150, 10, 0);
    assert_int_equal(ouch_symbol(AAAA)->own[BOOK_BUY].reference, 4);
    assert_int_equal(ouch_symbol(AAAA)->own[BOOK_BUY].state, OUCH_OPEN);
    assert_true(ouch_is_sure());
}

TEST(cancellation_names_the_replacement_and_then_the_original_if_that_is_rejected)
{
    uint8_t message[OUCH_CANCEL_BYTES];
    uint32_t at = 0;
    opened(1, AAAA, BOOK_BUY, 100, PRICE);
    ouch_replaced(1, 100, PRICE);
    ouch_write_cancel(message, ouch_next_live(&at));
    assert_int_equal(load_be32(message + 1), 2);
    ouch_cancelled(1, NS_PER_S);
    take(ouch_response(m, 'J', 2, 29));
    at = 0;
    ouch_write_cancel(message, ouch_next_live(&at));
    assert_int_equal(load_be32(message + 1), 1);
    ouch_replaced(1, 100, PRICE);
    at = 0;
    ouch_cancelled(ouch_next_live(&at)->reference, NS_PER_S);
    take(ouch_replaced_by(m, 1, 3, 'B', 100, "AAAA", PRICE));
    assert_true(ouch_symbol(AAAA)->own[BOOK_BUY].cancelling);
    take(ouch_decrement(m, 3, 100));
    assert_symbol(AAAA, 0, 0, 0);
    assert_true(ouch_is_sure() && ouch_counters.cancelled == 2);
}

TEST(replacement_that_never_arrived_leaves_its_original)
{
    opened(1, AAAA, BOOK_BUY, 100, PRICE);
    ouch_replaced(1, 150, PRICE);
    log_in(2);
    assert_symbol(AAAA, 0, 100, 0);
    assert_int_equal(ouch_symbol(AAAA)->own[BOOK_BUY].state, OUCH_OPEN);
    assert_int_equal(ouch_counters.never_arrived, 1);
    take(ouch_replaced_by(m, 1, 2, 'B', 150, "AAAA", PRICE)); /* after all: it can be cancelled */
    assert_symbol(AAAA, 0, 150, 0);
    assert_true(ouch_symbol(AAAA)->own[BOOK_BUY].reference == 2 && !ouch_is_sure());
}

TEST(replacement_by_a_reference_that_is_taken_is_a_contradiction)
{
    start_afresh();
    take(ouch_accepted(m, 1, 'B', 10, "AAAA", PRICE, 'L'));
    take(ouch_accepted(m, 2, 'B', 20, "AAAA", PRICE, 'L'));
    assert_int_equal(take(ouch_replaced_by(m, 1, 2, 'B', 10, "AAAA", PRICE)), -1);
    assert_false(ouch_is_sure());
    assert_symbol(AAAA, 0, 30, 0);
}

TEST(replacement_inherits_that_shares_were_executed)
{
    opened(1, AAAA, BOOK_BUY, 100, PRICE);
    ouch_replaced(1, 100, PRICE + 100);
    take(ouch_executed(m, 1, 40, PRICE, 1)); /* before the replacement arrived */
    take(ouch_replaced_by(m, 1, 2, 'B', 60, "AAAA", PRICE + 100));
    assert_symbol(AAAA, 40, 60, 0);
    assert_true(ouch_symbol(AAAA)->own[BOOK_BUY].executed);
    ouch_replaced(2, 60, PRICE + 200);
    take(ouch_replaced_by(m, 2, 3, 'B', 60, "AAAA", PRICE + 200));
    assert_true(ouch_symbol(AAAA)->own[BOOK_BUY].executed);
    opened(4, BB, BOOK_BUY, 10, PRICE);
    ouch_replaced(4, 10, PRICE + 1);
    take(ouch_replaced_by(m, 4, 5, 'B', 10, "BB", PRICE + 1));
    assert_false(ouch_symbol(BB)->own[BOOK_BUY].executed);
}

TEST(cancellation_may_be_pending_or_rejected)
{
    uint32_t at = 0;
    opened(1, AAAA, BOOK_SELL, 100, PRICE);
    assert_int_equal(ouch_next_live(&at)->reference, 1);
    assert_null(ouch_next_live(&at));
    take(ouch_response(m, 'I', 1, 13)); /* to a cancellation of an earlier connection, or of an earlier run */
    assert_int_equal(ouch_cancel_waits_since_ns(), UINT64_MAX);
    ouch_cancelled(1, NS_PER_S);
    assert_int_equal(ouch_cancel_waits_since_ns(), NS_PER_S);
    at = 0;
    assert_null(ouch_next_live(&at));
    take(ouch_response(m, 'P', 1, 13));
    assert_true(ouch_symbol(AAAA)->own[BOOK_SELL].cancelling);
    take(ouch_response(m, 'I', 1, 13));
    assert_true(ouch_symbol(AAAA)->own[BOOK_SELL].cancelling); /* until the next retry */
    ouch_retry_cancels();
    assert_false(ouch_symbol(AAAA)->own[BOOK_SELL].cancelling);
    ouch_replaced(1, 90, PRICE);
    ouch_cancelled(1, NS_PER_S);
    take(ouch_response(m, 'I', 2, 13));
    take(ouch_response(m, 'J', 2, 29));
    assert_int_equal(ouch_cancel_waits_since_ns(), UINT64_MAX); /* the original stays, and nobody asked about it */
    ouch_cancelled(1, NS_PER_S);
    take(ouch_decrement(m, 1, 100));
    assert_symbol(AAAA, 0, 0, 0);
    assert_false(ouch_symbol(AAAA)->own[BOOK_SELL].cancelling); /* the side may order again */
}

TEST(broken_and_corrected_trades_move_the_position_back)
{
    opened(1, AAAA, BOOK_BUY, 100, PRICE);
    take(ouch_executed(m, 1, 60, PRICE, 77));
    take(ouch_executed(m, 1, 40, PRICE, 78));
    ouch_response(m, 'B', 9, 36); /* the match number alone decides between orders of others and ours */
    store_be64(m + 13, 77);
    assert_int_equal(take(36), AAAA);
    assert_symbol(AAAA, 40, 0, 0);
    ouch_response(m, 'F', 1, 49);
    store_be32(m + 13, 30);
    store_be64(m + 26, 78);
    take(49);
    assert_symbol(AAAA, 30, 0, 0);
    assert_true(ouch_is_sure());
    ouch_response(m, 'B', 1, 36);
    store_be64(m + 13, 77);
    take(36); /* broken twice */
    assert_false(ouch_is_sure());
}

TEST(lost_connection_settles_by_what_has_arrived)
{
    entered(AAAA, BOOK_BUY, 100, PRICE); /* 1: accepted */
    take(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'L'));
    ouch_cancelled(1, NS_PER_S);         /* the request is lost with the connection */
    entered(AAAA, BOOK_BUY, 200, PRICE); /* 2: arrives, its response is lost */
    entered(BB, BOOK_SELL, 300, PRICE);  /* 3: lost */
    ouch_logged_in(false);
    assert_false(ouch_is_ready());
    take(ouch_accepted(m, 2, 'B', 200, "AAAA", PRICE, 'L'));
    take(next_is(3));
    now_ns += OUCH_QUIET_NS - 1;
    assert_false(ouch_settle(now_ns));
    now_ns += 1;
    assert_true(ouch_settle(now_ns));
    assert_symbol(AAAA, 0, 300, 0);
    assert_symbol(BB, 0, 0, 0);
    assert_int_equal(ouch_counters.never_arrived, 1);
    assert_int_equal(ouch_levels.next_reference, 4); /* 3 is not used again: it may still be under way */
    uint32_t at = 0;
    assert_int_equal(ouch_next_live(&at)->reference, 1);
    take(ouch_accepted(m, 3, 'S', 300, "BB", PRICE, 'L')); /* after all: it can be cancelled */
    assert_symbol(BB, 0, 0, 300);
    assert_false(ouch_is_sure());
}

TEST(fresh_start_learns_the_day_from_the_repeated_responses)
{
    start_afresh();
    for (uint32_t reference = 1; reference <= 500; reference++) {
        take(ouch_accepted(m, reference, 'B', 10, "AAAA", PRICE, 'L'));
        take(ouch_executed(m, reference, 10, PRICE, reference));
        take(next_is(1)); /* answers to earlier queries are repeated, too */
    }
    take(ouch_accepted(m, 600, 'S', 70, "BB", PRICE, 'L'));
    become_ready(601);
    assert_symbol(AAAA, 5000, 0, 0);
    assert_symbol(BB, 0, 0, 70);
    assert_int_equal(ouch_levels.next_reference, 601);
    assert_true(ouch_levels.open == 1 && ouch_is_sure());
}

TEST(repeated_rejection_of_an_earlier_run_uses_up_its_reference)
{
    start_afresh();
    take(ouch_response(m, 'J', 7, 29));
    become_ready(1);
    assert_true(ouch_is_sure() && ouch_counters.rejected == 1);
    assert_int_equal(ouch_levels.next_reference, 8);
    ouch_logged_in(false);
    take(ouch_response(m, 'J', UINT32_MAX, 29)); /* none is left */
    assert_true(ouch_levels.next_reference == UINT64_C(1) << 32);
    become_ready(1);
    take(ouch_response(m, 'J', 9, 29)); /* from now on all references are our own */
    assert_false(ouch_is_sure());
}

/* Each row makes the positions unsure, and changes nothing else: both orders stay, and can be cancelled. */
TEST(contradictions_are_counted_and_end_all_trading)
{
    struct ouch_counters *const c = &ouch_counters;
    for (int row = 0, rows = 1; row < rows; row++) {
        test_before_each();
        opened(1, AAAA, BOOK_BUY, 100, PRICE);
        entered(AAAA, BOOK_BUY, 100, PRICE);
        entered(BB, BOOK_SELL, 100, PRICE);
        uint32_t bytes = 0, at = 0;
        rows = 0;
#define ROW(counter, write)                                                                                            \
    if (rows++ == row) {                                                                                               \
        bytes = (write);                                                                                               \
        assert_int_equal(take(bytes), -1);                                                                             \
        assert_int_equal(c->counter, 1);                                                                               \
    }
        ROW(drop_unknown_reference, ouch_executed(m, 9, 10, PRICE, 1))
        ROW(drop_unknown_reference, ouch_accepted(m, 9, 'B', 10, "AAAA", PRICE, 'L'))
        ROW(drop_unknown_reference, ouch_replaced_by(m, 8, 9, 'B', 10, "AAAA", PRICE))
        ROW(drop_unknown_reference, ouch_replaced_by(m, 1, 9, 'B', 10, "AAAA", PRICE))
        ROW(drop_unknown_reference, ouch_response(m, 'J', 9, 29))
        ROW(drop_unknown_reference, ouch_response(m, 'I', 9, 13))
        ROW(drop_unknown_reference, ouch_response(m, 'P', 9, 13))
        ROW(drop_state, ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'L'))
        ROW(drop_state, ouch_response(m, 'J', 1, 29))
        ROW(drop_state, ouch_decrement(m, 2, 10))
        ROW(drop_state, ouch_replaced_by(m, 1, 2, 'B', 10, "AAAA", PRICE))
        ROW(drop_state, ouch_replaced_by(m, 1, 0, 'B', 10, "AAAA", PRICE))
        ROW(drop_unknown_symbol, ouch_accepted(m, 2, 'B', 100, "ZZZ", PRICE, 'L'))
        ROW(drop_unknown_symbol, ouch_accepted(m, 2, 'B', 100, "BB", PRICE, 'L'))
        ROW(drop_side, ouch_accepted(m, 2, 'S', 100, "AAAA", PRICE, 'L'))
        ROW(drop_side, ouch_accepted(m, 2, 'T', 100, "AAAA", PRICE, 'L'))
        ROW(drop_side, ouch_accepted(m, 2, 'X', 100, "AAAA", PRICE, 'L'))
        ROW(drop_side, ouch_accepted(m, 3, 'B', 100, "BB", PRICE, 'L'))
        ROW(drop_side, ouch_accepted(m, 3, 'X', 100, "BB", PRICE, 'L'))
        ROW(drop_shares, ouch_accepted(m, 2, 'B', 101, "AAAA", PRICE, 'L'))
        ROW(drop_price, ouch_accepted(m, 2, 'B', 100, "AAAA", PRICE + 1, 'L'))
        ROW(drop_price, ouch_accepted(m, 3, 'S', 100, "BB", PRICE - 1, 'L'))
        ROW(drop_price, ouch_accepted(m, 2, 'B', 100, "AAAA", (UINT64_C(1) << 32) + PRICE, 'L'))
        ROW(drop_time_in_force, (ouch_accepted(m, 2, 'B', 100, "AAAA", PRICE, 'L'), m[13 + 21] = '3', 64))
        ROW(drop_excess, ouch_decrement(m, 1, 101))
        ROW(drop_length, ouch_accepted(m, 2, 'B', 100, "AAAA", PRICE, 'L') + 1)
        ROW(drop_length, ouch_decrement(m, 1, 10) - 1)
        ROW(drop_length, ouch_decrement(m, 1, 10) * 0 + 1)
        assert_false(ouch_is_sure());
        assert_non_null(ouch_contradiction());
        assert_symbol(AAAA, 0, 200, 0);
        assert_symbol(BB, 0, 0, 100);
        for (uint32_t live = 1; live <= 3; live++)
            assert_int_equal(ouch_next_live(&at)->reference, live);
    }
}

/* The exchange counts: the position moves. */
TEST(execution_that_contradicts_moves_the_position_and_is_unsure)
{
    for (int row = 0; row < 6; row++) {
        test_before_each();
        entered(AAAA, BOOK_BUY, 100, PRICE);
        if (row != 0)
            take(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'L'));
        const bool sells = row >= 4;
        opened(2, AAAA, BOOK_SELL, 100, PRICE + 10);
        const uint32_t shares = row == 1 ? 101 : 100;
        const uint64_t prices[] = { PRICE, PRICE, PRICE + 1, UINT64_MAX, PRICE + 9, 0 };
        assert_int_equal(take(ouch_executed(m, sells ? 2 : 1, shares, prices[row], 1)), AAAA);
        assert_int_equal(ouch_symbol(AAAA)->position, sells ? -100 : (int)shares);
        assert_false(ouch_is_sure());
        assert_int_equal(ouch_counters.drop_state, row == 0);
        assert_int_equal(ouch_counters.drop_excess, row == 1);
        assert_int_equal(ouch_counters.drop_price, row >= 2);
    }
}

TEST(replacement_of_an_order_that_has_ended_is_a_contradiction)
{
    opened(1, AAAA, BOOK_BUY, 100, PRICE);
    ouch_replaced(1, 100, PRICE);
    take(ouch_executed(m, 1, 100, PRICE, 1));
    assert_int_equal(take(ouch_replaced_by(m, 1, 2, 'B', 100, "AAAA", PRICE)), -1);
    assert_int_equal(ouch_counters.drop_state, 1);
    assert_symbol(AAAA, 100, 0, 0);
}

TEST(exchange_may_accept_fewer_shares_or_slide_the_price_to_a_better_one)
{
    entered(AAAA, BOOK_BUY, 100, PRICE);
    take(ouch_accepted(m, 1, 'B', 60, "AAAA", PRICE - 1, 'L'));
    assert_symbol(AAAA, 0, 60, 0);
    assert_int_equal(ouch_counters.slid, 1);
    assert_int_equal(ouch_symbol(AAAA)->own[BOOK_BUY].price, PRICE); /* nobody replaces it again and again */
    take(ouch_executed(m, 1, 10, PRICE - 5, 1));
    take(ouch_executed(m, 1, 10, PRICE, 2));
    entered(AAAA, BOOK_SELL, 100, PRICE + 100);
    take(ouch_accepted(m, 2, 'E', 100, "AAAA", PRICE + 200, 'L'));
    ouch_replaced(2, 90, PRICE + 50);
    take(ouch_replaced_by(m, 2, 3, 'S', 80, "AAAA", PRICE + 60));
    assert_int_equal(ouch_symbol(AAAA)->own[BOOK_SELL].price, PRICE + 50);
    assert_int_equal(ouch_counters.slid, 3);
    assert_true(ouch_is_sure());
    take(ouch_executed(m, 3, 10, PRICE + 49, 3));
    assert_false(ouch_is_sure());
}

TEST(adopted_order_is_known_by_its_acceptance_alone)
{
    ouch_init(names, 2);
    ouch_set_position(BB, -70);
    ouch_logged_in(false);
    take(ouch_accepted(m, 4, 'B', 100, "AAAA", PRICE - 10, 'L')); /* perhaps slid, so its limit may be higher */
    take(ouch_executed(m, 4, 30, PRICE, 1));
    take(ouch_executed(m, 4, 30, PRICE - 20, 2));
    assert_true(ouch_symbol(AAAA)->own[BOOK_BUY].executed);
    take(ouch_replaced_by(m, 4, 9, 'B', 40, "AAAA", PRICE));
    assert_true(ouch_symbol(AAAA)->own[BOOK_BUY].executed);
    take(ouch_accepted(m, 5, 'T', 100, "BB", PRICE, 'L'));
    take(ouch_executed(m, 5, 100, PRICE, 3));
    assert_true(ouch_is_sure() && ouch_counters.adopted == 3); /* one by a replacement */
    assert_symbol(AAAA, 60, 40, 0);
    assert_symbol(BB, -170, 0, 0);
    assert_int_equal(ouch_counters.shares_ordered, 240);
    take(ouch_accepted(m, 6, 'Z', 100, "BB", PRICE, 'L'));
    assert_int_equal(ouch_counters.drop_side, 1);
    take(ouch_accepted(m, 7, 'B', 100, "BB", ITCH_PRICE_MAX + UINT64_C(1), 'L'));
    assert_int_equal(ouch_counters.drop_price, 1);
    assert_false(ouch_is_sure());
}

TEST(cash_follows_executions_and_their_corrections)
{
    opened(1, AAAA, BOOK_BUY, 100, PRICE);
    take(ouch_executed(m, 1, 60, PRICE - 100, 77));
    assert_true(ouch_symbol(AAAA)->cash == -60 * (int64_t)(PRICE - 100));
    opened(2, AAAA, BOOK_SELL, 20, PRICE);
    take(ouch_executed(m, 2, 20, PRICE + 100, 78));
    assert_true(ouch_symbol(AAAA)->cash == -60 * (int64_t)(PRICE - 100) + 20 * (int64_t)(PRICE + 100));
    ouch_response(m, 'F', 1, 49);
    store_be32(m + 13, 60);
    store_be64(m + 17, PRICE - 200);
    store_be64(m + 26, 77);
    take(49);
    ouch_response(m, 'B', 2, 36);
    store_be64(m + 13, 78);
    take(36);
    assert_true(ouch_symbol(AAAA)->cash == -60 * (int64_t)(PRICE - 200) && ouch_is_sure());
}

TEST(nearest_prices_are_those_of_live_orders_and_of_replacements)
{
    const uint32_t *nearest = ouch_symbol(AAAA)->nearest;
    entered(AAAA, BOOK_BUY, 100, PRICE - 100);
    entered(AAAA, BOOK_BUY, 100, PRICE - 300);
    opened(3, AAAA, BOOK_SELL, 100, PRICE + 100);
    ouch_replaced(3, 100, PRICE + 50);
    assert_int_equal(nearest[BOOK_BUY], PRICE - 100);
    assert_int_equal(nearest[BOOK_SELL], PRICE + 50);
    take(ouch_response(m, 'J', 1, 29));
    take(ouch_response(m, 'J', 4, 29));
    assert_int_equal(nearest[BOOK_BUY], PRICE - 300);
    assert_int_equal(nearest[BOOK_SELL], PRICE + 100);
    take(ouch_decrement(m, 3, 100));
    assert_int_equal(nearest[BOOK_SELL], 0);
    assert_int_equal(ouch_symbol(BB)->nearest[BOOK_BUY], 0);
}

TEST(rejections_count_in_a_row_and_in_a_second)
{
    for (uint32_t reference = 1; reference <= 6; reference++) {
        entered(AAAA, BOOK_BUY, 100, PRICE);
        take(reference == 4 ? ouch_accepted(m, 4, 'B', 100, "AAAA", PRICE, 'L') : ouch_response(m, 'J', reference, 29));
        now_ns += reference == 5 ? NS_PER_S : 0;
        const uint64_t expected[] = { 1, 2, 3, 3, 4, 2 }; /* 4: in the second; at last: in a row */
        assert_int_equal(ouch_levels.rejects, expected[reference - 1]);
    }
    ouch_forget_rejects();
    assert_int_equal(ouch_levels.rejects, 0);
}

TEST(rejections_of_any_second_count)
{
    static const struct {
        uint32_t at_ms, level;
    } rows[] = { { 0, 1 }, { 200, 2 }, { 900, 3 }, { 950, 4 }, { 1100, 4 }, { 1200, 4 }, { 3000, 1 } };
    const uint64_t begin_ns = now_ns;
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        now_ns = begin_ns + rows[i].at_ms * NS_PER_MS;
        entered(AAAA, BOOK_BUY, 100, PRICE);
        take(ouch_accepted(m, 2 * i + 1, 'B', 100, "AAAA", PRICE, 'D')); /* ends the row */
        entered(AAAA, BOOK_BUY, 100, PRICE);
        take(ouch_response(m, 'J', 2 * i + 2, 29));
        assert_int_equal(ouch_levels.rejects, rows[i].level);
    }
    for (uint32_t i = 0; i < 2 * OUCH_REJECT_COUNT; i++) {
        entered(AAAA, BOOK_BUY, 100, PRICE);
        take(ouch_response(m, 'J', 15 + i, 29));
    }
    assert_int_equal(ouch_levels.rejects, 2 * OUCH_REJECT_COUNT + 1); /* the row */
    entered(AAAA, BOOK_BUY, 100, PRICE);
    take(ouch_accepted(m, 15 + 2 * OUCH_REJECT_COUNT, 'B', 100, "AAAA", PRICE, 'D'));
    assert_int_equal(ouch_levels.rejects, OUCH_REJECT_COUNT);
}

TEST(day_is_over_between_the_events_end_and_start_of_day)
{
    ouch_response(m, 'S', 0, 10);
    m[9] = 'E';
    take(10);
    assert_true(ouch_day_is_over() && ouch_is_sure());
    m[9] = 'S';
    take(10);
    assert_false(ouch_day_is_over());
}

TEST(cancellation_against_self_matching_has_a_strategy_or_none)
{
    opened(1, AAAA, BOOK_BUY, 100, PRICE);
    for (uint32_t extra = 0; extra < 2; extra++) {
        ouch_response(m, 'D', 1, 31 + 1 + 2 + 3);
        store_be32(m + 13, 10);
        assert_int_equal(take(31 + extra), AAAA);
        store_be16(m + 31 + extra, 3);
        assert_int_equal(take(31 + extra + 2 + 3), AAAA);
    }
    assert_symbol(AAAA, 0, 60, 0);
    assert_true(ouch_is_sure());
    ouch_response(m, 'D', 1, 34);
    assert_int_equal(take(30), -1);
    assert_false(ouch_is_sure());
}

TEST(appendages_and_other_responses_are_taken)
{
    entered(AAAA, BOOK_BUY, 100, PRICE);
    uint32_t bytes = ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'L');
    store_be16(m + 62, 5);
    assert_int_equal(take(bytes + 5), AAAA);
    bytes = ouch_decrement(m, 1, 10);
    store_be16(m + bytes, 3);
    assert_int_equal(take(bytes + 2 + 3), AAAA);
    assert_symbol(AAAA, 0, 90, 0);
    take(ouch_response(m, 'S', 0, 10));
    take(ouch_response(m, 'T', 1, 30));
    take(ouch_response(m, 'R', 1, 16));
    take(ouch_response(m, 'M', 1, 18));
    m[0] = 'z';
    take(18);
    assert_true(ouch_counters.drop_type == 1 && ouch_counters.others == 4 && ouch_is_sure());
    ouch_logged_in(true);
    assert_false(ouch_is_sure());
}
