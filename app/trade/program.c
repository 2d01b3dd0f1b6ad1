/* Tick to trade as a program: app/program.h. */
#include "app/program.h"

#include "app/trade/settings.h"
#include "app/trade/trade.h"

const struct program program = {
    .name = "trade",
    .settings = &trade_settings_table,
    .connection_count = 2,
    .udp_port_count = 3,
    .init = trade_init,
    .turn = trade_turn,
    .next_deadline_ns = trade_next_deadline_ns,
};
