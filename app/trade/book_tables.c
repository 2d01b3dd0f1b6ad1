#include "app/trade/book_state.h"

#include "base/assert.h"
#include "base/hot_section.h"

struct book_state book;

struct book_counters book_counters;
const struct counter_group book_counter_group = COUNTER_GROUP("book.", "Order books", BOOK_COUNTERS, book_counters);

struct book_levels book_levels;
const struct counter_group book_level_group = COUNTER_GROUP("pool.book_", "Level of a pool", BOOK_LEVELS, book_levels);

void book_init(const uint8_t (*symbols)[ITCH_STOCK_BYTES], uint32_t symbol_count, uint32_t order_count_max,
               uint64_t secret)
{
    ASSERT(symbol_count <= BOOK_SYMBOL_COUNT_MAX);
    ASSERT(order_count_max >= LINE_SLOTS && order_count_max <= BOOK_ORDER_COUNT_MAX);
    uint32_t bits = 1;
    while (UINT32_C(1) << bits < 2 * order_count_max)
        bits++;
    memset(&book_counters, 0, sizeof book_counters);
    memset(book.trades, 0, sizeof book.trades);
    book.multiplier = secret | 1;
    book.slot_shift = 64 - bits;
    book.slot_mask = (UINT32_C(1) << bits) - 1;
    book.symbol_count = symbol_count;
    memcpy(book.names, symbols, symbol_count * sizeof symbols[0]);
    book.cleared_bytes = 0;
    book_levels.orders_max = order_count_max;
    while (!book_clear_slice(true))
        continue;
    book_counters.cleared = 0;
}

bool book_clear_slice(bool begins_session)
{
    const size_t bytes = ((size_t)book.slot_mask + 1) * sizeof book.slots[0];
    ASSERT(book.cleared_bytes < bytes);
    if (book.cleared_bytes == 0) {
        memset(book.locates, 0, sizeof book.locates);
        memset(book.tops, 0, sizeof book.tops);
        for (uint32_t i = 0; i < BOOK_SYMBOL_COUNT_MAX; i++) {
            book.states[i].trading = false;
            book.states[i].halted &= !begins_session;
        }
        for (uint32_t i = 0; i < BOOK_SYMBOL_COUNT_MAX; i++)
            memset(book.trades[i].places, 0, sizeof book.trades[i].places); /* the numbers go on */
        memset(book.symbol_of, LOCATE_UNKNOWN, sizeof book.symbol_of);
        for (uint32_t i = 0; i < BOOK_SYMBOL_COUNT_MAX; i++)
            book.sides[i][BOOK_BUY].count = book.sides[i][BOOK_SELL].count = 0;
        book_levels.market_open = false;
        book.aside = 0;
        doubt(all_books());
        book_levels.orders_used = book_levels.search_max = 0;
    }
    size_t slice = min_size(bytes - book.cleared_bytes, BOOK_CLEAR_SLICE_BYTES);
    memset((uint8_t *)book.slots + book.cleared_bytes, 0, slice);
    book.cleared_bytes += slice;
    if (book.cleared_bytes < bytes)
        return false;
    book.cleared_bytes = book.doubted = 0;
    doubt(0);
    book_levels.whole = 1;
    book_counters.cleared++;
    return true;
}

/* ---- the rebuilding of some books ---- */

uint64_t book_doubts(void) { return book.doubted | book.aside; }

/* Marks the locates of the books that are set aside, or of none. */
static void mark_aside(void)
{
    for (uint32_t symbol = 0; symbol < book.symbol_count; symbol++) {
        if (book.locates[symbol] == 0)
            continue;
        uint8_t *const of = &book.symbol_of[book.locates[symbol]];
        ASSERT((*of & ~LOCATE_ASIDE) == (int)symbol + 1);
        *of = locate_mark(symbol);
    }
}

/* Returns true if no order of the books that are set aside is left. */
static bool aside_is_empty(void)
{
    for (uint32_t symbol = 0; symbol < book.symbol_count; symbol++)
        if (book.aside & BIT(symbol) && (book.sides[symbol][BOOK_BUY].count | book.sides[symbol][BOOK_SELL].count) != 0)
            return false;
    return true;
}

