/* Our orders at the exchange: the messages that enter, replace and cancel them, the responses, and their results: open
 * orders and positions. Nasdaq OUCH 5.0. Knows no connection.
 *
 * A user reference number names an order. The numbers rise strictly in a day, so an order that arrives twice counts
 * once. The exchange says which number is next (account query). An order with that number or a higher one has never
 * arrived: after a lost connection this settles the fate of each order without sending it again.
 *
 * The exchange is believed as far as its responses agree with our orders. An acceptance has the order's side, symbol
 * and time in force, at most its shares, and no worse price. An execution has at most the open shares, and no worse
 * price. A response that contradicts our own knowledge makes positions unsure (ouch_levels.sure) for the rest of the
 * run, and nobody orders any more. An order of an earlier run is known by its acceptance alone. It may be of a symbol
 * that is not traded here: somebody has to cancel it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/trade/book.h"
#include "app/trade/ouch_wire.h"
#include "base/bytes.h"
#include "base/counters.h"
#include "base/time.h"

enum {
    OUCH_ENTER_BYTES = sizeof(struct ouch_enter_wire),
    OUCH_REPLACE_BYTES = sizeof(struct ouch_replace_wire),
    OUCH_CANCEL_BYTES = sizeof(struct ouch_cancel_wire),
    OUCH_ENTER_FIXED_BYTES = offsetof(struct ouch_enter_wire, side), /* known before the order */
    OUCH_ORDER_COUNT_MAX = 128,                                      /* live ones, and the latest that are not */
    OUCH_EXECUTION_COUNT = 256,                                      /* the latest, in case one is broken */
    OUCH_REJECT_COUNT = 1000,                                        /* the latest: risk.rejects= is at most that */
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
    uint32_t reference, open_shares;
    uint32_t price;                                   /* as asked; the accepted one may be better */
    uint32_t next_reference, next_shares, next_price; /* a replacement's under way; 0: none */
    uint8_t state, side, symbol;                      /* symbol: the count of symbols for one that is not traded here */
    bool immediate;
    bool adopted;  /* from an earlier run: `price` is the accepted one */
    bool executed; /* some shares of the order, or of one that it has replaced */
    bool cancelling;
    bool cancel_rejected; /* `cancelling` is left until ouch_retry_cancels */
    uint8_t name[ITCH_STOCK_BYTES];
};

/* The orders and the position of a symbol. */
struct ouch_symbol {
    int64_t position;                       /* shares; negative: sold short */
    int64_t cash;                           /* earned by sales less spent, in units of 0.0001 */
    uint64_t open_shares[BOOK_SIDE_COUNT];  /* all live orders': may still be executed */
    uint32_t nearest[BOOK_SIDE_COUNT];      /* the live orders' best price; 0: none is live */
    struct ouch_order own[BOOK_SIDE_COUNT]; /* copies of the newest of each side; not live: none */
    uint64_t fills;                         /* executions that stand */
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
    struct ouch_enter_wire *enter = (struct ouch_enter_wire *)message;
    enter->side = side == BOOK_BUY ? 'B' : short_sale ? 'T' : 'S';
    store_be32(&enter->quantity, quantity);
    memcpy(enter->symbol, &symbol_name, sizeof symbol_name);
    store_be64(&enter->price, price);
    enter->time_in_force = immediate ? '3' : '0';
}
void ouch_write_replace(uint8_t message[OUCH_REPLACE_BYTES], const struct ouch_order *order, uint32_t quantity,
                        uint32_t price);
/* Writes the cancellation of an order, or of the replacement that is under way to it. */
void ouch_write_cancel(uint8_t message[OUCH_CANCEL_BYTES], const struct ouch_order *order);

/* ---- orders ---- */

/* Notes that the order of the template, a replacement or a cancellation has been sent. */
void ouch_entered(uint32_t symbol, enum book_side side, uint32_t quantity, uint32_t price, bool immediate);
void ouch_replaced(uint32_t reference, uint32_t quantity, uint32_t price);
void ouch_cancelled(uint32_t reference, uint64_t now_ns);
/* Returns when the earliest cancellation was sent that is neither done, rejected nor pending; UINT64_MAX: none. */
uint64_t ouch_cancel_waits_since_ns(void);
/* Lets orders be cancelled again whose cancellation was rejected. Called from time to time: the exchange may reject the
 * next one, too. */
