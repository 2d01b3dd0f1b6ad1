/* The exchange of bench_net's rows trade, trade-bulk and trade-rate: the program of app/trade/ in a market that one
 * message moves to where its strategy orders. Knows frames' payloads; bench_net.c has the device and the wire. */
#pragma once

#include <stdint.h>

enum {
    BENCH_TRADE_FEED_PORT = 26400,
    BENCH_TRADE_ORDERS_PORT = 26404,
    BENCH_TRADE_DATAGRAM_BYTES_MAX = 1472,
    BENCH_TRADE_BULK_MESSAGES = 36,       /* adds in a datagram of 1,388 bytes */
    BENCH_TRADE_RESTING_DATAGRAMS = 8000, /* 288,000 orders rest in the book */
    BENCH_TRADE_MIXED_MESSAGES = 10,
};

/* Begins the program, whose link to the exchange is not up yet. Its secret and the references of orders follow from the
 * seed. It trades the first of `symbol_count` symbols and keeps the books of all. `clock_ns`: NULL for one that stands
 * still, so that no turn is over. */
void bench_trade_start(uint64_t tsc_khz, uint64_t seed, uint32_t symbol_count, uint64_t (*clock_ns)(void),
                       uint64_t now_ns);

/* Writes the server's part of the session's start, and the market up to where a tick can move it. Each returns its
 * bytes. Deliver them in this order, with turns between them: the session lets 100 ms pass. */
uint32_t bench_trade_login(uint8_t *packets);
uint32_t bench_trade_query(uint8_t *packets);
uint32_t bench_trade_market(uint8_t *datagram);

/* Writes the datagram whose one message makes the strategy order. */
uint32_t bench_trade_tick(uint8_t *datagram);

/* Writes the exchange's response, by which the order has ended, and the datagram that takes the offer back. */
uint32_t bench_trade_response(uint8_t *packets);
uint32_t bench_trade_end(uint8_t *datagram);

/* Writes a datagram of BENCH_TRADE_BULK_MESSAGES messages that change the book and make nobody order: adds, then, for
 * every second datagram, deletions of the same orders. */
uint32_t bench_trade_bulk(uint8_t *datagram);

/* Writes the next of BENCH_TRADE_RESTING_DATAGRAMS, whose orders stay in the book. */
uint32_t bench_trade_resting(uint8_t *datagram);

/* Writes the datagram that begins the trading of another symbol. */
uint32_t bench_trade_symbol(uint8_t *datagram, uint32_t symbol);
/* Writes a datagram of BENCH_TRADE_MIXED_MESSAGES messages of all symbols, each an order or the deletion of one. */
uint32_t bench_trade_mixed(uint8_t *datagram);

/* Returns the orders that have left. */
uint64_t bench_trade_orders(void);
