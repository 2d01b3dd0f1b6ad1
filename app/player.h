/* The player: digits in from the feeds, answers out to the submit server, the control channel beside them. Knows
 * the transport interface and the matcher; knows no device, no clock, no operating system.
 *
 * Both composition roots (kernel/main.c, host/main.c) do the same:
 *
 *     transport_init(...);  matcher_init(...);  player_init(...);
 *     while ((verdict = player_turn(player, now)) == PLAYER_ON)
 *         tend the machine (and, if settings.wait says so, sleep until player_wake_ns);
 *     print stats_render's text, give the machine back
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/matcher.h"
#include "app/settings.h"

enum player_verdict {
    PLAYER_ON,                  /* go on turning */
    PLAYER_GG,                  /* told to leave over the control channel; its answer has been sent */
    PLAYER_NETWORK_LOST,        /* net.timeout= */
    PLAYER_SERVER_LOST,         /* server.timeout= */
    PLAYER_DEADLINE,            /* deadline= */
    PLAYER_IDLE,                /* idle.timeout= */
    PLAYER_BREAKER,             /* breaker=, after breaker.linger= */
};

struct player_config {
    const struct settings *settings;    /* finished; borrowed for ever */
    struct matcher *matcher;            /* borrowed for ever */
    bool second_cpu;                    /* there is one, which calls page_turn; app/page.h */
    bool copilot;                       /* copilot_init was called, and the second CPU turns it; app/copilot.h */
    uint8_t secret[32];                 /* fresh random bytes: the ledger's keys, the control channel's challenges */
    uint64_t tsc_khz;                   /* turns the stamps of kernel/base/trace.h into nanoseconds */
};

struct player;

/* Sets up the one player of the program, in static memory, after transport_init; again starts afresh. NULL on
 * success, else a message, valid for ever. */
const char *player_init(struct player **player, const struct player_config *config, uint64_t now_ns);

/* One turn of the game: takes the transport's events until it has none (at most PLAYER_EVENTS_PER_TURN_MAX), sends
 * what can be sent, runs the timers that are due, gives the transport and the matcher one slice of idle work. Takes
 * a few microseconds when nothing arrives; the longest turn is one burst and all its answers. */
enum { PLAYER_EVENTS_PER_TURN_MAX = 64 };
enum player_verdict player_turn(struct player *player, uint64_t now_ns);

/* When the next turn has something to do if nothing arrives before: at most `now_ns` when there is work left. For
 * platforms that sleep. */
uint64_t player_wake_ns(const struct player *player, uint64_t now_ns);

/* "gg", "network lost", ...: for the log. */
const char *player_verdict_name(enum player_verdict verdict);
