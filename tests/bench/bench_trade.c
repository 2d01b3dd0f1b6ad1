#include "tests/bench/bench_trade.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/service/service.h"
#include "app/service/settings.h"
#include "app/service/stats.h"
#include "app/trade/ouch.h"
#include "app/trade/settings.h"
#include "app/trade/trade.h"
#include "base/assert.h"
#include "tests/lib/random.h"
#include "tests/lib/trade_messages.h"

enum {
    LOCATE = 7,
    PRICE = 1000000,
    SHARES = 100,
    BULK_LEVELS = 20,
    STRIDE_MAX = 16, /* between two references; the others are of other symbols */
    MIXED_ORDERS = 50000,
    WORDS_BYTES = 1000,
};

static struct {
    uint64_t sequence, reference, tick_reference;
    uint64_t bulk_references[BENCH_TRADE_BULK_MESSAGES];
    uint32_t order, symbol_count, mixed_count;
    bool bulk_deletes;
    struct {
        uint64_t reference;
        uint16_t locate;
    } mixed[MIXED_ORDERS];
} exchange;

static uint64_t stands_still(void) { return 0; }

/* Writes the name of a symbol. Returns its locate. */
static uint16_t symbol_name(uint32_t symbol, char name[ITCH_STOCK_BYTES + 1])
{
    ASSERT(symbol < BOOK_SYMBOL_COUNT_MAX);
    snprintf(name, ITCH_STOCK_BYTES + 1, symbol == 0 ? "AAAA" : "S%u", symbol);
    return (uint16_t)(symbol == 0 ? LOCATE : 100 + symbol);
}

static uint64_t next_reference(void) { return exchange.reference += 1 + random_below(STRIDE_MAX); }

void bench_trade_start(uint64_t tsc_khz, uint64_t seed, uint32_t symbol_count, uint64_t (*clock_ns)(void),
                       uint64_t now_ns)
{
    static char words[WORDS_BYTES];
    int at = snprintf(words, sizeof words,
                      "feed.a=0.0.0.0:26400 orders=10.0.2.2:26404 user=BENCH passwd=BENCH strategy=take take.buy=100 "
                      "risk.rate=1000 risk.day.orders=4000000000 risk.day.shares=1000000000000 symbols=");
    for (uint32_t i = 0; i < symbol_count; i++) {
        char name[ITCH_STOCK_BYTES + 1];
        symbol_name(i, name);
        at += snprintf(words + at, sizeof words - (size_t)at, "%s%s", i > 0 ? "," : "", name);
    }
    ASSERT(at < WORDS_BYTES);
    static struct settings settings;
    struct program_machine machine = { .tsc_khz = tsc_khz, .now_ns = clock_ns != NULL ? clock_ns : stands_still };
    random_secret(seed, machine.secret, sizeof machine.secret);
    random_state = seed;
    service_settings_begin(&settings, "trade", &trade_settings_table, NULL);
    settings_add(&settings, "bench", words, (size_t)at);
    ASSERT(settings_finish(&settings));
    stats_clear();
    ASSERT(service_init(machine.secret, false, now_ns) == NULL);
    ASSERT(trade_init(&machine, now_ns) == NULL);
    exchange.sequence = 1;
    exchange.symbol_count = symbol_count;
}

uint32_t bench_trade_login(uint8_t *packets) { return soup_accepted(packets, "BENCH", 1); }

uint32_t bench_trade_query(uint8_t *packets)
{
    uint8_t response[16];
    uint32_t bytes = soup_packet(packets, 'S', response, ouch_response(response, 'Q', 1, 13));
    return bytes + soup_packet(packets + bytes, 'H', NULL, 0);
}

/* Begins a datagram of `count` messages. */
static uint32_t begin(uint8_t *datagram, uint32_t count)
{
    uint64_t sequence = exchange.sequence;
    exchange.sequence += count;
    return mold_head(datagram, MOLD_TEST_SESSION, sequence, (uint16_t)count);
}

uint32_t bench_trade_market(uint8_t *datagram)
{
    uint8_t m[64];
    uint32_t bytes = begin(datagram, 6);
    bytes += mold_block(datagram + bytes, m, itch_directory(m, LOCATE, "AAAA"));
    bytes += mold_block(datagram + bytes, m, itch_action(m, LOCATE, 'T'));
    bytes += mold_block(datagram + bytes, m, itch_event(m, ITCH_MARKET_OPENS));
    bytes += mold_block(datagram + bytes, m, itch_trade(m, LOCATE, PRICE));
    bytes += mold_block(datagram + bytes, m, itch_add(m, LOCATE, next_reference(), 'B', SHARES, PRICE - 5000));
    bytes += mold_block(datagram + bytes, m, itch_add(m, LOCATE, next_reference(), 'S', SHARES, PRICE + 5000));
    return bytes;
}

