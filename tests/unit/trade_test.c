/* app/trade/ as a program, over a transport that the test plays: from a datagram of the feed to the order's bytes, and
 * everything that must keep an order back. */
#include "app/nasdaq/mold.h"
#include "app/nasdaq/soup.h"
#include "app/trade/book.h"
#include "app/trade/ouch.h"
#include "app/trade/parts.h"
#include "app/trade/settings.h"
#include "app/trade/trade.h"
#include "base/text.h"
#include "base/trace.h"
#include "tests/lib/program_test.h"
#include "tests/lib/trade_messages.h"

#define WORDS                                                                                                          \
    "rerequest=10.0.2.2:5003 snapshot=10.0.2.2:5004 orders=10.0.2.2:5005 "                                             \
    "user=USER passwd=PW symbols=AAAA,BB orders.max=1024 shares=100 "
#define LINES "feed.a=0.0.0.0:5001 feed.b=0.0.0.0:5002 "
enum { EXCHANGE = 0x0a000202, SNAPSHOT = 5004, ORDERS = 5005, LOCATE = 7, PRICE = 1000000, REREQUEST_PORT = 26410 };

static uint64_t now_ns, sequence, responses;
static uint64_t spent_ns; /* by a turn, at each look at the clock */
static uint8_t m[128], packet[2048];
static int orders; /* the orders' connection */
static uint32_t seen_bytes;
static enum program_verdict verdict;

static uint64_t clock_now(void) { return now_ns + spent_ns; }

static const struct program_machine machine = { .tsc_khz = 1000000,
                                                .now_ns = clock_now,
                                                .secret = { 0x8c, 0x5f, 0x3a, 0x91, 0xd2, 0x7e, 0x64, 0x0b } };

static void turn(uint64_t ns)
{
    now_ns += ns;
    verdict = program.turn(now_ns);
    trade_check();
}

/* Lets time pass, a turn each millisecond. */
static void pass(uint64_t ns)
{
    for (uint64_t end_ns = now_ns + ns; now_ns < end_ns;)
        turn(NS_PER_MS);
}

/* ---- the exchange ---- */

static void queue_feed(uint16_t port, const char *session, uint64_t number, uint32_t bytes)
{
    uint32_t head = mold_head(packet, session, number, bytes > 0);
    if (bytes > 0)
        head += mold_block(packet + head, m, bytes);
    fake_datagram(EXCHANGE, 9, port, packet, head);
}

static void send_feed(uint16_t port, const char *session, uint64_t number, uint32_t bytes)
{
    queue_feed(port, session, number, bytes);
    turn(1000);
}

static void feed(uint32_t bytes) { send_feed(5001, MOLD_TEST_SESSION, sequence++, bytes); }

static void respond(uint32_t bytes)
{
    fake_data(orders, packet, soup_packet(packet, 'S', m, bytes));
    responses++;
    turn(1000);
}

/* Returns true if the program has sent exactly these bytes over the orders' connection since the last call. */
static bool has_sent(const char *bytes, uint32_t count)
{
    const struct fake_connection *c = &fake.connections[orders];
    bool equal = c->sent_bytes - seen_bytes == count && memcmp(c->sent + seen_bytes, bytes, count) == 0;
    seen_bytes = c->sent_bytes;
    return equal;
}

static bool has_sent_nothing(void) { return has_sent("", 0); }

/* Logs in. The host answers the account query, unless `next_reference` is 0. */
static void log_in(const char *session, uint32_t next_reference)
{
    for (int i = 0; i < 3000 && fake_to(ORDERS) < 0; i++)
        turn(NS_PER_MS);
    orders = fake_to(ORDERS);
    assert_true(orders >= 0);
    fake_connected(orders);
    pass(2 * NS_PER_MS);
    assert_int_equal(fake.connections[orders].sent_bytes, SOUP_LOGIN_BYTES);
    fake_data(orders, packet, soup_accepted(packet, session, responses + 1));
    pass(2 * NS_PER_MS);
    seen_bytes = SOUP_LOGIN_BYTES;
    assert_true(has_sent("\0\2UQ", 4));
    if (next_reference != 0)
        respond(ouch_response(m, 'Q', next_reference, 13));
}

static void be_idle(void)
{
    fake_data(orders, packet, soup_packet(packet, 'H', NULL, 0));
    turn(1000);
}

static const char *start_with(const char *lines, const char *words)
{
    char text[1024];
    snprintf(text, sizeof text, "%s%s%s", WORDS, lines, words);
    ouch_time_in_force = strstr(words, "strategy=take") != NULL ? '3' : '0';
    now_ns = 10 * NS_PER_S;
    sequence = 1;
    responses = spent_ns = 0;
    program_begin(text, &machine, now_ns);
    return program.init(&machine, now_ns);
}

static void start(const char *words) { assert_null(start_with(LINES, words)); }

/* Opens the market for AAAA at a last price of PRICE, with this book. */
static void open_market_at(uint32_t bid, uint32_t offer)
{
    feed(itch_directory(m, LOCATE, "AAAA"));
    feed(itch_action(m, LOCATE, 'T'));
    feed(itch_trade(m, LOCATE, PRICE));
    feed(itch_add(m, LOCATE, 1, 'B', 500, bid));
    feed(itch_add(m, LOCATE, 2, 'S', 500, offer));
    feed(itch_event(m, ITCH_MARKET_OPENS));
}

static void open_market(void) { open_market_at(PRICE - 10000, PRICE + 10000); }

static void start_session(const char *words, uint32_t next_reference)
{
    start(words);
    log_in("S1", next_reference);
    be_idle();
    pass(2 * OUCH_QUIET_NS);
}

static void start_trading(const char *words, uint32_t next_reference)
{
    start_session(words, next_reference);
    open_market();
    pass(5 * NS_PER_MS);
}

static void start_ready(const char *words)
{
    start_session(words, 1);
    open_market();
    pass(10 * NS_PER_MS);
    assert_true(has_sent_nothing());
}

BEFORE_EACH() { start_ready("strategy=take take.buy=100 take.sell=120"); }

#define ENTER_1 "\0\60UO\0\0\0\1B\0\0\0\144AAAA    \0\0\0\0\0\17\102\1003YPNNperegrine     \0\0"
enum { ENTER_BYTES = SOUP_HEAD_BYTES + OUCH_ENTER_BYTES };
static_assert(sizeof ENTER_1 - 1 == ENTER_BYTES, "ENTER_1 has each field of struct ouch_enter_wire");

/* Puts an order into the book that the strategy takes. */
static void trigger(uint64_t reference) { feed(itch_add(m, LOCATE, reference, 'S', 400, PRICE)); }

/* Lets the program send order 1, which the exchange accepts. */
static void order_is_accepted(void)
{
    trigger(10);
    respond(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'L'));
    seen_bytes = fake.connections[orders].sent_bytes;
}

/* ---- the way of a tick ---- */

TEST(tick_that_reaches_the_limit_sends_the_order_in_the_same_turn)
{
    const uint64_t turns = counter("trade.turns");
    assert_int_equal(fake.connections[orders].prepared_bytes, SOUP_HEAD_BYTES + OUCH_ENTER_FIXED_BYTES);
    assert_memory_equal(fake.connections[orders].message, "\0\60UO\0\0\0\1", 8);
    trace.cycles[TRACE_KICKED] = trace.cycles[TRACE_FRAME_SEEN] + 2000;
    trigger(10);
    assert_true(has_sent(ENTER_1, ENTER_BYTES) && counter("trade.orders") == 1);
    assert_true(counter("trade.turns") == turns + 1 && shown_tick_to_order.count == 1);
    pass(500 * NS_PER_MS); /* one at a time */
    assert_true(has_sent_nothing());
    respond(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'L'));
    respond(ouch_executed(m, 1, 100, PRICE, 1));
    assert_int_equal(ouch_symbol(0)->position, 100);
    pass(2 * NS_PER_MS); /* the offer still stands */
    assert_int_equal(fake.connections[orders].sent_bytes - seen_bytes, ENTER_BYTES);
    assert_true(counter("market.AAAA.long") == 100 && counter("market.AAAA.open_buy") == 100);
}

TEST(order_that_cannot_leave_waits)
{
    struct fake_connection *c = &fake.connections[orders];
    c->window_bytes = c->sent_bytes;
    trigger(10);
    c->no_message = true;
    trade.orders.prepared = NULL;
    trigger(11);
    assert_true(counter("trade.orders") == 0 && counter("trade.waited") >= 2);
}

TEST(rehearsals_send_their_own_order_and_change_nothing)
{
    uint64_t before[STATS_COUNTER_COUNT_MAX] = { 0 };
    struct counter_group c;
    const struct fake_connection *rehearsed = &fake.connections[FAKE_REHEARSED];
    const struct book_top top = *book_top(0);
    fake.rehearses = true;
    const struct rehearsal_counters at_first = rehearsal_counters, *const r = &rehearsal_counters;
    for (size_t i = 0; stats_counter(NULL, i, &c); i++)
        before[i] = *c.values;
    for (uint32_t left = 1000, sent = 0; sent < 5; left--) {
        assert_true(left > 0);
        turn(REHEARSAL_SLICE_NS);
        sent += rehearsed->sent_bytes == ENTER_BYTES;
    }
    assert_memory_equal(rehearsed->sent, "\0\60UO\0\0\0\1B\0\0\0\1AAAA    ", 21);
    assert_true(has_sent_nothing());
    assert_memory_equal(book_top(0), &top, sizeof top);
    book_check();
    for (size_t i = 0; stats_counter(NULL, i, &c); i++)
        assert_true(*c.values == before[i] || strcmp(c.counters->name, "turns") == 0
                    || strcmp(c.counters->name, "uptime_ns") == 0 || strncmp(c.prefix, "rehearsal.", 10) == 0);
    for (int i = 0; i < 300; i++)
        turn(REHEARSAL_SLICE_NS);
    assert_in_range(r->done - at_first.done, 300, 400);
    assert_int_equal(r->refused_busy + r->refused_stack + r->refused_program,
                     at_first.refused_busy + at_first.refused_stack + at_first.refused_program);
    trigger(10);
    assert_true(has_sent(ENTER_1, ENTER_BYTES));
}

