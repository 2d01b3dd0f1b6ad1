#include "app/trade/ouch.h"

#include <string.h>

#include "base/assert.h"
#include "base/hot_section.h"

static struct {
    const uint8_t (*names)[ITCH_STOCK_BYTES];
    uint32_t symbol_count;
    uint32_t next_reference;
    uint32_t arrived_next; /* the latest answer to an account query; 0: none since the login */
    bool ready, sure;
    uint64_t response_ns; /* when the latest response came */
    uint32_t live_count;
    uint32_t next_place; /* the search of a free place begins here */
    struct ouch_symbol symbols[BOOK_SYMBOL_COUNT_MAX];
    struct ouch_order orders[OUCH_ORDER_COUNT_MAX];
    uint32_t next_execution;
    struct execution {
        uint64_t match;
        uint32_t shares;
        uint8_t symbol, side;
    } executions[OUCH_EXECUTION_COUNT];
} ouch;

struct ouch_counters ouch_counters;
static const struct counter counter_table[] = {
    COUNTER("ouch.", ouch_counters, entered),
    COUNTER("ouch.", ouch_counters, replaced),
    COUNTER("ouch.", ouch_counters, cancelled),
    COUNTER("ouch.", ouch_counters, accepted),
    COUNTER("ouch.", ouch_counters, executed),
    COUNTER("ouch.", ouch_counters, shares_bought),
    COUNTER("ouch.", ouch_counters, shares_sold),
    COUNTER("ouch.", ouch_counters, cancels),
    COUNTER("ouch.", ouch_counters, cancel_pending),
    COUNTER("ouch.", ouch_counters, cancel_rejected),
    COUNTER("ouch.", ouch_counters, rejected),
    COUNTER("ouch.", ouch_counters, broken),
    COUNTER("ouch.", ouch_counters, adopted),
    COUNTER("ouch.", ouch_counters, never_arrived),
    COUNTER("ouch.", ouch_counters, events),
    COUNTER("ouch.", ouch_counters, others),
    COUNTER("ouch.", ouch_counters, drop_type),
    COUNTER("ouch.", ouch_counters, drop_length),
    COUNTER("ouch.", ouch_counters, drop_unknown_reference),
    COUNTER("ouch.", ouch_counters, drop_unknown_symbol),
    COUNTER("ouch.", ouch_counters, drop_excess),
    COUNTER("ouch.", ouch_counters, drop_price),
    COUNTER("ouch.", ouch_counters, drop_full),
};
const struct counter_group ouch_counter_group = { counter_table, ARRAY_COUNT(counter_table) };

struct ouch_levels ouch_levels;
static const struct counter level_table[] = {
    COUNTER("pool.orders_", ouch_levels, open),
    COUNTER("pool.orders_", ouch_levels, sure),
    COUNTER("pool.orders_", ouch_levels, next_reference),
};
const struct counter_group ouch_level_group = { level_table, ARRAY_COUNT(level_table) };

void ouch_init(const uint8_t (*symbols)[ITCH_STOCK_BYTES], uint32_t symbol_count)
{
    ASSERT(symbol_count <= BOOK_SYMBOL_COUNT_MAX);
    memset(&ouch, 0, sizeof ouch);
    memset(&ouch_counters, 0, sizeof ouch_counters);
    ouch.names = symbols;
    ouch.symbol_count = symbol_count;
    ouch.next_reference = 1;
    ouch.sure = true;
    ouch_levels = (struct ouch_levels){ 0, 1, 1 };
}

HOT bool ouch_is_ready(void) { return ouch.ready; }
HOT bool ouch_is_sure(void) { return ouch.sure; }
HOT bool ouch_has_room(void) { return ouch.live_count < OUCH_ORDER_COUNT_MAX; }

HOT const struct ouch_symbol *ouch_symbol(uint32_t symbol)
{
    ASSERT(symbol < BOOK_SYMBOL_COUNT_MAX);
    return &ouch.symbols[symbol];
}

static bool is_live(const struct ouch_order *o) { return o->state == OUCH_SENT || o->state == OUCH_OPEN; }

/* ---- messages to the exchange ---- */

static const char client_order_id[14] = "peregrine     ";

void ouch_write_template(uint8_t message[OUCH_ENTER_BYTES])
{
    memset(message, 0, OUCH_ENTER_BYTES); /* the appendage's length, too */
    message[0] = 'O';
    store_be32(message + 1, ouch.next_reference);
    memcpy(message + 27, "YPNN", 4); /* displayed, principal, no intermarket sweep, no cross */
    memcpy(message + 31, client_order_id, sizeof client_order_id);
}

