/* The state of app/trade/ouch.h. ouch.c has the orders and the sessions; ouch_responses.c takes the responses, and
 * calls ouch.c. */
#pragma once

#include "app/trade/ouch.h"

extern struct ouch_state {
    const uint8_t (*names)[ITCH_STOCK_BYTES];
    uint32_t symbol_count;
    uint32_t arrived_next;                    /* the latest answer to an account query; 0: none since the login */
    uint64_t cancel_ns[OUCH_ORDER_COUNT_MAX]; /* when it was sent; UINT64_MAX: the exchange says that it is pending */
    const char *contradiction;                /* the first one; NULL: none yet */
    uint64_t response_ns;                     /* when the latest response came */
    uint32_t rejects_in_row;
    uint32_t rejects_first, rejects_in_second;             /* the last second's in rejects_ns: oldest place, number */
    uint32_t next_place;                                   /* the search of a free place begins here */
    struct ouch_symbol symbols[BOOK_SYMBOL_COUNT_MAX + 1]; /* the last one: all that are not traded here */
    struct ouch_order orders[OUCH_ORDER_COUNT_MAX];
    uint64_t rejects_ns[OUCH_REJECT_COUNT]; /* when the latest rejections came, a ring */
    uint32_t next_execution;
    struct execution {
        uint64_t match;
        uint32_t reference, shares, price;
        uint8_t symbol, side;
    } executions[OUCH_EXECUTION_COUNT];
} ouch;

static inline bool ouch_is_live(const struct ouch_order *o) { return o->state == OUCH_SENT || o->state == OUCH_OPEN; }

/* Returns the order that has a reference, or will have it if its replacement arrives; NULL: none. */
struct ouch_order *ouch_order_of(uint32_t reference);
/* Computes the sums of a symbol's orders. A replaced order counts with its shares or its replacement's, as one of the
 * two is executed. A pass over all places: with 64 open orders a response takes 130 ns in all. */
void ouch_sum_up(uint32_t symbol);
/* Ends an order: none of it is open. */
void ouch_end(struct ouch_order *o);
/* Notes that the replacement of an order will not come. */
void ouch_keep(struct ouch_order *o);
/* Returns a place for an order, taken from the oldest that is not live; NULL: all are live. */
struct ouch_order *ouch_place(void);
/* Counts a contradiction between the exchange and our own knowledge. Returns -1. */
int ouch_doubt(uint64_t *counter, const char *contradiction);
/* Notes that a reference has been used, by whomever. */
void ouch_use_up(uint32_t reference);