/* Holds rehearsals back for each reason there is. Each one counts. */
TEST(rehearsals_that_are_held_back_count_their_reason)
{
    fake.rehearses = true;
    trade_settings.risk.notional_max = 1;
    for (int i = 0; i < 12; i++)
        turn(REHEARSAL_SLICE_NS);
    assert_int_equal(counter("rehearsal.refused_order"), 2);
    assert_null(trade_set(text_of("stop")));
    for (int i = 0; i < 12; i++)
        turn(REHEARSAL_SLICE_NS);
    assert_true(counter("rehearsal.refused_unarmed") == 2 && rehearsal_counters.refused_program == 4);
}

TEST(rehearsals_touch_no_order_that_stands)
{
    start_trading("strategy=join risk.short=on", 1);
    respond(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE - 10000, 'L'));
    respond(ouch_accepted(m, 2, 'T', 100, "AAAA", PRICE + 10000, 'L'));
    respond(ouch_executed(m, 2, 10, PRICE + 10000, 1)); /* the strategy would cancel, to follow a price */
    seen_bytes = fake.connections[orders].sent_bytes;
    fake.rehearses = true;
    for (int i = 0; i < 100; i++)
        turn(REHEARSAL_SLICE_NS);
    assert_true(fake.rehearsed_bytes > ENTER_BYTES && has_sent_nothing());
    assert_int_equal(ouch_counters.cancelled + ouch_counters.replaced, 0);
    assert_string_equal(trade_set(text_of("leave")), "order 1 is open: buy 100 AAAA     at 99.0000\n"
                                                     "order 2 is open: sell 90 AAAA     at 101.0000");
}

/* Answers the newest order of a side, or its replacement: the exchange's choice is random. */
static void answer_order(void)
{
    const struct ouch_order *o = &ouch_symbol(0)->own[random_below(BOOK_SIDE_COUNT)];
    const char letter = o->side == BOOK_BUY ? 'B' : 'S';
    if (o->state == OUCH_SENT && o->next_reference != 0)
        respond(ouch_replaced_by(m, o->reference, o->next_reference, letter, o->next_shares, "AAAA", o->price));
    else if (o->state == OUCH_SENT && random_below(8) == 0)
        respond(ouch_response(m, 'J', o->reference, 29));
    else if (o->state == OUCH_SENT)
        respond(ouch_accepted(m, o->reference, letter, o->open_shares, "AAAA", o->price, 'L'));
    else if (o->state == OUCH_OPEN && random_below(2) == 0)
        respond(ouch_executed(m, o->reference, 1 + (uint32_t)random_below(o->open_shares), o->price, random_next()));
    else if (o->state == OUCH_OPEN)
        respond(ouch_decrement(m, o->reference, o->open_shares));
}

static uint64_t added; /* the reference of the book's latest order; 0: deleted */

/* Does something to the program at random. */
static void act(void)
{
    struct fake_connection *c = &fake.connections[orders];
    const uint32_t price = PRICE + (uint32_t)random_below(200) * 100 - 10000;
    switch (random_below(32)) {
    case 0: /* lost on both lines, for good */
        sequence += random_below(20) == 0;
        break;
    case 1: /* there is no message area, or no window */
        c->no_message = random_below(4) == 0;
        c->window_bytes = random_below(4) == 0 ? c->sent_bytes + 20 : UINT32_MAX;
        break;
    case 2:
        trade_set(text_of(random_below(3) == 0 ? "stop" : "start"));
        break;
    case 3:
        spent_ns = random_below(2) * 20 * NS_PER_US;
        break;
    case 4: /* line B is a message ahead */
        send_feed(5002, MOLD_TEST_SESSION, sequence + 1, itch_trade(m, LOCATE, price));
        break;
    case 5:
        feed(itch_action(m, LOCATE, random_below(8) == 0 ? 'H' : 'T'));
        break;
    case 6:
        turn(random_below(200) * NS_PER_MS);
        break;
    case 7:
        feed(itch_trade(m, LOCATE, price));
        break;
    case 8:
    case 9:
    case 10:
        added = sequence + 100;
        feed(itch_add(m, LOCATE, added, random_below(2) == 0 ? 'B' : 'S', 50, price));
        break;
    case 11:
        if (added != 0)
            feed(itch_reduce(m, ITCH_DELETE, LOCATE, added, 0));
        added = 0;
        break;
    case 12:
    case 13:
    case 14:
        answer_order();
        break;
    default:
        turn(REHEARSAL_SLICE_NS);
    }
}

/* Returns a sum of the bytes sent, of the message area, of the strategy's state, and of the counters except the
 * rehearsals'. */
static uint64_t sum_of_all(void)
{
    struct counter_group c;
    const struct fake_connection *sent = &fake.connections[orders];
    const uint8_t *state = orders_views[0].state;
    uint64_t sum = mold_next_deadline_ns() + orders_views[0].wake_ns;
    for (uint32_t i = 0; i < STRATEGY_STATE_BYTES_MAX; i++)
        sum = sum * 31 + state[i];
    for (uint32_t i = 0; i < sent->sent_bytes; i++)
        sum = sum * 31 + (uint8_t)sent->sent[i];
    for (size_t i = 0; i < TRANSPORT_MESSAGE_BYTES_MAX; i++)
        sum = sum * 31 + sent->message[i];
    for (size_t i = 0; stats_counter(NULL, i, &c); i++)
        if (strncmp(c.prefix, "rehearsal.", 10) != 0)
            sum = sum * 31 + *c.values;
    return sum;
}

TEST(rehearsals_change_nothing_in_any_state)
{
    enum { GAMES = 24, ACTS = 400 };
    static uint64_t sums[ACTS];
    static const char *const words[] = { "strategy=join risk.short=on", "strategy=take take.buy=100.0 take.sell=100.5",
                                         "strategy=skew risk.short=on skew.rest=1ms" };
    random_seed(1);
    for (int game = 0; game < GAMES; game++) {
        const uint64_t seed = random_next();
        for (int pass = 0; pass < 2; pass++) {
            random_state = seed;
            added = 0;
            start_session(words[game % 3], 1);
            open_market();
            fake.rehearses = pass == 1;
            for (int i = 0; i < ACTS; i++) {
                act();
                if (pass == 0)
                    sums[i] = sum_of_all();
                else if (sums[i] != sum_of_all())
                    fail_msg("game %d: act %d differs", game, i);
            }
            assert_true(pass == 0 || fake.rehearsed_bytes > ENTER_BYTES);
        }
        assert_true(ouch_counters.entered > 0 || game < GAMES - 3); /* each strategy orders at last */
        random_state = seed;
    }
}

TEST(line_b_brings_what_line_a_has_lost_and_no_order_leaves_twice)
{
    uint64_t number = sequence++;
    uint32_t bytes = itch_add(m, LOCATE, 10, 'S', 400, PRICE);
    send_feed(5002, MOLD_TEST_SESSION, number, bytes);
    send_feed(5001, MOLD_TEST_SESSION, number, bytes);
    assert_true(has_sent(ENTER_1, ENTER_BYTES) && mold_counters.duplicates == 1);
}

TEST(gap_is_rerequested_and_the_order_leaves_when_all_is_there)
{
    uint64_t lost = sequence++;
    trigger(10);
    assert_true(has_sent_nothing());
    fake.datagram_count = 0;
    pass(2 * NS_PER_MS);
    assert_true(fake.datagram_count == 1 && fake.datagrams[0].to_port == 5003);
    assert_int_equal(load_be64(fake.datagrams[0].data + 10), lost);
    assert_int_equal(load_be16(fake.datagrams[0].data + 18), 1);
    uint32_t head = mold_head(packet, MOLD_TEST_SESSION, lost, 1);
    head += mold_block(packet + head, m, itch_trade(m, LOCATE, PRICE));
    fake_datagram(0x01020304, 5003, REREQUEST_PORT, packet, head); /* a stranger's */
    turn(1000);
    assert_true(counter("trade.drop_stranger") == 1 && has_sent_nothing());
    fake_datagram(EXCHANGE, 5003, REREQUEST_PORT, packet, head);
    turn(1000);
    assert_true(has_sent(ENTER_1, ENTER_BYTES));
}

TEST(stored_messages_are_taken_in_turns_without_time)
{
    uint64_t lost = sequence++;
    for (uint64_t i = 0; i < 5; i++)
        feed(itch_add(m, LOCATE, 20 + i, 'B', 100, PRICE - 9000));
    spent_ns = 20 * NS_PER_US;
    send_feed(5002, MOLD_TEST_SESSION, lost, itch_trade(m, LOCATE, PRICE));
    assert_false(mold_is_current());
    for (int i = 0; i < 4; i++)
        turn(1000);
    assert_int_equal(book_top(0)->shares[BOOK_BUY], 500);
    turn(1000);
    assert_true(mold_is_current() && !mold_has_backlog());
}

/* Returns the letter of the side of the one order that was sent since the last call; 0: none, '?': several. */
static char ordered_side(void)
{
    const struct fake_connection *c = &fake.connections[orders];
    char letter = 0;
    for (; seen_bytes < c->sent_bytes; seen_bytes += 2 + load_be16(c->sent + seen_bytes))
        if (c->sent[seen_bytes + 2] == 'U')
            letter = letter == 0 ? c->sent[seen_bytes + 8] : '?';
    return letter;
}

TEST(join_quotes_replaces_and_cancels)
{
    start_ready("strategy=watch");
    trigger(10);
    pass(10 * NS_PER_MS);
    assert_true(has_sent_nothing()); /* watch orders nothing */
    start_trading("strategy=join risk.short=on", 5);
    const char *sent = fake.connections[orders].sent + seen_bytes;
    assert_int_equal(fake.connections[orders].sent_bytes - seen_bytes, 2 * ENTER_BYTES);
    assert_memory_equal(sent + 3, "O\0\0\0\5B", 6);
    assert_memory_equal(sent + ENTER_BYTES + 3, "O\0\0\0\6T", 6);
    seen_bytes = fake.connections[orders].sent_bytes;
    respond(ouch_accepted(m, 5, 'B', 100, "AAAA", PRICE - 10000, 'L'));
    respond(ouch_accepted(m, 6, 'T', 100, "AAAA", PRICE + 10000, 'L'));
    feed(itch_add(m, LOCATE, 30, 'B', 100, PRICE - 5000));
    assert_memory_equal(fake.connections[orders].sent + seen_bytes, "\0\51UU\0\0\0\5\0\0\0\7\0\0\0\144", 16);
    seen_bytes = fake.connections[orders].sent_bytes;
    respond(ouch_replaced_by(m, 5, 7, 'B', 100, "AAAA", PRICE - 5000));
    respond(ouch_executed(m, 7, 10, PRICE - 5000, 1));
    feed(itch_add(m, LOCATE, 31, 'B', 100, PRICE - 4000));
    assert_true(has_sent("\0\12UX\0\0\0\7\0\0\0\0", 12) && ouch_symbol(0)->position == 10);
}

