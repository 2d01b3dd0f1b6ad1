/* The slowest ways of the last hour: answers, requests, replies. Generations of ten minutes keep SLOWEST_COUNT each,
 * and are forgotten as a whole: the list is that of the last 60 to 70 minutes. Knows no clock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SLOWEST_COUNT = 32, SLOWEST_STAGE_COUNT = 3 };

/* One way. Whole words, so that another CPU may copy it. */
struct slow_way {
    uint64_t at_ns, total_ns;
    uint32_t stage_ns[SLOWEST_STAGE_COUNT]; /* 0: not stamped */
    uint32_t turn_ns;                       /* the turn before: for so long nobody looked at the ring */
    uint32_t work;                          /* that turn's: bits of enum trace_work */
    uint16_t resends, exits;                /* since the service's part of that turn */
};

void slowest_clear(void);

/* Returns true if a way that took so long would be kept: its other facts are gathered only then. */
bool slowest_would_keep(uint64_t total_ns, uint64_t now_ns);

/* Keeps a way, if it is slow. Ways come in the order of their times. */
void slowest_note(const struct slow_way *way);

/* Writes the slowest of all generations, the slowest first. Returns their count. */
size_t slowest_list(struct slow_way out[SLOWEST_COUNT], uint64_t now_ns);
