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

/* Logs in, and lets the session become ready. */
static void log_in(uint32_t next_reference)
{
    ouch_logged_in(false);
    take(next_is(next_reference));
    assert_false(ouch_settle(now_ns));
    now_ns += OUCH_QUIET_NS;
    assert_true(ouch_settle(now_ns));
}

BEFORE_EACH()
{
    now_ns = NS_PER_S;
    ouch_init(names, 2);
    log_in(1);
}

static void assert_symbol(uint32_t symbol, int64_t position, uint64_t open_buy, uint64_t open_sell)
{
    assert_true(ouch_symbol(symbol)->position == position);
    assert_int_equal(ouch_symbol(symbol)->open_shares[BOOK_BUY], open_buy);
    assert_int_equal(ouch_symbol(symbol)->open_shares[BOOK_SELL], open_sell);
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
    ouch_entered(AAAA, BOOK_BUY, 300, PRICE);
    ouch_write_replace(message, &ouch_symbol(AAAA)->own[BOOK_BUY], 200, PRICE + 1);
    assert_memory_equal(message, "U\0\0\0\1\0\0\0\2\0\0\0\310\0\0\0\0\0\17\102\1010YNperegrine     \0\0", 40);
    ouch_write_cancel(message, &ouch_symbol(AAAA)->own[BOOK_BUY]);
    assert_memory_equal(message, "X\0\0\0\1\0\0\0\0", 9);
}

TEST(order_is_accepted_executed_and_ends)
{
    ouch_entered(AAAA, BOOK_BUY, 100, PRICE);
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
    ouch_entered(AAAA, BOOK_SELL, 30, PRICE);
    take(ouch_accepted(m, 2, 'S', 30, "AAAA", PRICE, 'L'));
    take(ouch_executed(m, 2, 30, PRICE, 902));
    assert_symbol(AAAA, 70, 0, 0);
    assert_true(ouch_is_sure());
}

TEST(immediate_order_may_be_dead_on_arrival_and_its_rest_is_cancelled)
{
    ouch_entered(BB, BOOK_SELL, 100, PRICE);
    take(ouch_accepted(m, 1, 'T', 100, "BB", PRICE, 'L'));
    take(ouch_executed(m, 1, 10, PRICE, 1));
    take(ouch_decrement(m, 1, 90));
    assert_symbol(BB, -10, 0, 0);
    ouch_entered(BB, BOOK_SELL, 100, PRICE);
    take(ouch_accepted(m, 2, 'S', 100, "BB", PRICE, 'D'));
    assert_symbol(BB, -10, 0, 0);
    ouch_entered(BB, BOOK_SELL, 100, PRICE);
    take(ouch_response(m, 'J', 3, 29));
    assert_symbol(BB, -10, 0, 0);
    assert_int_equal(ouch_counters.rejected, 1);
}

TEST(replacement_counts_once_and_follows_the_fate_of_its_original)
{
    ouch_entered(AAAA, BOOK_BUY, 100, PRICE);
    take(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'L'));
    ouch_replaced(1, 150);
    assert_symbol(AAAA, 0, 150, 0); /* one of the two is executed: the larger one at the worst */
    assert_int_equal(ouch_levels.open, 1);
    assert_int_equal(take(ouch_replaced_by(m, 1, 2, 'B', 150, "AAAA", PRICE + 100)), AAAA);
    assert_symbol(AAAA, 0, 150, 0);
    assert_int_equal(ouch_symbol(AAAA)->own[BOOK_BUY].price, PRICE + 100);
    ouch_replaced(2, 150);
    take(ouch_executed(m, 2, 150, PRICE, 1)); /* before the replacement arrived: the exchange ignores that one */
    assert_symbol(AAAA, 150, 0, 0);
    assert_int_equal(ouch_levels.open, 0);
    ouch_entered(AAAA, BOOK_BUY, 10, PRICE);
    take(ouch_accepted(m, 4, 'B', 10, "AAAA", PRICE, 'L'));
    ouch_replaced(4, 10);
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
    ouch_entered(AAAA, BOOK_BUY, 100, PRICE);
    take(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'L'));
    ouch_replaced(1, 100);
    ouch_write_cancel(message, ouch_next_live(&at));
    assert_int_equal(load_be32(message + 1), 2);
    ouch_cancelled(1);
    take(ouch_response(m, 'J', 2, 29));
    at = 0;
    ouch_write_cancel(message, ouch_next_live(&at));
    assert_int_equal(load_be32(message + 1), 1);
    ouch_replaced(1, 100);
    at = 0;
    ouch_cancelled(ouch_next_live(&at)->reference);
    take(ouch_replaced_by(m, 1, 3, 'B', 100, "AAAA", PRICE));
    assert_true(ouch_symbol(AAAA)->own[BOOK_BUY].cancelling);
    take(ouch_decrement(m, 3, 100));
    assert_symbol(AAAA, 0, 0, 0);
    assert_true(ouch_is_sure());
}

