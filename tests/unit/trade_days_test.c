/* Bad days: an exchange that loses, lags and lies, and app/trade/ at it, over a transport that the test plays. After a
 * row's trouble the program's books are the exchange's within the row's time, and the row's counters have counted. */
#include "app/nasdaq/mold.h"
#include "app/nasdaq/soup.h"
#include "app/trade/book.h"
#include "app/trade/parts.h"
#include "app/trade/trade.h"
#include "tests/lib/program_test.h"
#include "tests/lib/trade_messages.h"

enum {
    EXCHANGE = 0x0a000202,
    REREQUEST = 5003,
    SNAPSHOT = 5004,
    REREQUEST_PORT = 26410,
    LOCATE = 7, /* AAAA's; BB has the next one */
    PRICE = 1000000,
    FIRST = 6, /* the number of the first message about an order */
    MESSAGES_MAX = 1 << 19,
    MESSAGE_BYTES_MAX = 40,
    LIVE_MAX = 400,
    FILL_MAX = 4200,
    FLOOD = 100000,
    FLOOD_EACH = 30,
};
#define STEP_NS  (100 * NS_PER_US)
#define LATER_NS (20 * NS_PER_MS) /* a second load's, which begins a second after the first */
#define WORDS                                                                                                          \
    "feed.a=0.0.0.0:5001 feed.b=0.0.0.0:5002 orders=10.0.2.2:5005 user=USER passwd=PW symbols=AAAA,BB "                \
    "feed.timeout=300ms "
#define SERVERS "rerequest=10.0.2.2:5003 snapshot=10.0.2.2:5004 "

static const struct day {
    const char *name, *words;     /* words: settings besides WORDS; NULL: SERVERS */
    uint32_t rate;                /* messages a step, of which each is a datagram; 0: 10 */
    uint32_t lost[2];             /* datagrams of a line, in percent, while the trouble lasts */
    uint32_t unanswered;          /* requests, in percent */
    bool has_holes;               /* answers lack their first message, or some of the last */
    uint64_t lag, lag_ns;         /* messages by which snapshots are old, and for how long */
    void (*begin)(void);          /* begins the trouble */
    uint64_t trouble_ns;          /* so long the lines lose from then on */
    uint64_t healed_ns;           /* after it: the most; 0: a second */
    const char *counts[3], *not ; /* counters that rise, and one that does not */
} * day;
static struct message {
    uint8_t bytes, data[MESSAGE_BYTES_MAX];
    uint64_t deleted_by; /* the number of the message that deletes this one's order */
} messages[MESSAGES_MAX];
static uint64_t next, live[LIVE_MAX], now_ns, began_ns; /* next: the number of the next message; live: of additions */
static uint32_t live_count;
static bool in_trouble, is_stale, served;
static int connecting; /* the connection for a snapshot that is coming up; -1: none */

static uint64_t clock_now(void) { return now_ns; }
static const struct program_machine machine = { .tsc_khz = 1000000, .now_ns = clock_now, .secret = { 0x8c, 0x5f } };

static void turn(uint64_t ns)
{
    now_ns += ns;
    assert_int_equal(program.turn(now_ns), PROGRAM_ON);
}

/* ---- the exchange ---- */

static struct message *begin_message(void)
{
    assert_true(next < MESSAGES_MAX);
    messages[next].deleted_by = 0;
    return &messages[next++];
}

/* Returns the locate of the symbol of an addition, which follows from its number. */
static uint16_t locate_of(uint64_t number) { return (uint16_t)(LOCATE + number % 2); }

/* Publishes an addition, or the deletion of an order. */
static void publish(void)
{
    const uint64_t number = next;
    struct message *m = begin_message();
    if (live_count == LIVE_MAX || (live_count > LIVE_MAX / 2 && random_below(2) == 0)) {
        uint64_t *gone = &live[random_below(live_count)];
        m->bytes = (uint8_t)itch_reduce(m->data, ITCH_DELETE, locate_of(*gone), *gone, 0);
        messages[*gone].deleted_by = number;
        *gone = live[--live_count];
    } else {
        const bool buys = random_below(2) == 0;
        const uint32_t away = 100 + 100 * (uint32_t)random_below(20);
        m->bytes = (uint8_t)itch_add(m->data, locate_of(number), number, buys ? 'B' : 'S', 100,
                                     buys ? PRICE - away : PRICE + away);
        live[live_count++] = number;
    }
}

