/* The messages of a market data feed: types, lengths and fields. Nasdaq TotalView-ITCH 5.0, whose integers are
 * big-endian and whose text is left-justified and padded with blanks. Knows bytes, and no book. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

enum {
    ITCH_STOCK_BYTES = 8,
    ITCH_PRICE_DECIMALS = 4,
    ITCH_PRICE_UNIT = 10000,
    ITCH_PRICE_MAX = 2000000000, /* "Data Types": 200,000.0000 */
};

/* The types that the program acts on. itch_bytes has the lengths of all. */
enum itch_type {
    ITCH_SYSTEM_EVENT = 'S',
    ITCH_STOCK_DIRECTORY = 'R',
    ITCH_TRADING_ACTION = 'H',
    ITCH_OPERATIONAL_HALT = 'h',
    ITCH_ADD = 'A',
    ITCH_ADD_ATTRIBUTED = 'F',
    ITCH_EXECUTED = 'E',
    ITCH_EXECUTED_PRICE = 'C',
    ITCH_CANCEL = 'X',
    ITCH_DELETE = 'D',
    ITCH_REPLACE = 'U',
    ITCH_TRADE = 'P',
    ITCH_CROSS = 'Q',
    ITCH_BROKEN = 'B',
};

/* ---- the messages' fields ---- */

/* Begins each message. */
struct itch_head_wire {
    uint8_t type;
    uint16_t locate; /* 0: of no stock */
    uint16_t tracking;
    uint8_t timestamp[6]; /* nanoseconds since midnight */
} __attribute__((packed));
static_assert(sizeof(struct itch_head_wire) == 11, "ITCH 5.0, chapter 1");

struct itch_event_wire {
    struct itch_head_wire head; /* 'S' */
    uint8_t event;
} __attribute__((packed));
static_assert(sizeof(struct itch_event_wire) == 12, "ITCH 5.0, System Event");

struct itch_directory_wire {
    struct itch_head_wire head; /* 'R' */
    uint8_t stock[ITCH_STOCK_BYTES];
    uint8_t category, financial_status;
    uint32_t round_lot;
    uint8_t round_lots_only, classification, subtype[2], authenticity, short_sale_threshold, ipo, price_tier, etp;
    uint32_t etp_leverage;
    uint8_t inverse;
} __attribute__((packed));
static_assert(sizeof(struct itch_directory_wire) == 39, "ITCH 5.0, Stock Directory");

struct itch_trading_action_wire {
    struct itch_head_wire head; /* 'H' */
    uint8_t stock[ITCH_STOCK_BYTES];
    uint8_t state, reserved, reason[4];
} __attribute__((packed));
static_assert(sizeof(struct itch_trading_action_wire) == 25, "ITCH 5.0, Stock Trading Action");

struct itch_halt_wire {
    struct itch_head_wire head; /* 'h' */
    uint8_t stock[ITCH_STOCK_BYTES];
    uint8_t market, action;
} __attribute__((packed));
static_assert(sizeof(struct itch_halt_wire) == 21, "ITCH 5.0, Operational Halt");

/* Begins each message about an order; a deletion is no more. */
struct itch_order_wire {
    struct itch_head_wire head; /* 'D' */
    uint64_t reference;
} __attribute__((packed));
static_assert(sizeof(struct itch_order_wire) == 19, "ITCH 5.0, Order Delete");

struct itch_add_wire {
    struct itch_order_wire order; /* 'A'; 'F' has four bytes more, the attribution */
    uint8_t side;                 /* 'B' or 'S' */
    uint32_t shares;
    uint8_t stock[ITCH_STOCK_BYTES];
    uint32_t price;
} __attribute__((packed));
static_assert(sizeof(struct itch_add_wire) == 36, "ITCH 5.0, Add Order");

struct itch_cancel_wire {
    struct itch_order_wire order; /* 'X' */
    uint32_t shares;              /* executed or cancelled */
} __attribute__((packed));
static_assert(sizeof(struct itch_cancel_wire) == 23, "ITCH 5.0, Order Cancel");

struct itch_executed_wire {
    struct itch_cancel_wire cancel; /* 'E' */
    uint64_t match;
} __attribute__((packed));
static_assert(sizeof(struct itch_executed_wire) == 31, "ITCH 5.0, Order Executed");

struct itch_executed_price_wire {
    struct itch_executed_wire executed; /* 'C' */
    uint8_t printable;                  /* 'Y': the trade counts */
    uint32_t price;
} __attribute__((packed));
static_assert(sizeof(struct itch_executed_price_wire) == 36, "ITCH 5.0, Order Executed With Price");

struct itch_replace_wire {
    struct itch_order_wire order; /* 'U' */
    uint64_t new_reference;
    uint32_t shares, price;
} __attribute__((packed));
static_assert(sizeof(struct itch_replace_wire) == 35, "ITCH 5.0, Order Replace");

struct itch_trade_wire {
    struct itch_add_wire add; /* 'P' */
    uint64_t match;
} __attribute__((packed));
static_assert(sizeof(struct itch_trade_wire) == 44, "ITCH 5.0, Trade");

struct itch_cross_wire {
    struct itch_head_wire head; /* 'Q' */
    uint64_t shares;
    uint8_t stock[ITCH_STOCK_BYTES];
    uint32_t price;
    uint64_t match;
    uint8_t type;
} __attribute__((packed));
static_assert(sizeof(struct itch_cross_wire) == 40, "ITCH 5.0, Cross Trade");

struct itch_broken_wire {
    struct itch_head_wire head; /* 'B' */
    uint64_t match;
} __attribute__((packed));
static_assert(sizeof(struct itch_broken_wire) == 19, "ITCH 5.0, Broken Trade");

enum { GLIMPSE_SEQUENCE_BYTES = 20 };
/* Ends a snapshot. Its other messages are ITCH's. */
struct glimpse_end_wire {
    uint8_t type;                             /* 'G' */
    uint8_t sequence[GLIMPSE_SEQUENCE_BYTES]; /* the feed's next message, in digits */
} __attribute__((packed));
static_assert(sizeof(struct glimpse_end_wire) == 21, "GLIMPSE 5.0, End of Snapshot");

enum {
    ITCH_ADD_BYTES = sizeof(struct itch_add_wire),
    ITCH_DELETE_BYTES = sizeof(struct itch_order_wire),
};

/* ---- the fields' values ---- */

enum itch_event { ITCH_MARKET_OPENS = 'Q', ITCH_MARKET_CLOSES = 'M' };
enum itch_state { ITCH_TRADING = 'T' };
enum itch_halt { ITCH_HALTED = 'H', ITCH_HALT_LIFTED = 'T' };
enum itch_market { ITCH_NASDAQ = 'Q' }; /* operational halts of other markets are not ours */

/* The length of each type's message; 0: no message has the type. */
extern const uint8_t itch_bytes[256];

/* Returns true if a message has a known type and that type's length. */
static inline bool itch_is_whole(struct bytes message)
{
    return message.count > 0 && itch_bytes[message.data[0]] == message.count;
}
