#include "app/trade/ouch_state.h"

#include <string.h>

#include "base/assert.h"

static uint32_t reference_of(const struct ouch_response_wire *head) { return load_be32(&head->reference); }

/* Returns the order that a response is about; NULL after a contradiction: none has the reference. */
static struct ouch_order *subject_of(const struct ouch_response_wire *head)
{
    struct ouch_order *o = ouch_order_of(reference_of(head));
    if (o == NULL || o->reference != reference_of(head)) {
        ouch_doubt(&ouch_counters.drop_unknown_reference, "a response names an order that was never sent");
        return NULL;
    }
    return o;
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
    ASSERT(o->symbol <= ouch.symbol_count);
    o->open_shares = load_be32(&terms->quantity);
    if (terms->state != 'L' || o->open_shares == 0)
        ouch_end(o);
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
    ASSERT(ouch_is_live(o) && o->next_reference == 0);
    o->state = OUCH_OPEN;
    if (symbol_of_terms(terms) != o->symbol)
        return ouch_doubt(&ouch_counters.drop_unknown_symbol, "an acceptance has another symbol than the order");
    if (!(o->side == BOOK_BUY ? buys : sells))
        return ouch_doubt(&ouch_counters.drop_side, "an acceptance has another side than the order");
    if (load_be32(&terms->quantity) > o->open_shares)
        return ouch_doubt(&ouch_counters.drop_shares, "an acceptance has more shares than the order");
    if (is_worse(o, price))
        return ouch_doubt(&ouch_counters.drop_price, "an acceptance has a worse price than the order");
    if (terms->time_in_force != (o->immediate ? '3' : '0'))
        return ouch_doubt(&ouch_counters.drop_time_in_force, "an acceptance has another time in force than the order");
    ouch_counters.slid += price != o->price;
    return accept(o, terms);
}

/* Takes the terms of an order of an earlier run, which the exchange repeats before the session is ready. One that was
 * not expected any more, as it had never arrived, is a contradiction: it is kept, so that it can be cancelled. */
static int adopt(struct ouch_order *o, uint32_t reference, const struct ouch_terms_wire *terms)
{
    const uint32_t symbol = symbol_of_terms(terms);
    const bool is_known = terms->side == 'B' || terms->side == 'S' || terms->side == 'T' || terms->side == 'E';
    const bool executed = o != NULL && o->executed;
    ASSERT(o == NULL || o->reference != reference || !ouch_is_live(o));
    if (reference == 0 || (ouch_levels.ready && reference >= ouch_levels.next_reference))
        return ouch_doubt(&ouch_counters.drop_unknown_reference, "an acceptance names an order that was never sent");
    if (ouch_levels.ready || (o != NULL && o->state == OUCH_DONE))
        ouch_doubt(&ouch_counters.drop_state, "an order is accepted that had ended, or had never arrived");
    if (o != NULL && memcmp(o->name, terms->symbol, sizeof o->name) != 0)
        return ouch_doubt(&ouch_counters.drop_unknown_symbol, "a replacement has another symbol than its original");
    if (load_be64(&terms->price) > ITCH_PRICE_MAX)
        return ouch_doubt(&ouch_counters.drop_price, "an acceptance has a price that is none");
    if (!is_known)
        return ouch_doubt(&ouch_counters.drop_side, "an acceptance has a side that is none");
    if (o == NULL && (o = ouch_place()) == NULL)
        return ouch_doubt(&ouch_counters.drop_full, "the account has more open orders than there are places");
    *o = (struct ouch_order){ .reference = reference,
                              .price = (uint32_t)load_be64(&terms->price),
                              .state = OUCH_OPEN,
                              .side = terms->side == 'B' ? BOOK_BUY : BOOK_SELL,
                              .symbol = (uint8_t)symbol,
                              .adopted = true,
                              .executed = executed };
    memcpy(o->name, terms->symbol, sizeof o->name);
    ouch_use_up(reference);
    ouch_counters.adopted++;
    ouch_counters.shares_ordered += load_be32(&terms->quantity);
    return accept(o, terms);
}

static int take_accepted(const void *response)
{
    const struct ouch_accepted_wire *m = response;
    struct ouch_order *o = ouch_order_of(reference_of(&m->head));
    if (o == NULL || o->state == OUCH_DONE)
        return adopt(o, reference_of(&m->head), &m->terms);
    if (o->state != OUCH_SENT || o->next_reference != 0)
        return ouch_doubt(&ouch_counters.drop_state, "an order is accepted twice");
    return accept_own(o, &m->terms);
}

