#include "app/trade/ouch_state.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/hot_section.h"

struct ouch_state ouch;

struct ouch_counters ouch_counters;
const struct counter_group ouch_counter_group = COUNTER_GROUP("ouch.", "Orders and their responses (OUCH)",
                                                              OUCH_COUNTERS, ouch_counters);

struct ouch_levels ouch_levels;
const struct counter_group ouch_level_group = COUNTER_GROUP("pool.orders_", "Level of a pool", OUCH_LEVELS,
                                                            ouch_levels);

void ouch_init(const uint8_t (*symbols)[ITCH_STOCK_BYTES], uint32_t symbol_count)
{
    ASSERT(symbol_count <= BOOK_SYMBOL_COUNT_MAX);
    memset(&ouch, 0, sizeof ouch);
    memset(&ouch_counters, 0, sizeof ouch_counters);
    ouch.names = symbols;
    ouch.symbol_count = symbol_count;
    ouch_levels = (struct ouch_levels){ .open = 0, .sure = 1, .next_reference = 1 };
}

const char *ouch_contradiction(void) { return ouch.contradiction; }

HOT const struct ouch_symbol *ouch_symbol(uint32_t symbol)
{
    ASSERT(symbol < BOOK_SYMBOL_COUNT_MAX);
    return &ouch.symbols[symbol];
}

/* Returns the reference that the order has, or will have if its replacement arrives. */
static uint32_t newest_reference(const struct ouch_order *o)
{
    return o->next_reference != 0 ? o->next_reference : o->reference;
}

/* ---- messages to the exchange ---- */

static const char client_id[] = "peregrine     ";
static_assert(sizeof client_id == OUCH_CLIENT_ID_BYTES + 1, "padded with blanks");

void ouch_write_template(uint8_t message[OUCH_ENTER_BYTES])
{
    struct ouch_enter_wire *enter = (struct ouch_enter_wire *)message;
    *enter = (struct ouch_enter_wire){ OUCH_ENTER_CONSTANTS };
    store_be32(&enter->reference, (uint32_t)ouch_levels.next_reference);
    memcpy(enter->client_id, client_id, sizeof enter->client_id);
}

void ouch_write_replace(uint8_t message[OUCH_REPLACE_BYTES], const struct ouch_order *order, uint32_t quantity,
                        uint32_t price)
{
    struct ouch_replace_wire *replace = (struct ouch_replace_wire *)message;
    ASSERT(ouch_is_live(order));
    *replace = (struct ouch_replace_wire){ OUCH_REPLACE_CONSTANTS };
    store_be32(&replace->original, order->reference);
    store_be32(&replace->reference, (uint32_t)ouch_levels.next_reference);
    store_be32(&replace->quantity, quantity);
    store_be64(&replace->price, price);
    memcpy(replace->client_id, client_id, sizeof replace->client_id);
}

void ouch_write_cancel(uint8_t message[OUCH_CANCEL_BYTES], const struct ouch_order *order)
{
    struct ouch_cancel_wire *cancel = (struct ouch_cancel_wire *)message;
    ASSERT(ouch_is_live(order));
    *cancel = (struct ouch_cancel_wire){ OUCH_CANCEL_CONSTANTS };
    store_be32(&cancel->reference, newest_reference(order));
}

/* ---- orders ---- */

struct ouch_order *ouch_order_of(uint32_t reference)
{
    for (struct ouch_order *o = ouch.orders; o < ouch.orders + OUCH_ORDER_COUNT_MAX; o++)
        if (o->state != OUCH_FREE && (o->reference == reference || (o->next_reference == reference && reference != 0)))
            return o;
    return NULL;
}

/* Notes the price of a live order, 0: none, as one at which the other side would meet it. */
static void note_price(struct ouch_symbol *s, enum book_side side, uint32_t price)
{
    uint32_t *nearest = &s->nearest[side];
    if (price != 0 && (*nearest == 0 || (side == BOOK_BUY ? price > *nearest : price < *nearest)))
        *nearest = price;
}

