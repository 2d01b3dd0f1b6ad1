#include "app/nasdaq/itch.h"

/* TotalView-ITCH 5.0, chapter 1, "Message Formats". */
const uint8_t itch_bytes[256] = {
    [ITCH_SYSTEM_EVENT] = 12,
    [ITCH_STOCK_DIRECTORY] = 39,
    [ITCH_TRADING_ACTION] = 25,
    [ITCH_OPERATIONAL_HALT] = 21,
    ['Y'] = 20, /* Reg SHO restriction */
    ['L'] = 26, /* market participant position */
    ['V'] = 35, /* market-wide circuit breaker: decline levels */
    ['W'] = 12, /* market-wide circuit breaker: status */
    ['K'] = 28, /* quoting period update */
    ['J'] = 35, /* limit up, limit down: auction collar */
    [ITCH_ADD] = ITCH_ADD_BYTES,
    [ITCH_ADD_ATTRIBUTED] = 40,
    [ITCH_EXECUTED] = 31,
    [ITCH_EXECUTED_PRICE] = 36,
    [ITCH_CANCEL] = 23,
    [ITCH_DELETE] = ITCH_DELETE_BYTES,
    [ITCH_REPLACE] = 35,
    [ITCH_TRADE] = 44,
    [ITCH_CROSS] = 40,
    ['B'] = 19, /* broken trade */
    ['I'] = 50, /* net order imbalance */
    ['N'] = 20, /* retail interest */
    ['O'] = 48, /* direct listing with capital raise */
};
