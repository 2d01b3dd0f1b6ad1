/* Random days of app/trade/ at an exchange of the test's own, which judges each order that leaves by the rules of
 * app/trade/README.md, "What holds orders back".
 *
 * The judge knows what the program has heard: the market after the last message that the feed has announced, and
 * the account after the last response that was delivered. Both are computed here, without the program's books, orders
 * and limits. A turn delivers one thing at most, so an order that leaves in it follows from all that came before.
 * A day has halts, crosses, gaps, snapshots, contradictions, partial fills, broken trades, slid prices, replacements,
 * rejections, lost connections, restarts, stops, and the next day. Each of these must have happened at the end.
 *
 *     DAYS=1000 SEED=7 build/test/tests/unit/trade_rules_test */
#include "app/nasdaq/mold.h"
#include "app/trade/parts.h"
#include "app/trade/trade.h"
#include "tests/lib/program_test.h"
#include "tests/lib/trade_messages.h"

enum {
    EXCHANGE = 0x0a000202,
    REREQUEST = 5003,
    SNAPSHOT = 5004,
    ORDERS = 5005,
    REREQUEST_PORT = 26410,
    LOCATE = 7, /* the first symbol's */
    PRICE = 1000000,
    SYMBOLS = 3,
    DAYS = 100,
    STEPS = 600,
    MESSAGES_MAX = 8192,
    OFFERS_MAX = 60,
    OWN_MAX = 4096, /* references of a day */
    RESPONSES_MAX = 16384,
    FLIGHTS_MAX = 1024,
    TRADES_KEPT = 16,
};
#define SLICE_NS    (5 * NS_PER_MS)
#define TIMEOUT_NS  (300 * NS_PER_MS)
#define DELIVERY_NS 1000 /* from a delivery to the program's next turn */
static const char *const names[SYMBOLS] = { "AAAA", "BB", "CCC" };

/* The events that the days must have had. */
/* clang-format off */
#define EVENTS(X)                                                                                                      \
    X(entered) X(replaced) X(filled) X(filled_in_part) X(filled_while_replaced) X(filled_in_halt) X(reduced)           \
    X(accepted_less) X(dead_on_arrival) X(slid) X(rejected) X(replacement_rejected) X(cancel_rejected)                 \
    X(cancel_pending) X(broken) X(corrected) X(halted) X(halted_by_operation) X(resumed) X(crossed) X(closed)          \
    X(print_broken) X(lost_by_both) X(rerequested) X(snapshot) X(snapshot_cut) X(contradicted) X(contradicted_all)     \
    X(healed) X(silent) X(paused) X(cut) X(cut_request) X(restarted) X(replayed) X(stopped) X(started) X(lied)         \
    X(ended) X(next_day) X(entered_next_day) X(began_beyond) X(began_short) X(rehearsed) X(sold_short)                 \
    X(rejected_in_second)
/* clang-format on */
#define EVENT_NAME(name) SEEN_##name,
#define EVENT_TEXT(name) #name,
enum { EVENTS(EVENT_NAME) SEEN_COUNT };
static const char *const event_names[] = { EVENTS(EVENT_TEXT) };
#define LIMIT_TEXT(verdict, name) #name
static const char *const limit_names[] = { "", RISK_LIMITS(LIMIT_TEXT) };
static uint64_t seen[SEEN_COUNT], refused[RISK_VERDICT_COUNT];

/* The settings of a day. */
static struct day {
    uint32_t number, step;
    uint32_t position_max, open_max, rate_max, replaces_max, notional_max, collar, rejects_max, day_orders, day_shares;
    bool may_sell_short, stopped, has_rerequest, has_snapshot, is_wild, rehearses;
    const char *strategy;
    uint32_t lost; /* datagrams of a line, in percent */
    int64_t positions[SYMBOLS];
} day;
static uint64_t now_ns;

static uint64_t clock_now(void) { return now_ns; }
static const struct program_machine machine = { .tsc_khz = 1000000, .now_ns = clock_now, .secret = { 0x8c, 0x5f } };

static bool chance(uint32_t percent) { return random_below(100) < percent; }

/* ---- the market ---- */

struct message {
    enum { EVENT, DIRECTORY, STATE, HALT, ADD, REDUCE, DELETE, REPLACE, EXECUTE, PRINT, BREAK, NONSENSE } kind;
    uint32_t symbol, shares, price; /* SYMBOLS: all */
    enum book_side side;
    char state;
    uint64_t reference, other;
    uint8_t bytes, data[50];
};
static struct message messages[MESSAGES_MAX];
static uint64_t next; /* the number of the next message */
static char feed_session[11], order_session[11];

/* The market after some messages. */
static struct market {
    bool open;
    /* The message that contradicts the book; 0: none. The last one's: all books. */
    uint64_t doubted[SYMBOLS + 1];
    struct {
        char state;
        bool halted;
        uint64_t trades;
        struct {
            uint64_t match;
            uint32_t price;
        } latest[TRADES_KEPT];
    } of[SYMBOLS];
    uint32_t count;
    struct offer {
        uint64_t reference;
        uint32_t symbol, shares, price;
        enum book_side side;
    } offers[OFFERS_MAX];
} market, reported; /* reported: after those that the lines have announced to the program */

static struct offer *offer_of(struct market *m, uint64_t reference)
{
    for (uint32_t i = 0; i < m->count; i++)
        if (m->offers[i].reference == reference)
            return &m->offers[i];
    return NULL;
}

static void reduce(struct market *m, uint64_t reference, uint32_t shares)
{
    struct offer *o = offer_of(m, reference);
    assert_non_null(o);
    o->shares -= shares;
    if (o->shares == 0)
        *o = m->offers[--m->count];
}

static void trade_at(struct market *m, uint32_t symbol, uint64_t match, uint32_t price)
{
    const uint64_t at = m->of[symbol].trades++ % TRADES_KEPT;
    m->of[symbol].latest[at].match = match;
    m->of[symbol].latest[at].price = price;
}

/* Returns the price of the latest trade that stands; 0: none of those that are remembered. */
static uint32_t last_price(const struct market *m, uint32_t symbol)
{
    for (uint64_t i = 1; i <= TRADES_KEPT && i <= m->of[symbol].trades; i++)
        if (m->of[symbol].latest[(m->of[symbol].trades - i) % TRADES_KEPT].price != 0)
            return m->of[symbol].latest[(m->of[symbol].trades - i) % TRADES_KEPT].price;
    return 0;
}

static uint32_t best(const struct market *m, uint32_t symbol, enum book_side side)
{
    uint32_t price = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        const struct offer *o = &m->offers[i];
        if (o->symbol == symbol && o->side == side
            && (price == 0 || (side == BOOK_BUY ? o->price > price : o->price < price)))
            price = o->price;
    }
    return price;
}

static bool trades(const struct market *m, uint32_t symbol)
{
    return m->open && m->of[symbol].state == 'T' && !m->of[symbol].halted;
}

