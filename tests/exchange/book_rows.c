/* Keeps the books of a file of ITCH messages by app/trade/book.c, as judge_book.py does by itch-book:
 *
 *     book_rows FILE OUT SYMBOL...
 *
 * Writes a row for each message after which a best price or its shares differ. A row holds the message's number, its
 * locate, then price and shares of the best bid and of the best offer, eight bytes each. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "app/trade/book.h"

enum { MESSAGE_BYTES_MAX = 64, FIXED_WORDS = 3 };

struct row {
    uint64_t number, locate;
    struct {
        uint64_t price, shares;
    } best[BOOK_SIDE_COUNT];
};

static uint8_t names[BOOK_SYMBOL_COUNT_MAX][ITCH_STOCK_BYTES];
static struct row newest[BOOK_SYMBOL_COUNT_MAX];

/* Reads the next message, which its length precedes. Returns its bytes; 0: there is none. */
static size_t read_message(FILE *in, uint8_t *message)
{
    uint8_t length[2];
    if (fread(length, sizeof length, 1, in) != 1)
        return 0;
    size_t bytes = load_be16(length);
    return bytes <= MESSAGE_BYTES_MAX && fread(message, bytes, 1, in) == 1 ? bytes : 0;
}

static void write_row(FILE *out, uint32_t symbol, uint64_t number, uint64_t locate)
{
    const struct book_top *top = book_top(symbol);
    struct row row = { .number = number, .locate = locate };
    for (uint32_t side = 0; side < BOOK_SIDE_COUNT; side++) {
        row.best[side].price = top->price[side];
        row.best[side].shares = top->shares[side];
    }
    if (memcmp(row.best, newest[symbol].best, sizeof row.best) != 0)
        fwrite(&row, sizeof row, 1, out);
    newest[symbol] = row;
}

int main(int count, char **words)
{
    uint8_t message[MESSAGE_BYTES_MAX];
    uint32_t symbols = 0;
    FILE *in = count > FIXED_WORDS ? fopen(words[1], "rb") : NULL;
    FILE *out = in != NULL ? fopen(words[2], "wb") : NULL;
    if (out == NULL || count > FIXED_WORDS + BOOK_SYMBOL_COUNT_MAX)
        return 2;
    for (; FIXED_WORDS + (int)symbols < count; symbols++) {
        memset(names[symbols], ' ', ITCH_STOCK_BYTES);
        memcpy(names[symbols], words[FIXED_WORDS + symbols], strnlen(words[FIXED_WORDS + symbols], ITCH_STOCK_BYTES));
    }
    uint64_t secret;
    if (getrandom(&secret, sizeof secret, 0) != sizeof secret)
        return 1;
    book_init(names, symbols, BOOK_ORDER_COUNT_MAX, secret);
    size_t bytes;
    for (uint64_t number = 1; (bytes = read_message(in, message)) > 0; number++) {
        int symbol = book_take((struct bytes){ message, bytes });
        if (symbol >= 0)
            write_row(out, (uint32_t)symbol, number, load_be16(&((const struct itch_head_wire *)message)->locate));
    }
    bool whole = book_is_whole() && feof(in) && !ferror(out);
    printf("%llu messages, %s; the longest search passed %llu slots\n", (unsigned long long)book_counters.messages,
           whole ? "whole" : "not whole", (unsigned long long)book_levels.search_max);
    return fclose(out) == 0 && whole ? 0 : 1;
}
