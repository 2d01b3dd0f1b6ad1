/* The seam between a program and the other CPUs of its machine. image/main.c and host/main.c supply the CPUs.
 *
 * A program cuts its work into jobs of at most WORK_JOB_NS, gives them away, and takes them back when they are done:
 *
 *     while (work_has_room(WORK_DEPTH) && (job = next())) work_give(&job->work);
 *     while ((work = work_take()) != NULL) finish(work);
 *
 * The program knows no CPU. Without workers (cpus=1) there is never room, and the loop runs the same job by work_here,
 * in slices that its own turn allows. The loop also helps by work_here when every worker has as much as it may have.
 *
 * There is one ring with one producer and one consumer (base/spsc.h) for each worker and direction: no lock, no queue
 * that two CPUs share, no line that two CPUs write. A record is the job's address. A worker has at most WORK_DEPTH
 * jobs: one that runs, and one that hides the way to the loop and back. The choice of the next job stays in the loop,
 * which sees all of them: short work passes long work after two jobs at most. Nothing is allocated, nobody waits.
 *
 * A job touches, until work_take returns it:
 *   - its own struct, in which `work` is a member, and the memory that this struct names as the job's;
 *   - tables, and other data that nobody writes in that time.
 * In that time nobody else touches the former: `owner` says who may. A job logs nothing, counts nothing, reads no clock
 * but the TSC, and knows no connection. It may assert: a failed assertion ends the machine as on the first CPU.
 * work_give and work_take hand the memory over with release and acquire; TSan holds that (tests/unit/work_test.c).
 *
 * A hand-over costs the loop two transfers of a line, some 250 ns; work_init measures it. Work that is cheaper than a
 * few of these is better done in place. */
#pragma once

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"

enum {
    WORK_WORKER_COUNT_MAX = 63, /* besides the CPU of the loop */
    WORK_DEPTH = 2,             /* jobs that a worker may have */
    WORK_JOB_NS = 50000,
    WORK_LINE_BYTES = 64,
};

struct work;
typedef void work_function(struct work *work);

/* The first member of each job. It begins a line, so no job shares its first one with another. */
struct work {
    alignas(WORK_LINE_BYTES) work_function *run;
    uint32_t owner;  /* 0: the loop; else the worker that has it. The loop's */
    uint64_t cycles; /* TSC cycles of the run */
};

/* ---- for the program, on the loop's CPU ---- */

/* Begins: measures a hand-over. The workers must be polling. Returns the counters work.*, for the statistics. */
struct counter_group work_init(uint64_t tsc_khz);

/* Returns the nanoseconds of a hand-over, the way back included, in which neither CPU does anything else. 0: there are
 * no workers. */
uint64_t work_hand_over_ns(void);

/* Returns how many workers there are. */
uint32_t work_worker_count(void);

/* Returns true if a worker has fewer than `depth` jobs. */
bool work_has_room(uint32_t depth);

/* Gives a job to the worker that has the fewest. There must be room. */
void work_give(struct work *work);

/* Returns a job that is done, or NULL. */
struct work *work_take(void);

/* Runs a job in place. */
void work_here(struct work *work);

/* Returns true if a worker has the job, so that its memory is not the loop's. */
static inline bool work_is_out(const struct work *work) { return work->owner != 0; }

/* ---- for the platform ---- */

/* Sets how many workers call work_poll; their numbers are 1, 2, ... Once, before work_init. */
void work_set_workers(uint32_t count);

/* Runs the next job of a worker, on its CPU. Returns false if there was none. */
bool work_poll(uint32_t worker);
