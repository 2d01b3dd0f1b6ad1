#include "app/trade/book.h"

#include <assert.h>
#include <string.h>

#include "app/trade/levels.h"
#include "base/assert.h"
#include "base/hot_section.h"

enum {
    SLOT_COUNT_MAX = 2 * BOOK_ORDER_COUNT_MAX, /* at most half of the slots are used, so searches are short */
    SHARES_BITS = 26,
    TRADE_COUNT = 16, /* the latest trades of a symbol, in case one is broken */
    LINE_SLOTS = 4,
    WARM_LINES = 64, /* for the next 256 references */
    LOCATE_COUNT = 1 << 16,
    LOCATE_UNKNOWN = 0,    /* no directory message yet */
    LOCATE_SKIPPED = 0xff, /* a symbol that nobody asked for; else the symbol plus 1 */
};
#define REHEARSED_REFERENCE UINT64_MAX
static_assert(BOOK_SHARES_MAX == (1 << SHARES_BITS) - 1, "shares and symbol share a word");
static_assert(BOOK_SYMBOL_COUNT_MAX <= 1 << (32 - SHARES_BITS), "shares and symbol share a word");
static_assert(ITCH_PRICE_MAX < INT32_MAX, "price and side share a word");
static_assert((int)BOOK_SYMBOL_COUNT_MAX < (int)LOCATE_SKIPPED, "a byte for each locate");

/* An order; without shares: a free slot. */
struct order {
    uint64_t reference;
    uint32_t price_side;    /* the price, and the side in the lowest bit */
    uint32_t shares_symbol; /* the symbol in the highest bits */
};
static_assert(LINE_SLOTS * sizeof(struct order) == 64, "four to a cache line, none across two");

/* The latest trades of a symbol. */
struct trades {
    uint32_t next;
    uint32_t prices[TRADE_COUNT]; /* 0: none, or it was broken */
    uint64_t matches[TRADE_COUNT];
};

