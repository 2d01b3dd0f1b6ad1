#include "app/nasdaq/itch.h"

/* TotalView-ITCH 5.0, chapter 1, "Message Formats". */
const uint8_t itch_bytes[256] = {
    [ITCH_SYSTEM_EVENT] = sizeof(struct itch_event_wire),
    [ITCH_STOCK_DIRECTORY] = sizeof(struct itch_directory_wire),
    [ITCH_TRADING_ACTION] = sizeof(struct itch_trading_action_wire),
    [ITCH_OPERATIONAL_HALT] = sizeof(struct itch_halt_wire),
    ['Y'] = 20, /* Reg SHO restriction */
    ['L'] = 26, /* market participant position */
    ['V'] = 35, /* market-wide circuit breaker: decline levels */
    ['W'] = 12, /* market-wide circuit breaker: status */
    ['K'] = 28, /* quoting period update */
    ['J'] = 35, /* limit up, limit down: auction collar */
    [ITCH_ADD] = ITCH_ADD_BYTES,
    [ITCH_ADD_ATTRIBUTED] = 40,
    [ITCH_EXECUTED] = sizeof(struct itch_executed_wire),
    [ITCH_EXECUTED_PRICE] = sizeof(struct itch_executed_price_wire),
    [ITCH_CANCEL] = sizeof(struct itch_cancel_wire),
    [ITCH_DELETE] = ITCH_DELETE_BYTES,
    [ITCH_REPLACE] = sizeof(struct itch_replace_wire),
    [ITCH_TRADE] = sizeof(struct itch_trade_wire),
    [ITCH_CROSS] = sizeof(struct itch_cross_wire),
    [ITCH_BROKEN] = sizeof(struct itch_broken_wire),
    ['I'] = 50, /* net order imbalance */
    ['N'] = 20, /* retail interest */
    ['O'] = 48, /* direct listing with capital raise */
};