void ouch_write_replace(uint8_t message[OUCH_REPLACE_BYTES], const struct ouch_order *order, uint32_t quantity,
                        uint32_t price)
{
    ASSERT(is_live(order));
    memset(message, 0, OUCH_REPLACE_BYTES);
    message[0] = 'U';
    store_be32(message + 1, order->reference);
    store_be32(message + 5, ouch.next_reference);
    store_be32(message + 9, quantity);
    store_be64(message + 13, price);
    memcpy(message + 21, "0YN", 3); /* day, displayed, no intermarket sweep */
    memcpy(message + 24, client_order_id, sizeof client_order_id);
}

void ouch_write_cancel(uint8_t message[OUCH_CANCEL_BYTES], const struct ouch_order *order)
{
    ASSERT(is_live(order));
    message[0] = 'X';
    store_be32(message + 1, order->reference);
    store_be32(message + 5, 0); /* no share stays */
}

/* ---- orders ---- */

static struct ouch_order *order_of(uint32_t reference)
{
    for (uint32_t i = 0; i < OUCH_ORDER_COUNT_MAX; i++)
        if (ouch.orders[i].reference == reference && ouch.orders[i].state != OUCH_FREE)
            return &ouch.orders[i];
    return NULL;
}

/* Computes the sums of a symbol's orders. A replacement adds only the shares that exceed its original's, as one of the
 * two is executed. */
static void sum_up(uint32_t symbol)
{
    struct ouch_symbol *s = &ouch.symbols[symbol];
    ASSERT(symbol < ouch.symbol_count);
    s->open_shares[BOOK_BUY] = s->open_shares[BOOK_SELL] = 0;
    memset(s->own, 0, sizeof s->own);
    ouch_levels.open = ouch.live_count = 0;
    ouch_levels.next_reference = ouch.next_reference;
    for (uint32_t i = 0; i < OUCH_ORDER_COUNT_MAX; i++) {
        const struct ouch_order *o = &ouch.orders[i];
        if (!is_live(o))
            continue;
        ouch.live_count++;
        const struct ouch_order *original = o->original != 0 ? order_of(o->original) : NULL;
        bool twice = original != NULL && is_live(original);
        ouch_levels.open += !twice;
        if (o->symbol != symbol)
            continue;
        uint32_t counted = twice ? min_u32(original->open_shares, o->open_shares) : 0;
        s->open_shares[o->side] += o->open_shares - counted;
        if (s->own[o->side].state == OUCH_FREE || s->own[o->side].reference < o->reference)
            s->own[o->side] = *o;
    }
}

/* Ends an order. The exchange ignores the replacement of an order that has ended: it ends, too. */
static void end(struct ouch_order *o)
{
    o->state = OUCH_DONE;
    o->open_shares = 0;
    for (uint32_t i = 0; i < OUCH_ORDER_COUNT_MAX; i++)
        if (ouch.orders[i].state == OUCH_SENT && ouch.orders[i].original == o->reference)
            end(&ouch.orders[i]);
}

/* Returns a place for an order, taken from the oldest that is not live; NULL: all are live. */
static struct ouch_order *place(void)
{
    for (uint32_t i = 0; i < OUCH_ORDER_COUNT_MAX; i++) {
        struct ouch_order *o = &ouch.orders[ouch.next_place];
        ouch.next_place = (ouch.next_place + 1) % OUCH_ORDER_COUNT_MAX;
        if (!is_live(o))
            return o;
    }
    return NULL;
}

/* Counts a contradiction between the exchange and our own knowledge. */
static int doubt(uint64_t *counter)
{
    ++*counter;
    ouch.sure = false;
    ouch_levels.sure = 0;
    return -1;
}

static void add(uint32_t original, uint32_t symbol, enum book_side side, uint32_t quantity, uint32_t price)
{
    struct ouch_order *o = place();
    ASSERT(o != NULL); /* ouch_has_room */
    *o = (struct ouch_order){ ouch.next_reference++, original,        price, quantity, OUCH_SENT,
                              (uint8_t)side,         (uint8_t)symbol, false, false,    false };
    sum_up(symbol);
}