void ouch_sum_up(uint32_t symbol)
{
    struct ouch_symbol *s = &ouch.symbols[symbol];
    ASSERT(symbol <= ouch.symbol_count);
    s->open_shares[BOOK_BUY] = s->open_shares[BOOK_SELL] = 0;
    s->nearest[BOOK_BUY] = s->nearest[BOOK_SELL] = 0;
    memset(s->own, 0, sizeof s->own);
    ouch_levels.open = ouch_levels.foreign = 0;
    for (const struct ouch_order *o = ouch.orders; o < ouch.orders + OUCH_ORDER_COUNT_MAX; o++) {
        if (!ouch_is_live(o))
            continue;
        ouch_levels.open++;
        ouch_levels.foreign += o->symbol == ouch.symbol_count;
        if (o->symbol != symbol)
            continue;
        s->open_shares[o->side] += max_u32(o->open_shares, o->next_shares);
        note_price(s, o->side, o->price);
        note_price(s, o->side, o->next_price);
        if (s->own[o->side].reference < o->reference)
            s->own[o->side] = *o;
    }
}

void ouch_end(struct ouch_order *o)
{
    o->state = OUCH_DONE;
    o->open_shares = 0;
}

void ouch_keep(struct ouch_order *o)
{
    ASSERT(o->next_reference != 0);
    o->next_reference = o->next_shares = o->next_price = 0;
    o->cancelling = o->cancel_rejected = false; /* only the replacement's cancellation was asked for */
    if (ouch_is_live(o))
        o->state = OUCH_OPEN;
}

struct ouch_order *ouch_place(void)
{
    ASSERT(ouch.next_place < OUCH_ORDER_COUNT_MAX);
    for (uint32_t i = 0; i < OUCH_ORDER_COUNT_MAX; i++) {
        struct ouch_order *o = &ouch.orders[ouch.next_place];
        ouch.next_place = (ouch.next_place + 1) % OUCH_ORDER_COUNT_MAX;
        if (!ouch_is_live(o))
            return o;
    }
    return NULL;
}

int ouch_doubt(uint64_t *counter, const char *contradiction)
{
    ++*counter;
    if (ouch.contradiction == NULL)
        ouch.contradiction = contradiction;
    ouch_levels.sure = 0;
    return -1;
}

void ouch_use_up(uint32_t reference)
{
    if (reference >= ouch_levels.next_reference)
        ouch_levels.next_reference = reference + UINT64_C(1);
}

void ouch_entered(uint32_t symbol, enum book_side side, uint32_t quantity, uint32_t price, bool immediate)
{
    struct ouch_order *o = ouch_place();
    ASSERT(o != NULL); /* risk.open= is less than the places */
    *o = (struct ouch_order){ .reference = (uint32_t)ouch_levels.next_reference++,
                              .price = price,
                              .open_shares = quantity,
                              .state = OUCH_SENT,
                              .side = (uint8_t)side,
                              .symbol = (uint8_t)symbol,
                              .immediate = immediate };
    memcpy(o->name, ouch.names[symbol], sizeof o->name);
    ouch_counters.entered++;
    ouch_counters.shares_ordered += quantity;
    ouch_sum_up(symbol);
}

void ouch_replaced(uint32_t reference, uint32_t quantity, uint32_t price)
{
    struct ouch_order *o = ouch_order_of(reference);
    ASSERT(o != NULL && o->state == OUCH_OPEN);
    o->state = OUCH_SENT;
    o->next_reference = (uint32_t)ouch_levels.next_reference++;
    o->next_shares = quantity;
    o->next_price = price;
    ouch_counters.replaced++;
    ouch_counters.shares_ordered += quantity;
    ouch_sum_up(o->symbol);
}

void ouch_cancelled(uint32_t reference, uint64_t now_ns)
{
    struct ouch_order *o = ouch_order_of(reference);
    ASSERT(o != NULL && ouch_is_live(o));
    ouch_counters.cancelled++;
    o->cancelling = true;
    ouch.cancel_ns[o - ouch.orders] = now_ns;
    ouch_sum_up(o->symbol);
}