TEST(replacement_that_never_arrived_leaves_its_original)
{
    ouch_entered(AAAA, BOOK_BUY, 100, PRICE);
    take(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'L'));
    ouch_replaced(1, 150);
    log_in(2);
    assert_symbol(AAAA, 0, 100, 0);
    assert_int_equal(ouch_symbol(AAAA)->own[BOOK_BUY].state, OUCH_OPEN);
    assert_int_equal(ouch_counters.never_arrived, 1);
}

TEST(replacement_by_a_reference_that_is_taken_is_a_contradiction)
{
    ouch_init(names, 2);
    ouch_logged_in(false);
    take(ouch_accepted(m, 1, 'B', 10, "AAAA", PRICE, 'L'));
    take(ouch_accepted(m, 2, 'B', 20, "AAAA", PRICE, 'L'));
    assert_int_equal(take(ouch_replaced_by(m, 1, 2, 'B', 10, "AAAA", PRICE)), -1);
    assert_false(ouch_is_sure());
    assert_symbol(AAAA, 0, 30, 0);
}

TEST(replacement_inherits_that_shares_were_executed)
{
    ouch_entered(AAAA, BOOK_BUY, 100, PRICE);
    take(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'L'));
    ouch_replaced(1, 100);
    take(ouch_executed(m, 1, 40, PRICE, 1)); /* before the replacement arrived */
    take(ouch_replaced_by(m, 1, 2, 'B', 60, "AAAA", PRICE + 100));
    assert_symbol(AAAA, 40, 60, 0);
    assert_true(ouch_symbol(AAAA)->own[BOOK_BUY].executed);
    ouch_replaced(2, 60);
    take(ouch_replaced_by(m, 2, 3, 'B', 60, "AAAA", PRICE + 200));
    assert_true(ouch_symbol(AAAA)->own[BOOK_BUY].executed);
    ouch_entered(BB, BOOK_BUY, 10, PRICE);
    take(ouch_accepted(m, 4, 'B', 10, "BB", PRICE, 'L'));
    ouch_replaced(4, 10);
    take(ouch_replaced_by(m, 4, 5, 'B', 10, "BB", PRICE + 1));
    assert_false(ouch_symbol(BB)->own[BOOK_BUY].executed);
}

TEST(cancellation_may_be_pending_or_rejected)
{
    uint32_t at = 0;
    ouch_entered(AAAA, BOOK_SELL, 100, PRICE);
    take(ouch_accepted(m, 1, 'S', 100, "AAAA", PRICE, 'L'));
    assert_int_equal(ouch_next_live(&at)->reference, 1);
    assert_null(ouch_next_live(&at));
    ouch_cancelled(1);
    at = 0;
    assert_null(ouch_next_live(&at));
    take(ouch_response(m, 'P', 1, 13));
    assert_true(ouch_symbol(AAAA)->own[BOOK_SELL].cancelling);
    take(ouch_response(m, 'I', 1, 13));
    assert_true(ouch_symbol(AAAA)->own[BOOK_SELL].cancelling); /* until the next retry */
    ouch_retry_cancels();
    assert_false(ouch_symbol(AAAA)->own[BOOK_SELL].cancelling);
    ouch_cancelled(1);
    take(ouch_decrement(m, 1, 100));
    assert_symbol(AAAA, 0, 0, 0);
    assert_false(ouch_symbol(AAAA)->own[BOOK_SELL].cancelling); /* the side may order again */
}

TEST(broken_and_corrected_trades_move_the_position_back)
{
    ouch_entered(AAAA, BOOK_BUY, 100, PRICE);
    take(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'L'));
    take(ouch_executed(m, 1, 60, PRICE, 77));
    take(ouch_executed(m, 1, 40, PRICE, 78));
    ouch_response(m, 'B', 1, 36);
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
    ouch_entered(AAAA, BOOK_BUY, 100, PRICE); /* 1: accepted */
    take(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'L'));
    ouch_cancelled(1);                        /* the request is lost with the connection */
    ouch_entered(AAAA, BOOK_BUY, 200, PRICE); /* 2: arrives, its response is lost */
    ouch_entered(BB, BOOK_SELL, 300, PRICE);  /* 3: lost */
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
}