/* Sends messages in a datagram to a port; of none: a heartbeat; 0xffff: the session's end. */
static void send(uint16_t from_port, uint16_t port, const char *session, uint64_t number, uint32_t count)
{
    uint8_t packet[MOLD_DATAGRAM_BYTES_MAX];
    uint32_t bytes = mold_head(packet, session, number, (uint16_t)count);
    for (uint32_t i = 0; count != 0xffff && i < count; i++)
        bytes += mold_block(packet + bytes, messages[number + i].data, messages[number + i].bytes);
    fake_datagram(EXCHANGE, from_port, port, packet, bytes);
}

static void send_on_lines(uint64_t number, uint32_t count)
{
    for (uint16_t line = 0; line < 2; line++)
        if (!in_trouble || random_below(100) >= day->lost[line])
            send(9, (uint16_t)(5001 + line), MOLD_TEST_SESSION, number, count);
}

/* Answers the requests of the latest turn. */
static void answer_requests(void)
{
    for (uint32_t i = 0; i < min_u32(fake.datagram_count, FAKE_DATAGRAM_COUNT); i++) {
        const struct mold_header_wire *request = (const void *)fake.datagrams[i].data;
        uint64_t from = load_be64(&request->sequence);
        uint32_t count = load_be16(&request->count);
        if (fake.datagrams[i].to_port != REREQUEST || from >= next || random_below(100) < day->unanswered)
            continue;
        count = (uint32_t)min_u64(count, next - from);
        if (day->has_holes && count > 1 && random_below(2) == 0)
            from++, count--;
        else if (day->has_holes)
            count = 1 + (uint32_t)random_below(count);
        send(REREQUEST, REREQUEST_PORT, MOLD_TEST_SESSION, from, count);
    }
    fake.datagram_count = 0;
}

/* Writes a message of a snapshot. Returns the bytes. */
static uint32_t write_message(uint8_t *out, uint64_t number)
{
    return soup_packet(out, 'S', messages[number].data, messages[number].bytes);
}

/* Gives a snapshot, with the orders that stood `lag` messages ago. */
static void serve_snapshot(void)
{
    static uint8_t packet[(LIVE_MAX + FILL_MAX) * (MESSAGE_BYTES_MAX + SOUP_HEAD_BYTES) + 1024];
    const int id = fake_to(SNAPSHOT);
    const uint64_t lag = now_ns - began_ns < day->lag_ns ? day->lag : 0;
    if (id < 0 || fake.connections[id].sent_bytes == 0) {
        if (id >= 0 && id != connecting)
            fake_connected(id);
        connecting = id;
        served = false;
        return;
    }
    if (served)
        return;
    served = true;
    const uint64_t end = next - lag;
    assert_true(lag < next - FIRST);
    uint32_t bytes = soup_accepted(packet, "SNAP", 1);
    for (uint64_t number = 1; number < end; number++)
        if (number < FIRST
            || (messages[number].data[0] == ITCH_ADD
                && (messages[number].deleted_by == 0 || messages[number].deleted_by >= end)))
            bytes += write_message(packet + bytes, number);
    char last[22];
    snprintf(last, sizeof last, "G%20llu", (unsigned long long)end);
    bytes += soup_packet(packet + bytes, 'S', last, 21);
    assert_true(bytes <= sizeof packet);
    fake_data(id, packet, bytes);
}

/* Lets a step of time pass: some messages, a turn, and what the exchange's servers make of it. */
static void step(void)
{
    const uint64_t first = next;
    const uint32_t rate = day->rate != 0 ? day->rate : 10;
    for (uint32_t i = 0; i < rate; i++)
        publish();
    if (is_stale)
        send(9, 5001, "YESTERDAY ", 4711, 0);
    send_on_lines(first, rate);
    turn(STEP_NS);
    answer_requests();
    serve_snapshot();
}

static bool has_healed(void)
{
    struct book_order order;
    if (!mold_is_current() || !book_is_whole() || book_levels.orders_used != live_count)
        return false;
    for (uint32_t i = 0; i < live_count; i++)
        if (!book_find(live[i], &order))
            return false;
    return true;
}

/* ---- troubles ---- */

/* Sends 100,000 messages as fast as the ring brings them. */
static void flood(void)
{
    for (uint32_t sent = 0; sent < FLOOD; sent += FLOOD_EACH) {
        const uint64_t first = next;
        for (uint32_t i = 0; i < FLOOD_EACH; i++)
            publish();
        send_on_lines(first, FLOOD_EACH);
    }
}