uint64_t ouch_cancel_waits_since_ns(void)
{
    uint64_t since_ns = UINT64_MAX;
    for (uint32_t i = 0; i < OUCH_ORDER_COUNT_MAX; i++) {
        const struct ouch_order *o = &ouch.orders[i];
        ASSERT(!o->cancel_rejected || o->cancelling);
        if (ouch_is_live(o) && o->cancelling && !o->cancel_rejected)
            since_ns = min_ns(since_ns, ouch.cancel_ns[i]);
    }
    return since_ns;
}

void ouch_retry_cancels(void)
{
    for (struct ouch_order *o = ouch.orders; o < ouch.orders + OUCH_ORDER_COUNT_MAX; o++) {
        if (!o->cancel_rejected)
            continue;
        ASSERT(o->symbol <= ouch.symbol_count);
        o->cancelling = o->cancel_rejected = false;
        ouch_sum_up(o->symbol);
    }
}

const struct ouch_order *ouch_next_open(uint32_t *at)
{
    while (*at < OUCH_ORDER_COUNT_MAX) {
        const struct ouch_order *o = &ouch.orders[(*at)++];
        if (ouch_is_live(o))
            return o;
    }
    return NULL;
}

const struct ouch_order *ouch_next_live(uint32_t *at)
{
    const struct ouch_order *o;
    do
        o = ouch_next_open(at);
    while (o != NULL && o->cancelling);
    return o;
}

void ouch_set_position(uint32_t symbol, int64_t shares)
{
    ASSERT(symbol < ouch.symbol_count);
    ouch.symbols[symbol].position = shares;
}

/* ---- sessions ---- */

bool ouch_logged_in(bool other_session)
{
    ouch_levels.ready = false;
    ouch.arrived_next = 0;
    for (uint32_t i = 0; i < OUCH_ORDER_COUNT_MAX; i++)
        ouch.orders[i].cancelling = ouch.orders[i].cancel_rejected = false; /* the request may have been lost */
    const bool is_next_day = other_session && ouch_levels.day_over && ouch_levels.open == 0;
    if (is_next_day) {
        memset(ouch.orders, 0, sizeof ouch.orders);
        memset(ouch.executions, 0, sizeof ouch.executions);
        ouch_levels.day_over = false;
        for (uint32_t i = 0; i <= ouch.symbol_count; i++) {
            ouch.symbols[i].cash = 0;
            ouch.symbols[i].fills = 0;
        }
        ouch_levels.next_reference = 1;
        ouch_counters.shares_ordered = 0;
        ouch_counters.sessions++;
    } else if (other_session && ouch_levels.sure != 0) {
        ouch.contradiction = "the orders' session is another one";
        ouch_levels.sure = 0;
    }
    return is_next_day;
}

bool ouch_settle(uint64_t now_ns)
{
    ASSERT(ouch.response_ns <= now_ns);
    if (ouch_levels.ready || ouch.arrived_next == 0 || now_ns - ouch.response_ns < OUCH_QUIET_NS)
        return ouch_levels.ready;
    for (struct ouch_order *o = ouch.orders; o < ouch.orders + OUCH_ORDER_COUNT_MAX; o++) {
        if (o->state != OUCH_SENT || newest_reference(o) < ouch.arrived_next)
            continue;
        ouch_counters.never_arrived++;
        if (o->next_reference != 0)
            ouch_keep(o);
        else
            ouch_end(o);
    }
    ouch_use_up(ouch.arrived_next - 1);
    ouch_levels.ready = true;
    for (uint32_t i = 0; i < ouch.symbol_count; i++)
        ouch_sum_up(i);
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
        ASSERT(o->state == OUCH_FREE || (o->symbol <= ouch.symbol_count && o->side < BOOK_SIDE_COUNT));
        ASSERT(o->state != OUCH_DONE || o->open_shares == 0);
        ASSERT(!ouch_is_live(o) || (o->open_shares > 0 && ouch_order_of(o->reference) == o));
        ASSERT(o->next_reference == 0 || o->state != OUCH_OPEN);
    }
    ASSERT(ouch_levels.open <= OUCH_ORDER_COUNT_MAX);
}
