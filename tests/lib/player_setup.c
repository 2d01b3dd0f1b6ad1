#include "tests/lib/player_setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/player/player.h"
#include "app/player/settings.h"
#include "app/service/service.h"
#include "app/service/settings.h"
#include "app/service/stats.h"
#include "tests/lib/random.h"

static void need(const char *mistake)
{
    if (!mistake)
        return;
    fprintf(stderr, "player_setup: %s\n", mistake);
    abort();
}

static uint64_t stands_still(void) { return 0; }
uint64_t (*player_setup_clock_ns)(void) = stands_still;
uint64_t player_setup_seed = 7;

void player_setup(const char *words, bool keeps_tables, uint64_t tsc_khz, uint64_t now_ns)
{
    static struct settings settings;
    struct program_machine machine = { .tsc_khz = tsc_khz, .now_ns = player_setup_clock_ns };
    random_secret(player_setup_seed, machine.secret, sizeof machine.secret);
    service_settings_begin(&settings, "player", &player_settings_table, NULL);
    settings_add(&settings, "test", words, strlen(words));
    need(settings_finish(&settings) ? NULL : settings.error);
    if (!keeps_tables)
        need(player_prepare(&machine));
    stats_clear();
    need(service_init(machine.secret, false, now_ns));
    need(player_init(&machine, now_ns));
}

void player_settle(uint64_t now_ns)
{
    enum { TURNS_MAX = 100000 };
    for (int i = 0; !player_matcher_rests(); i++) {
        need(i < TURNS_MAX ? NULL : "the matcher does not come to rest");
        player_turn(now_ns);
    }
}