static struct {
    _Alignas(64) uint64_t multiplier; /* odd and random: spreads the references over the lines */
    uint64_t newest;                  /* the latest reference that came with a new order, of whatever symbol */
    uint32_t slot_shift, slot_mask;
    bool open;
    uint32_t symbol_count;
    size_t cleared_bytes; /* slots cleared, while book_clear_slice runs */
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

struct book_counters book_counters;
#define ROW(name) COUNTER("book.", book_counters, name),
static const struct counter counter_table[] = { BOOK_COUNTERS(ROW) };
const struct counter_group book_counter_group = { counter_table, ARRAY_COUNT(counter_table) };

struct book_levels book_levels;
#define LEVEL_ROW(name) COUNTER("pool.book_", book_levels, name),
static const struct counter level_table[] = { BOOK_LEVELS(LEVEL_ROW) };
const struct counter_group book_level_group = { level_table, ARRAY_COUNT(level_table) };

/* ---- the start ---- */

void book_init(const uint8_t (*symbols)[ITCH_STOCK_BYTES], uint32_t symbol_count, uint32_t order_count_max,
               uint64_t secret)
{
    ASSERT(symbol_count <= BOOK_SYMBOL_COUNT_MAX);
    ASSERT(order_count_max >= LINE_SLOTS && order_count_max <= BOOK_ORDER_COUNT_MAX);
    uint32_t bits = 1;
    while (UINT32_C(1) << bits < 2 * order_count_max)
        bits++;
    memset(&book_counters, 0, sizeof book_counters);
    book.multiplier = secret | 1;
    book.slot_shift = 64 - bits;
    book.slot_mask = (UINT32_C(1) << bits) - 1;
    book.symbol_count = symbol_count;
    memcpy(book.names, symbols, symbol_count * sizeof symbols[0]);
    book.cleared_bytes = 0;
    book_levels.orders_max = order_count_max;
    while (!book_clear_slice())
        continue;
    book_counters.cleared = 0;
}

bool book_clear_slice(void)
{
    const size_t bytes = ((size_t)book.slot_mask + 1) * sizeof book.slots[0];
    ASSERT(book.cleared_bytes < bytes);
    if (book.cleared_bytes == 0) {
        memset(book.locates, 0, sizeof book.locates);
        memset(book.tops, 0, sizeof book.tops);
        memset(book.states, 0, sizeof book.states);
        memset(book.trades, 0, sizeof book.trades);
        memset(book.symbol_of, LOCATE_UNKNOWN, sizeof book.symbol_of);
        for (uint32_t i = 0; i < BOOK_SYMBOL_COUNT_MAX; i++)
            book.sides[i][BOOK_BUY].count = book.sides[i][BOOK_SELL].count = 0;
        book.open = false;
        book_levels.orders_used = book_levels.whole = book_levels.search_max = 0;
    }
    size_t slice = min_size(bytes - book.cleared_bytes, BOOK_CLEAR_SLICE_BYTES);
    memset((uint8_t *)book.slots + book.cleared_bytes, 0, slice);
    book.cleared_bytes += slice;
    if (book.cleared_bytes < bytes)
        return false;
    book.cleared_bytes = 0;
    book_levels.whole = 1;
    book_counters.cleared++;
    return true;
}

HOT const struct book_top *book_top(uint32_t symbol)
{
    ASSERT(symbol < BOOK_SYMBOL_COUNT_MAX);
    return &book.tops[symbol];
}

HOT bool book_is_whole(void) { return book_levels.whole != 0; }
HOT bool book_market_is_open(void) { return book.open; }

/* Counts a message that is dropped although a book would have changed. */
NOT_HOT static int drop(uint64_t *counter)
{
    ++*counter;
    book_levels.whole = 0;
    return -1;
}

/* Copies the best level of a side to the symbol's line. Returns the symbol if it has changed, else -1. */
static inline int refresh(uint32_t symbol, enum book_side side)
{
    const struct side *s = &book.sides[symbol][side];
    struct book_top *top = &book.tops[symbol];
    uint32_t price = s->count > 0 ? key_of(side, s->keys[s->count - 1]) : 0;
    uint64_t shares = s->count > 0 ? s->shares[s->count - 1] : 0;
    if (top->price[side] == price && top->shares[side] == shares)
        return -1;
    top->price[side] = price;
    top->shares[side] = shares;
    return (int)symbol;
}

bool book_level(uint32_t symbol, enum book_side side, uint32_t rank, struct book_level *level)
{
    ASSERT(symbol < book.symbol_count);
    const struct side *s = &book.sides[symbol][side];
    if (rank >= s->count)
        return false;
    const uint32_t at = s->count - 1 - rank;
    *level = (struct book_level){ key_of(side, s->keys[at]), s->shares[at] };
    return true;
}

/* ---- orders ---- */

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
    return &book.slots[at];
}

