/* Our orders at the exchange: the messages that enter, replace and cancel them, the responses, and their results: open
 * orders and positions. Nasdaq OUCH 5.0. Knows no connection.
 *
 * A user reference number names an order. The numbers rise strictly in a day, so an order that arrives twice counts
 * once. The exchange says which number is next (account query). An order with that number or a higher one has never
 * arrived: after a lost connection this settles the fate of each order without sending it again.
 *
 * A response that contradicts our own knowledge makes positions unsure (ouch_levels.sure) for the rest of the run, and
 * nobody orders any more. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/trade/book.h"
#include "base/bytes.h"
#include "base/counters.h"
#include "base/time.h"

enum {
    OUCH_ENTER_BYTES = 47,
    OUCH_REPLACE_BYTES = 40,
    OUCH_CANCEL_BYTES = 9,
    OUCH_ENTER_FIXED_BYTES = 5, /* known before the order: the type and the reference */
    OUCH_ORDER_COUNT_MAX = 128, /* live ones, and the latest that are not */
    OUCH_EXECUTION_COUNT = 256, /* the latest, in case one is broken */
};
#define OUCH_QUIET_NS (100 * NS_PER_MS) /* after this time without a response, all earlier ones have come */

enum ouch_order_state {
    OUCH_FREE,
    OUCH_SENT, /* no response yet, to the order or to its replacement */
    OUCH_OPEN,
    OUCH_DONE, /* executed, cancelled or rejected */
};

/* An order keeps its place when it is replaced. */
struct ouch_order {
    uint32_t reference, price, open_shares;
    uint32_t next_reference, next_shares; /* the replacement's that is under way; 0: none */
    uint8_t state, side, symbol;
    bool executed; /* some shares of the order, or of one that it has replaced */
    bool cancelling;
    bool cancel_rejected; /* `cancelling` is left until ouch_retry_cancels */
};

/* The orders and the position of a symbol. */
struct ouch_symbol {
    int64_t position;                       /* shares; negative: sold short */
    uint64_t open_shares[BOOK_SIDE_COUNT];  /* all live orders': may still be executed */
    struct ouch_order own[BOOK_SIDE_COUNT]; /* copies of the newest of each side; not live: none */
};

/* Begins without orders. The names are borrowed for the run. */
void ouch_init(const uint8_t (*symbols)[ITCH_STOCK_BYTES], uint32_t symbol_count);

/* ---- messages to the exchange ---- */

/* Writes all of an enter message that is the same for every order, with the next reference. */
void ouch_write_template(uint8_t message[OUCH_ENTER_BYTES]);
/* Completes the template. `short_sale`: the shares are not ours. `immediate`: the rest is cancelled at once. */
static inline void ouch_fill(uint8_t *message, uint64_t symbol_name, enum book_side side, bool short_sale,
                             uint32_t quantity, uint32_t price, bool immediate)
{
    message[5] = side == BOOK_BUY ? 'B' : short_sale ? 'T' : 'S';
    store_be32(message + 6, quantity);
    memcpy(message + 10, &symbol_name, sizeof symbol_name);
    store_be64(message + 18, price);
    message[26] = immediate ? '3' : '0'; /* time in force: immediate or cancel; day */
}
void ouch_write_replace(uint8_t message[OUCH_REPLACE_BYTES], const struct ouch_order *order, uint32_t quantity,
                        uint32_t price);
/* Writes the cancellation of an order, or of the replacement that is under way to it. */
void ouch_write_cancel(uint8_t message[OUCH_CANCEL_BYTES], const struct ouch_order *order);

/* ---- orders ---- */

/* Notes that the order of the template, a replacement or a cancellation has been sent. */
void ouch_entered(uint32_t symbol, enum book_side side, uint32_t quantity, uint32_t price);
void ouch_replaced(uint32_t reference, uint32_t quantity);
void ouch_cancelled(uint32_t reference);
/* Lets orders be cancelled again whose cancellation was rejected. Called from time to time: the exchange may reject the
 * next one, too. */
void ouch_retry_cancels(void);

/* Takes a response. Returns the symbol whose orders or position have changed; -1: none. */
int ouch_take(struct bytes response, uint64_t now_ns);

/* Notes a login, to another session than before or not: nothing is ready until the account query has been answered and
 * responses have paused. */
void ouch_logged_in(bool other_session);
/* Settles the fate of orders without a response, once all responses must have come. Returns true from then on. */
bool ouch_settle(uint64_t now_ns);
bool ouch_is_ready(void);

const struct ouch_symbol *ouch_symbol(uint32_t symbol);
/* Returns the next live order from `*at` on that nobody has asked to cancel; NULL: none. Begin with 0. */
const struct ouch_order *ouch_next_live(uint32_t *at);

/* Fetches the memory of the next order into the caches. */
void ouch_warm(void);

/* Asserts the invariant. */
void ouch_check(void);

/* clang-format off */
#define OUCH_COUNTERS(X) /* the first three are sent */ \
    X(entered) X(replaced) X(cancelled) X(accepted) X(executed) X(shares_bought) X(shares_sold) X(cancels) \
    X(cancel_rejected) X(rejected) X(broken) X(adopted) X(never_arrived) X(others) X(drop_type) X(drop_length) \
    X(drop_unknown_reference) X(drop_unknown_symbol) X(drop_excess) X(drop_price) X(drop_full)
#define OUCH_LEVELS(X) X(open) X(sure) X(next_reference) /* `sure` 0: a response has contradicted our knowledge */
/* clang-format on */
extern struct ouch_counters {
    OUCH_COUNTERS(COUNTER_MEMBER)
} ouch_counters;
extern struct ouch_levels {
    OUCH_LEVELS(COUNTER_MEMBER)
} ouch_levels;
extern const struct counter_group ouch_counter_group, ouch_level_group;

static inline bool ouch_is_sure(void) { return ouch_levels.sure != 0; }
