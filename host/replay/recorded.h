/* The exchange of a recorded day: its sessions as the capture of the machine has them. The program gets the bytes that
 * came on that day, when they came, and its own messages are compared with those that left on that day.
 *
 * The machine of the day had its own speed: it may have taken the next packet before it looked at a symbol again. So
 * between two packets the program may send as many messages as the machine has, and no more, and each takes as long as
 * it took. The program decides which. */
#pragma once

#include <stdint.h>

#include "host/replay/recording.h"

/* Returns true if a segment comes from a server of the program; `is_ours`: if it goes there. */
bool recorded_concerns(const struct recording_packet *segment, bool *is_ours);

/* Takes a segment of the capture that concerns us, of a time of the program. Returns NULL, or why the replay cannot go
 * on. */
const char *recorded_take(const struct recording_packet *segment, uint64_t time_ns);

/* Returns NULL at the recording's end, or why it is no end: a segment has not come that later ones have overtaken. */
const char *recorded_end(void);

/* Lets the program send as many messages as recorded_take has had from the machine of the day. */
void recorded_allow(void);

/* Takes a message (OUCH) that the program sends to its orders' server. Returns the time of the day's message; 0: that
 * has not come yet. */
uint64_t recorded_compare(struct bytes message);

extern struct recorded {
    uint64_t replayed, of_day; /* messages of the program */
    uint64_t same;             /* from the first on */
    bool differs;
    bool began; /* the capture has the beginning of an orders' session */
} recorded;