void ouch_entered(uint32_t symbol, enum book_side side, uint32_t quantity, uint32_t price)
{
    ouch_counters.entered++;
    add(0, symbol, side, quantity, price);
}

void ouch_replaced(uint32_t original, uint32_t quantity, uint32_t price)
{
    const struct ouch_order *o = order_of(original);
    ASSERT(o != NULL && is_live(o));
    ouch_counters.replaced++;
    add(original, o->symbol, o->side, quantity, price);
}

void ouch_cancelled(uint32_t reference)
{
    struct ouch_order *o = order_of(reference);
    ASSERT(o != NULL && is_live(o));
    ouch_counters.cancelled++;
    o->cancelling = true;
    sum_up(o->symbol);
}

void ouch_retry_cancels(void)
{
    for (uint32_t i = 0; i < OUCH_ORDER_COUNT_MAX; i++) {
        struct ouch_order *o = &ouch.orders[i];
        if (!o->cancel_rejected)
            continue;
        ASSERT(o->symbol < ouch.symbol_count);
        o->cancelling = o->cancel_rejected = false;
        sum_up(o->symbol);
    }
}

const struct ouch_order *ouch_next_live(uint32_t *at)
{
    while (*at < OUCH_ORDER_COUNT_MAX) {
        const struct ouch_order *o = &ouch.orders[(*at)++];
        if (is_live(o) && !o->cancelling)
            return o;
    }
    return NULL;
}

/* ---- responses ---- */

enum { REFERENCE = 9, HAS_APPENDAGE = 0x80, LENGTH_MASK = 0x7f };

/* The length of each response. OUCH 5.0, chapter 4; HAS_APPENDAGE: the last two bytes are the appendage's length. */
static const uint8_t response_bytes[128] = {
    ['S'] = 10,
    ['A'] = 64 | HAS_APPENDAGE,
    ['U'] = 68 | HAS_APPENDAGE,
    ['C'] = 18,
    ['D'] = 31,
    ['E'] = 36 | HAS_APPENDAGE,
    ['B'] = 36,
    ['F'] = 49,
    ['J'] = 29,
    ['P'] = 13,
    ['I'] = 13,
    ['T'] = 30,
    ['M'] = 18,
    ['R'] = 16 | HAS_APPENDAGE,
    ['Q'] = 13,
};

/* Returns true if a response has `fixed` bytes, alone or before an appendage. */
static bool has_length(struct bytes m, size_t fixed)
{
    return m.count == fixed || (m.count >= fixed + 2 && m.count == fixed + 2 + load_be16(m.data + fixed));
}

/* Returns true if a response has its type's length, with an appendage or without. */
static bool is_whole(struct bytes m)
{
    ASSERT(m.count > 0 && m.data[0] < sizeof response_bytes);
    size_t fixed = response_bytes[m.data[0]] & LENGTH_MASK;
    if (response_bytes[m.data[0]] & HAS_APPENDAGE)
        return m.count >= fixed && m.count == fixed + load_be16(m.data + fixed - 2);
    return has_length(m, fixed) || (m.data[0] == 'D' && has_length(m, fixed + 1)); /* one more: its strategy */
}

/* The fields of an accepted or replaced order, which stand in the same order in both responses. */
struct terms {
    uint32_t symbol; /* the count of symbols: it is none of ours */
    enum book_side side;
    uint32_t quantity, price;
    bool live;
};

/* Reads the terms from the side on. Returns false if the price is none. */
static bool read_terms(const uint8_t *side, struct terms *terms)
{
    uint64_t price = load_be64(side + 13);
    ASSERT(ouch.symbol_count <= BOOK_SYMBOL_COUNT_MAX);
    terms->symbol = 0;
    while (terms->symbol < ouch.symbol_count && memcmp(ouch.names[terms->symbol], side + 5, ITCH_STOCK_BYTES) != 0)
        terms->symbol++;
    terms->side = *side == 'B' ? BOOK_BUY : BOOK_SELL;
    terms->quantity = load_be32(side + 1);
    terms->price = (uint32_t)price;
    terms->live = side[34] == 'L';
    return price <= ITCH_PRICE_MAX;
}

/* Sets an order to the terms that the exchange states. One of an earlier run, which the exchange repeats before the
 * session is ready, gets a place here. */
