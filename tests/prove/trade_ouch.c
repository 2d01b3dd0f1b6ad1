/* OUCH responses: each type, of lengths around its own, in any state of our orders. Each ends where the buffer ends.
 * Positions are below 2^62 shares.
 *
 * An assertion about a replacement under way needs the reference by which the order was found, and Eva's intervals do
 * not keep it. So assertions are taken for granted: a state without them stops the machine. */
#include "tests/prove/include/assume.h"

#include "app/trade/ouch.c"
#include "app/trade/ouch_responses.c"

enum { SYMBOL_COUNT = 2, BYTES_MAX = 80, MORE_BYTES = 4 };
#define POSITION_MAX (INT64_C(1) << 62)
#define CASH_MAX     (INT64_C(1) << 61)
static const uint8_t names[SYMBOL_COUNT][ITCH_STOCK_BYTES] = { { 'A', 'A', 'A', 'A', ' ', ' ', ' ', ' ' },
                                                               { 'B', 'B', ' ', ' ', ' ', ' ', ' ', ' ' } };
static uint8_t response[BYTES_MAX];

static void order_any(struct ouch_order *o)
{
    o->state = (uint8_t)prove_number(OUCH_FREE, OUCH_DONE);
    o->side = (uint8_t)prove_number(BOOK_BUY, BOOK_SELL);
    o->symbol = (uint8_t)prove_number(0, SYMBOL_COUNT);
    o->cancelling = prove_number(0, 1);
    o->immediate = prove_number(0, 1);
    o->adopted = prove_number(0, 1);
    o->executed = prove_number(0, 1);
    o->cancel_rejected = prove_number(0, 1);
}

static void orders_any(void)
{
    ouch_init(names, SYMBOL_COUNT);
    prove_any(ouch.orders, sizeof ouch.orders);
    prove_any(ouch.executions, sizeof ouch.executions);
    prove_any(&ouch_counters, sizeof ouch_counters);
    for (uint32_t i = 0; i < OUCH_ORDER_COUNT_MAX; i++)
        order_any(&ouch.orders[i]);
    for (uint32_t i = 0; i < OUCH_EXECUTION_COUNT; i++) {
        ouch.executions[i].symbol = (uint8_t)prove_number(0, SYMBOL_COUNT);
        ouch.executions[i].side = (uint8_t)prove_number(BOOK_BUY, BOOK_SELL);
        ouch.executions[i].price = (uint32_t)prove_number(0, ITCH_PRICE_MAX);
    }
    for (uint32_t i = 0; i < SYMBOL_COUNT; i++) {
        ouch.symbols[i].position = (int64_t)prove_number(0, POSITION_MAX);
        if (prove_number(0, 1))
            ouch.symbols[i].position = -ouch.symbols[i].position;
        ouch.symbols[i].cash = (int64_t)prove_number(0, CASH_MAX);
        if (prove_number(0, 1))
            ouch.symbols[i].cash = -ouch.symbols[i].cash;
    }
    ouch.arrived_next = (uint32_t)prove_number(0, UINT32_MAX);
    ouch.next_place = (uint32_t)prove_number(0, OUCH_ORDER_COUNT_MAX - 1);
    ouch.next_execution = (uint32_t)prove_number(0, OUCH_EXECUTION_COUNT - 1);
    ouch_levels.ready = prove_number(0, 1);
    ouch_levels.day_over = prove_number(0, 1);
}

static void take(uint8_t type, size_t bytes)
{
    struct bytes all = { response + sizeof response - bytes, bytes };
    response[sizeof response - bytes] = type;
    int symbol = ouch_take(all, prove_number(0, INT64_MAX));
    prove_holds(symbol >= -1 && symbol < SYMBOL_COUNT);
    prove_any(response, sizeof response);
}

void main(void)
{
    prove_any(response, sizeof response);
    orders_any();
    ouch_take((struct bytes){ response, 0 }, 0);
    for (unsigned type = 0; type < ARRAY_COUNT(responses); type++) {
        size_t fixed = responses[type].bytes;
        if (fixed == 0) {
            take((uint8_t)type, BYTES_MAX);
            continue;
        }
        orders_any();
        take((uint8_t)type, 1);
        for (size_t bytes = fixed - MORE_BYTES; bytes <= fixed + MORE_BYTES; bytes++)
            take((uint8_t)type, bytes); /* from any state, or one that follows from it */
    }
    take(UINT8_MAX, BYTES_MAX);
    ouch_settle(prove_number(0, INT64_MAX));
}
