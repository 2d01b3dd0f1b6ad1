/* The program's settings. docs/settings.md lists the keys. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/nasdaq/link.h"
#include "app/nasdaq/mold.h"
#include "app/nasdaq/soup.h"
#include "app/trade/book.h"
#include "app/trade/risk.h"
#include "app/trade/strategy.h"
#include "base/settings.h"

enum { TRADE_POSITION_MAX = 100000000 };

struct trade_position {
    uint8_t symbol[ITCH_STOCK_BYTES];
    uint32_t at; /* in the symbols */
    int64_t shares;
};

struct trade_settings {
    /* Lines A and B: a group's address, or 0 for our own; port 0: there is no line B. */
    struct endpoint feed[2];
    uint32_t source[2];                   /* the hosts that send the lines; 0: the first that is heard */
    char session[MOLD_SESSION_BYTES + 1]; /* the feed's; empty: any */
    struct endpoint rerequest, snapshot, orders[LINK_HOST_COUNT_MAX];
    char user[SOUP_USER_BYTES + 1], password[SOUP_PASSWORD_BYTES + 1];
    uint32_t symbol_count;
    uint8_t symbols[BOOK_SYMBOL_COUNT_MAX][ITCH_STOCK_BYTES];
    uint16_t rerequest_port; /* ours */
    uint32_t order_count_max;
    uint64_t gap_wait_ns, feed_timeout_ns;
    uint32_t strategy; /* trade_strategy() */
    uint32_t shares;   /* in an order */
    struct risk_limits risk;
    uint64_t loss_max; /* in a day, in units of 0.0001 */
    uint32_t rejects_max;
    uint32_t position_count;
    struct trade_position positions[BOOK_SYMBOL_COUNT_MAX]; /* before the session */
    bool cancel_on_loss, cancel_on_exit, cancel_on_start, stopped;
};

extern struct trade_settings trade_settings;
extern const struct settings_table trade_settings_table;

/* Returns the strategy that is chosen; NULL: `watch`, which orders nothing. */
const struct strategy *trade_strategy(void);