TEST(fresh_start_learns_the_day_from_the_repeated_responses)
{
    ouch_init(names, 2);
    ouch_logged_in(false);
    for (uint32_t reference = 1; reference <= 500; reference++) {
        take(ouch_accepted(m, reference, 'B', 10, "AAAA", PRICE, 'L'));
        take(ouch_executed(m, reference, 10, PRICE, reference));
        take(next_is(1)); /* answers to earlier queries are repeated, too */
    }
    take(ouch_accepted(m, 600, 'S', 70, "BB", PRICE, 'L'));
    take(next_is(601));
    now_ns += OUCH_QUIET_NS;
    assert_true(ouch_settle(now_ns));
    assert_symbol(AAAA, 5000, 0, 0);
    assert_symbol(BB, 0, 0, 70);
    assert_int_equal(ouch_levels.next_reference, 601);
    assert_int_equal(ouch_levels.open, 1);
    assert_true(ouch_is_sure());
}

TEST(repeated_rejection_of_an_earlier_run_uses_up_its_reference)
{
    ouch_init(names, 2);
    ouch_logged_in(false);
    take(ouch_response(m, 'J', 7, 29));
    take(next_is(1));
    now_ns += OUCH_QUIET_NS;
    assert_true(ouch_settle(now_ns) && ouch_is_sure());
    assert_int_equal(ouch_counters.rejected, 1);
    assert_int_equal(ouch_levels.next_reference, 8);
    take(ouch_response(m, 'J', 9, 29)); /* from now on all references are our own */
    assert_false(ouch_is_sure());
}

/* Each row makes the positions unsure, and changes nothing else. */
TEST(contradictions_are_counted_and_end_all_trading)
{
    for (int row = 0; row < 8; row++) {
        test_before_each();
        ouch_entered(AAAA, BOOK_BUY, 100, PRICE);
        take(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'L'));
        const uint64_t *counter = NULL;
        uint32_t bytes = 0;
        switch (row) {
        case 0:
            counter = &ouch_counters.drop_unknown_reference;
            bytes = ouch_executed(m, 9, 10, PRICE, 1);
            break;
        case 1:
            counter = &ouch_counters.drop_unknown_reference;
            bytes = ouch_accepted(m, 9, 'B', 10, "AAAA", PRICE, 'L');
            break;
        case 2:
            counter = &ouch_counters.drop_unknown_reference;
            bytes = ouch_replaced_by(m, 8, 9, 'B', 10, "AAAA", PRICE);
            break;
        case 3:
            counter = &ouch_counters.drop_unknown_symbol;
            bytes = ouch_accepted(m, 1, 'B', 10, "ZZZ", PRICE, 'L');
            break;
        case 4:
            counter = &ouch_counters.drop_price;
            bytes = ouch_accepted(m, 1, 'B', 10, "AAAA", ITCH_PRICE_MAX + UINT64_C(1), 'L');
            break;
        case 5:
            counter = &ouch_counters.drop_excess;
            bytes = ouch_decrement(m, 1, 101);
            break;
        case 6:
            counter = &ouch_counters.drop_length;
            bytes = ouch_accepted(m, 1, 'B', 10, "AAAA", PRICE, 'L') + 1;
            break;
        case 7:
            counter = &ouch_counters.drop_length;
            bytes = ouch_decrement(m, 1, 10) - 1;
            break;
        }
        assert_int_equal(take(bytes), -1);
        assert_int_equal(*counter, 1);
        assert_false(ouch_is_sure());
        assert_symbol(AAAA, 0, 100, 0);
    }
}

TEST(more_executed_than_open_counts_as_the_exchange_says_and_is_unsure)
{
    ouch_entered(AAAA, BOOK_BUY, 100, PRICE);
    take(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'L'));
    assert_int_equal(take(ouch_executed(m, 1, 101, PRICE, 1)), AAAA);
    assert_symbol(AAAA, 101, 0, 0);
    assert_false(ouch_is_sure());
}

TEST(cancellation_against_self_matching_has_a_strategy_or_none)
{
    ouch_entered(AAAA, BOOK_BUY, 100, PRICE);
    take(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'L'));
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
    ouch_entered(AAAA, BOOK_BUY, 100, PRICE);
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
    assert_int_equal(ouch_counters.drop_type, 1);
    assert_int_equal(ouch_counters.others, 4);
    assert_true(ouch_is_sure());
    ouch_logged_in(true);
    assert_false(ouch_is_sure());
}
