/* The messages of a market data feed: types, lengths and the offsets of their fields. Nasdaq TotalView-ITCH 5.0, whose
 * integers are big-endian and whose text is left-justified and padded with blanks. Knows bytes, and no book. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

enum {
    ITCH_STOCK_BYTES = 8,
    ITCH_ADD_BYTES = 36,
    ITCH_DELETE_BYTES = 19,
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

/* The places where fields begin, from the message's type on. */
enum itch_offset {
    ITCH_LOCATE = 1,     /* 2 bytes; 0: of no stock */
    ITCH_EVENT = 11,     /* 1 byte, of a system event */
    ITCH_STOCK = 11,     /* 8 bytes, of a stock directory and a trading action */
    ITCH_STATE = 19,     /* 1 byte, of a trading action */
    ITCH_MARKET = 19,    /* 1 byte, of an operational halt */
    ITCH_HALT = 20,      /* 1 byte, of an operational halt */
    ITCH_REFERENCE = 11, /* 8 bytes, of all messages about an order */
    ITCH_ADD_SIDE = 19,
    ITCH_ADD_SHARES = 20,
    ITCH_ADD_PRICE = 32,
    ITCH_SHARES = 19,         /* 4 bytes, executed or cancelled */
    ITCH_EXECUTED_MATCH = 23, /* 8 bytes, of both executions */
    ITCH_EXECUTED_PRINTABLE = 31,
    ITCH_EXECUTED_AT = 32,
    ITCH_REPLACE_NEW = 19,
    ITCH_REPLACE_SHARES = 27,
    ITCH_REPLACE_PRICE = 31,
    ITCH_TRADE_PRICE = 32,
    ITCH_TRADE_MATCH = 36,
    ITCH_CROSS_PRICE = 27,
    ITCH_CROSS_MATCH = 31,
    ITCH_BROKEN_MATCH = 11,
};

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
