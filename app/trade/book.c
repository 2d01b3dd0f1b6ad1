#include "app/trade/book_state.h"

#include <string.h>

#include "base/assert.h"
#include "base/hot_section.h"

HOT const struct book_top *book_top(uint32_t symbol)
{
    ASSERT(symbol < BOOK_SYMBOL_COUNT_MAX);
    return &book.tops[symbol];
}

HOT bool book_is_whole(void) { return book_levels.whole != 0; }

/* Counts a message that is dropped although a book would have changed: nobody knows which one. */
NOT_HOT static int drop(uint64_t *counter)
{
    ++*counter;
    doubt(all_books());
    return -1;
}

/* Counts a message that is dropped although the book of a symbol would have changed. */
NOT_HOT static int drop_of(uint32_t symbol, uint64_t *counter)
{
    ++*counter;
    ASSERT(symbol < book.symbol_count);
    doubt(BIT(symbol));
    return -1;
}

/* Copies the best level of a side to the symbol's line, after a change of the level with a key: one below the best
 * changes nothing there. Returns the symbol if the line has changed, else -1. */
static inline int refresh(uint32_t symbol, enum book_side side, const struct side *s, uint32_t key)
{
    const uint32_t count = s->count;
    if (count > 0 && key < s->keys[count - 1])
        return -1;
    struct book_top *top = &book.tops[symbol];
    uint32_t price = count > 0 ? key_of(side, s->keys[count - 1]) : 0;
    uint64_t shares = count > 0 ? s->shares[count - 1] : 0;
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

/* ---- trades ---- */

bool book_trade(uint32_t symbol, uint64_t *number, struct book_trade *trade)
{
    ASSERT(symbol < book.symbol_count);
    const struct trades *t = &book.trades[symbol];
    if (t->count > BOOK_TRADE_COUNT && *number < t->count - BOOK_TRADE_COUNT)
        *number = t->count - BOOK_TRADE_COUNT;
    while (*number < t->count) {
        const struct trade_place *place = &t->places[(*number)++ % BOOK_TRADE_COUNT];
        *trade = (struct book_trade){ place->price, place->shares };
        if (place->price != 0)
            return true;
    }
    return false;
}

/* ---- orders ---- */

bool book_find(uint64_t reference, struct book_order *order)
{
    const struct order *o = slot_of(reference);
    if (o->shares_symbol == 0)
        return false;
    ASSERT(symbol_of(o) < book.symbol_count);
    *order = (struct book_order){ symbol_of(o), shares_of(o), price_of(o), side_of(o) };
    return true;
}

/* Enters an order. Returns -1 if it is dropped, else 0. */
static inline __attribute__((always_inline)) int order_add(uint32_t symbol, enum book_side side, struct side *s,
                                                           uint64_t reference, uint32_t shares, uint32_t price)
{
    ASSERT(symbol < book.symbol_count);
    struct order *o = slot_of(reference);
    if (__builtin_expect(shares == 0 || shares > BOOK_SHARES_MAX, 0))
        return drop_of(symbol, &book_counters.drop_shares);
    if (__builtin_expect(price == 0 || price > ITCH_PRICE_MAX, 0))
        return drop_of(symbol, &book_counters.drop_price);
    if (__builtin_expect(o->shares_symbol != 0, 0))
        return drop_of(symbol, &book_counters.drop_known_reference);
    if (__builtin_expect(book_levels.orders_used == book_levels.orders_max, 0))
        return drop_of(symbol, &book_counters.drop_orders_full);
    if (__builtin_expect(!level_add(s, key_of(side, price), shares), 0))
        return drop_of(symbol, &book_counters.drop_levels_full);
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
        return drop_of(symbol, &book_counters.drop_side);
    enum book_side side = letter == 'B' ? BOOK_BUY : BOOK_SELL;
    const uint64_t reference = load_be64(&m->order.reference);
    if (reference != REHEARSED_REFERENCE)
        book.newest = reference;
    struct side *const s = side_at(symbol, side);
    const uint32_t price = load_be32(&m->price);
    int added = order_add(symbol, side, s, reference, load_be32(&m->shares), price);
    return added < 0 ? -1 : refresh(symbol, side, s, key_of(side, price));
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
static inline int take_trade(uint32_t symbol, uint32_t price, uint64_t shares, uint64_t match)
{
    struct trades *t = &book.trades[symbol];
    if (__builtin_expect(price > ITCH_PRICE_MAX, 0))
        return drop_of(symbol, &book_counters.drop_price);
    if (price == 0)
        return -1;
    t->places[t->count++ % BOOK_TRADE_COUNT] = (struct trade_place){ price, match, shares };
    return last_price_set(symbol, price);
}

/* Takes a broken trade's price back: the latest trade that stands has the last price. An old trade is passed over. */
NOT_HOT static int take_broken(uint32_t symbol, uint64_t match)
{
    struct trades *t = &book.trades[symbol];
    ASSERT(symbol < book.symbol_count);
    uint32_t found = 0;
    while (found < BOOK_TRADE_COUNT && (t->places[found].price == 0 || t->places[found].match != match))
        found++;
    if (found == BOOK_TRADE_COUNT)
        return -1;
    t->places[found].price = 0;
    book_counters.broken++;
    uint32_t latest = (uint32_t)((t->count - 1) % BOOK_TRADE_COUNT);
    for (uint32_t i = 1; i < BOOK_TRADE_COUNT && t->places[latest].price == 0; i++)
        latest = (latest + BOOK_TRADE_COUNT - 1) % BOOK_TRADE_COUNT;
    return last_price_set(symbol, t->places[latest].price);
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
        return drop_of(symbol, &book_counters.drop_unknown_reference);
    const enum book_side side = side_of(o);
    const uint32_t had = shares_of(o), order_price = price_of(o);
    const uint32_t shares = type == ITCH_DELETE || type == ITCH_REPLACE
                                ? had
                                : load_be32(&((const struct itch_cancel_wire *)m)->shares);
    if (__builtin_expect(shares > had, 0))
        return drop_of(symbol, &book_counters.drop_excess);
    if (__builtin_expect(shares == 0, 0))
        return drop_of(symbol, &book_counters.drop_shares);
    const uint32_t price = type == ITCH_EXECUTED_PRICE ? load_be32(&executed->price) : order_price;
    if (__builtin_expect(price == 0 || price > ITCH_PRICE_MAX, 0))
        return drop_of(symbol, &book_counters.drop_price);
    struct side *const s = side_at(symbol, side);
    uint32_t key = key_of(side, order_price);
    level_remove(s, key, shares);
    if (shares == had)
        slot_free(o);
    else
        o->shares_symbol -= shares;
    if (type == ITCH_REPLACE) {
        const uint32_t new_price = load_be32(&replace->price);
        order_add(symbol, side, s, load_be64(&replace->new_reference), load_be32(&replace->shares), new_price);
        key = max_u32(key, key_of(side, new_price));
    }
    int changed = refresh(symbol, side, s, key), traded = -1;
    if (type == ITCH_EXECUTED || (type == ITCH_EXECUTED_PRICE && executed->printable == 'Y'))
        traded = take_trade(symbol, price, shares, load_be64(&executed->executed.match));
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
    const uint8_t of = !is_ours ? LOCATE_SKIPPED : locate_mark(symbol);
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
        book_levels.market_open = event == ITCH_MARKET_OPENS;
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
        return take_trade(symbol, load_be32(&trade->add.price), load_be32(&trade->add.shares),
                          load_be64(&trade->match));
    if (cross->head.type == ITCH_CROSS)
        return take_trade(symbol, load_be32(&cross->price), load_be64(&cross->shares), load_be64(&cross->match));
    return take_broken(symbol, load_be64(&broken->match));
}

HOT int book_take(struct bytes message)
{
    if (__builtin_expect(!itch_is_whole(message), 0))
        return take_malformed(message);
    const void *const m = message.data;
    const struct itch_head_wire *head = m;
    const uint16_t locate = load_be16(&head->locate);
    const uint8_t of = book.symbol_of[locate];
    book_counters.messages++;
    if (of == LOCATE_SKIPPED) {
        book_counters.skipped++;
        if (head->type == ITCH_ADD || head->type == ITCH_ADD_ATTRIBUTED)
            book.newest = load_be64(&((const struct itch_order_wire *)head)->reference);
        return -1;
    }
    const uint32_t symbol = of - UINT32_C(1);
    if (__builtin_expect(symbol >= BOOK_SYMBOL_COUNT_MAX, 0))
        return of == LOCATE_UNKNOWN ? take_unlocated(head, locate) : BOOK_ASIDE;
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

NOT_HOT void book_take_aside(struct bytes message)
{
    const struct itch_head_wire *head = (const void *)message.data;
    ASSERT(book.aside != 0);
    if (!itch_is_whole(message)) {
        book_counters.drop_length++;
        doubt(book.aside);
        return;
    }
    uint8_t *const of = &book.symbol_of[load_be16(&head->locate)];
    if (*of == LOCATE_SKIPPED || !(*of & LOCATE_ASIDE) || head->type == ITCH_STOCK_DIRECTORY)
        return;
    *of -= LOCATE_ASIDE;
    book_take(message);
    *of += LOCATE_ASIDE;
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

bool book_rehearsal(uint32_t symbol, uint8_t add[ITCH_ADD_BYTES], uint8_t deletion[ITCH_DELETE_BYTES])
{
    ASSERT(symbol < book.symbol_count);
    const uint32_t ask = book.tops[symbol].price[BOOK_SELL];
    bool room = book_levels.orders_used < book_levels.orders_max
                && book.sides[symbol][BOOK_SELL].count < BOOK_LEVEL_COUNT_MAX;
    if (ask < 2 || !room || book.aside & BIT(symbol) || slot_of(REHEARSED_REFERENCE)->shares_symbol != 0)
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