static void apply(struct market *m, const struct message *x, uint64_t number)
{
    struct offer *o;
    switch (x->kind) {
    case EVENT:
        m->open = x->state == 'Q';
        break;
    case STATE:
        m->of[x->symbol].state = x->state;
        break;
    case HALT:
        m->of[x->symbol].halted = x->state == 'H';
        break;
    case ADD:
        assert_true(m->count < OFFERS_MAX);
        m->offers[m->count++] = (struct offer){ x->reference, x->symbol, x->shares, x->price, x->side };
        break;
    case EXECUTE:
        trade_at(m, x->symbol, number, x->price);
        reduce(m, x->reference, x->shares);
        break;
    case REDUCE:
        reduce(m, x->reference, x->shares);
        break;
    case DELETE:
        reduce(m, x->reference, offer_of(m, x->reference)->shares);
        break;
    case REPLACE:
        o = offer_of(m, x->reference);
        o->reference = x->other;
        o->shares = x->shares;
        o->price = x->price;
        break;
    case PRINT:
        trade_at(m, x->symbol, number, x->price);
        break;
    case BREAK:
        for (uint32_t i = 0; i < TRADES_KEPT; i++)
            if (m->of[x->symbol].latest[i].match == x->other)
                m->of[x->symbol].latest[i].price = 0;
        break;
    case NONSENSE:
        m->doubted[x->symbol] = number;
        break;
    case DIRECTORY:
        break;
    }
}

/* ---- the account ---- */

struct own {
    enum { NONE, SENT, OPEN, DONE } state;
    uint32_t symbol, open, price;
    enum book_side side;
    uint32_t original;                      /* the order that this one is to replace; 0: it enters */
    uint32_t next, next_shares, next_price; /* known: the replacement that is under way */
    uint32_t executed;                      /* shares of the order and those that it has replaced */
};

/* The account at the exchange, and as the program has heard of it. */
static struct account {
    struct own orders[OWN_MAX];
    int64_t positions[SYMBOLS];
    uint32_t arrived; /* the highest reference */
    bool day_over, unsure;
} account, known;
static struct {
    uint32_t match, reference, shares;
} executions[RESPONSES_MAX];
static uint32_t execution_count;
static bool ever_broken; /* since then a position may be beyond its limit */

static struct response {
    uint8_t bytes, data[80];
    uint32_t login;  /* an answer to the query of this login */
    bool lies;       /* contradicts the order */
    uint32_t shares; /* a broken execution: its shares */
} responses[RESPONSES_MAX];
static uint32_t response_count, delivered_count;

static struct {
    uint64_t due_ns;
    uint8_t data[64];
    uint32_t bytes;
} requests[256];
static uint32_t request_count;

/* The connection of the orders. */
static struct {
    int id;
    bool logged_in, ready;
    uint32_t login, parsed, at_login; /* at_login: the responses that the account had then */
    uint64_t connects_ns, sent_ns, responds_ns;
} session = { .id = -1 };

/* This run of the program. */
static struct {
    bool stopped;
    char session[11];       /* the orders' session; "": none yet */
    uint32_t left, rejects; /* the highest reference that has left; rejections in a row */
    uint64_t shares;
    uint64_t left_ns[OWN_MAX];
    uint32_t left_count;
    uint64_t replaced_ns[SYMBOLS][OWN_MAX];
    uint32_t replaced_count[SYMBOLS];
    uint64_t rejected_ns[OWN_MAX]; /* since the latest start */
    uint32_t rejected_count;
    uint64_t caught_up_ns; /* until then a datagram may be as old as a pause */
} run;

static int64_t sign_of(enum book_side side) { return side == BOOK_BUY ? 1 : -1; }

static void respond(uint32_t bytes, const uint8_t *m)
{
    assert_true(response_count < RESPONSES_MAX && bytes <= sizeof responses[0].data);
    struct response *r = &responses[response_count++];
    *r = (struct response){ .bytes = (uint8_t)bytes };
    memcpy(r->data, m, bytes);
}

/* Notes a rejection. Too many in a row, or within a second, stop the program. */
static void note_rejection(void)
{
    uint32_t in_second = 0;
    run.rejects++;
    run.rejected_ns[run.rejected_count++] = now_ns;
    for (uint32_t i = 0; i < run.rejected_count; i++)
        in_second += now_ns - run.rejected_ns[i] < NS_PER_S;
    run.stopped |= max_u32(run.rejects, in_second) >= day.rejects_max;
    seen[SEEN_rejected_in_second] += run.rejects < day.rejects_max && in_second >= day.rejects_max;
}

/* Notes a response in what the program knows. */
static void know(const struct response *r)
{
    const uint8_t *m = r->data;
    const uint32_t reference = load_be32(m + 9), quantity = load_be32(m + 13);
    struct own *o = m[0] != 'S' ? &known.orders[reference] : NULL;
    switch (m[0]) {
    case 'S':
        known.day_over = m[9] == 'E';
        break;
    case 'Q':
        session.ready |= r->login == session.login;
        for (uint32_t i = 1; i < OWN_MAX; i++) {
            struct own *x = &known.orders[i];
            if (x->state == SENT && i >= reference)
                x->state = DONE;
            if (x->next >= reference)
                x->next = 0;
        }
        break;
    case 'U': {
        const uint32_t by = load_be32(m + 13);
        struct own *n = &known.orders[by];
        run.shares += o->next == by ? 0 : load_be32(m + 18);
        o->state = DONE;
        o->next = 0;
        *n = (struct own){ OPEN, o->symbol, load_be32(m + 18), (uint32_t)load_be64(m + 30), o->side, 0, 0, 0, 0, 0 };
        run.rejects = 0;
        break;
    }
    case 'A':
        if (r->lies && o->state == SENT) {
            known.unsure = true;
            break;
        }
        run.shares += o->state == NONE ? load_be32(m + 14) : 0;
        for (uint32_t i = 0; i < SYMBOLS; i++)
            if (memcmp(m + 18, names[i], strlen(names[i])) == 0)
                o->symbol = i;
        o->side = m[13] == 'B' ? BOOK_BUY : BOOK_SELL;
        o->open = load_be32(m + 14);
        o->price = (uint32_t)load_be64(m + 26);
        o->state = m[47] == 'L' ? OPEN : DONE;
        run.rejects = 0;
        break;
    case 'E':
        o->open -= quantity;
        known.positions[o->symbol] += sign_of(o->side) * (int64_t)quantity;
        o->state = o->open == 0 ? DONE : o->state;
        break;
    case 'C':
        o->open -= quantity;
        o->state = o->open == 0 ? DONE : o->state;
        break;
    case 'B':
        known.positions[o->symbol] -= sign_of(o->side) * (int64_t)r->shares;
        break;
    case 'J':
        if (o->state == SENT) {
            o->state = DONE;
            note_rejection();
        } else if (o->original != 0 && known.orders[o->original].next == reference) {
            known.orders[o->original].next = 0;
            note_rejection();
        }
        break;
    default:
        break;
    }
}

/* ---- the judge ---- */

