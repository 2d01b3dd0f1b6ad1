/* Rehearsals: what idle time runs so that it is in the caches when a frame comes.
 *
 * Between two frames the machine may rest for milliseconds. Other users of the CPU then push code and data out of the
 * caches, and the next answer takes several times as long. So the loop rehearses: the program registers what it wants
 * kept warm, once, and the stack's own ways are there already. One slice runs each REHEARSAL_SLICE_NS. None runs with
 * wait=sleep, nor before that time has passed without an event. A slice is a few microseconds at most, and the ring is
 * polled before the next one.
 *
 * `rehearsal.done` counts slices. One that was due and did not run counts by its reason. `refused_busy`: events or work
 * came first. `refused_sleep`: wait=sleep is set. `refused_stack`: the stack cannot rehearse, or a payload is borrowed.
 * `refused_program`: the program's state does not allow it. When an event comes after a pause, the histogram
 * `rehearsal.age` gets the time since the oldest of the parts was played.
 *
 * A rehearsal leaves everything as it was. The transport's part plays on another stack (transport_rehearsal_begin). A
 * program's function puts back what it changes of the program's: counters, tables, random state. Nobody sees them
 * meanwhile, as another CPU reads only copies of the statistics. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/histogram.h"
#include "base/time.h"
#include "net/transport_path.h"

enum { REHEARSAL_SLICE_NS = 100 * NS_PER_US };

#define REHEARSAL_COUNTERS(X)                                                                                          \
    X(COUNT, done), X(COUNT, refused_busy), X(COUNT, refused_sleep), X(COUNT, refused_stack), X(COUNT, refused_program)
extern struct rehearsal_counters {
    uint64_t REHEARSAL_COUNTERS(COUNTER_MEMBER);
} rehearsal_counters;
extern const struct counter_group rehearsal_counter_group;
extern struct histogram rehearsal_age;

/* Adds a frame to a port of the program's that it wants to be warm for: a datagram or a segment, one of each. The frame
 * takes the place of the stack's own. `play` takes its event by transport_poll, and answers; it returns false if the
 * program's state does not allow that, or if no answer has left. `payload` is lent for good; without bytes it is a line
 * of text. */
void rehearsal_add_frame(enum transport_rehearsal_kind kind, uint16_t port, struct bytes payload,
                         bool (*play)(uint64_t now_ns));

/* Adds work of another kind: it fetches memory, or runs code on a state that it puts back. One a program. It returns
 * false if the program's state does not allow that. */
void rehearsal_add_work(bool (*work)(uint64_t now_ns));

/* ---- for the service ---- */

/* Forgets what was added. */
void rehearsal_init(void);

/* Runs a slice, if one is due. Call once a turn. */
void rehearsal_poll(bool idle, uint64_t now_ns);
