/* The tables of app/trade/book.h, and how an order is found in them. book.c takes messages; book_tables.c empties the
 * tables, rebuilds books out of a snapshot, and checks. */
#pragma once

#include <assert.h>
#include <string.h>

#include "app/trade/levels.h"

enum {
    SLOT_COUNT_MAX = 2 * BOOK_ORDER_COUNT_MAX, /* at most half of the slots are used, so searches are short */
    SHARES_BITS = 26,
    LINE_SLOTS = 4,
    WARM_LINES = 64,                           /* for the next 256 references */
    ASIDE_SLOTS = BOOK_CLEAR_SLICE_BYTES / 16, /* looked at in a slice */
    ASIDE_ORDERS = 32,                         /* forgotten in a slice: each may move 4,096 levels */
    LOCATE_COUNT = 1 << 16,
    LOCATE_UNKNOWN = 0,    /* no directory message yet */
    LOCATE_SKIPPED = 0xff, /* a symbol that nobody asked for; else the symbol plus 1 */
    LOCATE_ASIDE = 0x80,   /* a bit of a symbol whose book is being rebuilt */
};
#define REHEARSED_REFERENCE UINT64_MAX
static_assert(BOOK_SHARES_MAX == (1 << SHARES_BITS) - 1, "shares and symbol share a word");
static_assert(BOOK_SYMBOL_COUNT_MAX <= 1 << (32 - SHARES_BITS), "shares and symbol share a word");
static_assert(ITCH_PRICE_MAX < INT32_MAX, "price and side share a word");
static_assert((int)BOOK_SYMBOL_COUNT_MAX < (int)LOCATE_ASIDE, "a byte for each locate");

/* An order; without shares: a free slot. */
struct order {
    uint64_t reference;
    uint32_t price_side;    /* the price, and the side in the lowest bit */
    uint32_t shares_symbol; /* the symbol in the highest bits */
};
static_assert(LINE_SLOTS * sizeof(struct order) == 64, "four to a cache line, none across two");

/* The latest trades of a symbol. */
struct trades {
    uint64_t count; /* so far: the next one's place is count % BOOK_TRADE_COUNT */
    struct trade_place {
        uint32_t price; /* 0: none, or it was broken */
        uint64_t match, shares;
    } places[BOOK_TRADE_COUNT];
};

extern struct book_state {
    _Alignas(64) uint64_t multiplier; /* odd and random: spreads the references over the lines */
    uint64_t newest;                  /* the latest reference that came with a new order, of whatever symbol */
    uint32_t slot_shift, slot_mask;
    uint32_t symbol_count;
    size_t cleared_bytes; /* slots cleared, while book_clear_slice runs */
    /* A bit for each symbol. Aside: its book is being rebuilt, and doubted as well if that has failed already. */
    uint64_t doubted, aside;
    uint32_t aside_at; /* the slot that the search of their orders has reached */
    uint8_t names[BOOK_SYMBOL_COUNT_MAX][ITCH_STOCK_BYTES];
    uint16_t locates[BOOK_SYMBOL_COUNT_MAX]; /* 0: not known yet */
    struct book_top tops[BOOK_SYMBOL_COUNT_MAX];
    struct {
        bool trading, halted; /* by the trading state, and by an operational halt */
    } states[BOOK_SYMBOL_COUNT_MAX];
    struct trades trades[BOOK_SYMBOL_COUNT_MAX];
    uint8_t symbol_of[LOCATE_COUNT];
    struct side sides[BOOK_SYMBOL_COUNT_MAX][BOOK_SIDE_COUNT];
    _Alignas(64) struct order slots[SLOT_COUNT_MAX];
} book;

/* Returns the slot in which the search of an order begins. References rise through a day, so four neighbours share a
 * line: their lowest bits stay outside of the hash. One product alone would turn a progression of references into a
 * progression of slots, which some multipliers crowd: its halves are multiplied. The last factor is splitmix64's. */
static inline uint32_t home_of(uint64_t reference)
{
    const uint64_t spread = (reference / LINE_SLOTS ^ book.multiplier >> 3) * book.multiplier;
    const uint64_t hash = (spread ^ (spread >> 32) * (uint32_t)spread) * UINT64_C(0xbf58476d1ce4e5b9);
    return ((uint32_t)(hash >> book.slot_shift) & ~(uint32_t)(LINE_SLOTS - 1)) | (uint32_t)(reference % LINE_SLOTS);
}

static inline uint32_t shares_of(const struct order *o) { return o->shares_symbol & BOOK_SHARES_MAX; }
static inline uint32_t symbol_of(const struct order *o) { return o->shares_symbol >> SHARES_BITS; }
static inline uint32_t price_of(const struct order *o) { return o->price_side >> 1; }
static inline enum book_side side_of(const struct order *o) { return o->price_side & 1 ? BOOK_SELL : BOOK_BUY; }

/* Returns the slot of an order, or the free slot in which its search ends. */
static inline struct order *slot_of(uint64_t reference)
{
    uint32_t at = home_of(reference), steps = 0;
    for (; book.slots[at].shares_symbol != 0 && book.slots[at].reference != reference; steps++)
        at = (at + 1) & book.slot_mask;
    if (__builtin_expect(steps > book_levels.search_max, 0))
        book_levels.search_max = steps;
    struct order *o = &book.slots[at];
    HOT_KEEP(o);
    return o;
}

static inline struct side *side_at(uint32_t symbol, enum book_side side)
{
    struct side *s = &book.sides[symbol][side];
    HOT_KEEP(s);
    return s;
}

/* Frees a slot. Later orders of the same run move up, so that no search ends early and no mark stays. */
static inline void slot_free(struct order *o)
{
    uint32_t hole = (uint32_t)(o - book.slots);
    for (uint32_t at = (hole + 1) & book.slot_mask; book.slots[at].shares_symbol != 0; at = (at + 1) & book.slot_mask) {
        uint32_t from_home = (at - home_of(book.slots[at].reference)) & book.slot_mask;
        if (from_home < ((at - hole) & book.slot_mask))
            continue;
        book.slots[hole] = book.slots[at];
        hole = at;
    }
    book.slots[hole].shares_symbol = 0;
    book_levels.orders_used--;
}

/* Notes that the books of some symbols may be wrong. */
static inline void doubt(uint64_t symbols)
{
    book.doubted |= symbols;
    book_levels.whole = 0;
    for (uint32_t i = 0; i < book.symbol_count; i++)
        book.tops[i].doubted = ((book.doubted | book.aside) & BIT(i)) != 0;
}
static inline uint64_t all_books(void)
{
    return book.symbol_count > 0 ? UINT64_MAX >> (BOOK_SYMBOL_COUNT_MAX - book.symbol_count) : 0;
}

/* Returns what the place of a symbol's locate says. */
static inline uint8_t locate_mark(uint32_t symbol)
{
    return (uint8_t)(symbol + 1 + (book.aside & BIT(symbol) ? LOCATE_ASIDE : 0));
}
