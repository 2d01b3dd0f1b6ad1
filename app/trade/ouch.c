#include "app/trade/ouch.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/hot_section.h"

static struct {
    const uint8_t (*names)[ITCH_STOCK_BYTES];
    uint32_t symbol_count;
    uint32_t arrived_next; /* the latest answer to an account query; 0: none since the login */
    bool ready, day_over;
    const char *contradiction; /* the first one; NULL: none yet */
    uint64_t response_ns;      /* when the latest response came */
    uint32_t rejects_in_row;
    uint32_t rejects_first, rejects_in_second; /* the last second's in rejects_ns: oldest place, number */
    uint32_t next_place;                       /* the search of a free place begins here */
    struct ouch_symbol symbols[BOOK_SYMBOL_COUNT_MAX];
    struct ouch_order orders[OUCH_ORDER_COUNT_MAX];
    uint64_t rejects_ns[OUCH_REJECT_COUNT]; /* when the latest rejections came, a ring */
    uint32_t next_execution;
    struct execution {
        uint64_t match;
        uint32_t reference, shares, price;
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
HOT bool ouch_day_is_over(void) { return ouch.day_over; }
const char *ouch_contradiction(void) { return ouch.contradiction; }

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

static const char client_id[] = "peregrine     ";
static_assert(sizeof client_id == OUCH_CLIENT_ID_BYTES + 1, "padded with blanks");

void ouch_write_template(uint8_t message[OUCH_ENTER_BYTES])
{
    struct ouch_enter_wire *enter = (struct ouch_enter_wire *)message;
    *enter = (struct ouch_enter_wire){ .type = 'O', .display = 'Y', .capacity = 'P', .sweep = 'N', .cross = 'N' };
    store_be32(&enter->reference, (uint32_t)ouch_levels.next_reference);
    memcpy(enter->client_id, client_id, sizeof enter->client_id);
}

void ouch_write_replace(uint8_t message[OUCH_REPLACE_BYTES], const struct ouch_order *order, uint32_t quantity,
                        uint32_t price)
{
    struct ouch_replace_wire *replace = (struct ouch_replace_wire *)message;
    ASSERT(is_live(order));
    *replace = (struct ouch_replace_wire){ .type = 'U', .time_in_force = '0', .display = 'Y', .sweep = 'N' };
    store_be32(&replace->original, order->reference);
    store_be32(&replace->reference, (uint32_t)ouch_levels.next_reference);
    store_be32(&replace->quantity, quantity);
    store_be64(&replace->price, price);
    memcpy(replace->client_id, client_id, sizeof replace->client_id);
}

void ouch_write_cancel(uint8_t message[OUCH_CANCEL_BYTES], const struct ouch_order *order)
{
    struct ouch_cancel_wire *cancel = (struct ouch_cancel_wire *)message;
    ASSERT(is_live(order));
    *cancel = (struct ouch_cancel_wire){ .type = 'X' };
    store_be32(&cancel->reference, newest_reference(order));
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

/* Notes the price of a live order, 0: none, as one at which the other side would meet it. */
static void note_price(struct ouch_symbol *s, enum book_side side, uint32_t price)
{
    uint32_t *nearest = &s->nearest[side];
    if (price != 0 && (*nearest == 0 || (side == BOOK_BUY ? price > *nearest : price < *nearest)))
        *nearest = price;
}

/* Computes the sums of a symbol's orders. A replaced order counts with its shares or its replacement's, as one of the
 * two is executed. A pass over all places: with 64 open orders a response takes 130 ns in all. */
static void sum_up(uint32_t symbol)
{
    struct ouch_symbol *s = &ouch.symbols[symbol];
    ASSERT(symbol < ouch.symbol_count);
    s->open_shares[BOOK_BUY] = s->open_shares[BOOK_SELL] = 0;
    s->nearest[BOOK_BUY] = s->nearest[BOOK_SELL] = 0;
    memset(s->own, 0, sizeof s->own);
    ouch_levels.open = 0;
    for (const struct ouch_order *o = ouch.orders; o < ouch.orders + OUCH_ORDER_COUNT_MAX; o++) {
        if (!is_live(o))
            continue;
        ouch_levels.open++;
        if (o->symbol != symbol)
            continue;
        s->open_shares[o->side] += max_u32(o->open_shares, o->next_shares);
        note_price(s, o->side, o->price);
        note_price(s, o->side, o->next_price);
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
    o->next_reference = o->next_shares = o->next_price = 0;
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
static int doubt(uint64_t *counter, const char *contradiction)
{
    ++*counter;
    if (ouch.contradiction == NULL)
        ouch.contradiction = contradiction;
    ouch_levels.sure = 0;
    return -1;
}

void ouch_entered(uint32_t symbol, enum book_side side, uint32_t quantity, uint32_t price, bool immediate)
{
    struct ouch_order *o = place();
    ASSERT(o != NULL); /* risk.open= is less than the places */
    *o = (struct ouch_order){ .reference = (uint32_t)ouch_levels.next_reference++,
                              .price = price,
                              .open_shares = quantity,
                              .state = OUCH_SENT,
                              .side = (uint8_t)side,
                              .symbol = (uint8_t)symbol,
                              .immediate = immediate };
    ouch_counters.entered++;
    ouch_counters.shares_ordered += quantity;
    sum_up(symbol);
}

void ouch_replaced(uint32_t reference, uint32_t quantity, uint32_t price)
{
    struct ouch_order *o = order_of(reference);
    ASSERT(o != NULL && o->state == OUCH_OPEN);
    o->state = OUCH_SENT;
    o->next_reference = (uint32_t)ouch_levels.next_reference++;
    o->next_shares = quantity;
    o->next_price = price;
    ouch_counters.replaced++;
    ouch_counters.shares_ordered += quantity;
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

const struct ouch_order *ouch_next_open(uint32_t *at)
{
    while (*at < OUCH_ORDER_COUNT_MAX) {
        const struct ouch_order *o = &ouch.orders[(*at)++];
        if (is_live(o))
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

/* ---- responses ---- */

static uint32_t reference_of(const struct ouch_response_wire *head) { return load_be32(&head->reference); }

/* Returns the order that a response is about; NULL after a contradiction: none has the reference. */
static struct ouch_order *subject_of(const struct ouch_response_wire *head)
{
    struct ouch_order *o = order_of(reference_of(head));
    if (o == NULL || o->reference != reference_of(head)) {
        doubt(&ouch_counters.drop_unknown_reference, "a response names an order that was never sent");
        return NULL;
    }
    return o;
}

/* Notes that a reference has been used, by whomever. */
static void use_up(uint32_t reference)
{
    if (reference >= ouch_levels.next_reference)
        ouch_levels.next_reference = reference + UINT64_C(1);
}

/* Returns true if the exchange has accepted a live order, so that it may be executed or cancelled. */
static bool was_accepted(const struct ouch_order *o) { return o->state == OUCH_OPEN || o->next_reference != 0; }

static bool is_worse(const struct ouch_order *o, uint64_t price)
{
    return o->side == BOOK_BUY ? price > o->price : price < o->price;
}

/* Returns the symbol that the terms name, or the count of symbols. */
static uint32_t symbol_of_terms(const struct ouch_terms_wire *terms)
{
    uint32_t symbol = 0;
    while (symbol < ouch.symbol_count && memcmp(ouch.names[symbol], terms->symbol, ITCH_STOCK_BYTES) != 0)
        symbol++;
    return symbol;
}

/* Sets an order to its accepted terms, which have its shares or fewer. */
static int accept(struct ouch_order *o, const struct ouch_terms_wire *terms)
{
    ASSERT(o->symbol < ouch.symbol_count);
    o->open_shares = load_be32(&terms->quantity);
    if (terms->state != 'L' || o->open_shares == 0)
        end(o);
    ouch_counters.accepted++;
    ouch.rejects_in_row = 0;
    ouch_levels.rejects = ouch.rejects_in_second;
    return o->symbol;
}

/* Takes the terms of an order, or of the replacement that it has become. The exchange may accept fewer shares, or a
 * better price. An order whose terms are not those that were asked for stays as we know it: it can be cancelled. */
static int accept_own(struct ouch_order *o, const struct ouch_terms_wire *terms)
{
    const uint64_t price = load_be64(&terms->price);
    const bool buys = terms->side == 'B', sells = terms->side == 'S' || terms->side == 'T' || terms->side == 'E';
    ASSERT(is_live(o) && o->next_reference == 0);
    o->state = OUCH_OPEN;
    if (symbol_of_terms(terms) != o->symbol)
        return doubt(&ouch_counters.drop_unknown_symbol, "an acceptance has another symbol than the order");
    if (!(o->side == BOOK_BUY ? buys : sells))
        return doubt(&ouch_counters.drop_side, "an acceptance has another side than the order");
    if (load_be32(&terms->quantity) > o->open_shares)
        return doubt(&ouch_counters.drop_shares, "an acceptance has more shares than the order");
    if (is_worse(o, price))
        return doubt(&ouch_counters.drop_price, "an acceptance has a worse price than the order");
    if (terms->time_in_force != (o->immediate ? '3' : '0'))
        return doubt(&ouch_counters.drop_time_in_force, "an acceptance has another time in force than the order");
    ouch_counters.slid += price != o->price;
    return accept(o, terms);
}

/* Takes the terms of an order of an earlier run, which the exchange repeats before the session is ready. */
static int adopt(struct ouch_order *o, uint32_t reference, const struct ouch_terms_wire *terms)
{
    const uint32_t symbol = symbol_of_terms(terms);
    const bool is_known = terms->side == 'B' || terms->side == 'S' || terms->side == 'T' || terms->side == 'E';
    const bool executed = o != NULL && o->executed;
    ASSERT(o == NULL || o->reference != reference);
    if (ouch.ready || reference == 0)
        return doubt(&ouch_counters.drop_unknown_reference, "an acceptance names an order that was never sent");
    if (symbol == ouch.symbol_count || (o != NULL && o->symbol != symbol))
        return doubt(&ouch_counters.drop_unknown_symbol, "an acceptance names a symbol that is not traded here");
    if (load_be64(&terms->price) > ITCH_PRICE_MAX)
        return doubt(&ouch_counters.drop_price, "an acceptance has a price that is none");
    if (!is_known)
        return doubt(&ouch_counters.drop_side, "an acceptance has a side that is none");
    if (o == NULL && (o = place()) == NULL)
        return doubt(&ouch_counters.drop_full, "the account has more open orders than there are places");
    *o = (struct ouch_order){ .reference = reference,
                              .price = (uint32_t)load_be64(&terms->price),
                              .state = OUCH_OPEN,
                              .side = terms->side == 'B' ? BOOK_BUY : BOOK_SELL,
                              .symbol = (uint8_t)symbol,
                              .adopted = true,
                              .executed = executed };
    use_up(reference);
    ouch_counters.adopted++;
    ouch_counters.shares_ordered += load_be32(&terms->quantity);
    return accept(o, terms);
}

static int take_accepted(const void *response)
{
    const struct ouch_accepted_wire *m = response;
    struct ouch_order *o = order_of(reference_of(&m->head));
    if (o == NULL)
        return adopt(NULL, reference_of(&m->head), &m->terms);
    if (o->state != OUCH_SENT || o->next_reference != 0)
        return doubt(&ouch_counters.drop_state, "an order is accepted twice");
    return accept_own(o, &m->terms);
}

/* Takes the acceptance of a replacement, which takes the place of its original. */
static int take_replaced(const void *response)
{
    const struct ouch_replaced_wire *m = response;
    const uint32_t reference = load_be32(&m->reference);
    struct ouch_order *o = order_of(reference_of(&m->head));
    if (o == NULL || o->reference != reference_of(&m->head))
        return doubt(&ouch_counters.drop_unknown_reference, "a replacement names an order that was never sent");
    if (o->next_reference != reference)
        return order_of(reference) == NULL ? adopt(o, reference, &m->terms)
                                           : doubt(&ouch_counters.drop_state, "an order is accepted twice");
    if (reference == 0 || !is_live(o))
        return doubt(&ouch_counters.drop_state, "an order is replaced that had ended");
    o->reference = reference;
    o->open_shares = o->next_shares;
    o->price = o->next_price;
    o->adopted = o->immediate = false;
    o->next_reference = o->next_shares = o->next_price = 0;
    return accept_own(o, &m->terms);
}

/* Takes shares from an order that the exchange has cancelled, perhaps as it would have met an order of our own. */
static int take_canceled(const void *response)
{
    const struct ouch_canceled_wire *m = response;
    const uint32_t shares = load_be32(&m->quantity);
    struct ouch_order *o = subject_of(&m->head);
    if (o == NULL)
        return -1;
    if (is_live(o) && !was_accepted(o))
        return doubt(&ouch_counters.drop_state, "an order is cancelled that was not accepted");
    if (shares > o->open_shares)
        return doubt(&ouch_counters.drop_excess, "more shares of an order are cancelled than are open");
    ouch_counters.cancels++;
    o->open_shares -= shares;
    if (o->open_shares == 0)
        end(o);
    return o->symbol;
}

/* Moves a symbol's position and cash by an execution; `sign` -1 takes it back. Sums beyond 2^61 end all trading. */
static void move(const struct execution *e, int64_t sign)
{
    enum { SHARES_MAX = BOOK_SHARES_MAX };
    const int64_t cash_max = INT64_C(1) << 61;
    struct ouch_symbol *s = &ouch.symbols[e->symbol];
    const int64_t shares = sign * (e->side == BOOK_BUY ? (int64_t)e->shares : -(int64_t)e->shares);
    const int64_t priced = shares > SHARES_MAX ? SHARES_MAX : shares < -SHARES_MAX ? -SHARES_MAX : shares;
    ASSERT(e->symbol < ouch.symbol_count && e->price <= ITCH_PRICE_MAX);
    s->position += shares;
    s->cash -= priced * (int64_t)e->price;
    if (s->cash > cash_max || s->cash < -cash_max) {
        doubt(&ouch_counters.drop_excess, "the executions are worth more than can be counted");
        s->cash = s->cash > 0 ? cash_max : -cash_max;
    }
}

/* Takes an execution. The exchange counts: the position moves although the response contradicts the order. */
static int take_executed(const void *response)
{
    const struct ouch_executed_wire *m = response;
    const uint32_t shares = load_be32(&m->quantity);
    const uint64_t price = load_be64(&m->price);
    struct ouch_order *o = subject_of(&m->head);
    if (o == NULL)
        return -1;
    if (is_live(o) && !was_accepted(o))
        doubt(&ouch_counters.drop_state, "an order is executed that was not accepted");
    else if (shares > o->open_shares)
        doubt(&ouch_counters.drop_excess, "more shares of an order are executed than are open");
    if (price > ITCH_PRICE_MAX || (!o->adopted && is_worse(o, price)))
        doubt(&ouch_counters.drop_price, "an execution has a worse price than the order");
    ouch_counters.executed++;
    *(o->side == BOOK_BUY ? &ouch_counters.shares_bought : &ouch_counters.shares_sold) += shares;
    struct execution *e = &ouch.executions[ouch.next_execution];
    *e = (struct execution){ .match = load_be64(&m->match),
                             .reference = o->reference,
                             .shares = shares,
                             .price = price > ITCH_PRICE_MAX ? ITCH_PRICE_MAX : (uint32_t)price,
                             .symbol = o->symbol,
                             .side = o->side };
    ouch.next_execution = (ouch.next_execution + 1) % OUCH_EXECUTION_COUNT;
    move(e, 1);
    o->executed = true;
    o->open_shares -= min_u32(shares, o->open_shares);
    if (o->open_shares == 0)
        end(o);
    return o->symbol;
}

/* Takes back an execution that was broken, or corrects its shares and its price. If two orders of ours have met, both
 * have the match number, and the reference decides. */
static int correct(uint32_t reference, uint64_t match, uint32_t shares, uint64_t price)
{
    struct execution *found = NULL;
    ASSERT(ouch.next_execution < OUCH_EXECUTION_COUNT);
    for (struct execution *e = ouch.executions; e < ouch.executions + OUCH_EXECUTION_COUNT; e++)
        if (e->match == match && e->shares > 0 && (found == NULL || e->reference == reference))
            found = e;
    if (found == NULL || shares > found->shares || price > ITCH_PRICE_MAX)
        return doubt(&ouch_counters.drop_unknown_reference, "an execution is corrected that is not known so");
    move(found, -1);
    found->shares = shares;
    found->price = (uint32_t)price;
    move(found, 1);
    ouch_counters.broken++;
    return found->symbol;
}

static int take_broken(const void *response)
{
    const struct ouch_broken_wire *m = response;
    return correct(reference_of(&m->head), load_be64(&m->match), 0, 0);
}

static int take_corrected(const void *response)
{
    const struct ouch_executed_wire *m = &((const struct ouch_corrected_wire *)response)->executed;
    return correct(reference_of(&m->head), load_be64(&m->match), load_be32(&m->quantity), load_be64(&m->price));
}

void ouch_forget_rejects(void) { ouch_levels.rejects = ouch.rejects_in_row = ouch.rejects_in_second = 0; }

static void count_reject(void)
{
    ASSERT(ouch.rejects_first < OUCH_REJECT_COUNT && ouch.rejects_in_second <= OUCH_REJECT_COUNT);
    while (ouch.rejects_in_second == OUCH_REJECT_COUNT
           || (ouch.rejects_in_second > 0 && ouch.response_ns - ouch.rejects_ns[ouch.rejects_first] >= NS_PER_S)) {
        ouch.rejects_first = (ouch.rejects_first + 1) % OUCH_REJECT_COUNT;
        ouch.rejects_in_second--;
    }
    ouch.rejects_ns[(ouch.rejects_first + ouch.rejects_in_second++) % OUCH_REJECT_COUNT] = ouch.response_ns;
    ouch_levels.rejects = max_u32(++ouch.rejects_in_row, ouch.rejects_in_second);
}

/* Takes the rejection of an order, or of its replacement. An order of an earlier run, which the exchange repeats before
 * the session is ready, was not heard of before: its reference alone is used up. */
static int take_rejected(const void *response)
{
    const struct ouch_rejected_wire *m = response;
    const uint32_t reference = reference_of(&m->head);
    struct ouch_order *o = order_of(reference);
    if (o == NULL && ouch.ready)
        return doubt(&ouch_counters.drop_unknown_reference, "an order is rejected that was never sent");
    ouch_counters.rejected++;
    use_up(reference);
    if (o == NULL)
        return -1;
    if (o->reference == reference && (o->state != OUCH_SENT || was_accepted(o)))
        return doubt(&ouch_counters.drop_state, "an order is rejected that was accepted");
    count_reject();
    if (o->reference == reference)
        end(o);
    else
        keep(o);
    return o->symbol;
}

/* Takes the rejection of a cancellation: the order stays. */
static int take_cancel_rejected(const void *response)
{
    struct ouch_order *o = order_of(reference_of(response));
    if (o == NULL)
        return doubt(&ouch_counters.drop_unknown_reference, "a cancellation is rejected that was never sent");
    ouch_counters.cancel_rejected++;
    o->cancel_rejected = true;
    return o->symbol;
}

/* Takes a response that changes nothing that we know: pending, priority, restatement, modification. */
static int take_other(const void *response)
{
    if (order_of(reference_of(response)) == NULL)
        return doubt(&ouch_counters.drop_unknown_reference, "a response names an order that was never sent");
    ouch_counters.others++;
    return -1;
}

static int take_event(const void *response)
{
    const struct ouch_event_wire *m = response;
    ouch_counters.others++;
    if (m->event == 'S' || m->event == 'E')
        ouch.day_over = m->event == 'E';
    return -1;
}

static int take_query(const void *response)
{
    ouch.arrived_next = reference_of(response);
    return -1;
}

/* The responses by their type. OUCH 5.0, chapter 4; the bytes are those before an appendage and its length. */
static const struct response {
    uint8_t bytes;
    int (*take)(const void *response);
} responses[128] = {
    ['S'] = { sizeof(struct ouch_event_wire), take_event },
    ['A'] = { sizeof(struct ouch_accepted_wire), take_accepted },
    ['U'] = { sizeof(struct ouch_replaced_wire), take_replaced },
    ['C'] = { sizeof(struct ouch_canceled_wire), take_canceled },
    ['D'] = { sizeof(struct ouch_aiq_canceled_wire), take_canceled },
    ['E'] = { sizeof(struct ouch_executed_wire), take_executed },
    ['B'] = { sizeof(struct ouch_broken_wire), take_broken },
    ['F'] = { sizeof(struct ouch_corrected_wire), take_corrected },
    ['J'] = { sizeof(struct ouch_rejected_wire), take_rejected },
    ['P'] = { 13, take_other },
    ['I'] = { 13, take_cancel_rejected },
    ['T'] = { 30, take_other },
    ['M'] = { 18, take_other },
    ['R'] = { 14, take_other },
    ['Q'] = { sizeof(struct ouch_response_wire), take_query },
};

/* Returns true if a response has `fixed` bytes, alone or before an appendage. */
static bool has_length(struct bytes m, size_t fixed)
{
    return m.count == fixed || (m.count >= fixed + 2 && m.count == fixed + 2 + load_be16(m.data + fixed));
}

int ouch_take(struct bytes response, uint64_t now_ns)
{
    ouch.response_ns = now_ns;
    if (response.count == 0 || response.data[0] >= ARRAY_COUNT(responses) || responses[response.data[0]].bytes == 0) {
        ouch_counters.drop_type++;
        return -1;
    }
    const uint8_t type = response.data[0];
    if (!has_length(response, responses[type].bytes)
        && !(type == 'D' && has_length(response, responses[type].bytes + 1))) /* one more: its strategy */
        return doubt(&ouch_counters.drop_length, "a response has a wrong length");
    int symbol = responses[type].take(response.data);
    if (symbol >= 0)
        sum_up((uint32_t)symbol);
    return symbol;
}

void ouch_set_position(uint32_t symbol, int64_t shares)
{
    ASSERT(symbol < ouch.symbol_count);
    ouch.symbols[symbol].position = shares;
}

/* ---- sessions ---- */

void ouch_logged_in(bool other_session)
{
    ouch.ready = false;
    ouch.arrived_next = 0;
    for (uint32_t i = 0; i < OUCH_ORDER_COUNT_MAX; i++)
        ouch.orders[i].cancelling = ouch.orders[i].cancel_rejected = false; /* the request may have been lost */
    if (other_session && ouch_levels.sure != 0) {
        ouch.contradiction = "the orders' session is another one";
        ouch_levels.sure = 0;
    }
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
