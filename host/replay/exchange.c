#include "host/replay/exchange.h"

#include <string.h>

#include "app/nasdaq/soup.h"
#include "app/trade/book.h"
#include "app/trade/ouch_wire.h"
#include "app/trade/settings.h"
#include "base/assert.h"
#include "base/time.h"
#include "host/replay/network.h"
#include "host/replay/report.h"

enum {
    LETTER_COUNT_MAX = 1 << 14, /* under way in each direction */
    LETTER_BYTES_MAX = SOUP_HEAD_BYTES + sizeof(struct ouch_replaced_wire),
    ORDER_COUNT_MAX = 256,
    RESERVE = LETTER_COUNT_MAX / 2, /* responses' room for what the market does */
};
#define DAY_NS        (24 * 3600 * NS_PER_S)
#define REASON_SYMBOL 0x17 /* OUCH 5.0, appendix D */
#define REASON_OTHER  0x0f

/* A SoupBinTCP packet under way. */
struct letters {
    uint32_t first, count;
    struct letter {
        uint64_t due_ns;
        uint32_t bytes;
        uint8_t data[LETTER_BYTES_MAX];
    } ring[LETTER_COUNT_MAX];
};

struct order {
    uint32_t reference, shares;
    uint32_t executed; /* shares of the orders that this one has replaced, too */
    uint32_t price;
    uint8_t symbol, side;
    bool immediate;
    uint64_t ahead; /* shares before it at its price */
    /* The market's latest reference when the order began to wait: orders up to that one are before it. */
    uint64_t newest;
    struct ouch_terms_wire terms;
};

static struct {
    int connection;
    bool logged_in;
    uint64_t latency_ns, wall_ns_at_0, sent_ns;
    uint32_t next_reference;
    uint64_t exchange_reference, match, newest;
    const char *failure;
    uint32_t order_count;
    struct order orders[ORDER_COUNT_MAX];
    /* A best price that our orders have met, and the shares that they have taken. */
    struct quote {
        uint32_t price;
        uint64_t taken;
    } quotes[BOOK_SYMBOL_COUNT_MAX][BOOK_SIDE_COUNT];
    struct letters requests, responses;
} exchange;

void exchange_init(uint64_t latency_ns, uint64_t wall_ns_at_0)
{
    memset(&exchange, 0, sizeof exchange);
    exchange.latency_ns = latency_ns;
    exchange.wall_ns_at_0 = wall_ns_at_0;
    exchange.next_reference = 1;
}

void exchange_connect(int connection)
{
    ASSERT(connection >= 0);
    exchange.connection = connection;
    network_accept(connection);
}

/* ---- packets ---- */

static void post(struct letters *letters, const void *data, size_t bytes, uint64_t now_ns)
{
    ASSERT(bytes <= LETTER_BYTES_MAX);
    if (letters->count == LETTER_COUNT_MAX) {
        exchange.failure = "more than 16,384 messages are under way: give a shorter --latency";
        return;
    }
    struct letter *l = &letters->ring[(letters->first + letters->count++) % LETTER_COUNT_MAX];
    l->due_ns = now_ns + exchange.latency_ns;
    l->bytes = (uint32_t)bytes;
    memcpy(l->data, data, bytes);
}

void exchange_take(struct bytes packet, uint64_t now_ns)
{
    ASSERT(packet.count >= SOUP_HEAD_BYTES);
    if (packet.count <= LETTER_BYTES_MAX)
        post(&exchange.requests, packet.data, packet.count, now_ns);
}

/* Sends a packet of a type. */
static void send_packet(char type, const void *payload, size_t bytes, uint64_t now_ns)
{
    uint8_t packet[LETTER_BYTES_MAX];
    ASSERT(SOUP_HEAD_BYTES + bytes <= sizeof packet);
    store_be16(packet, (uint16_t)(bytes + 1));
    packet[2] = (uint8_t)type;
    memcpy(packet + SOUP_HEAD_BYTES, payload, bytes);
    post(&exchange.responses, packet, SOUP_HEAD_BYTES + bytes, now_ns);
    exchange.sent_ns = now_ns;
}

static struct ouch_response_wire head_of(char type, uint32_t reference, uint64_t now_ns)
{
    struct ouch_response_wire head = { .type = (uint8_t)type };
    store_be64(&head.timestamp_ns, (exchange.wall_ns_at_0 + now_ns) % DAY_NS);
    store_be32(&head.reference, reference);
    return head;
}

/* ---- orders ---- */