TEST(sale_of_exactly_what_is_held_is_no_short_sale)
{
    for (int held = 99; held <= 100; held++) {
        start_session(held == 99 ? "strategy=join risk.short=on position=AAAA:99"
                                 : "strategy=join risk.short=on position=AAAA:100",
                      5);
        open_market();
        pass(5 * NS_PER_MS);
        assert_memory_equal(fake.connections[orders].sent + seen_bytes + ENTER_BYTES + 3,
                            held == 99 ? "O\0\0\0\6T" : "O\0\0\0\6S", 6);
    }
}

TEST(side_that_risk_refuses_leaves_the_other_its_turn)
{
    start_session("strategy=join risk.short=on", 1);
    open_market_at(PRICE / 10 * 9, PRICE + 10000); /* the bid is beyond the collar */
    pass(200 * NS_PER_MS);
    assert_int_equal(ordered_side(), 'T');
    assert_true(counter("risk.refused_collar") > 0);
    start_trading("strategy=join risk.short=on risk.open=1", 1);
    pass(200 * NS_PER_MS);
    assert_true(counter("trade.orders") == 1 && lines_logged(0, "risk.refused_open has risen to ") > 0);
}

TEST(side_that_the_exchange_rejects_leaves_the_other_its_turn)
{
    start_trading("strategy=join risk.short=on risk.rate=1", 1);
    assert_int_equal(ordered_side(), 'B');
    respond(ouch_response(m, 'J', 1, 29));
    pass(900 * NS_PER_MS);
    assert_int_equal(ordered_side(), 0);
    pass(200 * NS_PER_MS);
    assert_int_equal(ordered_side(), 'T');
    respond(ouch_response(m, 'J', 2, 29));
    pass(1100 * NS_PER_MS);
    assert_int_equal(ordered_side(), 'B');
}

/* ---- what holds orders back ---- */

TEST(stop_button_holds_orders_back_and_cancels_those_that_are_open)
{
    order_is_accepted();
    assert_null(trade_set(text_of("stop")));
    assert_non_null(trade_set(text_of("faster")));
    turn(1000);
    assert_true(has_sent("\0\12UX\0\0\0\1\0\0\0\0", 12));
    respond(ouch_decrement(m, 1, 100));
    trigger(11);
    pass(200 * NS_PER_MS);
    assert_true(has_sent_nothing() && counter("pool.trade_stopped") == 1);
    assert_null(trade_set(text_of("start")));
    pass(2 * NS_PER_MS);
    assert_int_equal(fake.connections[orders].sent_bytes - seen_bytes, ENTER_BYTES);
}

TEST(rejected_cancellation_is_asked_for_again_ten_times_a_second)
{
    order_is_accepted();
    pass(101 * NS_PER_MS);
    seen_bytes = fake.connections[orders].sent_bytes;
    assert_null(trade_set(text_of("stop")));
    int sent = 0;
    for (int ms = 0; ms < 1000; ms++, turn(NS_PER_MS))
        if (has_sent("\0\12UX\0\0\0\1\0\0\0\0", 12) && ++sent > 0)
            respond(ouch_response(m, 'I', 1, 13));
    assert_in_range(sent, 9, 11);
    seen_bytes = fake.connections[orders].sent_bytes;
    respond(ouch_decrement(m, 1, 100));
    pass(200 * NS_PER_MS);
    assert_true(has_sent_nothing());
}

TEST(join_waits_before_it_asks_again_for_a_rejected_cancellation)
{
    start_ready("strategy=watch");
    start_trading("strategy=join risk.short=on", 5);
    respond(ouch_accepted(m, 5, 'B', 100, "AAAA", PRICE - 10000, 'L'));
    respond(ouch_accepted(m, 6, 'T', 100, "AAAA", PRICE + 10000, 'L'));
    respond(ouch_executed(m, 5, 10, PRICE - 10000, 1));
    seen_bytes = fake.connections[orders].sent_bytes;
    feed(itch_add(m, LOCATE, 31, 'B', 100, PRICE - 4000));
    assert_true(has_sent("\0\12UX\0\0\0\5\0\0\0\0", 12));
    respond(ouch_response(m, 'I', 5, 13));
    turn(1000);
    assert_true(has_sent_nothing());
    pass(101 * NS_PER_MS);
    assert_true(has_sent("\0\12UX\0\0\0\5\0\0\0\0", 12));
}

TEST(lost_feed_cancels_and_stops_until_it_is_back)
{
    order_is_accepted();
    pass(3 * NS_PER_S + 10 * NS_PER_MS);
    const struct fake_connection *c = &fake.connections[orders];
    uint32_t cancels = 0;
    for (uint32_t at = seen_bytes; at < c->sent_bytes; at += 2 + load_be16(c->sent + at))
        cancels += c->sent[at + 3] == 'X' && c->sent[at + 2] == 'U';
    assert_int_equal(cancels, 1);
    respond(ouch_decrement(m, 1, 100));
    assert_true(counter("trade.feed_losses") == 1 && counter("pool.trade_feed_current") == 0);
    assert_true(trade_next_deadline_ns(now_ns) > now_ns);
    seen_bytes = c->sent_bytes;
    send_feed(5001, MOLD_TEST_SESSION, sequence, 0); /* a heartbeat */
    pass(2 * NS_PER_MS);
    assert_int_equal(c->sent_bytes - seen_bytes, ENTER_BYTES);
}

/* Returns true if no order has left: a heartbeat at most has. */
static bool has_ordered_nothing(void) { return fake.connections[orders].sent_bytes - seen_bytes < ENTER_BYTES; }

/* Returns true if an order leaves soon after a heartbeat of the feed. */
static bool orders_when_the_feed_is_heard(void)
{
    send_feed(5001, MOLD_TEST_SESSION, sequence, 0);
    pass(2 * NS_PER_MS);
    return !has_ordered_nothing();
}

/* The frames that wait are as old as the pause, and some may be lost. Only a later datagram shows which. */
TEST(machine_that_stood_still_for_the_feeds_timeout_orders_nothing_on_old_datagrams)
{
    now_ns += 4 * NS_PER_S;
    for (uint64_t i = 0; i < 200; i++) /* more than a turn takes */
        queue_feed(5001, MOLD_TEST_SESSION, sequence++, itch_add(m, LOCATE, 10 + i, 'S', 400, PRICE));
    for (int i = 0; i < 500; i++) {
        turn(2 * NS_PER_MS);
        assert_true(has_ordered_nothing());
    }
    assert_true(counter("trade.feed_losses") == 1 && orders_when_the_feed_is_heard());
}

TEST(each_order_and_each_response_is_a_line_of_the_log)
{
    static const char *const lines[] = {
        "order 1: entered: buy 100 AAAA at 100.0000\n",
        "order 1: accepted: B 100 AAAA at 100.0000, the exchange's 0, state L\n",
        "order 1: executed: 40 AAAA at 100.0000, match 77, liquidity ?, position 40\n",
        "order 1: cancelled: 60 shares, reason ?\n",
        "order 2: entered: buy 100 AAAA at 100.0000\n",
        "order 2: rejected: reason 0\n",
        "order 1: broken: match 77, reason ?\n",
    };
    char line[LOG_LINE_BYTES_MAX + 1];
    uint64_t at = log_end();
    order_is_accepted();
    respond(ouch_executed(m, 1, 40, PRICE, 77));
    pass(2 * NS_PER_MS);
    assert_true(counter("market.AAAA.fills") == 1 && counter("market.BB.fills") == 0 && ouch_counters.executed == 1);
    respond(ouch_decrement(m, 1, 60));
    pass(NS_PER_MS);
    respond(ouch_response(m, 'J', 2, 29));
    ouch_response(m, 'B', 1, sizeof(struct ouch_broken_wire));
    store_be64(&((struct ouch_broken_wire *)m)->match, 77);
    respond(sizeof(struct ouch_broken_wire));
    for (size_t i = 0; i < ARRAY_COUNT(lines);) {
        const size_t bytes = log_read(&at, line);
        line[bytes] = '\0';
        if (bytes == 0)
            fail_msg("there is no line %s", lines[i]);
        i += strstr(line, lines[i]) != NULL;
        assert_true(i > 0 || strstr(line, "order ") == NULL);
    }
    pass(2 * NS_PER_MS);
    assert_int_equal(counter("market.AAAA.fills") + counter("market.AAAA.profit") + counter("market.AAAA.loss"), 0);
}

TEST(day_that_the_exchange_repeats_is_logged_by_its_executions)
{
    start("strategy=watch");
    log_in("S1", 1);
    uint64_t at = log_end(), before = at;
    respond(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'L'));
    respond(ouch_executed(m, 1, 40, PRICE, 77));
    assert_true(is_logged(&at, "order 1: executed: 40 AAAA at 100.0000, match 77, liquidity ?, position 40"));
    pass(2 * NS_PER_MS);
    assert_true(!is_logged(&before, "accepted") && counter("trade.repeated") == 1);
    assert_int_equal(counter("pool.trade_loss"), 0); /* no price is known */
}

TEST(datagrams_soon_after_a_pause_of_the_machine_are_old)
{
    uint64_t at = log_end();
    now_ns += 4 * NS_PER_S;
    turn(1000);
    assert_true(is_logged(&at, "trade: the machine has stood still"));
    for (uint64_t i = 0; i < 45; i++) {
        trigger(10 + i);
        turn(2 * NS_PER_MS);
        assert_true(has_ordered_nothing());
    }
    pass(20 * NS_PER_MS);
    assert_true(has_ordered_nothing() && orders_when_the_feed_is_heard());
}

TEST(feed_that_is_heard_in_the_first_turn_has_not_been_silent)
{
    start("");
    send_feed(5001, MOLD_TEST_SESSION, sequence, 0);
    pass(2 * NS_PER_MS);
    assert_int_equal(counter("trade.feed_losses"), 0);
}