static int accept(uint32_t reference, const struct terms *terms)
{
    struct ouch_order *o = order_of(reference);
    if (terms->symbol == ouch.symbol_count)
        return doubt(&ouch_counters.drop_unknown_symbol);
    if (o == NULL && ouch.ready)
        return doubt(&ouch_counters.drop_unknown_reference);
    if (o == NULL && (o = place()) == NULL)
        return doubt(&ouch_counters.drop_full);
    if (o->reference != reference) {
        *o = (struct ouch_order){ .reference = reference };
        ouch_counters.adopted++;
        ouch.next_reference = max_u32(ouch.next_reference, reference + 1);
    }
    o->state = OUCH_OPEN;
    o->original = 0;
    o->symbol = (uint8_t)terms->symbol;
    o->side = (uint8_t)terms->side;
    o->price = terms->price;
    o->open_shares = terms->quantity;
    if (!terms->live || terms->quantity == 0)
        end(o);
    ouch_counters.accepted++;
    return (int)terms->symbol;
}

static int take_accepted(const uint8_t *m)
{
    struct terms terms;
    if (!read_terms(m + 13, &terms))
        return doubt(&ouch_counters.drop_price);
    return accept(load_be32(m + REFERENCE), &terms);
}

static int take_replaced(const uint8_t *m)
{
    struct terms terms;
    struct ouch_order *original = order_of(load_be32(m + REFERENCE));
    if (!read_terms(m + 17, &terms))
        return doubt(&ouch_counters.drop_price);
    if (original == NULL)
        return doubt(&ouch_counters.drop_unknown_reference);
    bool executed = original->executed;
    end(original);
    int symbol = accept(load_be32(m + 13), &terms);
    if (symbol >= 0)
        order_of(load_be32(m + 13))->executed = executed; /* OUCH 5.0 counts the executed shares of the whole chain */
    return symbol;
}

/* Takes shares from an order that the exchange has cancelled. */
static int take_decrement(struct ouch_order *o, uint32_t shares)
{
    ASSERT(o->symbol < ouch.symbol_count);
    if (shares > o->open_shares)
        return doubt(&ouch_counters.drop_excess);
    ouch_counters.cancels++;
    o->open_shares -= shares;
    if (o->open_shares == 0)
        end(o);
    return o->symbol;
}

/* Moves a symbol's position by bought or sold shares. */
static void move(uint32_t symbol, enum book_side side, int64_t shares)
{
    ASSERT(symbol < ouch.symbol_count);
    ouch.symbols[symbol].position += side == BOOK_BUY ? shares : -shares;
}

static int take_executed(struct ouch_order *o, const uint8_t *m)
{
    uint32_t shares = load_be32(m + 13);
    if (shares > o->open_shares)
        doubt(&ouch_counters.drop_excess); /* the exchange counts: the position moves all the same */
    ouch_counters.executed++;
    *(o->side == BOOK_BUY ? &ouch_counters.shares_bought : &ouch_counters.shares_sold) += shares;
    move(o->symbol, o->side, shares);
    ouch.executions[ouch.next_execution] = (struct execution){ load_be64(m + 26), shares, o->symbol, o->side };
    ouch.next_execution = (ouch.next_execution + 1) % OUCH_EXECUTION_COUNT;
    o->executed = true;
    o->open_shares -= min_u32(shares, o->open_shares);
    if (o->open_shares == 0)
        end(o);
    return o->symbol;
}

/* Takes back an execution that was broken, or corrects its shares. */
static int take_corrected(const struct ouch_order *o, uint64_t match, uint32_t shares)
{
    for (uint32_t i = 0; i < OUCH_EXECUTION_COUNT; i++) {
        struct execution *e = &ouch.executions[i];
        if (e->match != match || e->symbol != o->symbol || e->side != o->side || e->shares == 0)
            continue;
        move(e->symbol, e->side, (int64_t)shares - e->shares);
        e->shares = shares;
        ouch_counters.broken++;
        return e->symbol;
    }
    return doubt(&ouch_counters.drop_unknown_reference);
}

static int take_rejected(struct ouch_order *o)
{
    ouch_counters.rejected++;
    end(o);
    return o->symbol;
}

/* Takes the rejection of an earlier run's order, which the exchange repeats before the session is ready. Nothing was
 * said of that order before: its reference alone is used up. */
static int take_earlier_rejected(uint32_t reference)
{
    ASSERT(!ouch.ready && order_of(reference) == NULL);
    ouch_counters.rejected++;
    ouch.next_reference = max_u32(ouch.next_reference, reference + 1);
    return -1;
}

