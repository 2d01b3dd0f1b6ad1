/* The player as a program: app/program.h. */
#include "app/program.h"

#include "app/player/player.h"
#include "app/player/session.h"
#include "app/player/settings.h"

static bool wants_plain_cpu(void) { return player_settings.simd == MATCHER_SIMD_SCALAR; }

const struct program program = {
    .name = "player",
    .settings = &player_settings_table,
    .stopped = "submit breaker",
    .connection_count = PLAYER_INPUT_COUNT_MAX + 1 + SESSION_LEFT_COUNT_MAX,
    .wants_plain_cpu = wants_plain_cpu,
    .prepare = player_prepare,
    .init = player_init,
    .turn = player_turn,
    .next_deadline_ns = player_next_deadline_ns,
};