static struct order *order_of(uint32_t reference)
{
    for (struct order *o = exchange.orders; o < exchange.orders + exchange.order_count; o++)
        if (o->shares > 0 && o->reference == reference)
            return o;
    return NULL;
}

/* Removes the orders without shares; the others keep their sequence. */
static void sweep(void)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < exchange.order_count; i++)
        if (exchange.orders[i].shares > 0)
            exchange.orders[kept++] = exchange.orders[i];
    ASSERT(kept <= exchange.order_count);
    exchange.order_count = kept;
}

static void cancel(struct order *o, uint32_t shares, char reason, uint64_t now_ns)
{
    struct ouch_canceled_wire m = { .head = head_of('C', o->reference, now_ns), .reason = (uint8_t)reason };
    ASSERT(shares > 0 && shares <= o->shares);
    store_be32(&m.quantity, shares);
    o->shares -= shares;
    send_packet('S', &m, sizeof m, now_ns);
}

/* Executes at most `shares` of an order. Returns those that it has taken. `liquidity`: 'A' added, 'R' removed. */
static uint64_t fill(struct order *o, uint64_t shares, uint32_t price, char liquidity, uint64_t now_ns)
{
    const uint32_t filled = (uint32_t)min_u64(shares, o->shares);
    ASSERT(price != 0);
    if (filled == 0)
        return 0;
    struct ouch_executed_wire m = { .head = head_of('E', o->reference, now_ns), .liquidity = (uint8_t)liquidity };
    store_be32(&m.quantity, filled);
    store_be64(&m.price, price);
    store_be64(&m.match, ++exchange.match);
    o->shares -= filled;
    o->executed += filled;
    send_packet('S', &m, sizeof m, now_ns);
    return filled;
}

static bool is_better(enum book_side side, uint32_t price, uint32_t than)
{
    return side == BOOK_BUY ? price > than : price < than;
}

/* Trades an order with the best opposite price, if that reaches it; at its own price if it has waited. */
static void meet(struct order *o, bool has_waited, uint64_t now_ns)
{
    const enum book_side other = book_other(o->side);
    const struct book_top *top = book_top(o->symbol);
    const uint32_t price = top->price[other];
    ASSERT(o->symbol < trade_settings.symbol_count);
    if (price == 0 || is_better(o->side, price, o->price) || !top->trading || !book_market_is_open())
        return;
    struct quote *quote = &exchange.quotes[o->symbol][other];
    if (quote->price != price)
        *quote = (struct quote){ price, 0 };
    quote->taken = min_u64(quote->taken, top->shares[other]);
    quote->taken += fill(o, top->shares[other] - quote->taken, has_waited ? o->price : price, has_waited ? 'A' : 'R',
                         now_ns);
}

/* Returns the shares that the market has at a price. */
static uint64_t shares_at(uint32_t symbol, enum book_side side, uint32_t price)
{
    struct book_level level;
    ASSERT(price != 0);
    for (uint32_t rank = 0; book_level(symbol, side, rank, &level) && !is_better(side, price, level.price); rank++)
        if (level.price == price)
            return level.shares;
    return 0;
}

/* Lets an order in that has been accepted. */
static void let_in(struct order *o, uint64_t now_ns)
{
    ASSERT(o->shares > 0);
    meet(o, false, now_ns);
    if (o->shares > 0 && o->immediate)
        cancel(o, o->shares, 'I', now_ns);
    o->ahead = o->shares > 0 ? shares_at(o->symbol, o->side, o->price) : 0;
    o->newest = exchange.newest;
    sweep();
}

static void reject(uint32_t reference, uint16_t reason, const uint8_t *client_id, uint64_t now_ns)
{
    struct ouch_rejected_wire m = { .head = head_of('J', reference, now_ns) };
    ASSERT(reason != 0);
    store_be16(&m.reason, reason);
    memcpy(m.client_id, client_id, sizeof m.client_id);
    send_packet('S', &m, sizeof m, now_ns);
}

/* ---- requests ---- */

static uint32_t symbol_of(const uint8_t name[ITCH_STOCK_BYTES])
{
    uint32_t symbol = 0;
    while (symbol < trade_settings.symbol_count && memcmp(trade_settings.symbols[symbol], name, ITCH_STOCK_BYTES) != 0)
        symbol++;
    return symbol;
}

