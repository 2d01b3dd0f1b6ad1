/* The service's measure of its own free capacity, for agent.port=: the rounds of SHA-256 a second that newcomers would
 * get. Knows times and counts alone.
 *
 * At the start the variants are timed, so the service knows how many rounds it does in a second (digest_chains_rate).
 * The machine may be slower: a host takes time away, a hyperthread shares the core, bodies need the CPU as well. So the
 * rounds that are done are compared with those that the times promise, in turns in which chains had work throughout.
 * The quotient is the speed. An idle machine forgets it in some seconds and is taken for fast again: a balancer that
 * sends it nothing would never learn that its bad time is over.
 *
 * The difference between the capacity and the rounds that are done now would be no good measure. It is zero for every
 * busy machine, so a fast one and a slow one would look alike when the choice between them matters most. Requests share
 * the machine, so its capacity is divided instead: if as many chains as fill all lanes came beside the requests that
 * wait, they would get
 *
 *     capacity * speed * width / (width + waiting)
 *
 * rounds a second. An idle machine has all of it, and a busy one never says zero. Speed and waiting requests are means
 * over CAPACITY_SMOOTH_NS. */
#pragma once

#include <stdint.h>

#include "base/time.h"

#define CAPACITY_SMOOTH_NS (200 * NS_PER_MS) /* the time constant of the means */
#define CAPACITY_WINDOW_NS (20 * NS_PER_MS)  /* the means change so often */

/* A turn of the service. */
struct capacity_turn {
    uint32_t waiting;      /* requests that want a CPU, when the turn begins */
    uint32_t chains_left;  /* chains that had work for longer than the turn's slice */
    uint64_t rounds_taken; /* that workers did since the last turn */
    uint64_t rounds_own;   /* in this turn's slice */
};

/* Begins: the machine is idle, and as fast as the start's times promise. After digest_chains_clear. */
void digest_capacity_init(void);

/* Takes a turn that begins at `now_ns`, and so ends the one before. */
void digest_capacity_turn(const struct capacity_turn *turn, uint64_t now_ns);

/* Returns the rounds a second that newcomers would get. */
uint64_t digest_capacity_free(void);
