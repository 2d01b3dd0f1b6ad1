#include "app/trade/ouch.h"

#include <string.h>

#include "base/assert.h"
#include "base/hot_section.h"

static struct {
    const uint8_t (*names)[ITCH_STOCK_BYTES];
    uint32_t symbol_count;
    uint32_t arrived_next; /* the latest answer to an account query; 0: none since the login */
    bool ready;
    uint64_t response_ns; /* when the latest response came */
    uint32_t next_place;  /* the search of a free place begins here */
    struct ouch_symbol symbols[BOOK_SYMBOL_COUNT_MAX];
    struct ouch_order orders[OUCH_ORDER_COUNT_MAX];
    uint32_t next_execution;
    struct execution {
        uint64_t match;
        uint32_t reference, shares;
        uint8_t symbol, side;
    } executions[OUCH_EXECUTION_COUNT];
} ouch;

struct ouch_counters ouch_counters;
#define ROW(name) COUNTER("ouch.", ouch_counters, name),
static const struct counter counter_table[] = { OUCH_COUNTERS(ROW) };
const struct counter_group ouch_counter_group = { counter_table, ARRAY_COUNT(counter_table) };

struct ouch_levels ouch_levels;
#define LEVEL_ROW(name) COUNTER("pool.orders_", ouch_levels, name),
static const struct counter level_table[] = { OUCH_LEVELS(LEVEL_ROW) };
const struct counter_group ouch_level_group = { level_table, ARRAY_COUNT(level_table) };

void ouch_init(const uint8_t (*symbols)[ITCH_STOCK_BYTES], uint32_t symbol_count)
{
    ASSERT(symbol_count <= BOOK_SYMBOL_COUNT_MAX);
    memset(&ouch, 0, sizeof ouch);
    memset(&ouch_counters, 0, sizeof ouch_counters);
    ouch.names = symbols;
    ouch.symbol_count = symbol_count;
    ouch_levels = (struct ouch_levels){ .open = 0, .sure = 1, .next_reference = 1 };
}

HOT bool ouch_is_ready(void) { return ouch.ready; }

HOT const struct ouch_symbol *ouch_symbol(uint32_t symbol)
{
    ASSERT(symbol < BOOK_SYMBOL_COUNT_MAX);
    return &ouch.symbols[symbol];
}

static bool is_live(const struct ouch_order *o) { return o->state == OUCH_SENT || o->state == OUCH_OPEN; }

/* Returns the reference that the order has, or will have if its replacement arrives. */
static uint32_t newest_reference(const struct ouch_order *o)
{
    return o->next_reference != 0 ? o->next_reference : o->reference;
}

/* ---- messages to the exchange ---- */

static const char client_order_id[] = "peregrine     ";

void ouch_write_template(uint8_t message[OUCH_ENTER_BYTES])
{
    memset(message, 0, OUCH_ENTER_BYTES); /* the appendage's length, too */
    message[0] = 'O';
    store_be32(message + 1, (uint32_t)ouch_levels.next_reference);
    memcpy(message + 27, "YPNN", 4); /* displayed, principal, no intermarket sweep, no cross */
    memcpy(message + 31, client_order_id, sizeof client_order_id - 1);
}

void ouch_write_replace(uint8_t message[OUCH_REPLACE_BYTES], const struct ouch_order *order, uint32_t quantity,
                        uint32_t price)
{
    ASSERT(is_live(order));
    memset(message, 0, OUCH_REPLACE_BYTES);
    message[0] = 'U';
    store_be32(message + 1, order->reference);
    store_be32(message + 5, (uint32_t)ouch_levels.next_reference);
    store_be32(message + 9, quantity);
    store_be64(message + 13, price);
    memcpy(message + 21, "0YN", 3); /* day, displayed, no intermarket sweep */
    memcpy(message + 24, client_order_id, sizeof client_order_id - 1);
}

void ouch_write_cancel(uint8_t message[OUCH_CANCEL_BYTES], const struct ouch_order *order)
{
    ASSERT(is_live(order));
    message[0] = 'X';
    store_be32(message + 1, newest_reference(order));
    store_be32(message + 5, 0); /* no share stays */
}