TEST(doubt_of_the_books_or_the_positions_cancels_open_orders)
{
    for (int row = 0; row < 3; row++) {
        start_ready(row < 2 ? "strategy=take take.buy=100" : "strategy=take take.buy=100 cancel.on.loss=off");
        order_is_accepted();
        feed(itch_directory(m, LOCATE + 20, "BB"));
        feed(itch_reduce(m, ITCH_DELETE, LOCATE + 20, 999, 0)); /* doubt of another book */
        pass(5 * NS_PER_MS);
        assert_true(has_sent_nothing());
        if (row == 0)
            feed(itch_reduce(m, ITCH_EXECUTED, LOCATE, 99, 1)); /* an order that nobody has entered */
        else
            respond(ouch_executed(m, 99, 1, PRICE, 1)); /* one that is not ours */
        pass(5 * NS_PER_MS);
        assert_true(row < 2 ? has_sent("\0\12UX\0\0\0\1\0\0\0\0", 12) : has_sent_nothing());
    }
}

/* Each row is something after which the next trigger sends nothing. */
TEST(nothing_is_ordered_after_bad_input)
{
    for (int row = 0, rows = 1; row < rows; row++) {
        test_before_each();
        rows = 0;
#define ROW(input)                                                                                                     \
    if (rows++ == row)                                                                                                 \
        input;
        ROW(feed(itch_add(m, 4711, 9, 'B', 1, PRICE)))                 /* a stock locate without a directory message */
        ROW(feed(itch_add(m, LOCATE, 9, 'B', 1, ITCH_PRICE_MAX + 1u))) /* a price that no price field can hold */
        ROW(feed(itch_add(m, LOCATE, 9, 'B', 1, PRICE) - 1))           /* a length that is not the type's */
        ROW(feed(itch_reduce(m, ITCH_EXECUTED, LOCATE, 99, 1)))        /* an order that nobody has entered */
        ROW(respond(ouch_executed(m, 99, 1, PRICE, 1)))                /* a response about an order that is not ours */
        ROW(feed(itch_action(m, LOCATE, 'H')))                         /* the symbol is halted */
        ROW(feed(itch_event(m, ITCH_MARKET_CLOSES)))                   /* the market has closed */
        /* the end of the feed's session */
        ROW(fake_datagram(EXCHANGE, 9, 5001, packet, mold_head(packet, MOLD_TEST_SESSION, sequence, 0xffff)))
        ROW(fake_data(orders, packet, soup_packet(packet, 'Z', NULL, 0))) /* the orders' session has ended */
        turn(1000);
        trigger(10);
        pass(200 * NS_PER_MS);
        const struct fake_connection *c = &fake.connections[orders];
        if (c->sent_bytes != seen_bytes)
            fail_msg("row %d: %u bytes were sent", row, c->sent_bytes - seen_bytes);
    }
}

TEST(line_that_is_dead_is_said_and_so_is_its_return)
{
    uint64_t at = log_end();
    for (int i = 0; i < 40; i++) {
        feed(itch_trade(m, LOCATE, PRICE));
        pass(100 * NS_PER_MS);
    }
    assert_true(is_logged(&at, "line b is silent") && counter("trade.line_losses") == 1);
    send_feed(5002, MOLD_TEST_SESSION, sequence, 0);
    pass(2 * NS_PER_MS);
    assert_true(is_logged(&at, "line b is back"));
}

TEST(who_joins_late_loads_a_snapshot_before_anything_else)
{
    for (int late = 0; late < 2; late++) {
        start("");
        sequence = late ? 20000 : 5000;
        feed(itch_trade(m, LOCATE, PRICE));
        pass(5 * NS_PER_MS);
        assert_true(mold_is_lost() == late && (mold_counters.requests == 0) == late);
    }
}

TEST(another_session_of_the_feed_is_dropped)
{
    uint32_t bytes = itch_add(m, LOCATE, 10, 'S', 400, PRICE);
    send_feed(5001, "TOMORROW  ", sequence, bytes);
    send_feed(5001, "TOMORROW  ", 1, bytes);
    assert_true(has_sent_nothing() && mold_counters.drop_session == 2);
}

TEST(limits_of_the_settings_hold)
{
    feed(itch_trade(m, LOCATE, PRICE / 10 * 9));
    trigger(10);
    assert_true(has_sent_nothing() && counter("risk.refused_collar") == 1);
    feed(itch_trade(m, LOCATE, PRICE / 100 * 96));
    assert_true(has_sent(ENTER_1, ENTER_BYTES));
    start_ready("strategy=take take.buy=100 risk.rate=2");
    trigger(10);
    respond(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'D'));
    respond(ouch_accepted(m, 2, 'B', 100, "AAAA", PRICE, 'D'));
    pass(150 * NS_PER_MS);
    assert_true(counter("trade.orders") == 2 && counter("risk.refused_rate") > 0);
    pass(NS_PER_S);
    assert_int_equal(counter("trade.orders"), 3);
}

/* One flipped byte, the side, bought past every limit. */
TEST(acceptance_that_contradicts_its_order_cancels_it_and_stops)
{
    trigger(10);
    seen_bytes = fake.connections[orders].sent_bytes;
    respond(ouch_accepted(m, 1, 'S', 100, "AAAA", PRICE, 'L'));
    pass(2 * NS_PER_MS);
    assert_true(has_sent("\0\12UX\0\0\0\1\0\0\0\0", 12));
    respond(ouch_decrement(m, 1, 100));
    respond(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'L')); /* the order stands after all */
    pass(2 * NS_PER_MS);
    assert_true(has_sent("\0\12UX\0\0\0\1\0\0\0\0", 12));
    respond(ouch_decrement(m, 1, 100));
    for (uint64_t i = 0; i < 20; i++)
        trigger(11 + i);
    pass(500 * NS_PER_MS);
    assert_int_equal(counter("trade.orders"), 1);
    assert_true(counter("ouch.drop_side") == 1 && counter("pool.orders_sure") == 0);
}

TEST(datagrams_of_another_host_than_the_lines_source_change_nothing)
{
    for (int given = 0; given < 2; given++) {
        start_ready(given ? "strategy=take take.buy=100 feed.a.source=10.0.2.2"
                          : "strategy=take take.buy=100 feed.timeout=20"); /* more than the machine's clock shows */
        uint32_t head = mold_head(packet, MOLD_TEST_SESSION, sequence, 1);
        head += mold_block(packet + head, m, itch_add(m, LOCATE, 10, 'S', 400, PRICE));
        fake_datagram(EXCHANGE + 1, 9, 5001, packet, head);
        turn(1000);
        assert_true(has_sent_nothing() && counter("trade.drop_source") == 1);
        trigger(10);
        assert_true(has_sent(ENTER_1, ENTER_BYTES));
    }
    start("feed.a.source=10.0.2.3");
    send_feed(5001, MOLD_TEST_SESSION, sequence, 0);
    send_feed(5002, "TOO SHORT ", 0, 0); /* is no datagram of a feed: its host becomes no source */
    assert_true(counter("trade.drop_source") == 1 && mold_heard_ns() == 0);
    fake_datagram(EXCHANGE + 1, 9, 5002, packet, mold_head(packet, MOLD_TEST_SESSION, 1, 0));
    turn(1000);
    assert_int_equal(mold_heard_ns(), now_ns);
    send_feed(5002, MOLD_TEST_SESSION, 1, 0);
    assert_int_equal(counter("trade.drop_source"), 2);
    turn(trade_settings.feed_timeout_ns);
    send_feed(5002, MOLD_TEST_SESSION, 1, 0); /* the source is silent: another host may follow */
    assert_int_equal(mold_line_heard_ns(MOLD_B), now_ns);
}

TEST(loss_of_the_day_stops_and_cancels_until_the_operator_starts)
{
    start_ready("strategy=take take.buy=100 risk.loss=50 position=BB:+7");
    order_is_accepted();
    respond(ouch_executed(m, 1, 80, PRICE, 1));
    feed(itch_trade(m, LOCATE, PRICE - 6249)); /* 80 shares times 0.6249 are 49.992 */
    pass(2 * NS_PER_MS);
    assert_true(counter("pool.trade_loss") == 499920 && counter("trade.stops_loss") == 0);
    seen_bytes = fake.connections[orders].sent_bytes;
    feed(itch_trade(m, LOCATE, PRICE - 6250));
    pass(2 * NS_PER_MS);
    assert_true(counter("trade.stops_loss") == 1 && counter("pool.trade_stopped") == 1);
    assert_true(has_sent("\0\12UX\0\0\0\1\0\0\0\0", 12));
    feed(itch_broken(m, LOCATE, PRICE - 6250)); /* the price before counts again */
    pass(2 * NS_PER_MS);
    assert_true(counter("pool.trade_loss") == 499920 && counter("pool.trade_stopped") == 1);
    assert_true(trade_set(text_of("start")) == NULL && counter("pool.trade_stopped") == 0);
    feed(itch_trade(m, LOCATE, PRICE - 6250));
    pass(2 * NS_PER_MS);
    feed(itch_broken(m, LOCATE, PRICE - 6249));
    feed(itch_broken(m, LOCATE, PRICE));
    feed(itch_broken(m, LOCATE, PRICE - 6250));
    pass(2 * NS_PER_MS);
    assert_true(book_counters.broken == 4 && counter("market.AAAA.last") == 0 && counter("pool.trade_loss") == 500000);
    assert_string_equal(trade_set(text_of("start")), "the day's loss has reached risk.loss=");
    assert_true(counter("pool.trade_stopped") == 1 && counter("pool.trade_session_ready") == 1);
}

TEST(position_before_the_session_earns_from_the_first_price_on)
{
    start_ready("strategy=watch risk.short=on position=BB:-30,AAAA:300");
    assert_int_equal(ouch_symbol(0)->position, 300);
    assert_int_equal(ouch_symbol(1)->position, -30);
    feed(itch_trade(m, LOCATE, PRICE + 100));
    pass(2 * NS_PER_MS);
    assert_true(counter("pool.trade_profit") == 30000 && counter("pool.trade_loss") == 0);
    assert_int_equal(counter("market.AAAA.long"), 300);
}

