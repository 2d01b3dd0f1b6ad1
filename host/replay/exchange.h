/* The simulated exchange of a replay: the server's side of SoupBinTCP and OUCH 5.0, and the model of fills.
 *
 * The model. The market is the recorded one, and our orders do not move it. An order reaches the exchange `latency_ns`
 * after it has left, and a response takes as long. An order that meets the best opposite price trades there at once, at
 * that price, with at most the shares that stand there. Shares that earlier orders of ours have taken are gone as
 * long as this price is the best. The rest of an immediate order is cancelled. Any other rest waits after the shares
 * that its price has then. Executions, cancellations, deletions and replacements of orders before ours bring it
 * forward. Once nothing is ahead, an execution of a later order at the price is ours. Each execution at a worse price
 * is ours, too. When the opposite best price reaches a waiting order, the order trades at its own price. A replacement
 * waits again. Trades with hidden orders and auctions fill nothing. No order trades while its stock or the market does
 * not.
 *
 * The orders of the market are those that the program's own book holds. */
#pragma once

#include <stdint.h>

#include "base/bytes.h"

/* Begins. `wall_ns_at_0` is the recording's time at the program's time 0. */
void exchange_init(uint64_t latency_ns, uint64_t wall_ns_at_0);

/* Accepts the connection (network.h) of the program's orders. */
void exchange_connect(int connection);

/* Takes a packet of the program, which leaves now. */
void exchange_take(struct bytes packet, uint64_t now_ns);

/* Lets requests arrive and delivers responses, as they are due. Returns NULL, or why it cannot go on. */
const char *exchange_advance(uint64_t now_ns);
uint64_t exchange_next_ns(void);

/* Takes a message of the feed before the program does. */
void exchange_observe(struct bytes message, uint64_t now_ns);
/* Trades the waiting orders that the market has reached, after the program has taken the feed's messages. */
void exchange_match(uint64_t now_ns);