/* ---- orders ---- */

/* Returns the order that has a reference, or will have it if its replacement arrives; NULL: none. */
static struct ouch_order *order_of(uint32_t reference)
{
    for (struct ouch_order *o = ouch.orders; o < ouch.orders + OUCH_ORDER_COUNT_MAX; o++)
        if (o->state != OUCH_FREE && (o->reference == reference || (o->next_reference == reference && reference != 0)))
            return o;
    return NULL;
}

/* Computes the sums of a symbol's orders. A replaced order counts with its shares or its replacement's, as one of the
 * two is executed. A pass over all places: with 64 open orders a response takes 130 ns in all. */
static void sum_up(uint32_t symbol)
{
    struct ouch_symbol *s = &ouch.symbols[symbol];
    ASSERT(symbol < ouch.symbol_count);
    s->open_shares[BOOK_BUY] = s->open_shares[BOOK_SELL] = 0;
    memset(s->own, 0, sizeof s->own);
    ouch_levels.open = 0;
    for (const struct ouch_order *o = ouch.orders; o < ouch.orders + OUCH_ORDER_COUNT_MAX; o++) {
        if (!is_live(o))
            continue;
        ouch_levels.open++;
        if (o->symbol != symbol)
            continue;
        s->open_shares[o->side] += max_u32(o->open_shares, o->next_shares);
        if (s->own[o->side].reference < o->reference)
            s->own[o->side] = *o;
    }
}

static void end(struct ouch_order *o)
{
    o->state = OUCH_DONE;
    o->open_shares = 0;
}

/* Notes that the replacement of an order will not come. */
static void keep(struct ouch_order *o)
{
    ASSERT(o->next_reference != 0);
    o->next_reference = o->next_shares = 0;
    o->cancelling = false; /* only the replacement's cancellation was asked for */
    if (is_live(o))
        o->state = OUCH_OPEN;
}

/* Returns a place for an order, taken from the oldest that is not live; NULL: all are live. */
static struct ouch_order *place(void)
{
    ASSERT(ouch.next_place < OUCH_ORDER_COUNT_MAX);
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
    ouch_levels.sure = 0;
    return -1;
}

void ouch_entered(uint32_t symbol, enum book_side side, uint32_t quantity, uint32_t price)
{
    struct ouch_order *o = place();
    ASSERT(o != NULL); /* risk.open= is less than the places */
    *o = (struct ouch_order){ .reference = (uint32_t)ouch_levels.next_reference++,
                              .price = price,
                              .open_shares = quantity,
                              .state = OUCH_SENT,
                              .side = (uint8_t)side,
                              .symbol = (uint8_t)symbol };
    ouch_counters.entered++;
    sum_up(symbol);
}

