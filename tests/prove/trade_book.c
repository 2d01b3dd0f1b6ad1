/* Market data: a message of each type and its length, with any contents, in books of any contents, reachable or not. A
 * message of a wrong length or type reads no further. Each ends where the buffer ends.
 *
 * The assertions hold the orders and the levels against each other, which Eva's intervals cannot express. So they are
 * taken for granted: a state without them stops the machine. A side has few levels, or is full of levels that are worse
 * than the order: the search in a full side is not part of the proof. */
#include "tests/prove/include/assume.h"

#include "app/trade/book.c"
#include "app/trade/book_tables.c"

enum { SYMBOL_COUNT = 2, ORDER_COUNT = 8 };
static const uint8_t names[SYMBOL_COUNT][ITCH_STOCK_BYTES] = { { 'A', 'A', 'A', 'A', ' ', ' ', ' ', ' ' },
                                                               { 'B', 'B', ' ', ' ', ' ', ' ', ' ', ' ' } };
static uint8_t message[UINT8_MAX];

static void side_any(struct side *s, uint32_t count)
{
    s->count = count;
    prove_any(s->keys, count * sizeof s->keys[0]);
    prove_any(s->shares, count * sizeof s->shares[0]);
}

/* Makes books of any contents. All orders are of one side, so that Eva knows which one a message changes. */
static void books_any(uint32_t level_count, enum book_side side)
{
    book_init(names, SYMBOL_COUNT, ORDER_COUNT, prove_number(0, UINT64_MAX));
    prove_any(book.slots, (book.slot_mask + 1) * sizeof book.slots[0]);
    for (uint32_t i = 0; i <= book.slot_mask; i++)
        book.slots[i].price_side = (uint32_t)prove_number(0, ITCH_PRICE_MAX) * 2 + side;
    prove_any(book.locates, sizeof book.locates);
    prove_any(&book_counters, sizeof book_counters);
    for (uint32_t i = 0; i < SYMBOL_COUNT; i++) {
        side_any(&book.sides[i][BOOK_BUY], level_count);
        side_any(&book.sides[i][BOOK_SELL], level_count);
        book.states[i].trading = prove_number(0, 1);
        book.states[i].halted = prove_number(0, 1);
        book.tops[i].trading = prove_number(0, 1);
        book.tops[i].last_price = (uint32_t)prove_number(0, ITCH_PRICE_MAX);
    }
    book_levels.orders_used = prove_number(0, ORDER_COUNT);
}

static void take(uint8_t type, uint8_t symbol_and_one, uint8_t side_letter)
{
    const size_t bytes = itch_bytes[type];
    uint8_t *at = message + sizeof message - bytes;
    uint16_t locate = 7;
    prove_any(message, sizeof message);
    at[0] = type;
    if (type == ITCH_ADD || type == ITCH_ADD_ATTRIBUTED)
        ((struct itch_add_wire *)at)->side = side_letter;
    store_be16(&((struct itch_head_wire *)at)->locate, locate);
    book.symbol_of[locate] = symbol_and_one;
    int symbol = book_take((struct bytes){ at, bytes });
    prove_holds(symbol >= -1 && symbol < SYMBOL_COUNT);
}

/* Tries each type with wrong lengths. */
static void malformed(void)
{
    static const uint8_t lengths[] = { 1, 19, 36, 60 };
    for (unsigned type = 0; type <= UINT8_MAX; type++)
        for (size_t i = 0; i < ARRAY_COUNT(lengths); i++) {
            uint8_t *at = message + sizeof message - lengths[i];
            at[0] = (uint8_t)type;
            if (itch_bytes[type] != lengths[i])
                book_take((struct bytes){ at, lengths[i] });
        }
    book_take((struct bytes){ message, 0 });
}

/* Adds an order at a better price than those of all levels. */
static void add_best(uint32_t level_count)
{
    books_any(0, BOOK_BUY);
    for (uint32_t side = 0; side < BOOK_SIDE_COUNT; side++) {
        struct side *s = &book.sides[0][side];
        s->count = level_count;
        memset(s->keys, 0, sizeof s->keys);
        prove_any(s->shares, sizeof s->shares);
    }
    take(ITCH_ADD, 1, 'B');
    take(ITCH_ADD, 1, 'S');
}

/* Tries each type of message, with a locate of this meaning. */
static void all_types(uint32_t level_count, uint8_t symbol_and_one, enum book_side side)
{
    static const uint8_t types[] = "SRHhYLVWKJAFECXDUPQBINO";
    for (size_t t = 0; t < ARRAY_COUNT(types) - 1; t++) {
        books_any(level_count, side);
        take(types[t], symbol_and_one, side == BOOK_BUY ? 'B' : 'S');
    }
}

void main(void)
{
    static const uint32_t level_counts[] = { 0, 1, 2, 9, 11 };
    prove_any(message, sizeof message);
    books_any(1, BOOK_BUY);
    malformed();
    take(ITCH_ADD, 1, '?');
    for (size_t i = 0; i < ARRAY_COUNT(level_counts); i++) {
        all_types(level_counts[i], SYMBOL_COUNT, BOOK_BUY);
        all_types(level_counts[i], SYMBOL_COUNT, BOOK_SELL);
    }
    all_types(1, LOCATE_UNKNOWN, BOOK_BUY);
    all_types(1, LOCATE_SKIPPED, BOOK_BUY);
    add_best(BOOK_LEVEL_COUNT_MAX - 1);
    add_best(BOOK_LEVEL_COUNT_MAX);
}
