/* The player set up from words, as its program is: for unit tests, benchmarks and fuzz targets. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Reads the words and starts service and player. The secret follows from player_setup_seed; the transport is up. With
 * `keeps_tables` the matcher's tables are those of the call before. Exits with a message if the words are refused. */
void player_setup(const char *words, bool keeps_tables, uint64_t tsc_khz, uint64_t now_ns);

/* A constant unless a benchmark draws one. */
extern uint64_t player_setup_seed;

/* The clock that bounds the player's turns. The one at the start stands still: it bounds no turn. */
extern uint64_t (*player_setup_clock_ns)(void);

/* Plays turns until the matcher rests. A setup that keeps the tables needs this before. */
void player_settle(uint64_t now_ns);