uint32_t bench_trade_tick(uint8_t *datagram)
{
    uint8_t m[64];
    uint32_t bytes = begin(datagram, 1);
    exchange.tick_reference = next_reference();
    return bytes + mold_block(datagram + bytes, m, itch_add(m, LOCATE, exchange.tick_reference, 'S', SHARES, PRICE));
}

uint32_t bench_trade_response(uint8_t *packets)
{
    uint8_t response[64];
    ouch_time_in_force = '3';
    uint32_t bytes = ouch_accepted(response, ++exchange.order, 'B', SHARES, "AAAA", PRICE, 'D');
    return soup_packet(packets, 'S', response, bytes);
}

uint32_t bench_trade_end(uint8_t *datagram)
{
    uint8_t m[64];
    uint32_t bytes = begin(datagram, 1);
    return bytes + mold_block(datagram + bytes, m, itch_reduce(m, ITCH_DELETE, LOCATE, exchange.tick_reference, 0));
}

/* Writes a datagram of orders that rest below the best bid, or of their deletions. */
static uint32_t write_bulk(uint8_t *datagram, bool deletes)
{
    uint8_t m[64];
    uint32_t bytes = begin(datagram, BENCH_TRADE_BULK_MESSAGES);
    for (uint64_t i = 0; i < BENCH_TRADE_BULK_MESSAGES; i++) {
        uint64_t reference = deletes ? exchange.bulk_references[i] : next_reference();
        uint32_t price = PRICE - 10000 - (uint32_t)(reference * 7 % BULK_LEVELS) * 100;
        exchange.bulk_references[i] = reference;
        bytes += mold_block(datagram + bytes, m,
                            deletes ? itch_reduce(m, ITCH_DELETE, LOCATE, reference, 0)
                                    : itch_add(m, LOCATE, reference, 'B', SHARES, price));
    }
    ASSERT(bytes <= BENCH_TRADE_DATAGRAM_BYTES_MAX);
    return bytes;
}

uint32_t bench_trade_bulk(uint8_t *datagram)
{
    exchange.bulk_deletes = !exchange.bulk_deletes;
    return write_bulk(datagram, !exchange.bulk_deletes);
}

uint32_t bench_trade_resting(uint8_t *datagram) { return write_bulk(datagram, false); }

uint32_t bench_trade_symbol(uint8_t *datagram, uint32_t symbol)
{
    uint8_t m[64];
    char name[ITCH_STOCK_BYTES + 1];
    const uint16_t locate = symbol_name(symbol, name);
    uint32_t bytes = begin(datagram, 2);
    bytes += mold_block(datagram + bytes, m, itch_directory(m, locate, name));
    return bytes + mold_block(datagram + bytes, m, itch_action(m, locate, 'T'));
}

/* Leaves at least BULK_LEVELS cents between the orders and the price at which the strategy buys. */
uint32_t bench_trade_mixed(uint8_t *datagram)
{
    uint8_t m[64];
    uint32_t bytes = begin(datagram, BENCH_TRADE_MIXED_MESSAGES);
    for (int i = 0; i < BENCH_TRADE_MIXED_MESSAGES; i++) {
        char name[ITCH_STOCK_BYTES + 1];
        const uint32_t at = random_below(MIXED_ORDERS), cents = BULK_LEVELS + random_below(BULK_LEVELS);
        const bool sells = random_below(2) == 1, deletes = at < exchange.mixed_count;
        if (deletes) {
            bytes += mold_block(
                datagram + bytes, m,
                itch_reduce(m, ITCH_DELETE, exchange.mixed[at].locate, exchange.mixed[at].reference, 0));
            exchange.mixed[at] = exchange.mixed[--exchange.mixed_count];
            continue;
        }
        const uint16_t locate = symbol_name(random_below(exchange.symbol_count), name);
        const uint64_t reference = next_reference();
        bytes += mold_block(datagram + bytes, m,
                            itch_add(m, locate, reference, sells ? 'S' : 'B', SHARES,
                                     sells ? PRICE + cents * 100 : PRICE - cents * 100));
        exchange.mixed[exchange.mixed_count].reference = reference;
        exchange.mixed[exchange.mixed_count++].locate = locate;
    }
    return bytes;
}

uint64_t bench_trade_orders(void) { return ouch_counters.entered; }