static void take_enter(const uint8_t *request, uint64_t now_ns)
{
    const struct ouch_enter_wire *m = (const struct ouch_enter_wire *)request;
    const uint32_t symbol = symbol_of(m->symbol), reference = load_be32(&m->reference);
    if (reference < exchange.next_reference)
        return; /* a repetition */
    exchange.next_reference = reference + 1;
    if (symbol == trade_settings.symbol_count || exchange.order_count == ORDER_COUNT_MAX)
        return reject(reference, exchange.order_count == ORDER_COUNT_MAX ? REASON_OTHER : REASON_SYMBOL, m->client_id,
                      now_ns);
    struct order *o = &exchange.orders[exchange.order_count++];
    *o = (struct order){ .reference = reference,
                         .shares = load_be32(&m->quantity),
                         .price = (uint32_t)load_be64(&m->price),
                         .symbol = (uint8_t)symbol,
                         .side = m->side == 'B' ? BOOK_BUY : BOOK_SELL,
                         .immediate = m->time_in_force == '3' };
    ASSERT(o->shares > 0 && o->price > 0);
    o->terms = (struct ouch_terms_wire){ .side = m->side,
                                         .quantity = m->quantity,
                                         .price = m->price,
                                         .time_in_force = m->time_in_force,
                                         .display = m->display,
                                         .capacity = m->capacity,
                                         .sweep = m->sweep,
                                         .cross = m->cross,
                                         .state = 'L' };
    memcpy(o->terms.symbol, m->symbol, sizeof m->symbol);
    memcpy(o->terms.client_id, m->client_id, sizeof m->client_id);
    store_be64(&o->terms.exchange_reference, ++exchange.exchange_reference);
    const struct ouch_accepted_wire response = { head_of('A', reference, now_ns), o->terms };
    send_packet('S', &response, sizeof response, now_ns);
    let_in(o, now_ns);
}

/* Takes a replacement. Its shares count those that have been executed. */
static void take_replace(const uint8_t *request, uint64_t now_ns)
{
    const struct ouch_replace_wire *m = (const struct ouch_replace_wire *)request;
    struct order *o = order_of(load_be32(&m->original));
    const uint32_t reference = load_be32(&m->reference), shares = load_be32(&m->quantity);
    if (o == NULL || reference < exchange.next_reference)
        return;
    ASSERT(m->type == 'U');
    if (shares <= o->executed) {
        cancel(o, o->shares, 'U', now_ns);
        return sweep();
    }
    struct ouch_replaced_wire response = { .head = head_of('U', o->reference, now_ns), .reference = m->reference };
    exchange.next_reference = reference + 1;
    o->reference = reference;
    o->shares = shares - o->executed;
    o->price = (uint32_t)load_be64(&m->price);
    o->terms.price = m->price;
    store_be32(&o->terms.quantity, o->shares);
    store_be64(&o->terms.exchange_reference, ++exchange.exchange_reference);
    response.terms = o->terms;
    send_packet('S', &response, sizeof response, now_ns);
    let_in(o, now_ns);
}

static void take_cancel(const uint8_t *request, uint64_t now_ns)
{
    const struct ouch_cancel_wire *m = (const struct ouch_cancel_wire *)request;
    struct order *o = order_of(load_be32(&m->reference));
    const uint32_t kept = load_be32(&m->quantity);
    if (o == NULL || kept >= o->shares)
        return;
    ASSERT(m->type == 'X');
    cancel(o, o->shares - kept, 'U', now_ns);
    sweep();
}

static void log_in(uint64_t now_ns)
{
    static const char accepted[] = "REPLAY                       1"; /* the session, the next sequence number */
    static_assert(sizeof accepted == sizeof(struct soup_accepted_wire) + 1, "and the end");
    ASSERT(exchange.order_count <= ORDER_COUNT_MAX);
    exchange.logged_in = true;
    send_packet('A', accepted, sizeof accepted - 1, now_ns);
}

static void take_request(struct bytes packet, uint64_t now_ns)
{
    const uint8_t *message = packet.data + SOUP_HEAD_BYTES;
    const size_t bytes = packet.count - SOUP_HEAD_BYTES;
    ASSERT(packet.count >= SOUP_HEAD_BYTES);
    if (packet.data[2] == 'L')
        log_in(now_ns);
    if (packet.data[2] != 'U' || bytes == 0)
        return;
    if (message[0] == 'O' && bytes == sizeof(struct ouch_enter_wire))
        take_enter(message, now_ns);
    else if (message[0] == 'U' && bytes == sizeof(struct ouch_replace_wire))
        take_replace(message, now_ns);
    else if (message[0] == 'X' && bytes == sizeof(struct ouch_cancel_wire))
        take_cancel(message, now_ns);
    else if (message[0] == 'Q') {
        const struct ouch_response_wire response = head_of('Q', exchange.next_reference, now_ns);
        send_packet('S', &response, sizeof response, now_ns);
    }
}