/* The exchange says so, and nobody orders any more. */
TEST(position_beyond_all_reason_has_a_profit_that_can_be_counted)
{
    trigger(10);
    respond(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'L'));
    for (int i = 0; i < 8; i++)
        respond(ouch_executed(m, 1, UINT32_MAX, PRICE, (uint64_t)i));
    memcpy(m, "S\0\0\0\0\0\0\0\0E", 10);
    respond(10);
    fake_closed(orders, TRANSPORT_RESET);
    turn(1000);
    responses = 0;
    log_in("S2", 1);
    feed(itch_trade(m, LOCATE, ITCH_PRICE_MAX));
    pass(2 * NS_PER_MS);
    assert_true(ouch_symbol(0)->position > INT64_C(1) << 34);
    assert_int_equal(counter("pool.trade_profit"), (uint64_t)(ITCH_PRICE_MAX - PRICE) << 30);
}

TEST(orders_that_are_rejected_in_a_row_stop_the_program)
{
    start_ready("strategy=take take.buy=100 risk.rejects=3 risk.rate=100");
    trigger(10);
    for (uint32_t reference = 1; reference <= 3; reference++) {
        assert_int_equal(counter("pool.trade_stopped"), 0);
        respond(ouch_response(m, 'J', reference, 29));
        pass(101 * NS_PER_MS);
    }
    assert_true(counter("trade.orders") == 3 && counter("trade.stops_rejects") == 1);
    pass(NS_PER_S);
    assert_int_equal(counter("trade.orders"), 3);
    trade_set(text_of("start"));
    pass(101 * NS_PER_MS);
    assert_int_equal(counter("trade.orders"), 4);
    respond(ouch_response(m, 'J', 4, 29)); /* the first of the next row */
    pass(2 * NS_PER_MS);
    assert_int_equal(counter("pool.trade_stopped"), 0);
}

TEST(forged_print_and_bid_move_no_order_to_their_price)
{
    start_trading("strategy=join", 1);
    respond(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE - 10000, 'L'));
    feed(itch_trade(m, LOCATE, PRICE / 10 * 19));
    feed(itch_add(m, LOCATE, 10, 'B', 100, PRICE / 10 * 19));
    pass(200 * NS_PER_MS);
    assert_int_equal(ouch_counters.entered + ouch_counters.replaced, 1);
    assert_true(counter("risk.refused_collar") > 0);
}

TEST(crossed_book_makes_no_orders_that_meet_each_other)
{
    start_session("strategy=join risk.short=on", 1);
    open_market_at(PRICE + 100, PRICE - 100);
    pass(200 * NS_PER_MS);
    assert_true(counter("trade.orders") == 1 && counter("risk.refused_self") > 0);
}

TEST(nothing_leaves_after_the_orders_end_of_day)
{
    ouch_response(m, 'S', 0, 10);
    m[9] = 'E';
    respond(10);
    trigger(10);
    pass(200 * NS_PER_MS);
    assert_true(has_ordered_nothing() && counter("risk.refused_market") > 0);
}

TEST(slid_order_is_not_replaced_and_replacements_of_a_symbol_have_a_rate)
{
    start_trading("strategy=join risk.short=on risk.rate=100 risk.replaces=2", 1);
    respond(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE - 10100, 'L'));
    respond(ouch_accepted(m, 2, 'T', 100, "AAAA", PRICE + 10000, 'L'));
    pass(300 * NS_PER_MS);
    assert_true(ouch_counters.slid == 1 && ouch_counters.replaced == 0);
    for (uint32_t i = 0; i < 4; i++) {
        const struct ouch_order *o = &ouch_symbol(0)->own[BOOK_BUY];
        feed(itch_add(m, LOCATE, 50 + i, 'B', 100, PRICE - 9000 + 100 * i));
        if (o->next_reference != 0)
            respond(ouch_replaced_by(m, o->reference, o->next_reference, 'B', 100, "AAAA", o->next_price));
    }
    assert_int_equal(ouch_counters.replaced, 2);
    assert_true(counter("risk.refused_replaces") > 0);
    pass(1100 * NS_PER_MS);
    assert_int_equal(ouch_counters.replaced, 3);
}

TEST(restart_counts_the_orders_of_the_day_that_came_before)
{
    start_session("strategy=take take.buy=100 risk.day.orders=5", 6);
    open_market();
    trigger(10);
    pass(200 * NS_PER_MS);
    assert_true(has_ordered_nothing() && counter("risk.refused_day_orders") > 0);
    start_ready("strategy=take take.buy=100 risk.day.shares=199");
    trigger(10);
    respond(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'D'));
    pass(200 * NS_PER_MS);
    assert_true(counter("trade.orders") == 1 && counter("risk.refused_day_shares") > 0);
}

/* ---- sessions ---- */

TEST(unsequenced_packet_of_the_server_is_counted_and_passed_over)
{
    fake_data(orders, packet, soup_packet(packet, 'U', "whatever", 8));
    turn(1000);
    assert_int_equal(counter("soup.unsequenced"), 1);
    trigger(10);
    assert_true(has_sent(ENTER_1, ENTER_BYTES));
}

TEST(lost_session_is_resumed_and_open_orders_are_cancelled)
{
    order_is_accepted();
    fake_closed(orders, TRANSPORT_RESET);
    pass(100 * NS_PER_MS);
    for (int i = 0; i < 3; i++) { /* the feed goes on */
        send_feed(5001, MOLD_TEST_SESSION, sequence, 0);
        pass(500 * NS_PER_MS);
    }
    log_in("S1", 2);
    assert_memory_equal(fake.connections[orders].sent + 3, "USER  PW        S1                           3", 46);
    seen_bytes = fake.connections[orders].sent_bytes;
    pass(90 * NS_PER_MS);
    assert_true(has_sent_nothing());
    pass(20 * NS_PER_MS);
    assert_true(has_sent("\0\12UX\0\0\0\1\0\0\0\0", 12));
}

TEST(stopped_program_cancels_again_after_a_lost_session)
{
    start_ready("strategy=take take.buy=100 cancel.on.loss=off");
    order_is_accepted();
    trade_set(text_of("stop"));
    turn(1000);
    fake_closed(orders, TRANSPORT_RESET); /* the cancellation is lost with the connection */
    pass(1100 * NS_PER_MS);
    log_in("S1", 2);
    pass(OUCH_QUIET_NS + 5 * NS_PER_MS);
    assert_true(has_sent("\0\12UX\0\0\0\1\0\0\0\0", 12));
}

/* The first host is cut, or answers no cancellation: at the operator's stop, and on the way home. */
TEST(second_host_is_asked_to_cancel_what_the_first_does_not)
{
    for (int row = 0; row < 3; row++) {
        start_ready("strategy=take take.buy=100 orders.b=10.0.2.3:5005");
        order_is_accepted();
        const uint64_t since_ns = now_ns;
        if (row == 0)
            fake_closed(orders, TRANSPORT_RESET);
        else if (row == 1)
            trade_set(text_of("stop"));
        else
            service_leave();
        pass(row == 0 ? NS_PER_MS : NS_PER_S + 5 * NS_PER_MS);
        log_in("S1", 2);
        assert_int_equal(fake.connections[orders].address, EXCHANGE + 1);
        assert_memory_equal(fake.connections[orders].sent + 3, "USER  PW        S1                           3", 46);
        respond(ouch_response(m, 'I', 1, 13)); /* the first host's last word */
        pass(OUCH_QUIET_NS + 5 * NS_PER_MS);
        assert_true(has_sent("\0\12UX\0\0\0\1\0\0\0\0", 12));
        assert_in_range(now_ns - since_ns, 0, (row > 0) * NS_PER_S + 200 * NS_PER_MS);
        respond(ouch_decrement(m, 1, 100));
        pass(2 * NS_PER_MS);
        assert_int_equal(counter("trade.orders"), row == 0 ? 2 : 1); /* the program trades on there */
        assert_int_equal(verdict, row == 2 ? PROGRAM_GG : PROGRAM_ON);
    }
}

/* The host sends heartbeats alone; responses of the day that it repeats; there is no other host. */
TEST(second_host_is_asked_when_the_first_does_not_answer_the_account_query)
{
    for (int row = 0; row < 3; row++) {
        start(row < 2 ? "strategy=take take.buy=100 orders.b=10.0.2.3:5005" : "strategy=take take.buy=100");
        log_in("S1", 0);
        for (uint32_t i = 1; i <= 5; i++) {
            be_idle();
            if (row == 1)
                respond(ouch_accepted(m, i, 'B', 100, "AAAA", PRICE, 'L'));
            pass(i < 5 ? 700 * NS_PER_MS : 205 * NS_PER_MS);
            assert_int_equal(fake_to(ORDERS) >= 0 && fake.connections[fake_to(ORDERS)].address == EXCHANGE,
                             row > 0 || i < 5);
        }
        if (row == 0)
            log_in("S1", 1);
        assert_int_equal(fake.connections[fake_to(ORDERS)].address, EXCHANGE + (row == 0));
    }
}

/* The first host is lost before its time to answer is over. */
TEST(second_host_is_not_left_for_what_the_first_was_asked)
{
    start_ready("strategy=take take.buy=100 orders.b=10.0.2.3:5005");
    order_is_accepted();
    trade_set(text_of("stop"));
    pass(800 * NS_PER_MS);
    fake_closed(orders, TRANSPORT_RESET);
    pass(500 * NS_PER_MS);
    orders = fake_to(ORDERS);
    assert_true(orders >= 0);
    assert_int_equal(fake.connections[orders].address, EXCHANGE + 1);
    log_in("S1", 2);
    pass(OUCH_QUIET_NS + 5 * NS_PER_MS);
    assert_true(has_sent("\0\12UX\0\0\0\1\0\0\0\0", 12));
}

/* The host fills shares of an order, says that its cancellation is pending, or answers another cancellation. */
TEST(only_the_answer_to_a_cancellation_is_one)
{
    for (int row = 0; row < 4; row++) {
        start_trading("strategy=join risk.short=on orders.b=10.0.2.3:5005", 1);
        respond(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE - 10000, 'L'));
        respond(ouch_accepted(m, 2, 'T', 100, "AAAA", PRICE + 10000, 'L'));
        trade_set(text_of("stop"));
        pass(10 * NS_PER_MS);
        respond(row % 2 == 0 ? ouch_decrement(m, 2, 100) : ouch_response(m, 'P', 2, 13));
        respond(row < 2 ? ouch_executed(m, 1, 40, PRICE - 10000, 1) : ouch_response(m, 'P', 1, 13));
        pass(NS_PER_S + 10 * NS_PER_MS);
        assert_in_range(fake_to(ORDERS), 0, INT32_MAX);
        assert_int_equal(fake.connections[fake_to(ORDERS)].address, EXCHANGE + (row < 2));
    }
}

