#include "app/trade/parts.h"

#include "base/assert.h"
#include "base/log.h"

#define PRICE(units) (unsigned)((units) / ITCH_PRICE_UNIT), (unsigned)((units) % ITCH_PRICE_UNIT)

/* Returns the letters of a symbol, which blanks follow. */
static int letters_of(const uint8_t name[ITCH_STOCK_BYTES])
{
    int count = ITCH_STOCK_BYTES;
    ASSERT(name != NULL);
    while (count > 0 && name[count - 1] == ' ')
        count--;
    return count;
}

void audit_order(uint32_t symbol, enum book_side side, const struct strategy_order *order, uint32_t reference,
                 uint32_t replaced)
{
    ASSERT(symbol < trade_settings.symbol_count);
    const char *name = (const char *)trade_settings.symbols[symbol], *verb = side == BOOK_BUY ? "buy" : "sell";
    const int letters = letters_of(trade_settings.symbols[symbol]);
    if (replaced == 0)
        log_line("order %u: entered: %s %u %.*s at %u.%04u", reference, verb, order->shares, letters, name,
                 PRICE(order->price));
    else
        log_line("order %u: replaces %u: %s %u %.*s at %u.%04u", reference, replaced, verb, order->shares, letters,
                 name, PRICE(order->price));
}

void audit_cancel(uint32_t reference) { log_line("order %u: asked to cancel", reference); }

static void log_terms(const char *what, uint32_t reference, const struct ouch_terms_wire *terms)
{
    ASSERT(what != NULL);
    log_line("order %u: %s: %c %u %.*s at %u.%04u, the exchange's %llu, state %c", reference, what, terms->side,
             load_be32(&terms->quantity), letters_of(terms->symbol), (const char *)terms->symbol,
             PRICE(load_be64(&terms->price)), (unsigned long long)load_be64(&terms->exchange_reference), terms->state);
}

static void log_execution(const char *what, const struct ouch_executed_wire *m, int symbol)
{
    ASSERT(symbol < (int)trade_settings.symbol_count);
    const char *name = symbol < 0 ? "?" : (const char *)trade_settings.symbols[symbol];
    const int letters = symbol < 0 ? 1 : letters_of(trade_settings.symbols[symbol]);
    log_line("order %u: %s: %u %.*s at %u.%04u, match %llu, liquidity %c, position %lld", load_be32(&m->head.reference),
             what, load_be32(&m->quantity), letters, name, PRICE(load_be64(&m->price)),
             (unsigned long long)load_be64(&m->match), m->liquidity,
             symbol < 0 ? 0LL : (long long)ouch_symbol((uint32_t)symbol)->position);
}

/* Logs a response that moves a position. Returns false for any other. */
static bool log_move(const void *response, int symbol)
{
    const struct ouch_response_wire *head = response;
    const struct ouch_broken_wire *broken = response;
    ASSERT(head != NULL);
    if (head->type == 'E')
        log_execution("executed", response, symbol);
    else if (head->type == 'F')
        log_execution("price corrected", response, symbol);
    else if (head->type == 'B')
        log_line("order %u: broken: match %llu, reason %c", load_be32(&head->reference),
                 (unsigned long long)load_be64(&broken->match), broken->reason);
    else
        return false;
    return true;
}

void audit_response(struct bytes message, int symbol, bool is_repeated)
{
    const struct ouch_response_wire *head = (const void *)message.data;
    const struct ouch_canceled_wire *canceled = (const void *)message.data;
    const struct ouch_replaced_wire *replaced = (const void *)message.data;
    if (!ouch_is_whole(message) || log_move(head, symbol))
        return;
    const uint32_t reference = load_be32(&head->reference);
    ASSERT(message.count >= sizeof(struct ouch_event_wire));
    if (head->type == 'Q' || head->type == 'S')
        return;
    trade.counters.repeated += is_repeated;
    if (is_repeated)
        return;
    if (head->type == 'A')
        log_terms("accepted", reference, &((const struct ouch_accepted_wire *)(const void *)head)->terms);
    else if (head->type == 'U')
        log_terms("accepted in place of its original", load_be32(&replaced->reference), &replaced->terms);
    else if (head->type == 'C' || head->type == 'D')
        log_line("order %u: cancelled: %u shares, reason %c", reference, load_be32(&canceled->quantity),
                 canceled->reason);
    else if (head->type == 'J')
        log_line("order %u: rejected: reason %u", reference,
                 load_be16(&((const struct ouch_rejected_wire *)(const void *)head)->reason));
    else
        log_line("order %u: response %c", reference, head->type);
}
