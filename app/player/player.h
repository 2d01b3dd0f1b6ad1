/* The player: digits in from the input streams, answers out to the submit server. Knows the transport interface, the
 * service and the matcher; knows no device, no clock, no operating system. There is one, in static memory. */
#pragma once

#include <stdint.h>

#include "app/program.h"
#include "base/counters.h"

/* Checks the settings and builds the matcher's tables, for some hundred milliseconds. NULL, or a message, which stays
 * valid. */
const char *player_prepare(const struct program_machine *machine);

/* Begins to play with the tables of player_prepare; again starts afresh. NULL, or a message. */
const char *player_init(const struct program_machine *machine, uint64_t now_ns);

/* Plays one turn: takes the transport's events until it has none, at most PLAYER_EVENTS_PER_TURN_MAX. Sends what can be
 * sent, runs the timers that are due, and gives the service, the transport and the matcher one slice of idle work each.
 * Takes a few microseconds when nothing arrives, and 50 us at most: it begins no further piece of work after 20 us.
 *
 * If a search takes longer, later turns go on with it. Digits that come meanwhile wait in order, and none is lost: one
 * event of each input stream here, the others in the transport, whose window closes (transport_hold). Once the breaker
 * is open, nothing is searched any more. */
enum { PLAYER_EVENTS_PER_TURN_MAX = 64 };
enum program_verdict player_turn(uint64_t now_ns);

/* Returns when the next turn has something to do if nothing arrives before: at most `now_ns` when there is work left.
 * For platforms that sleep. */
uint64_t player_next_deadline_ns(uint64_t now_ns);

/* Asserts the invariants of all parts, except the matcher's. */
void player_check(void);
/* Asserts the matcher's: takes longer than a slice, for tests. */
void player_check_matcher(void);
/* Returns true if no answers are left in the current digits, and the matcher is prepared for the next ones. */
bool player_matcher_rests(void);

#define PLAYER_LEVELS(X)                                                                                               \
    X(LEVEL, send_queue_bytes_used), X(LEVEL, send_queue_bytes), X(LEVEL, answer_set_answers_used),                    \
        X(LEVEL, answer_set_answers)
extern struct player_levels {
    uint64_t PLAYER_LEVELS(COUNTER_MEMBER);
} player_levels;