TEST(only_host_is_not_left_because_it_does_not_answer)
{
    order_is_accepted();
    trade_set(text_of("stop"));
    pass(2 * NS_PER_S);
    assert_false(fake.connections[orders].aborted_by_us);
}

TEST(fresh_start_is_ready_when_the_server_is_idle_behind_the_replay)
{
    start("strategy=take take.buy=100 cancel.on.loss=off");
    log_in("S1", 1); /* an answer of an earlier run */
    pass(OUCH_QUIET_NS * 3 / 2);
    assert_false(ouch_is_ready());
    respond(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'L'));
    respond(ouch_executed(m, 1, 100, PRICE, 1));
    pass(OUCH_QUIET_NS * 3 / 2);
    assert_false(ouch_is_ready());
    respond(ouch_response(m, 'Q', 2, 13));
    be_idle();
    pass(OUCH_QUIET_NS + 2 * NS_PER_MS);
    assert_true(ouch_is_ready() && ouch_is_sure());
    assert_int_equal(ouch_symbol(0)->position, 100);
}

TEST(orders_of_symbols_that_are_not_traded_any_more_are_said_and_cancelled)
{
    uint64_t at = log_end();
    start("strategy=take take.buy=100");
    log_in("S1", 1);
    respond(ouch_accepted(m, 1, 'B', 100, "CCC", PRICE, 'L'));
    respond(ouch_accepted(m, 2, 'S', 100, "DDD", PRICE, 'L'));
    respond(ouch_executed(m, 2, 40, PRICE, 1));
    respond(ouch_response(m, 'Q', 3, 13));
    be_idle();
    seen_bytes = fake.connections[orders].sent_bytes;
    pass(2 * OUCH_QUIET_NS);
    assert_true(has_sent("\0\12UX\0\0\0\1\0\0\0\0\0\12UX\0\0\0\2\0\0\0\0", 24));
    assert_true(is_logged(&at, "order 2 is cancelled, as its symbol is not traded here: sell 60 DDD      at 100.0000"));
    assert_true(is_logged(&at, "order 2: asked to cancel"));
    assert_int_equal(counter("pool.orders_foreign"), 2);
    respond(ouch_decrement(m, 1, 100));
    respond(ouch_decrement(m, 2, 60));
    assert_true(ouch_levels.open == 0 && ouch_is_sure());
    open_market();
    pass(5 * NS_PER_MS);
    trigger(10);
    assert_int_equal(counter("trade.orders"), 1);
}

TEST(orders_that_an_earlier_run_has_left_are_cancelled_first)
{
    for (int stopped = 0; stopped <= 1; stopped++) {
        uint64_t at = log_end();
        start(stopped ? "strategy=take take.buy=100 stopped=on" : "strategy=take take.buy=100 cancel.on.start=on");
        log_in("S1", 1);
        respond(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'L'));
        respond(ouch_response(m, 'Q', 2, 13));
        be_idle();
        seen_bytes = fake.connections[orders].sent_bytes;
        pass(2 * OUCH_QUIET_NS);
        assert_true(has_sent("\0\12UX\0\0\0\1\0\0\0\0", 12));
        assert_true(is_logged(&at, stopped ? "trade: stopped: the settings say so"
                                           : "order 1 is cancelled, as an earlier run has left it: buy 100 AAAA "));
        open_market();
        pass(5 * NS_PER_MS);
        trigger(10);
        assert_int_equal(counter("trade.orders"), 0);
        respond(ouch_decrement(m, 1, 100));
        pass(200 * NS_PER_MS);
        assert_int_equal(counter("trade.orders"), !stopped);
        assert_int_equal(counter("pool.trade_stopped"), stopped);
        assert_null(trade_set(text_of("start")));
        pass(2 * NS_PER_MS);
        assert_int_equal(counter("trade.orders"), 1);
    }
}

TEST(another_session_of_the_orders_ends_all_trading)
{
    fake_closed(orders, TRANSPORT_RESET);
    for (int i = 0; i < 3; i++) {
        send_feed(5001, MOLD_TEST_SESSION, sequence, 0);
        pass(500 * NS_PER_MS);
    }
    log_in("S2", 1);
    respond(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'D'));
    assert_int_equal(counter("trade.repeated"), 1);
    pass(300 * NS_PER_MS);
    trigger(10);
    pass(300 * NS_PER_MS);
    assert_true(has_sent_nothing());
    assert_false(ouch_is_sure());
}

TEST(refused_login_waits_and_is_said)
{
    start("strategy=take take.buy=100");
    pass(5 * NS_PER_MS);
    orders = fake_to(ORDERS);
    fake_connected(orders);
    pass(5 * NS_PER_MS);
    fake_data(orders, packet, soup_packet(packet, 'J', "A", 1));
    pass(5 * NS_PER_MS);
    assert_int_equal(counter("soup.refused_user"), 1);
    uint32_t attempts = fake.connect_count;
    open_market();
    trigger(10);
    pass(20 * NS_PER_S);
    assert_int_equal(fake.connect_count, attempts);
    pass(11 * NS_PER_S);
    assert_int_equal(fake.connect_count, attempts + 1);
}

TEST(heartbeats_keep_the_session_and_silence_ends_it)
{
    pass(1100 * NS_PER_MS);
    assert_true(has_sent("\0\1R", 3));
    uint32_t attempts = fake.connect_count;
    pass(17 * NS_PER_S);
    assert_int_equal(fake.connect_count, attempts + 1);
}

/* ---- snapshots ---- */

static void snapshot(int id, uint32_t bytes)
{
    fake_data(id, packet, soup_packet(packet, 'S', m, bytes));
    turn(1000);
}

/* Waits for the connection to the snapshots, and logs in there, at a message. Returns the connection. */
static int await_snapshot_at(uint64_t first)
{
    for (int i = 0; i < 9000 && fake_to(SNAPSHOT) < 0; i++) { /* the pauses between two loads grow */
        if (i % 100 == 0)
            send_feed(5001, MOLD_TEST_SESSION, sequence, 0);
        turn(NS_PER_MS);
    }
    int id = fake_to(SNAPSHOT);
    assert_true(id >= 0);
    fake_connected(id);
    pass(3 * NS_PER_MS);
    fake_data(id, packet, soup_accepted(packet, "SNAP", first));
    turn(1000);
    return id;
}

static int await_snapshot(void) { return await_snapshot_at(1); }

static void end_snapshot_at(int id, uint64_t number)
{
    m[0] = 'G';
    snprintf((char *)m + 1, 21, "%20llu", (unsigned long long)number);
    snapshot(id, 21);
    pass(2 * NS_PER_MS);
}

TEST(gap_that_stays_is_closed_by_a_snapshot)
{
    sequence += 3;
    feed(itch_add(m, LOCATE, 50, 'B', 10, PRICE - 9000));
    int id = await_snapshot();
    snapshot(id, itch_event(m, ITCH_MARKET_OPENS));
    snapshot(id, itch_directory(m, LOCATE, "AAAA"));
    snapshot(id, itch_action(m, LOCATE, 'T'));
    snapshot(id, itch_add(m, LOCATE, 2, 'S', 500, PRICE + 10000));
    trigger(60);
    assert_true(has_sent_nothing() && mold_is_lost());
    end_snapshot_at(id, sequence - 2);
    assert_true(mold_is_current() && book_is_whole());
    assert_int_equal(book_top(0)->price[BOOK_BUY], PRICE - 9000);
    assert_int_equal(book_top(0)->price[BOOK_SELL], PRICE);
    assert_true(fake.connections[id].aborted_by_us || fake.connections[id].closed_by_us);
    assert_true(has_sent_nothing()); /* without a last price there is no collar */
    feed(itch_trade(m, LOCATE, PRICE));
    assert_true(has_sent(ENTER_1, ENTER_BYTES));
}

/* A message about an order that nobody has heard of: its symbol's book is wrong. */
TEST(contradicted_book_is_healed_by_a_snapshot_while_the_others_trade_on)
{
    enum { OTHER = 8 };
    uint64_t at = log_end();
    feed(itch_directory(m, OTHER, "BB"));
    feed(itch_action(m, OTHER, 'T'));
    feed(itch_trade(m, OTHER, PRICE));
    feed(itch_reduce(m, ITCH_DELETE, LOCATE, 999, 0));
    pass(2 * NS_PER_MS);
    assert_true(is_logged(&at, "AAAA    : a message contradicts its book"));
    trigger(60);
    assert_true(has_sent_nothing());
    feed(itch_add(m, OTHER, 70, 'S', 400, PRICE));
    assert_int_equal(fake.connections[orders].sent_bytes - seen_bytes, ENTER_BYTES);
    respond(ouch_accepted(m, 1, 'B', 100, "BB", PRICE, 'L'));
    feed(itch_reduce(m, ITCH_DELETE, OTHER, 70, 0));
    respond(ouch_decrement(m, 1, 100));
    seen_bytes = fake.connections[orders].sent_bytes;
    for (int early = 0; early < 2; early++) { /* early: the snapshot is ahead of the lines */
        int id = await_snapshot();
        feed(itch_add(m, LOCATE, 61, 'S', 7, PRICE + 100)); /* in the snapshot, too */
        snapshot(id, itch_directory(m, LOCATE, "AAAA"));
        snapshot(id, itch_action(m, LOCATE, 'T'));
        snapshot(id, itch_add(m, LOCATE, 61, 'S', 7, PRICE + 100));
        snapshot(id, itch_add(m, OTHER, 71, 'B', 7, PRICE + 100)); /* the book is whole: passed over */
        const uint32_t bytes = itch_add(m, LOCATE, 62, 'S', 7, PRICE);
        early == 0 ? feed(bytes) : snapshot(id, bytes);
        end_snapshot_at(id, early == 0 ? sequence - 1 : sequence + 1);
        assert_true(mold_is_current() && book_is_whole() == (early == 0));
        if (early != 0)
            feed(itch_add(m, LOCATE, 62, 'S', 7, PRICE));
        pass(2 * NS_PER_MS);
        assert_true(book_is_whole() && is_logged(&at, "AAAA    : its book is whole"));
        assert_int_equal(book_top(0)->price[BOOK_SELL], PRICE);
        assert_int_equal(book_top(1)->price[BOOK_BUY], 0);
        book_check();
        assert_int_equal(counter("trade.orders"), 1 + early); /* the trades meanwhile are not known */
        feed(itch_trade(m, LOCATE, PRICE));
        assert_int_equal(counter("trade.orders"), 2 + early);
        respond(ouch_accepted(m, 2 + early, 'B', 7, "AAAA", PRICE, 'L'));
        feed(itch_reduce(m, ITCH_DELETE, LOCATE, 62, 0));
        respond(ouch_decrement(m, 2 + early, 7));
        feed(itch_reduce(m, ITCH_DELETE, LOCATE, 999, 0));
        seen_bytes = fake.connections[orders].sent_bytes;
    }
    assert_int_equal(counter("trade.snapshots"), 2);
}