/* Sends a message about an order that nobody has entered: the book of AAAA is wrong. */
static void contradict(void)
{
    struct message *m = begin_message();
    m->bytes = (uint8_t)itch_reduce(m->data, ITCH_DELETE, LOCATE, 1, 0);
    send_on_lines(next - 1, 1);
}

static void send_stray_heartbeat(void) { send(9, 5001, MOLD_TEST_SESSION, next + 500000, 0); }

/* Sends yesterday's session on both lines for a while. Then line A has both sessions. */
static void begin_with_yesterday(void)
{
    is_stale = true;
    for (int i = 0; i < 5000; i++) {
        send(9, 5001, "YESTERDAY ", 4711, 0);
        send(9, 5002, "YESTERDAY ", 4711, 0);
        turn(STEP_NS);
        fake.datagram_count = 0;
    }
    assert_memory_equal(mold_session(), "YESTERDAY ", MOLD_SESSION_BYTES);
}

static const struct day days[] = {
    { .name = "lines that lose 2 and 20 percent",
      .lost = { 2, 20 },
      .trouble_ns = 200 * NS_PER_MS,
      .healed_ns = 10 * NS_PER_MS,
      .counts = { "mold.missed_a", "mold.missed_b", "mold.requests" },
      .not = "mold.lost" },
    { .name = "a rerequest server that does not answer",
      .lost = { 5, 5 },
      .unanswered = 100,
      .trouble_ns = 200 * NS_PER_MS,
      .counts = { "mold.lost", "trade.snapshots" } },
    { .name = "answers with holes",
      .lost = { 20, 20 },
      .unanswered = 20,
      .has_holes = true,
      .trouble_ns = 200 * NS_PER_MS,
      .counts = { "mold.requests" },
      .not = "mold.lost" },
    { .name = "a flood",
      .lost = { 5, 5 },
      .begin = flood,
      .counts = { "mold.requests", "mold.drop_store_full" },
      .not = "mold.lost" },
    { .name = "yesterday's session",
      .begin = begin_with_yesterday,
      .counts = { "mold.sessions", "mold.drop_session", "trade.snapshots" } },
    { .name = "a stray heartbeat", .begin = send_stray_heartbeat, .counts = { "mold.strays" }, .not = "mold.lost" },
    { .name = "a lagging snapshot of one book",
      .rate = 1,
      .lag = 300,
      .lag_ns = UINT64_MAX,
      .begin = contradict,
      .healed_ns = NS_PER_S + LATER_NS,
      .counts = { "trade.doubts", "trade.drop_snapshot", "trade.snapshots" },
      .not = "trade.drop_kept_full" },
    { .name = "a snapshot that lags by more than is kept",
      .lag = 3000,
      .lag_ns = 2 * NS_PER_S,
      .begin = contradict,
      .healed_ns = 4 * NS_PER_S,
      .counts = { "trade.drop_snapshot", "trade.drop_kept_full" } },
    { .name = "a lagging snapshot of all books",
      .lost = { 100, 100 },
      .unanswered = 100,
      .lag = 500,
      .lag_ns = UINT64_MAX,
      .trouble_ns = 200 * NS_PER_MS,
      .healed_ns = NS_PER_S + 400 * NS_PER_MS + LATER_NS,
      .counts = { "mold.lost", "trade.snapshots" } },
};

static void start(void)
{
    char words[512];
    snprintf(words, sizeof words, WORDS "%s", day->words != NULL ? day->words : SERVERS "orders.max=4096");
    random_seed(20261128);
    now_ns = 10 * NS_PER_S;
    live_count = 0;
    in_trouble = is_stale = served = false;
    next = 1;
    connecting = -1;
    program_begin(words, &machine, now_ns);
    assert_null(program.init(&machine, now_ns));
    for (uint16_t i = 0; i < 2; i++) {
        struct message *m = begin_message();
        m->bytes = (uint8_t)itch_directory(m->data, LOCATE + (i + 1) % 2, i == 0 ? "BB" : "AAAA");
        m = begin_message();
        m->bytes = (uint8_t)itch_action(m->data, LOCATE + (i + 1) % 2, 'T');
    }
    struct message *m = begin_message();
    m->bytes = (uint8_t)itch_event(m->data, ITCH_MARKET_OPENS);
    assert_int_equal(next, FIRST);
}