/* Takes the acceptance of a replacement, which takes the place of its original. */
static int take_replaced(const void *response)
{
    const struct ouch_replaced_wire *m = response;
    const uint32_t reference = load_be32(&m->reference);
    struct ouch_order *o = ouch_order_of(reference_of(&m->head));
    if (o == NULL || o->reference != reference_of(&m->head))
        return ouch_doubt(&ouch_counters.drop_unknown_reference, "a replacement names an order that was never sent");
    if (o->next_reference != reference)
        return ouch_order_of(reference) == NULL ? adopt(o, reference, &m->terms)
                                                : ouch_doubt(&ouch_counters.drop_state, "an order is accepted twice");
    if (reference == 0 || !ouch_is_live(o))
        return ouch_doubt(&ouch_counters.drop_state, "an order is replaced that had ended");
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
    if (ouch_is_live(o) && !was_accepted(o))
        return ouch_doubt(&ouch_counters.drop_state, "an order is cancelled that was not accepted");
    if (shares > o->open_shares)
        return ouch_doubt(&ouch_counters.drop_excess, "more shares of an order are cancelled than are open");
    ouch_counters.cancels++;
    o->open_shares -= shares;
    if (o->open_shares == 0)
        ouch_end(o);
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
    ASSERT(e->symbol <= ouch.symbol_count && e->price <= ITCH_PRICE_MAX);
    s->position += shares;
    s->fills += e->shares > 0 ? (uint64_t)sign : 0;
    s->cash -= priced * (int64_t)e->price;
    if (s->cash > cash_max || s->cash < -cash_max) {
        ouch_doubt(&ouch_counters.drop_excess, "the executions are worth more than can be counted");
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
    if (ouch_is_live(o) && !was_accepted(o))
        ouch_doubt(&ouch_counters.drop_state, "an order is executed that was not accepted");
    else if (shares > o->open_shares)
        ouch_doubt(&ouch_counters.drop_excess, "more shares of an order are executed than are open");
    if (price > ITCH_PRICE_MAX || (!o->adopted && is_worse(o, price)))
        ouch_doubt(&ouch_counters.drop_price, "an execution has a worse price than the order");
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
        ouch_end(o);
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
        return ouch_doubt(&ouch_counters.drop_unknown_reference, "an execution is corrected that is not known so");
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
    struct ouch_order *o = ouch_order_of(reference);
    if (o == NULL && ouch_levels.ready)
        return ouch_doubt(&ouch_counters.drop_unknown_reference, "an order is rejected that was never sent");
    ouch_counters.rejected++;
    ouch_use_up(reference);
    if (o == NULL)
        return -1;
    if (o->reference == reference && (o->state != OUCH_SENT || was_accepted(o)))
        return ouch_doubt(&ouch_counters.drop_state, "an order is rejected that was accepted");
    count_reject();
    if (o->reference == reference)
        ouch_end(o);
    else
        ouch_keep(o);
    return o->symbol;
}

/* Takes the rejection of a cancellation: the order stays. The cancellation may be one of an earlier connection or run,
 * which nobody waits for. */
static int take_cancel_rejected(const void *response)
{
    struct ouch_order *o = ouch_order_of(reference_of(response));
    if (o == NULL)
        return ouch_doubt(&ouch_counters.drop_unknown_reference, "a cancellation is rejected that was never sent");
    ouch_counters.cancel_rejected++;
    o->cancel_rejected = o->cancelling;
    return o->symbol;
}

/* Takes a response that changes nothing that we know: pending, priority, restatement, modification. */
static int take_other(const void *response)
{
    const struct ouch_response_wire *m = response;
    const struct ouch_order *o = ouch_order_of(reference_of(m));
    if (o == NULL)
        return ouch_doubt(&ouch_counters.drop_unknown_reference, "a response names an order that was never sent");
    ouch_counters.others++;
    if (m->type == 'P')
        ouch.cancel_ns[o - ouch.orders] = UINT64_MAX;
    return -1;
}

static int take_event(const void *response)
{
    const struct ouch_event_wire *m = response;
    ouch_counters.others++;
    if (m->event == 'S' || m->event == 'E')
        ouch_levels.day_over = m->event == 'E';
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
    ['P'] = { sizeof(struct ouch_response_wire), take_other },
    ['I'] = { sizeof(struct ouch_response_wire), take_cancel_rejected },
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

static bool is_known(struct bytes m)
{
    return m.count > 0 && m.data[0] < ARRAY_COUNT(responses) && responses[m.data[0]].bytes != 0;
}

bool ouch_is_whole(struct bytes response)
{
    if (!is_known(response))
        return false;
    const uint8_t type = response.data[0];
    return has_length(response, responses[type].bytes)
           || (type == 'D' && has_length(response, responses[type].bytes + 1)); /* one more: its strategy */
}

int ouch_take(struct bytes response, uint64_t now_ns)
{
    ouch.response_ns = now_ns;
    if (!is_known(response)) {
        ouch_counters.drop_type++;
        return -1;
    }
    if (!ouch_is_whole(response))
        return ouch_doubt(&ouch_counters.drop_length, "a response has a wrong length");
    int symbol = responses[response.data[0]].take(response.data);
    if (symbol >= 0)
        ouch_sum_up((uint32_t)symbol);
    return symbol < (int)ouch.symbol_count ? symbol : -1;
}