/* The exchange keeps an order that was to be cancelled: its symbol has no other one before that has ended. */
TEST(healed_book_is_not_traded_before_the_old_orders_have_ended)
{
    start_ready("strategy=take take.buy=100 take.sell=100.5 risk.short=on");
    order_is_accepted();
    feed(itch_reduce(m, ITCH_DELETE, LOCATE, 999, 0));
    pass(2 * NS_PER_MS);
    respond(ouch_response(m, 'I', 1, 13));
    int id = await_snapshot();
    snapshot(id, itch_add(m, LOCATE, 61, 'B', 300, PRICE + 6000));
    end_snapshot_at(id, sequence);
    pass(5 * NS_PER_MS);
    feed(itch_trade(m, LOCATE, PRICE));
    assert_true(book_is_whole() && counter("trade.orders") == 1);
    respond(ouch_decrement(m, 1, 100));
    pass(2 * NS_PER_MS);
    assert_int_equal(counter("trade.orders"), 2);
}

/* GLIMPSE 5.0 has no message about an operational halt. */
TEST(operational_halt_holds_over_a_snapshot)
{
    for (int all = 0; all < 2; all++) {
        start_ready("strategy=take take.buy=100 take.sell=120");
        if (all)
            feed(itch_halt(m, LOCATE, 'Q', 'H'));
        feed(itch_reduce(m, ITCH_DELETE, all ? LOCATE + 20 : LOCATE, 999, 0));
        int id = await_snapshot();
        if (!all)
            feed(itch_halt(m, LOCATE, 'Q', 'H'));
        snapshot(id, itch_event(m, ITCH_MARKET_OPENS));
        snapshot(id, itch_directory(m, LOCATE, "AAAA"));
        snapshot(id, itch_action(m, LOCATE, 'T'));
        end_snapshot_at(id, sequence);
        feed(itch_trade(m, LOCATE, PRICE));
        trigger(60);
        assert_true(book_is_whole() && mold_is_current() && has_sent_nothing());
        feed(itch_halt(m, LOCATE, 'Q', 'T'));
        assert_true(has_sent(ENTER_1, ENTER_BYTES));
    }
}

/* A load that breaks off, or during which more comes than is kept, leaves the symbol in doubt and is tried again. */
TEST(snapshot_that_heals_no_book_is_loaded_again)
{
    feed(itch_reduce(m, ITCH_DELETE, LOCATE, 999, 0));
    fake_closed(await_snapshot(), TRANSPORT_RESET);
    int id = await_snapshot();
    for (int i = 0; i <= 1 << 14; i++)
        feed(itch_trade(m, LOCATE, PRICE));
    end_snapshot_at(id, sequence);
    assert_true(counter("trade.drop_kept_full") == 1 && !book_is_whole());
    id = await_snapshot();
    sequence += 2; /* a gap that stays: all books are rebuilt instead */
    feed(itch_trade(m, LOCATE, PRICE));
    pass(NS_PER_S);
    assert_true(mold_is_lost());
    end_snapshot_at(await_snapshot(), sequence);
    assert_true(mold_is_current() && book_is_whole());
}

/* The messages between an old snapshot and the first one that was kept are in neither: the book would lack them. */
TEST(snapshot_that_is_older_than_the_kept_messages_heals_no_book)
{
    feed(itch_reduce(m, ITCH_DELETE, LOCATE, 999, 0));
    int id = await_snapshot();
    const uint64_t old = sequence - 1;
    feed(itch_trade(m, LOCATE, PRICE));
    end_snapshot_at(id, old);
    assert_true(!book_is_whole() && counter("trade.drop_snapshot") == 1);
    end_snapshot_at(await_snapshot(), sequence);
    assert_true(book_is_whole());
}

TEST(snapshot_that_the_feed_does_not_reach_heals_no_book)
{
    feed(itch_reduce(m, ITCH_DELETE, LOCATE, 999, 0));
    for (int all = 0; all < 2; all++) {
        end_snapshot_at(await_snapshot(), UINT32_MAX);
        for (int i = 0; i < 35; i++) {
            send_feed(5001, MOLD_TEST_SESSION, sequence, 0);
            pass(100 * NS_PER_MS);
        }
        assert_true((all ? mold_is_lost() : !book_is_whole()) && counter("trade.drop_snapshot") == 1 + (uint64_t)all);
        end_snapshot_at(await_snapshot(), sequence);
        assert_true(book_is_whole() && mold_is_current());
        feed(itch_add(m, LOCATE, 999, 'B', 1, PRICE) - 1); /* all books are in doubt */
        pass(2 * NS_PER_MS);
    }
}

/* A server that stands for the one before has fewer messages, and no snapshot says where to go on. Line B is dead. */
TEST(feed_that_goes_back_is_not_traded_on)
{
    trade_settings.snapshot.address = 0;
    send_feed(5002, MOLD_TEST_SESSION, sequence, 0);
    for (int i = 0; i < 8; i++) {
        send_feed(5001, MOLD_TEST_SESSION, 2, 0);
        pass(NS_PER_S);
    }
    assert_true(mold_is_lost() && trade.switches.stuck);
    trigger(10);
    assert_int_equal(counter("trade.orders"), 0);
}

/* A message of which nobody can say whose it is: any book may be wrong. */
TEST(contradiction_of_all_books_is_healed_by_a_snapshot)
{
    uint64_t at = log_end();
    feed(itch_add(m, LOCATE, 999, 'B', 1, PRICE) - 1);
    pass(2 * NS_PER_MS);
    assert_int_equal(counter("mold.holds"), 1);
    assert_true(mold_is_lost() && is_logged(&at, "a message contradicts the books, and a snapshot is awaited"));
    trigger(60); /* the next message waits for the snapshot */
    int id = await_snapshot();
    snapshot(id, itch_event(m, ITCH_MARKET_OPENS));
    snapshot(id, itch_directory(m, LOCATE, "AAAA"));
    snapshot(id, itch_action(m, LOCATE, 'T'));
    end_snapshot_at(id, sequence - 1);
    assert_true(mold_is_current() && book_is_whole());
    assert_int_equal(mold_counters.requests, 0);
    assert_int_equal(book_top(0)->price[BOOK_SELL], PRICE);
    feed(itch_trade(m, LOCATE, PRICE));
    assert_true(has_sent(ENTER_1, ENTER_BYTES));
}

TEST(snapshots_that_do_not_help_are_loaded_ever_more_rarely)
{
    uint64_t loads = 0, since_ns = now_ns;
    feed(itch_reduce(m, ITCH_DELETE, LOCATE, 999, 0));
    while (now_ns < since_ns + 300 * NS_PER_S) {
        send_feed(5001, MOLD_TEST_SESSION, sequence, 0);
        fake_data(orders, packet, soup_packet(packet, 'H', NULL, 0));
        pass(200 * NS_PER_MS);
        int id = fake_to(SNAPSHOT);
        if (id < 0)
            continue;
        loads++;
        fake_closed(id, TRANSPORT_RESET);
    }
    assert_true(loads >= 5 && loads <= 12); /* after 1, 2, 4 ... and then each 64 s */
}

/* The server of the snapshot hangs, and the heartbeats go on. */
TEST(snapshot_that_does_not_end_is_loaded_again)
{
    feed(itch_reduce(m, ITCH_DELETE, LOCATE, 999, 0));
    int id = await_snapshot();
    for (int i = 0; i < 15; i++) {
        assert_false(fake.connections[id].aborted_by_us);
        fake_data(id, packet, soup_packet(packet, 'H', NULL, 0));
        fake_data(orders, packet, soup_packet(packet, 'H', NULL, 0));
        send_feed(5001, MOLD_TEST_SESSION, sequence, 0);
        pass(NS_PER_S + NS_PER_MS);
    }
    assert_true(fake.connections[id].aborted_by_us && counter("trade.drop_snapshot") == 1);
    end_snapshot_at(await_snapshot(), sequence);
    assert_true(book_is_whole());
}

static void end_snapshot(int id, const char *digits)
{
    m[0] = 'G';
    memcpy(m + 1, digits, 20);
    snapshot(id, 21);
    pass(2 * NS_PER_MS);
    assert_true(fake.connections[id].aborted_by_us);
}

TEST(malformed_end_or_missing_beginning_of_a_snapshot_makes_it_load_anew)
{
    static const char *const ends[] = { "                   x", "00000000000000000000", "                    ",
                                        "                  10" };
    sequence += 3;
    feed(itch_add(m, LOCATE, 50, 'B', 10, PRICE - 9000));
    for (size_t i = 0; i < ARRAY_COUNT(ends); i++) {
        end_snapshot(await_snapshot_at(i < 3 ? 1 : 2), ends[i]); /* the last one lacks its first message */
        assert_true(mold_is_lost());
        assert_int_equal(counter("trade.drop_snapshot"), i + 1);
    }
    int id = await_snapshot();
    snapshot(id, itch_directory(m, LOCATE, "AAAA"));
    end_snapshot(id, "                  10");
    assert_true(mold_is_current() && book_is_whole());
    assert_int_equal(book_top(0)->price[BOOK_BUY], PRICE - 9000);
}