TEST(bad_days_are_counted_and_heal)
{
    for (day = days; day < days + ARRAY_COUNT(days); day++) {
        start();
        if (day->begin != begin_with_yesterday) {
            send_on_lines(1, FIRST - 1);
            for (int i = 0; i < 500; i++)
                step();
            assert_true(has_healed());
        }
        in_trouble = true;
        began_ns = now_ns;
        if (day->begin != NULL)
            day->begin();
        do
            step();
        while (now_ns < began_ns + day->trouble_ns);
        in_trouble = false;
        const uint64_t since_ns = now_ns;
        while (!has_healed()) {
            step();
            if (now_ns > since_ns + (day->healed_ns != 0 ? day->healed_ns : NS_PER_S))
                fail_msg("%s: the books are not the exchange's after %llu ms", day->name,
                         (unsigned long long)((now_ns - since_ns) / NS_PER_MS));
        }
        book_check();
        for (size_t i = 0; i < ARRAY_COUNT(day->counts) && day->counts[i] != NULL; i++)
            if (counter(day->counts[i]) == 0)
                fail_msg("%s: %s has not risen", day->name, day->counts[i]);
        if (day->not != NULL && counter(day->not ) != 0)
            fail_msg("%s: %s has risen", day->name, day->not );
    }
}

/* ---- doubts ---- */

static void step_for(uint64_t ns)
{
    for (const uint64_t end_ns = now_ns + ns; now_ns < end_ns;)
        step();
}

/* Publishes messages that no line brings: more than the store holds. */
static void lose_more_than_the_store(void)
{
    for (uint32_t i = 0; i < 2 * MOLD_STORE_COUNT; i++)
        publish();
}

/* Sends a message of a stock that no directory message has named: any book may be wrong. */
static void contradict_all(void)
{
    struct message *m = begin_message();
    m->bytes = (uint8_t)itch_reduce(m->data, ITCH_DELETE, LOCATE + 20, 1, 0);
    send_on_lines(next - 1, 1);
}

/* Sends orders of AAAA at as many prices. Their references are the messages' numbers, which are even. */
static uint64_t filled[FILL_MAX];
static void fill(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        while (locate_of(next) != LOCATE)
            publish(), send_on_lines(next - 1, 1);
        struct message *m = begin_message();
        filled[i] = next - 1;
        m->bytes = (uint8_t)itch_add(m->data, LOCATE, next - 1, 'B', 100, PRICE - 50000 - 100 * i);
        send_on_lines(next - 1, 1);
        if (i % 16 == 0)
            turn(STEP_NS);
    }
}

static void fill_levels(void) { fill(FILL_MAX); }
static void fill_orders(void) { fill(1200); }

static void empty(void)
{
    for (uint32_t i = 0; i < FILL_MAX && filled[i] != 0; i++) {
        struct message *m = begin_message();
        m->bytes = (uint8_t)itch_reduce(m->data, ITCH_DELETE, LOCATE, filled[i], 0);
        messages[filled[i]].deleted_by = next - 1;
        send_on_lines(next - 1, 1);
        if (i % 16 == 0)
            turn(STEP_NS);
    }
}

static void end_session(void) { send(9, 5001, MOLD_TEST_SESSION, next, 0xffff); }

/* Sends a response about an order that was never sent, once the session is ready. */
static void contradict_orders(void)
{
    uint8_t m[80], packet[128];
    const int id = fake_to(5005);
    fake_connected(id);
    step_for(2 * NS_PER_MS);
    fake_data(id, packet, soup_accepted(packet, "S1", 1));
    fake_data(id, packet, soup_packet(packet, 'S', m, ouch_response(m, 'Q', 1, 13)));
    fake_data(id, packet, soup_packet(packet, 'H', NULL, 0));
    step_for(2 * OUCH_QUIET_NS);
    fake_data(id, packet, soup_packet(packet, 'S', m, ouch_executed(m, 7, 100, PRICE, 1)));
}