/* Frees the slot of an order of a book that is set aside. */
static void forget(struct order *o)
{
    const uint32_t symbol = symbol_of(o);
    const enum book_side side = side_of(o);
    ASSERT(book.aside & BIT(symbol));
    level_remove(&book.sides[symbol][side], key_of(side, price_of(o)), shares_of(o));
    slot_free(o);
}

bool book_set_aside_slice(void)
{
    if (book.aside == 0) {
        book.aside = book.doubted;
        book.doubted = 0;
        book.aside_at = 0;
        mark_aside();
    }
    ASSERT(book.aside != 0 && book.aside_at <= book.slot_mask);
    /* Other symbols' orders go meanwhile, and may move one of these to a slot that was looked at: hence in rounds. */
    for (uint32_t looked = 0, forgotten = 0; looked < ASIDE_SLOTS && forgotten < ASIDE_ORDERS;) {
        struct order *o = &book.slots[book.aside_at];
        if (o->shares_symbol != 0 && book.aside & BIT(symbol_of(o))) {
            forget(o);
            forgotten++;
            continue;
        }
        book.aside_at = (book.aside_at + 1) & book.slot_mask;
        looked++;
    }
    if (!aside_is_empty())
        return false;
    for (uint32_t symbol = 0; symbol < book.symbol_count; symbol++)
        if (book.aside & BIT(symbol)) {
            memset(&book.tops[symbol], 0, offsetof(struct book_top, doubted)); /* trades may be missed, too */
            memset(book.trades[symbol].places, 0, sizeof book.trades[symbol].places);
        }
    return true;
}

void book_take_back(bool is_whole)
{
    const uint64_t doubted = book.doubted | (is_whole ? 0 : book.aside);
    book.aside = 0;
    mark_aside();
    doubt(doubted);
    book_levels.whole = doubted == 0;
    ASSERT(book.doubted <= all_books());
}

/* ---- the caches ---- */

void book_warm(void)
{
    ASSERT(book.symbol_count <= BOOK_SYMBOL_COUNT_MAX);
    hot_fetch(&book, HOT_LINE_BYTES);
    hot_fetch(&book_counters, sizeof book_counters);
    hot_fetch(&book_levels, sizeof book_levels);
    hot_fetch(itch_bytes, sizeof itch_bytes);
    for (uint64_t line = 0; line < WARM_LINES; line++)
        __builtin_prefetch(&book.slots[home_of(book.newest + line * LINE_SLOTS)], 1);
    for (uint32_t i = 0; i < book.symbol_count; i++) {
        hot_fetch(&book.tops[i], sizeof book.tops[i]);
        __builtin_prefetch(&book.trades[i], 1);
        __builtin_prefetch(&book.symbol_of[book.locates[i]]);
        for (uint32_t side = 0; side < BOOK_SIDE_COUNT; side++) {
            const struct side *s = &book.sides[i][side];
            uint32_t best = s->count > 0 ? s->count - 1 : 0;
            __builtin_prefetch(s);
            __builtin_prefetch(&s->keys[best]);
            __builtin_prefetch(&s->shares[best]);
        }
    }
}

/* ---- the invariant ---- */

void book_check(void)
{
    uint64_t orders = 0, shares_in_orders = 0, shares_in_levels = 0;
    for (uint32_t i = 0; i <= book.slot_mask; i++) {
        const struct order *o = &book.slots[i];
        if (o->shares_symbol == 0)
            continue;
        const struct side *s = &book.sides[symbol_of(o)][side_of(o)];
        uint32_t at = level_place(s, key_of(side_of(o), price_of(o)));
        ASSERT(slot_of(o->reference) == o);
        ASSERT(at < s->count && s->keys[at] == key_of(side_of(o), price_of(o)) && s->shares[at] >= shares_of(o));
        orders++;
        shares_in_orders += shares_of(o);
    }
    for (uint32_t i = 0; i < BOOK_SYMBOL_COUNT_MAX * BOOK_SIDE_COUNT; i++) {
        const struct side *s = &book.sides[i / BOOK_SIDE_COUNT][i % BOOK_SIDE_COUNT];
        for (uint32_t k = 0; k < s->count; k++) {
            ASSERT(k == 0 || s->keys[k - 1] < s->keys[k]);
            ASSERT(s->shares[k] > 0);
            shares_in_levels += s->shares[k];
        }
    }
    ASSERT(orders == book_levels.orders_used && orders <= book_levels.orders_max);
    ASSERT(shares_in_orders == shares_in_levels);
}