/* ---- time ---- */

static uint64_t due_of(const struct letters *letters)
{
    return letters->count > 0 ? letters->ring[letters->first].due_ns : UINT64_MAX;
}

/* Takes the oldest packet out if it is due by then. */
static struct letter *take_due(struct letters *letters, uint64_t now_ns)
{
    if (due_of(letters) > now_ns)
        return NULL;
    struct letter *l = &letters->ring[letters->first];
    ASSERT(letters->count > 0);
    letters->first = (letters->first + 1) % LETTER_COUNT_MAX;
    letters->count--;
    return l;
}

uint64_t exchange_next_ns(void)
{
    const uint64_t heartbeat_ns = exchange.logged_in ? exchange.sent_ns + SOUP_HEARTBEAT_NS : UINT64_MAX;
    return min_ns(heartbeat_ns, min_ns(due_of(&exchange.requests), due_of(&exchange.responses)));
}

const char *exchange_advance(uint64_t now_ns)
{
    const struct letter *l;
    ASSERT(exchange.requests.count <= LETTER_COUNT_MAX && exchange.responses.count <= LETTER_COUNT_MAX);
    while (exchange.responses.count < RESERVE && (l = take_due(&exchange.requests, now_ns)) != NULL)
        take_request((struct bytes){ l->data, l->bytes }, now_ns);
    if (exchange.logged_in && now_ns >= exchange.sent_ns + SOUP_HEARTBEAT_NS)
        send_packet('H', "", 0, now_ns);
    while ((l = take_due(&exchange.responses, now_ns)) != NULL) {
        report_response((struct bytes){ l->data + SOUP_HEAD_BYTES, l->bytes - SOUP_HEAD_BYTES }, now_ns);
        if (!network_send(exchange.connection, (struct bytes){ l->data, l->bytes }))
            exchange.failure = "the program does not take the exchange's responses";
    }
    return exchange.failure;
}

/* ---- the market ---- */

/* Lets a message about an order of the market bring ours forward, or execute them. */
static void observe_order(const struct itch_cancel_wire *m, const struct book_order *theirs, uint64_t now_ns)
{
    const uint8_t type = m->order.head.type;
    const bool is_trade = type == ITCH_EXECUTED || type == ITCH_EXECUTED_PRICE;
    const bool is_whole = type == ITCH_DELETE || type == ITCH_REPLACE;
    uint64_t shares = is_whole ? theirs->shares : load_be32(&m->shares);
    ASSERT(theirs->symbol < trade_settings.symbol_count);
    for (struct order *o = exchange.orders; o < exchange.orders + exchange.order_count; o++) {
        if (o->symbol != theirs->symbol || o->side != theirs->side)
            continue;
        const bool same = o->price == theirs->price;
        if (same && load_be64(&m->order.reference) <= o->newest)
            o->ahead -= min_u64(o->ahead, shares);
        else if (is_trade && ((same && o->ahead == 0) || is_better(o->side, o->price, theirs->price)))
            shares -= fill(o, shares, o->price, 'A', now_ns);
    }
    sweep();
}

void exchange_observe(struct bytes message, uint64_t now_ns)
{
    struct book_order theirs;
    const struct itch_order_wire *m = (const void *)message.data;
    const struct itch_executed_price_wire *cross = (const void *)message.data;
    if (!itch_is_whole(message))
        return;
    const uint8_t type = m->head.type;
    ASSERT(itch_bytes[type] == message.count);
    const bool is_cross = type == ITCH_EXECUTED_PRICE && cross->printable != 'Y';
    if (type == ITCH_ADD || type == ITCH_ADD_ATTRIBUTED)
        exchange.newest = load_be64(&m->reference);
    if (type == ITCH_REPLACE)
        exchange.newest = load_be64(&((const struct itch_replace_wire *)m)->new_reference);
    else if ((type != ITCH_EXECUTED && type != ITCH_EXECUTED_PRICE && type != ITCH_CANCEL && type != ITCH_DELETE)
             || is_cross)
        return;
    if (exchange.order_count > 0 && book_find(load_be64(&m->reference), &theirs))
        observe_order((const void *)m, &theirs, now_ns);
}

void exchange_match(uint64_t now_ns)
{
    if (exchange.order_count == 0)
        return;
    ASSERT(exchange.order_count <= ORDER_COUNT_MAX);
    for (uint32_t i = 0; i < exchange.order_count; i++)
        meet(&exchange.orders[i], true, now_ns);
    sweep();
}
