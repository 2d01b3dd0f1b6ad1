/* The order books of up to 64 symbols, built from ITCH messages in static memory. Knows no feed, no clock and no order
 * of our own.
 *
 * Three tables. An order is found by its reference in a hash table of 16 bytes an order, four to a cache line. The
 * slots are fetched before the orders come. The price levels of a side are an array sorted by price with the best one
 * last: most changes are near the best, so they move little. The best of both sides stands in one line of its own for
 * each symbol, struct book_top.
 *
 * A message that contradicts its symbol's book, or finds it full, is dropped and counted. From then on this book may be
 * wrong; after a message of which nobody can say whose it is, all may be. Nobody orders from such books until a
 * snapshot has rebuilt them: all, by book_clear_slice, or those alone that are in doubt, while the others go on:
 *
 *     book_set_aside_slice      until true: their orders are forgotten
 *     book_take_aside           the snapshot's messages, then those of the feed that book_take has put aside since
 *     book_take_back */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/nasdaq/itch.h"
#include "base/bytes.h"
#include "base/counters.h"

enum {
    BOOK_SYMBOL_COUNT_MAX = 64,
    BOOK_ORDER_COUNT_MAX = 1 << 20,
    BOOK_LEVEL_COUNT_MAX = 4096,      /* each side of a symbol */
    BOOK_SHARES_MAX = (1 << 26) - 1,  /* each order; Nasdaq takes less than a million */
    BOOK_TRADE_COUNT = 16,            /* the latest of a symbol: one may be broken */
    BOOK_CLEAR_SLICE_BYTES = 1 << 16, /* some 5 us */
};

enum { BOOK_ASIDE = -2 };

enum book_side { BOOK_BUY, BOOK_SELL, BOOK_SIDE_COUNT };

static inline enum book_side book_other(enum book_side side) { return side == BOOK_BUY ? BOOK_SELL : BOOK_BUY; }

/* The best of a symbol's book: one cache line. */
struct book_top {
    _Alignas(64) uint32_t price[BOOK_SIDE_COUNT]; /* 0: no order on this side */
    uint64_t shares[BOOK_SIDE_COUNT];             /* at this price */
    uint32_t last_price;                          /* the last trade's; 0: none */
    bool doubted;                                 /* this book may be wrong */
    bool trading;                                 /* the trading state is so, and no operational halt is on */
};

/* Begins with empty books. `symbols` are `symbol_count` names of ITCH_STOCK_BYTES, padded with blanks, copied.
 * `secret` is random: nobody can choose references that collide. Clears 40 MB: before the network comes up. */
void book_init(const uint8_t (*symbols)[ITCH_STOCK_BYTES], uint32_t symbol_count, uint32_t order_count_max,
               uint64_t secret);

/* Takes one message of the feed. Returns the symbol whose best, last price or trading state has changed; -1: none;
 * BOOK_ASIDE: the message was not taken, for its book is being rebuilt. */
int book_take(struct bytes message);

/* Fetches the slot of a message that will come soon into the caches. The message may be of any kind, and malformed. */
void book_fetch(struct bytes message);

/* Returns the best of a symbol's book, valid until the next message. */
const struct book_top *book_top(uint32_t symbol);

/* A price of a side, and the shares that stand there. */
struct book_level {
    uint32_t price;
    uint64_t shares;
};

/* Returns a level of a symbol's side, of which `rank` others are better; false: there are no more. */
bool book_level(uint32_t symbol, enum book_side side, uint32_t rank, struct book_level *level);

struct book_trade {
    uint32_t price;
    uint64_t shares;
};

/* Returns the next trade of a symbol from `*number` on, and moves the number past it; false: there are no more. Begin
 * with 0. Broken trades are passed over, and all before the latest BOOK_TRADE_COUNT. */
bool book_trade(uint32_t symbol, uint64_t *number, struct book_trade *trade);

/* An order of the market. */
struct book_order {
    uint32_t symbol, shares, price;
    enum book_side side;
};

/* Returns false if no book holds an order with the reference. */
bool book_find(uint64_t reference, struct book_order *order);

/* Returns false if a book is in doubt. */
bool book_is_whole(void);
/* Returns a bit for each symbol whose book is in doubt. */
uint64_t book_doubts(void);
/* Returns true between the feed's messages "start of market hours" and "end of market hours". */
static inline bool book_market_is_open(void);

/* Forgets all orders, locates and states, a slice a call; operational halts only if a session begins, as a snapshot has
 * none. Returns true when all is forgotten; until then no message may be taken. */
bool book_clear_slice(bool begins_session);

/* Sets the books that are in doubt aside, a slice a call, and forgets their orders. Returns true when all are
 * forgotten. At least one must be in doubt. */
bool book_set_aside_slice(void);
/* Takes a message of a snapshot, or one that was put aside: if it is of a book that is set aside. */
void book_take_aside(struct bytes message);
/* Ends the rebuilding. The books are whole, unless a message has contradicted them again or `is_whole` is false. */
void book_take_back(bool is_whole);

/* Fetches the memory of the next message into the caches, and the slots of the references after the newest. */
void book_warm(void);

/* Writes a message that adds a share just below the best ask of a symbol, and one that deletes it: after both the books
 * are the same as before. Returns false if there is no ask, or no room. */
bool book_rehearsal(uint32_t symbol, uint8_t add[ITCH_ADD_BYTES], uint8_t deletion[ITCH_DELETE_BYTES]);

/* Asserts that the levels hold the shares of the orders. Slow: for tests. */
void book_check(void);

/* skipped: messages for symbols that nobody asked for. broken: trades whose price is taken back. */
#define BOOK_COUNTERS(X)                                                                                               \
    X(COUNT, messages), X(COUNT, skipped), X(DROP_FRAME, drop_type), X(DROP_FRAME, drop_length),                       \
        X(DROP_FRAME, drop_locate), X(DROP_FRAME, drop_directory), X(DROP_FRAME, drop_side),                           \
        X(DROP_FRAME, drop_shares), X(DROP_FRAME, drop_price), X(DROP_FRAME, drop_known_reference),                    \
        X(DROP_FRAME, drop_unknown_reference), X(DROP_FRAME, drop_excess), X(DROP_FRAME, drop_orders_full),            \
        X(DROP_FRAME, drop_levels_full), X(COUNT, cleared), X(ALERT, broken)
/* search_max: the slots that the longest search of an order has passed. */
#define BOOK_LEVELS(X) X(LEVEL, orders_used), X(LEVEL, orders_max), X(LEVEL, whole), X(LEVEL, search_max)
extern struct book_counters {
    uint64_t BOOK_COUNTERS(COUNTER_MEMBER);
} book_counters;
extern struct book_levels {
    uint64_t BOOK_LEVELS(COUNTER_MEMBER);
    bool market_open; /* no statistic shows this */
} book_levels;
extern const struct counter_group book_counter_group, book_level_group;

static inline bool book_market_is_open(void) { return book_levels.market_open; }