/* Takes a response about an order that is known. */
static int take_known(struct ouch_order *o, const uint8_t *m)
{
    ASSERT(o->state != OUCH_FREE && o->symbol < ouch.symbol_count);
    switch (m[0]) {
    case 'C':
    case 'D': /* cancelled because it would have met an order of our own */
        return take_decrement(o, load_be32(m + 13));
    case 'E':
        return take_executed(o, m);
    case 'B':
        return take_corrected(o, load_be64(m + 13), 0);
    case 'F':
        return take_corrected(o, load_be64(m + 26), load_be32(m + 13));
    case 'J':
        return take_rejected(o);
    case 'P':
        ouch_counters.cancel_pending++;
        return -1;
    case 'I': /* the order stays */
        ouch_counters.cancel_rejected++;
        o->cancel_rejected = true;
        return o->symbol;
    default: /* priority, restatement, modification: nothing that we ask for */
        ouch_counters.others++;
        return -1;
    }
}

/* Takes a response whose length is right. */
static int take_whole(const uint8_t *m)
{
    switch (m[0]) {
    case 'S':
        ouch_counters.events++;
        return -1;
    case 'Q':
        ouch.arrived_next = load_be32(m + REFERENCE);
        return -1;
    case 'A':
        return take_accepted(m);
    case 'U':
        return take_replaced(m);
    default:
        break;
    }
    struct ouch_order *o = order_of(load_be32(m + REFERENCE));
    if (o == NULL && m[0] == 'J' && !ouch.ready)
        return take_earlier_rejected(load_be32(m + REFERENCE));
    if (o == NULL)
        return doubt(&ouch_counters.drop_unknown_reference);
    return take_known(o, m);
}

int ouch_take(struct bytes response, uint64_t now_ns)
{
    ouch.response_ns = now_ns;
    if (response.count == 0 || response.data[0] >= sizeof response_bytes || response_bytes[response.data[0]] == 0) {
        ouch_counters.drop_type++;
        return -1;
    }
    if (!is_whole(response))
        return doubt(&ouch_counters.drop_length);
    int symbol = take_whole(response.data);
    if (symbol >= 0)
        sum_up((uint32_t)symbol);
    return symbol;
}

/* ---- sessions ---- */

void ouch_logged_in(void)
{
    ouch.ready = false;
    ouch.arrived_next = 0;
    for (uint32_t i = 0; i < OUCH_ORDER_COUNT_MAX; i++)
        ouch.orders[i].cancelling = ouch.orders[i].cancel_rejected = false; /* the request may have been lost */
}

void ouch_lost_session(void) { doubt(&ouch_counters.others); }

bool ouch_settle(uint64_t now_ns)
{
    ASSERT(ouch.response_ns <= now_ns);
    if (ouch.ready || ouch.arrived_next == 0 || now_ns - ouch.response_ns < OUCH_QUIET_NS)
        return ouch.ready;
    for (uint32_t i = 0; i < OUCH_ORDER_COUNT_MAX; i++)
        if (ouch.orders[i].state == OUCH_SENT && ouch.orders[i].reference >= ouch.arrived_next) {
            end(&ouch.orders[i]);
            ouch_counters.never_arrived++;
        }
    ouch.next_reference = max_u32(ouch.next_reference, ouch.arrived_next);
    ouch.ready = true;
    for (uint32_t i = 0; i < ouch.symbol_count; i++)
        sum_up(i);
    return true;
}

void ouch_warm(void)
{
    ASSERT(ouch.symbol_count <= BOOK_SYMBOL_COUNT_MAX);
    hot_fetch(&ouch, HOT_LINE_BYTES);
    hot_fetch(&ouch_levels, sizeof ouch_levels);
    hot_fetch(ouch.symbols, ouch.symbol_count * sizeof ouch.symbols[0]);
}

void ouch_check(void)
{
    for (uint32_t i = 0; i < OUCH_ORDER_COUNT_MAX; i++) {
        const struct ouch_order *o = &ouch.orders[i];
        ASSERT(o->state == OUCH_FREE || (o->symbol < ouch.symbol_count && o->side < BOOK_SIDE_COUNT));
        ASSERT(o->state != OUCH_DONE || o->open_shares == 0);
        ASSERT(!is_live(o) || (o->open_shares > 0 && order_of(o->reference) == o));
    }
    ASSERT(ouch_levels.open <= OUCH_ORDER_COUNT_MAX);
}