void ouch_replaced(uint32_t reference, uint32_t quantity)
{
    struct ouch_order *o = order_of(reference);
    ASSERT(o != NULL && o->state == OUCH_OPEN);
    o->state = OUCH_SENT;
    o->next_reference = (uint32_t)ouch_levels.next_reference++;
    o->next_shares = quantity;
    ouch_counters.replaced++;
    sum_up(o->symbol);
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
    for (struct ouch_order *o = ouch.orders; o < ouch.orders + OUCH_ORDER_COUNT_MAX; o++) {
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

enum { REFERENCE = 9 };

/* The length of each response. OUCH 5.0, chapter 4; without an appendage and its length, which may follow each. */
static const uint8_t response_bytes[128] = {
    ['S'] = 10, ['A'] = 62, ['U'] = 66, ['C'] = 18, ['D'] = 31, ['E'] = 34, ['B'] = 36, ['F'] = 49,
    ['J'] = 29, ['P'] = 13, ['I'] = 13, ['T'] = 30, ['M'] = 18, ['R'] = 14, ['Q'] = 13,
};

/* Returns true if a response has `fixed` bytes, alone or before an appendage. */
static bool has_length(struct bytes m, size_t fixed)
{
    return m.count == fixed || (m.count >= fixed + 2 && m.count == fixed + 2 + load_be16(m.data + fixed));
}

/* Notes that a reference has been used, by whomever. */
static void use_up(uint32_t reference)
{
    if (reference + 1 > ouch_levels.next_reference)
        ouch_levels.next_reference = reference + 1;
}

/* Takes an accepted order, or a replacement, whose response names the replaced order first. Sets the order to the terms
 * that the exchange states. One of an earlier run, which the exchange repeats before the session is ready, gets a place
 * here. */
static int take_accepted(const uint8_t *m)
{
    ASSERT(m[0] == 'A' || m[0] == 'U');
    const bool replaces = m[0] == 'U';
    const uint8_t *side = m + (replaces ? 17 : 13); /* the terms from the side on; the order's reference is before */
    const uint32_t reference = load_be32(side - 4), quantity = load_be32(side + 1);
    const uint64_t price = load_be64(side + 13);
    struct ouch_order *o = order_of(load_be32(m + REFERENCE));
    const bool expected = o != NULL && (replaces ? o->next_reference : o->reference) == reference && reference != 0;
    uint32_t symbol = 0;
    while (symbol < ouch.symbol_count && memcmp(ouch.names[symbol], side + 5, ITCH_STOCK_BYTES) != 0)
        symbol++;
    if (price > ITCH_PRICE_MAX)
        return doubt(&ouch_counters.drop_price);
    if (symbol == ouch.symbol_count || (o != NULL && o->symbol != symbol))
        return doubt(&ouch_counters.drop_unknown_symbol);
    const bool is_taken = reference == 0 || (replaces && order_of(reference) != NULL);
    if (!expected && (ouch.ready || is_taken || replaces != (o != NULL)))
        return doubt(&ouch_counters.drop_unknown_reference);
    if (o == NULL) {
        if ((o = place()) == NULL)
            return doubt(&ouch_counters.drop_full);
        *o = (struct ouch_order){ .symbol = (uint8_t)symbol };
    }
    if (!expected) {
        ouch_counters.adopted++;
        use_up(reference);
    }
    o->reference = reference;
    o->next_reference = o->next_shares = 0;
    o->state = OUCH_OPEN;
    o->side = *side == 'B' ? BOOK_BUY : BOOK_SELL;
    o->price = (uint32_t)price;
    o->open_shares = quantity;
    if (side[34] != 'L' || quantity == 0)
        end(o);
    ouch_counters.accepted++;
    return (int)symbol;
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

static int take_executed(struct ouch_order *o, uint32_t shares, uint64_t match)
{
    if (shares > o->open_shares)
        doubt(&ouch_counters.drop_excess); /* the exchange counts: the position moves all the same */
    ouch_counters.executed++;
    *(o->side == BOOK_BUY ? &ouch_counters.shares_bought : &ouch_counters.shares_sold) += shares;
    move(o->symbol, o->side, shares);
    ouch.executions[ouch.next_execution] = (struct execution){ match, o->reference, shares, o->symbol, o->side };
    ouch.next_execution = (ouch.next_execution + 1) % OUCH_EXECUTION_COUNT;
    o->executed = true;
    o->open_shares -= min_u32(shares, o->open_shares);
    if (o->open_shares == 0)
        end(o);
    return o->symbol;
}

/* Takes back an execution that was broken, or corrects its shares. If two orders of ours have met, both have the match
 * number, and the reference decides. */
static int take_corrected(uint32_t reference, uint64_t match, uint32_t shares)
{
    struct execution *found = NULL;
    for (struct execution *e = ouch.executions; e < ouch.executions + OUCH_EXECUTION_COUNT; e++)
        if (e->match == match && e->shares > 0 && (found == NULL || e->reference == reference))
            found = e;
    if (found == NULL)
        return doubt(&ouch_counters.drop_unknown_reference);
    move(found->symbol, found->side, (int64_t)shares - found->shares);
    found->shares = shares;
    ouch_counters.broken++;
    return found->symbol;
}

/* Takes the rejection of an order, or of its replacement. An order of an earlier run, which the exchange repeats before
 * the session is ready, was not heard of before: its reference alone is used up. */
static int take_rejected(struct ouch_order *o, uint32_t reference)
{
    ASSERT(o != NULL || !ouch.ready);
    ouch_counters.rejected++;
    use_up(reference);
    if (o == NULL)
        return -1;
    if (o->reference == reference)
        end(o);
    else
        keep(o);
    return o->symbol;
}

/* Takes a response whose length is right. */
static int take_whole(const uint8_t *m)
{
    if (m[0] == 'S') { /* a system event, which has no reference */
        ouch_counters.others++;
        return -1;
    }
    const uint32_t reference = load_be32(m + REFERENCE);
    if (m[0] == 'Q') {
        ouch.arrived_next = reference;
        return -1;
    }
    if (m[0] == 'A' || m[0] == 'U')
        return take_accepted(m);
    if (m[0] == 'B')
        return take_corrected(reference, load_be64(m + 13), 0);
    if (m[0] == 'F')
        return take_corrected(reference, load_be64(m + 26), load_be32(m + 13));
    struct ouch_order *o = order_of(reference);
    if (m[0] == 'J' && (o != NULL || !ouch.ready))
        return take_rejected(o, reference);
    const bool takes_shares = m[0] == 'C' || m[0] == 'D' || m[0] == 'E';
    if (o == NULL || (takes_shares && o->reference != reference))
        return doubt(&ouch_counters.drop_unknown_reference);
    if (m[0] == 'E')
        return take_executed(o, load_be32(m + 13), load_be64(m + 26));
    if (takes_shares) /* `D`: cancelled because it would have met an order of our own */
        return take_decrement(o, load_be32(m + 13));
    if (m[0] == 'I') { /* the order stays */
        ouch_counters.cancel_rejected++;
        o->cancel_rejected = true;
        return o->symbol;
    }
    ouch_counters.others++; /* pending, priority, restatement, modification: nothing that we ask for */
    return -1;
}

int ouch_take(struct bytes response, uint64_t now_ns)
{
    ouch.response_ns = now_ns;
    if (response.count == 0 || response.data[0] >= sizeof response_bytes || response_bytes[response.data[0]] == 0) {
        ouch_counters.drop_type++;
        return -1;
    }
    const uint8_t type = response.data[0];
    if (!has_length(response, response_bytes[type])
        && !(type == 'D' && has_length(response, response_bytes[type] + 1))) /* one more: its strategy */
        return doubt(&ouch_counters.drop_length);
    int symbol = take_whole(response.data);
    if (symbol >= 0)
        sum_up((uint32_t)symbol);
    return symbol;
}

/* ---- sessions ---- */

void ouch_logged_in(bool other_session)
{
    ouch.ready = false;
    ouch.arrived_next = 0;
    for (uint32_t i = 0; i < OUCH_ORDER_COUNT_MAX; i++)
        ouch.orders[i].cancelling = ouch.orders[i].cancel_rejected = false; /* the request may have been lost */
    if (other_session)
        ouch_levels.sure = 0;
}

bool ouch_settle(uint64_t now_ns)
{
    ASSERT(ouch.response_ns <= now_ns);
    if (ouch.ready || ouch.arrived_next == 0 || now_ns - ouch.response_ns < OUCH_QUIET_NS)
        return ouch.ready;
    for (struct ouch_order *o = ouch.orders; o < ouch.orders + OUCH_ORDER_COUNT_MAX; o++) {
        if (o->state != OUCH_SENT || newest_reference(o) < ouch.arrived_next)
            continue;
        ouch_counters.never_arrived++;
        if (o->next_reference != 0)
            keep(o);
        else
            end(o);
    }
    use_up(ouch.arrived_next - 1);
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
    for (const struct ouch_order *o = ouch.orders; o < ouch.orders + OUCH_ORDER_COUNT_MAX; o++) {
        ASSERT(o->state == OUCH_FREE || (o->symbol < ouch.symbol_count && o->side < BOOK_SIDE_COUNT));
        ASSERT(o->state != OUCH_DONE || o->open_shares == 0);
        ASSERT(!is_live(o) || (o->open_shares > 0 && order_of(o->reference) == o));
        ASSERT(o->next_reference == 0 || o->state != OUCH_OPEN);
    }
    ASSERT(ouch_levels.open <= OUCH_ORDER_COUNT_MAX);
}
