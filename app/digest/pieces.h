/* Runs of bodies that other CPUs take (app/service/work.h). Knows no connection.
 *
 * Most methods take a body from its first byte to its last one, so one run of a body is out at a time. A method with
 * parts takes any number of them at once, on the workers and on the loop's CPU. Whichever ends first, the parts are
 * joined in the order of the body, as soon as the oldest one is there.
 *
 * Memory is flat: the pieces are a pool that all bodies share. If a worker stands still, the body whose part it has
 * takes pieces up to a bound, or until the pool is empty, and then waits. Other bodies are taken in place if the pool
 * is empty.
 *
 * A worker may have a second run of a body in parts: it delays no other run of that body. It would delay the runs of
 * bodies without parts, which need a worker that is free. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/digest/method.h"
#include "app/service/work.h"
#include "base/bytes.h"

struct piece;

/* The pieces of a body: those that are out, and those that wait for an older one. */
struct pieces {
    const struct method *method;
    union method_job *job;         /* a worker's while a run without parts is out */
    bool in_parts;                 /* each run is one or several whole parts */
    struct piece *oldest, *newest; /* NULL: there is none. The oldest one is a worker's */
    size_t count;
};

/* Forgets all pieces. */
void digest_pieces_clear(void);

/* Returns true if the body may have one more piece. */
bool digest_pieces_have_room(const struct pieces *p);

/* Notes that a run of a body without parts has found no worker free: for a millisecond bodies in parts give no worker a
 * second job. */
void digest_pieces_note_wait(uint64_t now_ns);

/* Returns how many jobs a worker may have, this run among them. */
uint32_t digest_pieces_depth(const struct pieces *p, uint64_t now_ns);

/* Asserts the invariant of a body's pieces. Returns how many it has. */
size_t digest_pieces_check(const struct pieces *p);

/* Asserts that the pool and the bodies, which have `used` pieces in all, have every piece. */
void digest_pieces_pool_check(size_t used);

/* Begins a body of `length` bytes; 0: not known, or empty. */
void digest_pieces_begin(struct pieces *p, const struct method *method, union method_job *job, uint64_t length);

/* Returns true while a worker has a piece of the body. */
static inline bool digest_pieces_are_out(const struct pieces *p) { return p->oldest != NULL; }

/* Gives a run, which begins at `at` in the body, to a worker that has room. Copies its bytes. The body must have
 * room; without parts none may be out. */
void digest_pieces_give(struct pieces *p, uint64_t at, struct bytes run);

/* Takes a run in place. With pieces out the body must be in parts and have room. */
void digest_pieces_take_here(struct pieces *p, uint64_t at, struct bytes run);

/* Takes a piece back from a worker. Returns its body. */
struct pieces *digest_pieces_end(struct work *work);