/* The night between two days: both sessions end, and the next ones are joined without a restart. Positions stay. */
TEST(sessions_of_the_next_morning_are_joined)
{
    for (int has_snapshot = 0; has_snapshot < 2; has_snapshot++) {
        test_before_each();
        trade_settings.snapshot.address *= (uint32_t)has_snapshot;
        trigger(10);
        feed(itch_reduce(m, ITCH_DELETE, LOCATE, 10, 0));
        respond(ouch_accepted(m, 1, 'B', 100, "AAAA", PRICE, 'L'));
        respond(ouch_executed(m, 1, 100, PRICE, 1));
        feed(itch_trade(m, LOCATE, PRICE - 1000));
        pass(2 * NS_PER_MS);
        assert_int_equal(counter("pool.trade_loss"), 100000);
        fake_datagram(EXCHANGE, 9, 5001, packet, mold_head(packet, MOLD_TEST_SESSION, sequence, 0xffff));
        memcpy(m, "S\0\0\0\0\0\0\0\0E", 10);
        respond(10);
        fake_closed(orders, TRANSPORT_RESET);
        turn(1000);
        responses = 0;
        log_in("S2", 1);
        be_idle();
        pass(2 * OUCH_QUIET_NS);
        assert_true(ouch_is_ready() && ouch_is_sure() && counter("ouch.sessions") == 1);
        assert_int_equal(ouch_symbol(0)->position, 100);
        assert_int_equal(counter("pool.trade_loss") + counter("market.AAAA.fills"), 0); /* the next day's */
        uint64_t at = log_end();
        send_feed(5002, "TOMORROW  ", 1, itch_directory(m, LOCATE, "AAAA"));
        pass(2 * NS_PER_MS);
        assert_true(is_logged(&at, "the feed's session is TOMORROW"));
        if (has_snapshot)
            end_snapshot_at(await_snapshot(), 1);
        pass(50 * NS_PER_MS);
        assert_true(mold_is_current() && counter("mold.sessions") == 1);
        send_feed(5002, "TOMORROW  ", 2, itch_action(m, LOCATE, 'T'));
        send_feed(5001, "TOMORROW  ", 3, itch_event(m, ITCH_MARKET_OPENS));
        send_feed(5002, "TOMORROW  ", 4, itch_trade(m, LOCATE, PRICE));
        seen_bytes = fake.connections[orders].sent_bytes;
        send_feed(5001, "TOMORROW  ", 5, itch_add(m, LOCATE, 10, 'S', 400, PRICE));
        assert_true(has_sent(ENTER_1, ENTER_BYTES));
        pass(2 * NS_PER_MS);
        assert_int_equal(counter("pool.trade_profit"), 100000); /* from the evening's price on */
    }
}

/* A snapshot of the day before ends, before or after the change of the session was noticed. */
TEST(snapshot_of_the_session_before_is_no_start_of_the_next)
{
    for (int noticed = 0; noticed < 2; noticed++) {
        test_before_each();
        sequence += 3;
        feed(itch_add(m, LOCATE, 50, 'B', 10, PRICE - 9000));
        int id = await_snapshot();
        snapshot(id, itch_directory(m, LOCATE, "AAAA"));
        now_ns += trade_settings.feed_timeout_ns;
        send_feed(5002, "TOMORROW  ", 1, itch_directory(m, LOCATE, "AAAA"));
        if (noticed != 0)
            pass(2 * NS_PER_MS); /* the load is left */
        else
            end_snapshot_at(id, sequence);
        assert_true(mold_is_lost());
        end_snapshot_at(await_snapshot(), 1);
        pass(2 * NS_PER_MS);
        assert_true(mold_is_current() && mold_next_number() == 2);
    }
}

TEST(stray_datagram_whose_session_has_no_name_is_left)
{
    start("feed.timeout=100ms");
    trade_settings.snapshot.address = 0;
    send_feed(5001, "\0\0\0\0\0\0\0\0\0", 5, 0);
    pass(101 * NS_PER_MS);
    send_feed(5002, MOLD_TEST_SESSION, 1, 0);
    pass(50 * NS_PER_MS);
    assert_true(mold_is_current());
}

TEST(number_of_a_snapshots_end_may_be_padded)
{
    static const char *const ends[] = { "00000000000000000010", "10                  ", "                  10" };
    for (size_t i = 0; i < ARRAY_COUNT(ends); i++) {
        test_before_each();
        sequence += 3;
        feed(itch_add(m, LOCATE, 50, 'B', 10, PRICE - 9000));
        int id = await_snapshot();
        snapshot(id, itch_directory(m, LOCATE, "AAAA"));
        end_snapshot(id, ends[i]);
        assert_true(sequence == 11 && mold_is_current() && book_is_whole());
    }
}

/* ---- the way home ---- */

TEST(open_orders_are_cancelled_before_the_program_ends)
{
    start_ready("strategy=take take.buy=100 deadline=20");
    order_is_accepted();
    while (now_ns < 30 * NS_PER_S + 5 * NS_PER_MS) {
        send_feed(5001, MOLD_TEST_SESSION, sequence, 0);
        fake_data(orders, packet, soup_packet(packet, 'H', NULL, 0));
        pass(NS_PER_S / 4);
        assert_int_equal(verdict, PROGRAM_ON);
    }
    const struct fake_connection *c = &fake.connections[orders];
    assert_memory_equal(c->sent + c->sent_bytes - 12, "\0\12UX\0\0\0\1\0\0\0\0", 12);
    respond(ouch_decrement(m, 1, 100));
    assert_int_equal(verdict, PROGRAM_DEADLINE);
    start_ready("strategy=take take.buy=100 deadline=20");
    trigger(10);
    uint64_t at = log_end();
    for (int i = 0; i < 25 && verdict == PROGRAM_ON; i++) /* nobody answers: a second is enough */
        pass(NS_PER_S);
    assert_int_equal(verdict, PROGRAM_DEADLINE);
    assert_true(is_logged(&at, "trade: leaving with 1 open orders"));
    assert_true(is_logged(&at, "trade: order 1 stays open: buy 100 AAAA     at 100.0000"));
}

TEST(operator_who_ends_the_program_hears_which_orders_are_open)
{
    order_is_accepted();
    assert_string_equal(trade_set(text_of("leave")), "order 1 is open: buy 100 AAAA     at 100.0000");
    turn(1000);
    assert_true(has_sent("\0\12UX\0\0\0\1\0\0\0\0", 12));
    respond(ouch_decrement(m, 1, 40));
    assert_string_equal(trade_set(text_of("leave")), "order 1 is open: buy 60 AAAA     at 100.0000");
    respond(ouch_decrement(m, 1, 60));
    assert_null(trade_set(text_of("leave")));
    start_ready("strategy=take take.buy=100 cancel.on.exit=off");
    trigger(10);
    assert_null(trade_set(text_of("leave"))); /* the order is to stay open */
    assert_false(counter("pool.trade_stopped"));
}

TEST(signal_ends_the_program_after_its_cancellations)
{
    order_is_accepted();
    service_leave();
    turn(1000);
    assert_int_equal(verdict, PROGRAM_ON);
    turn(1000);
    assert_true(has_sent("\0\12UX\0\0\0\1\0\0\0\0", 12));
    assert_int_equal(verdict, PROGRAM_ON);
    respond(ouch_decrement(m, 1, 100));
    assert_int_equal(verdict, PROGRAM_GG);
    start_ready("strategy=take take.buy=100 cancel.on.exit=off");
    trigger(10);
    service_leave();
    turn(1000);
    assert_int_equal(verdict, PROGRAM_GG);
}

TEST(program_that_ends_while_its_session_is_lost_logs_in_again_to_cancel)
{
    order_is_accepted();
    fake_closed(orders, TRANSPORT_RESET);
    turn(1000);
    service_leave();
    turn(1000);
    assert_int_equal(verdict, PROGRAM_ON);
    log_in("S1", 2);
    pass(OUCH_QUIET_NS + 5 * NS_PER_MS);
    assert_true(has_sent("\0\12UX\0\0\0\1\0\0\0\0", 12));
    assert_int_equal(verdict, PROGRAM_ON);
    respond(ouch_decrement(m, 1, 100));
    assert_int_equal(verdict, PROGRAM_GG);
}

TEST(settings_refuse_what_makes_no_sense)
{
    static const struct {
        const char *words, *message;
    } rows[] = {
        { "strategy=take", "needs take.buy=" },
        { "strategy=take take.buy=5 take.sell=5", "is not less than" },
        { "shares=200", "more than risk.shares=" },
        { "take.buy=1.23456", "take.buy=" },
        { "take.buy=200001", "take.buy=" },
        { "take.buy=0", "take.buy=" },
        { "symbols=A,B", "symbols" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static struct settings settings;
        char text[1024];
        snprintf(text, sizeof text, "feed.a=0.0.0.0:1 orders=10.0.2.2:5005 user=U passwd= symbols=AAAA %s",
                 rows[i].words);
        service_settings_begin(&settings, program.name, program.settings, NULL);
        settings_add(&settings, "test", text, strlen(text));
        assert_false(settings_finish(&settings));
        assert_non_null(strstr(settings.error, rows[i].message));
    }
}

/* ---- multicast ---- */

#define GROUPS "feed.a=239.1.1.1:5001 feed.b=239.1.1.2:5001 "

TEST(lines_with_one_port_are_told_apart_by_their_groups)
{
    enum { GROUP_A = (int)0xef010101, GROUP_B, GROUP_OTHER };
    static const struct {
        int to;
        uint64_t a, b;
    } rows[] = { { GROUP_A, 1, 0 }, { GROUP_B, 1, 1 }, { GROUP_OTHER, 1, 1 } };
    assert_int_equal(fake.bind_count, 3); /* two lines, and the rerequests */
    assert_null(start_with(GROUPS, "strategy=watch"));
    assert_true(fake.bind_count == 2 && fake.group_count == 2);
    assert_true(fake.groups[0] == (uint32_t)GROUP_A && fake.groups[1] == (uint32_t)GROUP_B);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        uint32_t bytes = mold_head(packet, MOLD_TEST_SESSION, 1, 0);
        fake_datagram_to((uint32_t)rows[i].to, EXCHANGE, 9, 5001, packet, bytes);
        turn(1000);
        assert_int_equal(mold_counters.datagrams_a, rows[i].a);
        assert_int_equal(mold_counters.datagrams_b, rows[i].b);
    }
    assert_null(start_with("feed.a=0.0.0.0:5001 feed.b=239.1.1.2:5001 ", "strategy=watch"));
    for (uint32_t line = 0; line < 2; line++) {
        uint32_t bytes = mold_head(packet, MOLD_TEST_SESSION, 1, 0);
        fake_datagram_to(line == 0 ? fake.network.address : (uint32_t)GROUP_B, EXCHANGE + line, 9, 5001, packet, bytes);
        turn(1000);
        assert_true(mold_counters.datagrams_a == 1 && mold_counters.datagrams_b == line);
    }
    fake.refuse_join = true;
    assert_string_equal(program.init(&machine, now_ns), "feed.a=, feed.b=: this group cannot be joined");
}
