/* The program's settings. docs/settings.md lists the keys. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/nasdaq/soup.h"
#include "app/trade/book.h"
#include "app/trade/risk.h"
#include "app/trade/strategy.h"
#include "base/settings.h"

enum trade_strategy { TRADE_WATCH, TRADE_TAKE, TRADE_JOIN };

struct trade_settings {
    /* Lines A and B: a group's address, or 0 for our own; port 0: there is no line B. */
    struct endpoint feed[2];
    struct endpoint rerequest, snapshot, orders;
    char user[SOUP_USER_BYTES + 1], password[SOUP_PASSWORD_BYTES + 1];
    uint32_t symbol_count;
    uint8_t symbols[BOOK_SYMBOL_COUNT_MAX][ITCH_STOCK_BYTES];
    uint16_t rerequest_port; /* ours */
    uint32_t order_count_max;
    uint64_t gap_wait_ns, feed_timeout_ns;
    enum trade_strategy strategy;
    struct strategy_settings trading;
    struct risk_limits risk;
    bool cancel_on_loss, cancel_on_exit;
};

extern struct trade_settings trade_settings;
extern const struct settings_table trade_settings_table;