void ouch_retry_cancels(void);

/* Sets the position of a symbol before the first response: shares that the account held before the session. */
void ouch_set_position(uint32_t symbol, int64_t shares);

/* Returns true if a response has a known type and that type's length. */
bool ouch_is_whole(struct bytes response);

/* Takes a response. Returns the symbol whose orders or position have changed; -1: none. */
int ouch_take(struct bytes response, uint64_t now_ns);

/* Notes a login, to another session than before or not. Another one is believed after an end of day without open
 * orders. Nothing is ready until the account query has been answered and responses have paused. Returns true if the
 * next day has begun: positions stay; cash, fills and references do not. */
bool ouch_logged_in(bool other_session);
/* Settles the fate of orders without a response, once all responses must have come. Returns true from then on. */
bool ouch_settle(uint64_t now_ns);
static inline bool ouch_is_ready(void);
/* Returns true from the exchange's event "end of day" on. */
static inline bool ouch_day_is_over(void);
/* Returns how the first response that was not believed contradicts our orders, a sentence; NULL: none did. */
const char *ouch_contradiction(void);
/* Forgets the rejections in a row and of the last second (ouch_levels.rejects). */
void ouch_forget_rejects(void);

const struct ouch_symbol *ouch_symbol(uint32_t symbol);
/* Returns the next live order from `*at` on; NULL: none. Begin with 0. */
const struct ouch_order *ouch_next_open(uint32_t *at);
/* Returns the next live order from `*at` on that nobody has asked to cancel; NULL: none. Begin with 0. */
const struct ouch_order *ouch_next_live(uint32_t *at);

/* Fetches the memory of the next order into the caches. */
void ouch_warm(void);

/* Asserts the invariant. */
void ouch_check(void);

/* The first three are sent. shares_ordered: over the day; slid: accepted at a better price; sessions: those that began
 * after an end of day. */
#define OUCH_COUNTERS(X)                                                                                               \
    X(COUNT, entered), X(COUNT, replaced), X(COUNT, cancelled), X(COUNT, accepted), X(COUNT, executed),                \
        X(COUNT, shares_ordered), X(COUNT, shares_bought), X(COUNT, shares_sold), X(COUNT, slid), X(COUNT, cancels),   \
        X(COUNT, cancel_rejected), X(COUNT, rejected), X(ALERT, broken), X(COUNT, adopted), X(COUNT, never_arrived),   \
        X(COUNT, others), X(COUNT, sessions), X(DROP_FRAME, drop_type), X(DROP_FRAME, drop_length),                    \
        X(DROP_FRAME, drop_unknown_reference), X(DROP_FRAME, drop_unknown_symbol), X(DROP_FRAME, drop_state),          \
        X(DROP_FRAME, drop_side), X(DROP_FRAME, drop_shares), X(DROP_FRAME, drop_price),                               \
        X(DROP_FRAME, drop_time_in_force), X(DROP_FRAME, drop_excess), X(DROP_FRAME, drop_full)
/* `foreign`: the open orders of symbols that are not traded here. `sure` 0: a response has contradicted our knowledge.
 * `rejects`: in a row or within a second, the larger number. */
#define OUCH_LEVELS(X) X(LEVEL, open), X(LEVEL, foreign), X(LEVEL, sure), X(LEVEL, next_reference), X(LEVEL, rejects)
extern struct ouch_counters {
    uint64_t OUCH_COUNTERS(COUNTER_MEMBER);
} ouch_counters;
extern struct ouch_levels {
    uint64_t OUCH_LEVELS(COUNTER_MEMBER);
    bool ready, day_over; /* no statistic shows them */
} ouch_levels;
extern const struct counter_group ouch_counter_group, ouch_level_group;

static inline bool ouch_is_sure(void) { return ouch_levels.sure != 0; }
static inline bool ouch_is_ready(void) { return ouch_levels.ready; }
static inline bool ouch_day_is_over(void) { return ouch_levels.day_over; }