bool book_find(uint64_t reference, struct book_order *order)
{
    const struct order *o = slot_of(reference);
    if (o->shares_symbol == 0)
        return false;
    ASSERT(symbol_of(o) < book.symbol_count);
    *order = (struct book_order){ symbol_of(o), shares_of(o), price_of(o), side_of(o) };
    return true;
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

/* Enters an order. Returns -1 if it is dropped, else 0. */
static inline int order_add(uint32_t symbol, enum book_side side, uint64_t reference, uint32_t shares, uint32_t price)
{
    ASSERT(symbol < book.symbol_count);
    struct order *o = slot_of(reference);
    if (__builtin_expect(shares == 0 || shares > BOOK_SHARES_MAX, 0))
        return drop(&book_counters.drop_shares);
    if (__builtin_expect(price == 0 || price > ITCH_PRICE_MAX, 0))
        return drop(&book_counters.drop_price);
    if (__builtin_expect(o->shares_symbol != 0, 0))
        return drop(&book_counters.drop_known_reference);
    if (__builtin_expect(book_levels.orders_used == book_levels.orders_max, 0))
        return drop(&book_counters.drop_orders_full);
    if (__builtin_expect(!level_add(&book.sides[symbol][side], key_of(side, price), shares), 0))
        return drop(&book_counters.drop_levels_full);
    *o = (struct order){ reference, price << 1 | side, symbol << SHARES_BITS | shares };
    book_levels.orders_used++;
    return 0;
}

/* ---- messages ---- */

static inline int take_add(const void *message, uint32_t symbol)
{
    const struct itch_add_wire *m = message;
    const uint8_t letter = m->side;
    if (__builtin_expect(letter != 'B' && letter != 'S', 0))
        return drop(&book_counters.drop_side);
    enum book_side side = letter == 'B' ? BOOK_BUY : BOOK_SELL;
    const uint64_t reference = load_be64(&m->order.reference);
    if (reference != REHEARSED_REFERENCE)
        book.newest = reference;
    int added = order_add(symbol, side, reference, load_be32(&m->shares), load_be32(&m->price));
    return added < 0 ? -1 : refresh(symbol, side);
}

/* Sets the last price; 0: none is known. Returns the symbol if it changes, else -1. */
static inline int last_price_set(uint32_t symbol, uint32_t price)
{
    if (price == book.tops[symbol].last_price)
        return -1;
    book.tops[symbol].last_price = price;
    return (int)symbol;
}

/* Notes a trade's price; 0: a cross of no shares has none. Returns the symbol if its last price changes, else -1. */
static inline int take_trade(uint32_t symbol, uint32_t price, uint64_t match)
{
    struct trades *t = &book.trades[symbol];
    if (__builtin_expect(price > ITCH_PRICE_MAX, 0))
        return drop(&book_counters.drop_price);
    if (price == 0)
        return -1;
    t->prices[t->next] = price;
    t->matches[t->next] = match;
    t->next = (t->next + 1) % TRADE_COUNT;
    return last_price_set(symbol, price);
}

/* Takes a broken trade's price back: the latest trade that stands has the last price. An old trade is passed over. */
NOT_HOT static int take_broken(uint32_t symbol, uint64_t match)
{
    struct trades *t = &book.trades[symbol];
    ASSERT(t->next < TRADE_COUNT);
    uint32_t found = 0;
    while (found < TRADE_COUNT && (t->prices[found] == 0 || t->matches[found] != match))
        found++;
    if (found == TRADE_COUNT)
        return -1;
    t->prices[found] = 0;
    book_counters.broken++;
    uint32_t latest = (t->next + TRADE_COUNT - 1) % TRADE_COUNT;
    for (uint32_t i = 1; i < TRADE_COUNT && t->prices[latest] == 0; i++)
        latest = (latest + TRADE_COUNT - 1) % TRADE_COUNT;
    return last_price_set(symbol, t->prices[latest]);
}

/* Takes a message about an order: an execution, a cancellation, a deletion, or a replacement by an order of the same
 * side and symbol. An execution is a trade, at the order's price if the message has none. */
static inline int take_about_order(const struct itch_order_wire *m, uint32_t symbol)
{
    const uint8_t type = m->head.type;
    const struct itch_executed_price_wire *executed = (const void *)m;
    const struct itch_replace_wire *replace = (const void *)m;
    struct order *o = slot_of(load_be64(&m->reference));
    if (__builtin_expect(o->shares_symbol == 0 || symbol_of(o) != symbol, 0))
        return drop(&book_counters.drop_unknown_reference);
    const enum book_side side = side_of(o);
    const uint32_t had = shares_of(o), order_price = price_of(o);
    const uint32_t shares = type == ITCH_DELETE || type == ITCH_REPLACE
                                ? had
                                : load_be32(&((const struct itch_cancel_wire *)m)->shares);
    if (__builtin_expect(shares > had, 0))
        return drop(&book_counters.drop_excess);
    if (__builtin_expect(shares == 0, 0))
        return drop(&book_counters.drop_shares);
    const uint32_t price = type == ITCH_EXECUTED_PRICE ? load_be32(&executed->price) : order_price;
    if (__builtin_expect(price == 0 || price > ITCH_PRICE_MAX, 0))
        return drop(&book_counters.drop_price);
    level_remove(&book.sides[symbol][side], key_of(side, order_price), shares);
    if (shares == had)
        slot_free(o);
    else
        o->shares_symbol -= shares;
    if (type == ITCH_REPLACE)
        order_add(symbol, side, load_be64(&replace->new_reference), load_be32(&replace->shares),
                  load_be32(&replace->price));
    int changed = refresh(symbol, side), traded = -1;
    if (type == ITCH_EXECUTED || (type == ITCH_EXECUTED_PRICE && executed->printable == 'Y'))
        traded = take_trade(symbol, price, load_be64(&executed->executed.match));
    return traded >= 0 ? traded : changed;
}

/* Takes a trading action or an operational halt, which both say if a symbol trades. */
static int take_state(const struct itch_head_wire *m, uint32_t symbol)
{
    const struct itch_trading_action_wire *action = (const void *)m;
    const struct itch_halt_wire *halt = (const void *)m;
    if (m->type == ITCH_TRADING_ACTION)
        book.states[symbol].trading = action->state == ITCH_TRADING;
    else if (halt->market == ITCH_NASDAQ)
        book.states[symbol].halted = halt->action != ITCH_HALT_LIFTED;
    bool trading = book.states[symbol].trading && !book.states[symbol].halted;
    if (book.tops[symbol].trading == trading)
        return -1;
    book.tops[symbol].trading = trading;
    return (int)symbol;
}

/* Takes a stock directory, which gives a stock its locate, or repeats it. The locate stays the same all day. */
NOT_HOT static int take_directory(const void *message, uint16_t locate)
{
    const struct itch_directory_wire *m = message;
    uint32_t symbol = 0;
    ASSERT(m->head.type == ITCH_STOCK_DIRECTORY);
    while (symbol < book.symbol_count && memcmp(book.names[symbol], m->stock, ITCH_STOCK_BYTES) != 0)
        symbol++;
    const bool is_ours = symbol < book.symbol_count;
    const uint8_t of = is_ours ? (uint8_t)(symbol + 1) : LOCATE_SKIPPED;
    if (locate == 0 || (is_ours && book.locates[symbol] != 0 && book.locates[symbol] != locate)
        || (book.symbol_of[locate] != LOCATE_UNKNOWN && book.symbol_of[locate] != of))
        return drop(&book_counters.drop_directory);
    book.symbol_of[locate] = of;
    if (is_ours)
        book.locates[symbol] = locate;
    return -1;
}

/* Takes a message whose locate is no stock's, or of which no directory message has spoken. */
NOT_HOT static int take_unlocated(const struct itch_head_wire *m, uint16_t locate)
{
    ASSERT(book.symbol_of[locate] == LOCATE_UNKNOWN);
    if (m->type == ITCH_STOCK_DIRECTORY)
        return take_directory(m, locate);
    const uint8_t event = m->type == ITCH_SYSTEM_EVENT ? ((const struct itch_event_wire *)m)->event : 0;
    if (event == ITCH_MARKET_OPENS || event == ITCH_MARKET_CLOSES)
        book.open = event == ITCH_MARKET_OPENS;
    return locate == 0 || m->type == ITCH_SYSTEM_EVENT ? -1 : drop(&book_counters.drop_locate);
}

/* Counts a message of an unknown type, which may be a new one that no order depends on, or of a wrong length. */
NOT_HOT static int take_malformed(struct bytes message)
{
    ASSERT(!itch_is_whole(message));
    if (message.count > 0 && itch_bytes[message.data[0]] != 0)
        return drop(&book_counters.drop_length);
    book_counters.drop_type++;
    return -1;
}

/* Takes a trade that is no order's execution, or takes one back. */
static inline int take_print(const void *message, uint32_t symbol)
{
    const struct itch_trade_wire *trade = message;
    const struct itch_cross_wire *cross = message;
    const struct itch_broken_wire *broken = message;
    if (trade->add.order.head.type == ITCH_TRADE)
        return take_trade(symbol, load_be32(&trade->add.price), load_be64(&trade->match));
    if (cross->head.type == ITCH_CROSS)
        return take_trade(symbol, load_be32(&cross->price), load_be64(&cross->match));
    return take_broken(symbol, load_be64(&broken->match));
}

HOT int book_take(struct bytes message)
{
    if (__builtin_expect(!itch_is_whole(message), 0))
        return take_malformed(message);
    const void *m = message.data;
    const struct itch_head_wire *head = m;
    uint16_t locate = load_be16(&head->locate);
    uint8_t of = book.symbol_of[locate];
    book_counters.messages++;
    if (of == LOCATE_SKIPPED) {
        book_counters.skipped++;
        if (head->type == ITCH_ADD || head->type == ITCH_ADD_ATTRIBUTED)
            book.newest = load_be64(&((const struct itch_order_wire *)m)->reference);
        return -1;
    }
    if (__builtin_expect(of == LOCATE_UNKNOWN, 0))
        return take_unlocated(m, locate);
    uint32_t symbol = of - UINT32_C(1);
    switch (head->type) {
    case ITCH_ADD:
    case ITCH_ADD_ATTRIBUTED:
        return take_add(m, symbol);
    case ITCH_EXECUTED:
    case ITCH_EXECUTED_PRICE:
    case ITCH_CANCEL:
    case ITCH_DELETE:
    case ITCH_REPLACE:
        return take_about_order(m, symbol);
    case ITCH_TRADE:
    case ITCH_CROSS:
    case ITCH_BROKEN:
        return take_print(m, symbol);
    case ITCH_TRADING_ACTION:
    case ITCH_OPERATIONAL_HALT:
        return take_state(m, symbol);
    case ITCH_STOCK_DIRECTORY:
        return take_directory(m, locate);
    default: /* no book depends on the others */
        return -1;
    }
}

HOT void book_fetch(struct bytes message)
{
    const struct itch_replace_wire *m = (const void *)message.data;
    if (message.count < ITCH_DELETE_BYTES || book.symbol_of[load_be16(&m->order.head.locate)] == LOCATE_SKIPPED)
        return;
    ASSERT(book.symbol_count > 0);
    __builtin_prefetch(&book.slots[home_of(load_be64(&m->order.reference))], 1);
    if (m->order.head.type == ITCH_REPLACE && itch_is_whole(message))
        __builtin_prefetch(&book.slots[home_of(load_be64(&m->new_reference))], 1);
}

void book_warm(void)
{
    ASSERT(book.symbol_count <= BOOK_SYMBOL_COUNT_MAX);
    hot_fetch(&book, HOT_LINE_BYTES);
    hot_fetch(&book_counters, sizeof book_counters);
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

bool book_rehearsal(uint32_t symbol, uint8_t add[ITCH_ADD_BYTES], uint8_t deletion[ITCH_DELETE_BYTES])
{
    ASSERT(symbol < book.symbol_count);
    const uint32_t ask = book.tops[symbol].price[BOOK_SELL];
    bool room = book_levels.orders_used < book_levels.orders_max
                && book.sides[symbol][BOOK_SELL].count < BOOK_LEVEL_COUNT_MAX;
    if (ask < 2 || !room || slot_of(REHEARSED_REFERENCE)->shares_symbol != 0)
        return false;
    struct itch_add_wire m = { .order = { .head = { .type = ITCH_ADD } }, .side = 'S' };
    store_be16(&m.order.head.locate, book.locates[symbol]);
    store_be64(&m.order.reference, REHEARSED_REFERENCE);
    store_be32(&m.shares, 1);
    store_be32(&m.price, ask - 1);
    memcpy(add, &m, sizeof m);
    m.order.head.type = ITCH_DELETE;
    memcpy(deletion, &m.order, sizeof m.order);
    return true;
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