/* The states of doubt: who brings them about, what the log says once, and what heals them. */
static const struct doubt {
    struct day day;
    const char *said;   /* in the log */
    void (*mend)(void); /* the market does this; NULL: nothing */
    bool heals;         /* by itself, or after the mend; else pool.trade_stuck is 1 */
    bool others_trade;  /* BB's book is whole meanwhile */
} doubts[] = {
    { .day = { .name = "a gap, no server",
               .words = "gap.wait=1ms",
               .begin = lose_more_than_the_store,
               .counts = { "mold.lost", "mold.drop_store_full" } },
      .said = "a gap of the feed cannot be filled, and nothing heals that: snapshot= is not set" },
    { .day = { .name = "a gap, a snapshot server",
               .words = "snapshot=10.0.2.2:5004",
               .begin = lose_more_than_the_store,
               .counts = { "mold.lost", "trade.snapshots" } },
      .said = "trade: a gap of the feed cannot be filled",
      .heals = true },
    { .day = { .name = "a symbol, no server", .words = "", .begin = contradict, .counts = { "trade.doubts" } },
      .said = "AAAA    : a message contradicts its book, or finds it full: it is not traded, and nothing heals it: "
              "snapshot= is not set",
      .others_trade = true },
    { .day = { .name = "a symbol, a snapshot server", .begin = contradict, .counts = { "trade.snapshots" } },
      .said = "AAAA    : a message contradicts its book",
      .heals = true },
    { .day = { .name = "all books, no server", .words = "", .begin = contradict_all, .counts = { "book.drop_locate" } },
      .said = "a message contradicts the books, or finds them full, and nothing heals that: snapshot= is not set" },
    { .day = { .name = "all books, a snapshot server",
               .begin = contradict_all,
               .counts = { "book.drop_locate", "mold.holds" } },
      .said = "a message contradicts the books, and a snapshot is awaited",
      .heals = true },
    { .day = { .name = "too many levels, no server",
               .words = "",
               .begin = fill_levels,
               .counts = { "book.drop_levels_full" } },
      .said = "AAAA    : a message contradicts its book, or finds it full: it is not traded, and nothing heals it",
      .mend = empty,
      .others_trade = true },
    { .day = { .name = "too many levels",
               .begin = fill_levels,
               .words = SERVERS,
               .counts = { "book.drop_levels_full", "trade.drop_snapshot", "trade.snapshots" } },
      .said = "the snapshot does not help, and is loaded again: messages contradict its books, or find them full",
      .mend = empty,
      .heals = true,
      .others_trade = true },
    { .day = { .name = "too many orders",
               .begin = fill_orders,
               .words = SERVERS "orders.max=1024",
               .counts = { "book.drop_orders_full", "trade.snapshots" } },
      .said = "AAAA    : a message contradicts its book, or finds it full",
      .mend = empty,
      .heals = true },
    { .day = { .name = "an end of the only session", .words = SERVERS "feed.session=TODAY", .begin = end_session },
      .said = "the feed's session has ended, and feed.session= lets no other one be joined" },
    { .day = { .name = "a response", .begin = contradict_orders, .counts = { "ouch.drop_unknown_reference" } },
      .said = "a response names an order that was never sent; nothing is ordered until the program is started again" },
};

TEST(doubts_heal_or_are_said_once_with_what_would_heal_them)
{
    for (const struct doubt *d = doubts; d < doubts + ARRAY_COUNT(doubts); d++) {
        struct day today = d->day;
        today.rate = 1;
        day = &today;
        memset(filled, 0, sizeof filled);
        start();
        send_on_lines(1, FIRST - 1);
        step_for(200 * NS_PER_MS);
        assert_true(has_healed() && counter("pool.trade_stuck") == 0);
        const uint64_t log_at = log_end();
        began_ns = now_ns;
        day->begin();
        step_for(1500 * NS_PER_MS);
        assert_int_equal(counter("pool.trade_stuck"), !d->heals);
        if (d->others_trade)
            assert_true(mold_is_current() && book_doubts() == 1);
        if (d->mend != NULL)
            d->mend();
        step_for(d->mend != NULL ? 5 * NS_PER_S : NS_PER_S);
        for (int i = 0; i < 100 && !has_healed(); i++)
            step();
        const bool is_whole = has_healed() && ouch_is_sure() && !mold_has_ended();
        const unsigned lines = lines_logged(log_at, d->said);
        if (is_whole != d->heals || counter("pool.trade_stuck") != !d->heals || lines == 0 || (!d->heals && lines != 1))
            fail_msg("%s: whole %u, stuck %u, said %u times", day->name, is_whole,
                     (unsigned)counter("pool.trade_stuck"), lines);
        for (size_t i = 0; i < ARRAY_COUNT(day->counts) && day->counts[i] != NULL; i++)
            if (counter(day->counts[i]) == 0)
                fail_msg("%s: %s has not risen", day->name, day->counts[i]);
    }
}