#define RULE(holds)                                                                                                    \
    if (!(holds))                                                                                                      \
    fail_msg("day %u, step %u, reference %u: an order left against: %s", day.number, day.step, reference, #holds)

static uint64_t snapshot_number; /* the feed's message after the latest snapshot of this run; 0: none */
static bool delivered[MESSAGES_MAX], passed_over[MESSAGES_MAX]; /* by a snapshot of all books */
static uint64_t announced, heard_ns;
static bool session_over; /* the end of the feed's session has come */

static bool feed_is_whole(void)
{
    for (uint64_t i = snapshot_number > 0 ? snapshot_number : 1; i < announced; i++)
        if (!delivered[i])
            return false;
    return announced > 0 && snapshot_number <= announced;
}

static void judge(uint32_t symbol, enum book_side side, uint8_t letter, uint32_t shares, uint64_t price,
                  uint32_t reference, uint32_t original)
{
    const uint64_t last = last_price(&reported, symbol), bid = best(&reported, symbol, BOOK_BUY);
    const uint64_t ask = best(&reported, symbol, BOOK_SELL), collar = day.collar;
    int64_t held = known.positions[symbol] * sign_of(side);
    uint32_t open_count = 0, in_second = 1, replaced_in_second = 1;
    RULE(!run.stopped && !known.unsure);
    RULE(!known.day_over);
    RULE(session.logged_in && session.ready && delivered_count >= session.at_login);
    RULE(feed_is_whole() && !session_over);
    RULE(now_ns - heard_ns < TIMEOUT_NS + SLICE_NS + NS_PER_MS);
    RULE(heard_ns + DELIVERY_NS > run.caught_up_ns);
    RULE(trades(&reported, symbol));
    RULE(reported.doubted[symbol] == 0 && reported.doubted[SYMBOLS] == 0);
    RULE(reference == run.left + 1 && reference > account.arrived && reference <= day.day_orders);
    RULE(shares > 0 && shares <= 100);
    RULE(price > 0 && price <= 1999999900 && price * shares <= (uint64_t)day.notional_max * ITCH_PRICE_UNIT);
    RULE(last > 0 && price * 100 <= last * (100 + collar) && price * 100 >= last * (100 - collar));
    if (bid > 0 && ask > 0 && side == BOOK_BUY)
        RULE(price * 200 <= (bid + ask) * (100 + collar));
    if (bid > 0 && ask > 0 && side == BOOK_SELL)
        RULE(price * 200 >= (bid + ask) * (100 - collar));
    RULE(known.positions[symbol] <= (int64_t)day.position_max && known.positions[symbol] >= -(int64_t)day.position_max);
    RULE(day.may_sell_short || known.positions[symbol] >= 0);
    for (uint32_t i = 1; i < OWN_MAX; i++) {
        const struct own *o = &known.orders[i];
        if (o->state != SENT && o->state != OPEN)
            continue;
        open_count++;
        if (o->symbol != symbol)
            continue;
        const uint32_t open = i == original ? max_u32(o->open, shares)
                              : o->next     ? max_u32(o->open, o->next_shares)
                                            : o->open;
        if (o->side == side) {
            held += open;
            continue;
        }
        RULE(side == BOOK_BUY ? price < o->price : price > o->price);
        RULE(o->next == 0 || (side == BOOK_BUY ? price < o->next_price : price > o->next_price));
    }
    held += original == 0 ? shares : 0;
    RULE(held <= (int64_t)day.position_max);
    RULE(side == BOOK_BUY || day.may_sell_short || held <= 0);
    RULE(original != 0 || letter == (side == BOOK_BUY ? 'B' : held > 0 ? 'T' : 'S'));
    RULE(original != 0 || open_count < day.open_max);
    RULE(original == 0 || (known.orders[original].state == OPEN && known.orders[original].next == 0));
    for (uint32_t i = 0; i < run.left_count; i++)
        in_second += now_ns - run.left_ns[i] < NS_PER_S;
    for (uint32_t i = 0; i < run.replaced_count[symbol]; i++)
        replaced_in_second += now_ns - run.replaced_ns[symbol][i] < NS_PER_S;
    RULE(in_second <= day.rate_max);
    RULE(original == 0 || replaced_in_second <= day.replaces_max);
    run.shares += shares;
    RULE(run.shares <= day.day_shares);
    run.left = reference;
    run.left_ns[run.left_count++] = now_ns;
    if (original != 0)
        run.replaced_ns[symbol][run.replaced_count[symbol]++] = now_ns;
    seen[original != 0 ? SEEN_replaced : SEEN_entered]++;
    seen[SEEN_entered_next_day] += day.step > STEPS;
    seen[SEEN_sold_short] += letter == 'T';
}

/* Judges a request that has left, and notes it in what the program knows. */
static void note_request(const uint8_t *m, uint32_t bytes)
{
    const uint32_t reference = load_be32(m + 1);
    if (m[0] == 'O') {
        uint32_t symbol = 0;
        while (memcmp(m + 10, names[symbol], strlen(names[symbol])) != 0)
            assert_true(++symbol < SYMBOLS);
        const enum book_side side = m[5] == 'B' ? BOOK_BUY : BOOK_SELL;
        judge(symbol, side, m[5], load_be32(m + 6), load_be64(m + 18), reference, 0);
        known.orders[reference] = (struct own){
            SENT, symbol, load_be32(m + 6), (uint32_t)load_be64(m + 18), side, 0, 0, 0, 0, 0
        };
    } else if (m[0] == 'U') {
        struct own *o = &known.orders[reference];
        const uint32_t by = load_be32(m + 5);
        judge(o->symbol, o->side, 0, load_be32(m + 9), load_be64(m + 13), by, reference);
        o->next = by;
        o->next_shares = load_be32(m + 9);
        o->next_price = (uint32_t)load_be64(m + 13);
        known.orders[by].original = reference;
    }
    assert_true(request_count < 256 && bytes <= sizeof requests[0].data);
    requests[request_count].due_ns = max_u64(request_count > 0 ? requests[request_count - 1].due_ns : 0,
                                             now_ns + random_below(3 * NS_PER_MS));
    requests[request_count].bytes = bytes;
    memcpy(requests[request_count++].data, m, bytes);
}

/* Takes what the program has sent over the orders' connection. */
static void take_sent(void)
{
    static uint8_t packet[256];
    if (session.id < 0 || session.id != fake_to(ORDERS))
        return;
    const struct fake_connection *c = &fake.connections[session.id];
    while (session.parsed < c->sent_bytes) {
        const uint8_t *p = (const uint8_t *)c->sent + session.parsed;
        const uint32_t bytes = load_be16(p);
        session.parsed += 2 + bytes;
        if (p[2] == 'U')
            note_request(p + 3, bytes - 1);
        if (p[2] != 'L')
            continue;
        char asked[11] = "", number[21] = "";
        memcpy(asked, p + 3 + 16, 10);
        memcpy(number, p + 3 + 26, 20);
        if (asked[0] != ' ' && memcmp(asked, order_session, 10) != 0) {
            fake_data(session.id, packet, soup_packet(packet, 'J', "S", 1));
            continue;
        }
        const uint32_t from = (uint32_t)atoi(number);
        assert_true(from >= 1 && from <= response_count + 1);
        delivered_count = from - 1;
        if (run.session[0] != '\0' && memcmp(run.session, order_session, sizeof run.session) != 0) { /* the next day */
            memset(known.orders, 0, sizeof known.orders);
            known.day_over = false;
            run.left = 0;
            run.shares = 0;
        }
        memcpy(run.session, order_session, sizeof run.session);
        seen[SEEN_replayed] += from == 1 && response_count > 1;
        session.logged_in = true;
        session.ready = false;
        session.login++;
        session.at_login = response_count;
        session.responds_ns = session.sent_ns = now_ns;
        fake_data(session.id, packet, soup_accepted(packet, order_session, from));
    }
}

static void turn(uint64_t ns)
{
    now_ns += ns;
    assert_int_equal(program.turn(now_ns), PROGRAM_ON);
    trade_check();
    take_sent();
}

/* ---- the exchange's orders ---- */

static uint32_t match;

static uint32_t terms_of(uint8_t *m, const struct own *o, uint32_t reference, uint32_t original, char state, char tif)
{
    const char letter = o->side == BOOK_BUY ? 'B' : 'S';
    ouch_time_in_force = tif;
    return original != 0 ? ouch_replaced_by(m, original, reference, letter, o->open, names[o->symbol], o->price)
                         : ouch_accepted(m, reference, letter, o->open, names[o->symbol], o->price, state);
}

static void reject(uint32_t reference)
{
    uint8_t m[80];
    respond(ouch_response(m, 'J', reference, 29), m);
}

/* Sets a new order's price, which may be better than asked. */
static void slide(struct own *o)
{
    if (!chance(8))
        return;
    o->price = o->side == BOOK_BUY ? o->price - 100 : o->price + 100;
    seen[SEEN_slid]++;
}

static void fill(uint32_t reference)
{
    uint8_t m[80];
    struct own *o = &account.orders[reference];
    const uint32_t shares = chance(50) ? o->open : 1 + (uint32_t)random_below(o->open);
    const uint32_t better = chance(20) ? 100 : 0;
    o->open -= shares;
    o->executed += shares;
    account.positions[o->symbol] += sign_of(o->side) * (int64_t)shares;
    assert_true(execution_count < RESPONSES_MAX);
    executions[execution_count].match = ++match;
    executions[execution_count].reference = reference;
    executions[execution_count++].shares = shares;
    respond(ouch_executed(m, reference, shares, o->side == BOOK_BUY ? o->price - better : o->price + better, match), m);
    seen[o->open == 0 ? SEEN_filled : SEEN_filled_in_part]++;
    seen[SEEN_filled_while_replaced] += known.orders[reference].next != 0;
    seen[SEEN_filled_in_halt] += !trades(&market, o->symbol);
    if (o->open == 0)
        o->state = DONE;
    if (!ever_broken && day.positions[o->symbol] <= (int64_t)day.position_max
        && day.positions[o->symbol] >= (day.may_sell_short ? -(int64_t)day.position_max : 0)) {
        assert_true(account.positions[o->symbol] <= (int64_t)day.position_max);
        assert_true(account.positions[o->symbol] >= (day.may_sell_short ? -(int64_t)day.position_max : 0));
    }
}

static void take_enter(const uint8_t *r)
{
    uint8_t m[80];
    const uint32_t reference = load_be32(r + 1);
    struct own o = known.orders[reference];
    assert_true(reference > account.arrived && reference < OWN_MAX);
    account.arrived = reference;
    if (chance(8)) {
        seen[SEEN_rejected]++;
        reject(reference);
        return;
    }
    o = (struct own){
        OPEN, o.symbol, load_be32(r + 6), (uint32_t)load_be64(r + 18), r[5] == 'B' ? BOOK_BUY : BOOK_SELL, 0, 0, 0, 0, 0
    };
    for (uint32_t i = 0; i < SYMBOLS; i++)
        if (memcmp(r + 10, names[i], strlen(names[i])) == 0)
            o.symbol = i;
    slide(&o);
    if (chance(4) && o.open > 1) {
        o.open--;
        seen[SEEN_accepted_less]++;
    }
    const bool is_dead = chance(3);
    seen[SEEN_dead_on_arrival] += is_dead;
    uint32_t bytes = terms_of(m, &o, reference, 0, is_dead ? 'D' : 'L', (char)r[26]);
    o.state = is_dead ? DONE : OPEN;
    const bool lies = chance(1) && chance(60);
    if (lies) {
        m[13] = m[13] == 'B' ? 'S' : 'B';
        o.state = DONE;
        seen[SEEN_lied]++;
    }
    account.orders[reference] = o;
    respond(bytes, m);
    responses[response_count - 1].lies = lies;
    if (r[26] == '3' && o.state == OPEN) {
        if (chance(50))
            fill(reference);
        if (account.orders[reference].state == OPEN) {
            respond(ouch_decrement(m, reference, account.orders[reference].open), m);
            account.orders[reference].state = DONE;
        }
    }
}

static void take_replace(const uint8_t *r)
{
    uint8_t m[80];
    const uint32_t original = load_be32(r + 1), reference = load_be32(r + 5);
    struct own *o = &account.orders[original];
    assert_true(reference > account.arrived && reference < OWN_MAX);
    account.arrived = reference;
    if (o->state != OPEN && chance(50))
        return; /* the reference is used up, and nothing is said */
    if (o->state != OPEN || chance(15) || load_be32(r + 9) <= o->executed) {
        seen[SEEN_replacement_rejected]++;
        reject(reference);
        return;
    }
    struct own *n = &account.orders[reference];
    *n = (struct own){ OPEN, o->symbol,  load_be32(r + 9) - o->executed, (uint32_t)load_be64(r + 13), o->side, 0, 0, 0,
                       0,    o->executed };
    slide(n);
    o->state = DONE;
    respond(terms_of(m, n, reference, original, 'L', '0'), m);
}

static void take_cancel(const uint8_t *r)
{
    uint8_t m[80];
    const uint32_t reference = load_be32(r + 1);
    struct own *o = &account.orders[reference];
    if (o->state != OPEN)
        return;
    if (chance(10)) {
        seen[SEEN_cancel_rejected]++;
        respond(ouch_response(m, 'I', reference, 13), m);
        return;
    }
    if (chance(10)) {
        seen[SEEN_cancel_pending]++;
        respond(ouch_response(m, 'P', reference, 13), m);
    }
    respond(ouch_decrement(m, reference, o->open), m);
    o->state = DONE;
}

static void take_request(const uint8_t *r)
{
    uint8_t m[80];
    if (r[0] == 'O')
        take_enter(r);
    else if (r[0] == 'U')
        take_replace(r);
    else if (r[0] == 'X')
        take_cancel(r);
    else if (r[0] == 'Q') {
        respond(ouch_response(m, 'Q', account.arrived + 1, 13), m);
        responses[response_count - 1].login = session.login;
    }
}

static void take_requests(bool all)
{
    uint32_t taken = 0;
    while (taken < request_count && (all || requests[taken].due_ns <= now_ns))
        take_request(requests[taken++].data);
    request_count -= taken;
    memmove(requests, requests + taken, request_count * sizeof requests[0]);
}

/* Forgets the connection. Some of the requests that are under way arrive. */
static void lose_session(void)
{
    if (request_count > 0) {
        const uint32_t arrive = (uint32_t)random_below(request_count + 1);
        seen[SEEN_cut_request] += arrive < request_count;
        request_count = arrive;
        take_requests(true);
        request_count = 0;
    }
    session.id = -1;
    session.logged_in = session.ready = false;
}

/* Lets the exchange do something to one of the orders. */
static void move_account(void)
{
    uint8_t m[80];
    uint32_t live[OWN_MAX], count = 0;
    for (uint32_t i = 1; i <= account.arrived; i++)
        if (account.orders[i].state == OPEN)
            live[count++] = i;
    if (count > 0) {
        const uint32_t reference = live[random_below(count)];
        struct own *o = &account.orders[reference];
        if (chance(70)) {
            fill(reference);
        } else if (o->open > 1 && chance(60)) {
            const uint32_t shares = 1 + (uint32_t)random_below(o->open - 1);
            o->open -= shares;
            respond(ouch_decrement(m, reference, shares), m);
            seen[SEEN_reduced]++;
        } else {
            respond(ouch_decrement(m, reference, o->open), m);
            o->state = DONE;
        }
    }
    if (execution_count > 0 && chance(4)) {
        const uint32_t back = (uint32_t)random_below(min_u32(execution_count, 50));
        const uint32_t at = execution_count - 1 - back, reference = executions[at].reference;
        const struct own *o = &account.orders[reference];
        uint32_t bytes;
        if (executions[at].shares == 0)
            return;
        if (chance(30)) {
            bytes = ouch_response(m, 'F', reference, sizeof(struct ouch_corrected_wire));
            store_be32(m + 13, executions[at].shares);
            store_be64(m + 17, o->price);
            store_be64(m + 26, executions[at].match);
            seen[SEEN_corrected]++;
        } else {
            bytes = ouch_response(m, 'B', reference, sizeof(struct ouch_broken_wire));
            store_be64(m + 13, executions[at].match);
            account.positions[o->symbol] -= sign_of(o->side) * (int64_t)executions[at].shares;
            ever_broken = true;
            seen[SEEN_broken]++;
        }
        respond(bytes, m);
        responses[response_count - 1].shares = executions[at].shares;
        if (m[0] == 'B')
            executions[at].shares = 0;
    }
}

/* Brings the connection up, and delivers the responses that are due. Returns true if something was. */
static bool serve_orders(void)
{
    static uint8_t packets[RESPONSES_MAX * 4];
    const int id = fake_to(ORDERS);
    if (id != session.id) {
        lose_session();
        session.id = id;
        session.parsed = 0;
        session.connects_ns = now_ns + random_below(3 * NS_PER_MS);
    }
    if (id < 0)
        return false;
    if (!fake.connections[id].connected) {
        if (now_ns < session.connects_ns)
            return false;
        fake_connected(id);
        return true;
    }
    take_requests(false);
    if (!session.logged_in || now_ns < session.responds_ns)
        return false;
    uint32_t bytes = 0, most = 1 + (uint32_t)random_below(40);
    while (delivered_count < response_count && most-- > 0) {
        const struct response *r = &responses[delivered_count++];
        bytes += soup_packet(packets + bytes, 'S', r->data, r->bytes);
        know(r);
    }
    if (bytes == 0 && now_ns - session.sent_ns >= NS_PER_S)
        bytes = soup_packet(packets, 'H', NULL, 0);
    if (bytes == 0)
        return false;
    session.sent_ns = now_ns;
    session.responds_ns = now_ns
                          + (chance(delivered_count < session.at_login ? 30 : 4)
                                 ? 2 * OUCH_QUIET_NS
                                 : random_below(4 * NS_PER_MS)); /* a few stalls */
    fake_data(id, packets, bytes);
    return true;
}

/* ---- the exchange's feed ---- */

static struct flight {
    uint64_t due_ns, from;
    uint32_t count, line; /* 2: the rerequest server's */
    char session[11];
} flights[FLIGHTS_MAX];
static uint32_t flight_count;
static uint64_t fed_ns;

static void fly(uint32_t line, uint64_t from, uint32_t count, uint64_t delay_ns)
{
    if (flight_count == FLIGHTS_MAX)
        return; /* this one is lost */
    struct flight *f = &flights[flight_count++];
    *f = (struct flight){ now_ns + delay_ns, from, count, line, "" };
    memcpy(f->session, feed_session, sizeof feed_session);
}

/* Sends messages over both lines. */
static void send_on_lines(uint64_t from, uint32_t count)
{
    const bool lose_a = random_below(100) < day.lost, lose_b = random_below(100) < day.lost;
    if (!lose_a)
        fly(MOLD_A, from, count, random_below(NS_PER_MS));
    if (!lose_b)
        fly(MOLD_B, from, count, random_below(5 * NS_PER_MS));
    seen[SEEN_lost_by_both] += lose_a && lose_b && count != 0xffff;
    fed_ns = now_ns;
}

static struct message *publish(struct message x)
{
    struct message *m = &messages[next];
    uint8_t *out = m->data;
    const uint16_t locate = (uint16_t)(LOCATE + x.symbol);
    uint32_t bytes = 0;
    assert_true(next < MESSAGES_MAX);
    *m = x;
    if (x.kind == EVENT)
        bytes = itch_event(out, (uint8_t)x.state);
    else if (x.kind == DIRECTORY)
        bytes = itch_directory(out, locate, names[x.symbol]);
    else if (x.kind == STATE)
        bytes = itch_action(out, locate, (uint8_t)x.state);
    else if (x.kind == HALT)
        bytes = itch_halt(out, locate, 'Q', (uint8_t)x.state);
    else if (x.kind == ADD)
        bytes = itch_add(out, locate, x.reference, x.side == BOOK_BUY ? 'B' : 'S', x.shares, x.price);
    else if (x.kind == REDUCE)
        bytes = itch_reduce(out, ITCH_CANCEL, locate, x.reference, x.shares);
    else if (x.kind == DELETE || (x.kind == NONSENSE && x.symbol < SYMBOLS))
        bytes = itch_reduce(out, ITCH_DELETE, locate, x.reference, 0);
    else if (x.kind == NONSENSE) /* no directory message has named this stock */
        bytes = itch_reduce(out, ITCH_DELETE, 4711, x.reference, 0);
    else if (x.kind == REPLACE)
        bytes = itch_replace(out, locate, x.reference, x.other, x.shares, x.price);
    else if (x.kind == EXECUTE) {
        bytes = itch_executed_at(out, locate, x.reference, x.shares, 'Y', x.price);
        store_be64(&((struct itch_executed_price_wire *)(void *)out)->executed.match, next);
    } else if (x.kind == PRINT) {
        bytes = itch_trade(out, locate, x.price);
        store_be64(&((struct itch_trade_wire *)(void *)out)->match, next);
    } else if (x.kind == BREAK)
        bytes = itch_broken(out, locate, x.other);
    m->bytes = (uint8_t)bytes;
    apply(&market, m, next++);
    return m;
}

static uint32_t middle[SYMBOLS];
/* A symbol whose book is contradicted, and the moves that it makes then. */
static uint32_t shaken, shaken_moves;
static uint64_t offered; /* the latest reference of an offer */

/* Publishes a change of a symbol's book. */
static void publish_order(uint32_t symbol)
{
    const enum book_side side = chance(50) ? BOOK_BUY : BOOK_SELL;
    const uint32_t away = 100 * (uint32_t)random_below(20);
    const uint32_t price = (side == BOOK_BUY) == !chance(3) ? middle[symbol] - 100 - away : middle[symbol] + away;
    struct offer *o = market.count > 0 ? &market.offers[random_below(market.count)] : NULL;
    struct message x = {
        .kind = ADD, .symbol = symbol, .side = side, .price = price, .shares = 1 + (uint32_t)random_below(300)
    };
    if (market.count < OFFERS_MAX && (o == NULL || chance(55))) {
        x.reference = ++offered;
    } else if (o != NULL) {
        x.kind = chance(30) ? DELETE : chance(30) ? REPLACE : o->shares > 1 && chance(50) ? REDUCE : EXECUTE;
        x.symbol = o->symbol;
        x.reference = o->reference;
        x.other = x.kind == REPLACE ? ++offered : 0;
        x.price = x.kind == EXECUTE ? o->price : middle[o->symbol] + (o->side == BOOK_BUY ? -100 - away : away);
        x.shares = x.kind == REDUCE ? 1 : x.kind == EXECUTE ? 1 + (uint32_t)random_below(o->shares) : x.shares;
    }
    publish(x);
}

static void publish_state(uint32_t symbol)
{
    const bool halts = market.of[symbol].halted;
    struct message x = { .symbol = symbol };
    if (chance(30)) {
        x.kind = HALT;
        x.state = halts ? 'T' : 'H';
        seen[SEEN_halted_by_operation] += !halts;
    } else {
        x.kind = STATE;
        x.state = market.of[symbol].state != 'T' ? 'T' : chance(50) ? 'H' : 'P';
        seen[x.state == 'T' ? SEEN_resumed : SEEN_halted]++;
    }
    publish(x);
}

/* Publishes one to three messages. */
static void move_market(void)
{
    const uint64_t from = next;
    if (shaken_moves > 0 && shaken_moves-- > 0) { /* while its book is rebuilt */
        if (chance(20))
            publish((struct message){ .kind = HALT, .symbol = shaken, .state = market.of[shaken].halted ? 'T' : 'H' });
        else if (chance(60))
            publish((struct message){ .kind = PRINT, .symbol = shaken, .price = middle[shaken] });
    }
    if (!market.open && chance(5))
        publish((struct message){ .kind = EVENT, .state = 'Q' });
    for (uint32_t i = 0; i < SYMBOLS; i++)
        if ((market.of[i].state != 'T' || market.of[i].halted) && chance(5))
            publish_state(i);
    for (uint32_t count = 1 + (uint32_t)random_below(3); count > 0; count--) {
        const uint32_t symbol = (uint32_t)random_below(SYMBOLS), dice = (uint32_t)random_below(1000);
        if (dice < 30)
            middle[symbol] = (uint32_t)((uint64_t)middle[symbol] * (94 + random_below(13)) / 100);
        if (dice < 700)
            publish_order(symbol);
        else if (dice < 960)
            publish((struct message){
                .kind = PRINT, .symbol = symbol, .price = middle[symbol] - 200 + 100 * (uint32_t)random_below(5) });
        else if (dice < 970)
            publish_state(symbol);
        else if (dice < 985 && market.of[symbol].trades > 0) {
            const uint64_t at = market.of[symbol].trades - 1 - random_below(min_u64(3, market.of[symbol].trades));
            publish((struct message){
                .kind = BREAK, .symbol = symbol, .other = market.of[symbol].latest[at % TRADES_KEPT].match });
            seen[SEEN_print_broken]++;
        } else if (dice == 992 || (dice >= 986 && dice < 992 && day.has_snapshot)) {
            shaken = symbol;
            shaken_moves = 4;
            middle[symbol] = (uint32_t)((uint64_t)middle[symbol] * (90 + random_below(21)) / 100);
            publish((struct message){ .kind = NONSENSE, .symbol = symbol, .reference = 4711000000 });
            seen[SEEN_contradicted]++;
        } else if (dice == 993 && chance(30)) {
            publish((struct message){ .kind = NONSENSE, .symbol = SYMBOLS, .reference = 4711000000 });
            seen[SEEN_contradicted_all]++;
        } else if (dice == 994) {
            seen[SEEN_closed] += market.open;
            publish((struct message){ .kind = EVENT, .state = 'M' });
        } else
            publish_order(symbol);
    }
    seen[SEEN_crossed] += best(&market, 0, BOOK_BUY) > best(&market, 0, BOOK_SELL) && best(&market, 0, BOOK_SELL) != 0;
    send_on_lines(from, (uint32_t)(next - from));
}

/* Delivers a datagram that is due. Returns true if one was. */
static bool serve_feed(void)
{
    static const uint16_t ports[] = { 5001, 5002, REREQUEST_PORT };
    uint8_t packet[MOLD_DATAGRAM_BYTES_MAX];
    uint32_t at = 0;
    while (at < flight_count && flights[at].due_ns > now_ns)
        at++;
    if (at == flight_count)
        return false;
    const struct flight f = flights[at];
    memmove(&flights[at], &flights[at + 1], (--flight_count - at) * sizeof flights[0]);
    const bool ends = f.count == 0xffff;
    uint32_t bytes = mold_head(packet, f.session, f.from, (uint16_t)f.count);
    if (memcmp(f.session, feed_session, 10) != 0)
        return false;
    for (uint64_t number = f.from; !ends && number < f.from + f.count; number++) {
        bytes += mold_block(packet + bytes, messages[number].data, messages[number].bytes);
        delivered[number] = true;
        seen[SEEN_rerequested] += f.line == 2;
    }
    for (uint64_t end = f.from + (ends ? 0 : f.count); announced < end; announced++)
        if (announced > 0 && !(passed_over[announced] && messages[announced].kind == HALT))
            apply(&reported, &messages[announced], announced);
    if (f.line != 2)
        heard_ns = now_ns;
    session_over |= ends;
    fake_datagram(EXCHANGE, f.line == 2 ? REREQUEST : 9, ports[f.line], packet, bytes);
    return true;
}

/* Answers the requests of the latest turn. */
static void answer_requests(void)
{
    for (uint32_t i = 0; i < min_u32(fake.datagram_count, FAKE_DATAGRAM_COUNT); i++) {
        const struct mold_header_wire *request = (const void *)fake.datagrams[i].data;
        const uint64_t from = load_be64(&request->sequence);
        if (fake.datagrams[i].to_port != REREQUEST || memcmp(request->session, feed_session, 10) != 0 || from >= next
            || random_below(100) < day.lost)
            continue;
        fly(2, from, (uint32_t)min_u64(load_be16(&request->count), next - from), random_below(NS_PER_MS));
    }
    fake.datagram_count = 0;
}

/* Notes that the program goes on at a message. GLIMPSE 5.0 has no message about an operational halt: it is as it was
 * said by those that the program has taken. */
static void pass_over(uint64_t number)
{
    for (uint64_t i = mold_next_number(); i < number && !trade.heals; i++)
        passed_over[i] = true;
    for (uint32_t symbol = 0; symbol < SYMBOLS; symbol++)
        reported.of[symbol].halted = false;
    for (uint64_t i = 1; i < announced; i++)
        if (messages[i].kind == HALT && !passed_over[i])
            apply(&reported, &messages[i], i);
}

/* Gives a snapshot. Returns true if something was delivered. */
static bool serve_snapshot(void)
{
    static uint8_t packet[1 << 14];
    static int connecting = -1, served = -1;
    static struct market m;
    const int id = fake_to(SNAPSHOT);
    if (id < 0) {
        connecting = served = -1;
        return false;
    }
    if (!fake.connections[id].connected) {
        if (id != connecting)
            fake_connected(id);
        connecting = id;
        return true;
    }
    if (fake.connections[id].sent_bytes == 0 || id == served || chance(92))
        return false;
    served = id;
    const uint64_t lag = random_below(20), number = next > lag + 1 ? next - lag : next;
    memset(&m, 0, sizeof m);
    for (uint64_t i = 1; i < number; i++)
        apply(&m, &messages[i], i);
    uint32_t bytes = soup_accepted(packet, "SNAP", 1);
    uint8_t x[50];
    for (uint32_t i = 0; i < SYMBOLS; i++) {
        bytes += soup_packet(packet + bytes, 'S', x, itch_directory(x, (uint16_t)(LOCATE + i), names[i]));
        if (m.of[i].state != 0)
            bytes += soup_packet(packet + bytes, 'S', x,
                                 itch_action(x, (uint16_t)(LOCATE + i), (uint8_t)m.of[i].state));
    }
    bytes += soup_packet(packet + bytes, 'S', x, itch_event(x, m.open ? 'Q' : 'M'));
    for (uint32_t i = 0; i < m.count; i++)
        bytes += soup_packet(packet + bytes, 'S', x,
                             itch_add(x, (uint16_t)(LOCATE + m.offers[i].symbol), m.offers[i].reference,
                                      m.offers[i].side == BOOK_BUY ? 'B' : 'S', m.offers[i].shares, m.offers[i].price));
    if (chance(10)) {
        fake_data(id, packet, bytes);
        fake_closed(id, TRANSPORT_RESET);
        seen[SEEN_snapshot_cut]++;
        return true;
    }
    char last[22];
    snprintf(last, sizeof last, "G%20llu", (unsigned long long)number);
    bytes += soup_packet(packet + bytes, 'S', last, 21);
    fake_data(id, packet, bytes);
    seen[SEEN_snapshot]++;
    snapshot_number = max_u64(snapshot_number, number);
    pass_over(number);
    for (uint32_t i = 0; i <= SYMBOLS; i++)
        if (reported.doubted[i] != 0) {
            reported.doubted[i] = 0;
            seen[SEEN_healed]++;
        }
    return true;
}

/* ---- days ---- */

/* Asks for anything. */
static bool decide_wildly(struct strategy_view *view, enum book_side side, struct strategy_order *order)
{
    const struct ouch_order *own = &view->own->own[side];
    const uint32_t base = view->top->last_price != 0 ? view->top->last_price : PRICE;
    const uint32_t dice = (uint32_t)random_below(100);
    if (own->cancelling || dice < 40)
        return false;
    *order = (struct strategy_order){ .kind = STRATEGY_ENTER,
                                      .price = (uint32_t)((uint64_t)base * (9350 + random_below(1301)) / 10000),
                                      .shares = (uint32_t)random_below(115),
                                      .immediate = chance(10) };
    if (chance(3))
        order->price = chance(50) ? 0 : 2000000000;
    if (own->state == OUCH_OPEN && dice < 70)
        order->kind = dice < 50 ? STRATEGY_CANCEL : STRATEGY_REPLACE;
    return true;
}

static const char *on_off(bool on) { return on ? "on" : "off"; }

/* Starts the program, for the first time in the session or again. */
static void start_program(void)
{
    char text[1024];
    for (uint32_t i = RISK_PASSED + 1; i < RISK_VERDICT_COUNT; i++)
        refused[i] += trade.refused[i];
    seen[SEEN_rehearsed] += fake.rehearsed_bytes > 0;
    snprintf(text, sizeof text,
             "feed.a=0.0.0.0:5001 feed.b=0.0.0.0:5002 orders=10.0.2.2:5005 user=USER passwd=PW symbols=AAAA,BB,CCC "
             "orders.max=1024 feed.timeout=300ms %s%s strategy=%s take.buy=99.9 take.sell=100.1 risk.collar=%u "
             "risk.notional=%u risk.position=%u risk.open=%u risk.rate=%u risk.replaces=%u risk.short=%s "
             "risk.day.orders=%u risk.day.shares=%u risk.loss=1000000 risk.rejects=%u cancel.on.loss=%s "
             "cancel.on.start=%s stopped=%s position=AAAA:%lld,BB:%lld,CCC:%lld",
             day.has_rerequest ? "rerequest=10.0.2.2:5003 " : "", day.has_snapshot ? "snapshot=10.0.2.2:5004" : "",
             day.strategy, day.collar, day.notional_max, day.position_max, day.open_max, day.rate_max, day.replaces_max,
             on_off(day.may_sell_short), day.day_orders, day.day_shares, day.rejects_max, on_off(chance(70)),
             on_off(chance(50)), on_off(day.stopped), (long long)day.positions[0], (long long)day.positions[1],
             (long long)day.positions[2]);
    lose_session();
    program_begin(text, &machine, now_ns);
    fake.rehearses = day.rehearses;
    assert_null(program.init(&machine, now_ns));
    if (day.is_wild)
        trade.decide = decide_wildly;
    memset(&known, 0, sizeof known);
    memset(&reported, 0, sizeof reported);
    memset(&run, 0, sizeof run);
    memset(delivered, 0, sizeof delivered);
    memset(passed_over, 0, sizeof passed_over);
    memcpy(known.positions, day.positions, sizeof known.positions);
    run.stopped = day.stopped;
    run.left = account.arrived;
    announced = snapshot_number = heard_ns = 0;
    session_over = false;
}

/* Begins another session of the feed and of the orders. */
static void begin_sessions(uint32_t number)
{
    const uint8_t day_begins[10] = { 'S', 0, 0, 0, 0, 0, 0, 0, 0, 'S' };
    snprintf(feed_session, sizeof feed_session, "F%-9u", number);
    snprintf(order_session, sizeof order_session, "S%-9u", number);
    next = 1;
    memset(&market, 0, sizeof market);
    memset(&reported, 0, sizeof reported);
    memset(delivered, 0, sizeof delivered);
    memset(passed_over, 0, sizeof passed_over);
    announced = snapshot_number = 0;
    session_over = false;
    flight_count = 0;
    for (uint32_t i = 0; i < SYMBOLS; i++) {
        middle[i] = PRICE;
        publish((struct message){ .kind = DIRECTORY, .symbol = i });
        publish((struct message){ .kind = STATE, .symbol = i, .state = 'T' });
        publish((struct message){ .kind = PRINT, .symbol = i, .price = PRICE });
    }
    publish((struct message){ .kind = EVENT, .state = 'Q' });
    send_on_lines(1, (uint32_t)next - 1);
    memset(account.orders, 0, sizeof account.orders);
    memcpy(day.positions, account.positions, sizeof day.positions);
    account.arrived = execution_count = response_count = delivered_count = request_count = 0;
    respond(sizeof day_begins, day_begins);
}

static void step_slice(uint64_t ns)
{
    turn(ns);
    while (serve_orders() || serve_feed() || (day.has_snapshot && serve_snapshot())) {
        turn(DELIVERY_NS);
        answer_requests();
    }
    answer_requests();
}

/* Lets time pass. */
static void pass(uint64_t ns, bool is_silent)
{
    for (uint64_t end_ns = now_ns + ns; now_ns < end_ns;) {
        step_slice(min_u64(SLICE_NS, end_ns - now_ns));
        if (!is_silent && now_ns - fed_ns >= 50 * NS_PER_MS)
            send_on_lines(next, 0); /* a heartbeat */
    }
}

static void step(void)
{
    const uint32_t dice = (uint32_t)random_below(1000);
    if (dice < 700 && next + 8 < MESSAGES_MAX)
        move_market();
    if (chance(40) && response_count + 400 < RESPONSES_MAX)
        move_account();
    if (dice == 990) {
        seen[SEEN_silent]++;
        pass(TIMEOUT_NS + 50 * NS_PER_MS, true);
    } else if (dice == 991) {
        seen[SEEN_paused]++;
        run.caught_up_ns = now_ns + TIMEOUT_NS + NS_PER_MS + 100 * NS_PER_MS;
        step_slice(TIMEOUT_NS + NS_PER_MS);
    } else if ((dice == 992 || (request_count > 0 && chance(4))) && session.logged_in) {
        seen[SEEN_cut]++;
        fake_closed(session.id, TRANSPORT_RESET);
        turn(1000);
        lose_session();
    } else if (dice == 993 && chance(50)) {
        seen[SEEN_restarted]++;
        start_program();
    } else if (dice == 994 && chance(50)) {
        seen[SEEN_stopped]++;
        run.stopped = true;
        trade_set(text_of("stop"));
    } else if (dice >= 995 && run.stopped && trade_set(text_of("start")) == NULL) {
        seen[SEEN_started]++;
        run.stopped = false;
        run.rejects = run.rejected_count = 0;
    }
    const uint32_t kind = (uint32_t)random_below(100);
    pass(kind < 70   ? random_below(2 * NS_PER_MS)
         : kind < 95 ? random_below(30 * NS_PER_MS)
                     : random_below(250 * NS_PER_MS),
         false);
}

/* Ends the day of the orders, then that of the feed. */
static void pass_night(void)
{
    const uint8_t day_ends[10] = { 'S', 0, 0, 0, 0, 0, 0, 0, 0, 'E' };
    for (uint32_t i = 1; i <= account.arrived; i++)
        if (account.orders[i].state == OPEN) {
            uint8_t c[80];
            respond(ouch_decrement(c, i, account.orders[i].open), c);
            account.orders[i].state = DONE;
        }
    respond(sizeof day_ends, day_ends);
    seen[SEEN_ended]++;
    for (int i = 0; i < 50; i++) /* the feed goes on */
        step();
    publish((struct message){ .kind = EVENT, .state = 'M' });
    send_on_lines(next - 1, 1);
}

static void play_day(uint32_t number)
{
    static const char *const strategies[] = { "join", "skew", "take" };
    memset(&account, 0, sizeof account);
    day = (struct day){ .number = number,
                        .position_max = 50 + (uint32_t)random_below(400),
                        .open_max = 1 + (uint32_t)random_below(10),
                        .rate_max = 2 + (uint32_t)random_below(40),
                        .replaces_max = 1 + (uint32_t)random_below(4),
                        .notional_max = 4000 + (uint32_t)random_below(8000),
                        .collar = 2 + (uint32_t)random_below(6),
                        .rejects_max = 2 + (uint32_t)random_below(20),
                        .day_orders = chance(20) ? 20 : 4000,
                        .day_shares = chance(20) ? 800 : 1000000,
                        .may_sell_short = chance(50),
                        .stopped = chance(10),
                        .has_rerequest = chance(70),
                        .has_snapshot = chance(80),
                        .is_wild = chance(60),
                        .rehearses = chance(40),
                        .strategy = strategies[random_below(3)],
                        .lost = chance(30) ? 0 : (uint32_t)random_below(15) };
    for (uint32_t i = 0; i < SYMBOLS; i++)
        account.positions[i] = chance(50) ? 0 : (int64_t)random_below(2 * 450) - 450;
    for (uint32_t i = 0; i < SYMBOLS; i++) {
        seen[SEEN_began_beyond] += account.positions[i] > day.position_max;
        seen[SEEN_began_short] += account.positions[i] < 0;
    }
    ever_broken = false;
    begin_sessions(2 * number);
    start_program();
    pass(1500 * NS_PER_MS, false);
    for (day.step = 0; day.step < STEPS; day.step++)
        step();
    if (!chance(15))
        return;
    pass_night();
    pass(500 * NS_PER_MS, false);
    send_on_lines(next, 0xffff);
    pass(20 * NS_PER_MS, true);
    ever_broken = false;
    lose_session();
    fake_closed(fake_to(ORDERS), TRANSPORT_DONE);
    begin_sessions(2 * number + 1);
    pass(35 * NS_PER_S, false);
    seen[SEEN_next_day]++;
    for (; day.step < STEPS * 3 / 2; day.step++)
        step();
}

TEST(each_order_of_random_days_keeps_the_rules)
{
    const char *given = getenv("DAYS");
    const uint32_t days = given != NULL ? (uint32_t)atoi(given) : DAYS;
    random_seed(20261128);
    now_ns = 10 * NS_PER_S;
    for (uint32_t number = 1; number <= days; number++)
        play_day(number);
    start_program();
    for (uint32_t i = 0; i < SEEN_COUNT; i++)
        fprintf(stderr, "%s %llu\n", event_names[i], (unsigned long long)seen[i]);
    for (uint32_t i = RISK_PASSED + 1; i < RISK_VERDICT_COUNT; i++)
        fprintf(stderr, "refused: %s %llu\n", limit_names[i], (unsigned long long)refused[i]);
    for (uint32_t i = 0; i < SEEN_COUNT; i++)
        if (seen[i] == 0)
            fail_msg("no day has had this: %s", event_names[i]);
    for (uint32_t i = RISK_BOOK; i < RISK_VERDICT_COUNT; i++) /* the strategy is not asked before */
        if (refused[i] == 0 && i != RISK_SESSION)
            fail_msg("no order was refused: %s", limit_names[i]);
}
