/* Stamps of one answer's way through the machine, in TSC cycles.
 *
 * Each stage stores one word; the code that handles the answer reads them afterwards, off the path, and feeds the
 * histograms. One core stamps, so there is one set.
 *
 * A reading of the TSC takes the processor 6 to 12 ns in which it does little else (Zen 3, tests/bench/bench_net.c). So
 * there is none on the path. Its beginning is the turn's clock, and its end is stamped when the frame has left. The
 * stages in between are stamped for every TRACE_FINE_EACH-th answer only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cycles.h"

enum { TRACE_FINE_EACH = 16 };

enum trace_stage {
    TRACE_FRAME_SEEN, /* the start of the turn that saw the frame: its clock */
    TRACE_MATCHED,    /* fine: the matcher named an answer; trade: the order is decided */
    TRACE_PUBLISHED,  /* fine: the message's frame stands in the available ring */
    TRACE_KICKED,     /* the device was notified, or needed no notification */
    TRACE_STAGE_COUNT,
};

/* The work of a turn besides events, a bit each: trace_work. */
enum trace_work {
    TRACE_WORK_SEARCH,  /* a search went on */
    TRACE_WORK_TABLES,  /* the matcher's tables, and early answers */
    TRACE_WORK_WAITING, /* an answer that had waited was sent */
    TRACE_WORK_TIMERS,
    TRACE_WORK_WARM, /* the path's memory was fetched */
    TRACE_WORK_CONTROL,
    TRACE_WORK_PAGE,
    TRACE_WORK_SYSLOG,
    TRACE_WORK_RECORD,
    TRACE_WORK_CONSOLE,
    TRACE_WORK_COUNT,
};

extern struct trace {
    _Alignas(64) uint64_t cycles[TRACE_STAGE_COUNT];
    bool fine;          /* all stages of the next answer are stamped */
    uint32_t work;      /* this turn's so far: bits */
    uint32_t turn_work; /* that of the turn before */
    uint64_t turn_ns;   /* the length of the turn before */
} trace;                /* base/trace.c */

static inline void trace_work(enum trace_work work) { trace.work |= UINT32_C(1) << work; }

/* Begins a turn of the loop; the one before took `turn_ns`. */
static inline void trace_turn(uint64_t turn_ns)
{
    trace.turn_ns = turn_ns;
    trace.turn_work = trace.work;
    trace.work = 0;
}

static inline void trace_stamp(enum trace_stage stage) { trace.cycles[stage] = cycles_now(); }

static inline void trace_stamp_fine(enum trace_stage stage)
{
    if (__builtin_expect(trace.fine, 0))
        trace_stamp(stage);
}

/* Reads the stamps of what has just left; off the path. `ns_per_cycle_32` are the nanoseconds of a TSC cycle, times
 * 2^32. Writes the whole time, and that of each stage if all were stamped: else 0, and false is returned. A stamp that
 * is older than the one before it is another frame's: the stack kept the message back. */
bool trace_way(uint64_t ns_per_cycle_32, uint64_t *total_ns, uint64_t stage_ns[TRACE_STAGE_COUNT - 1]);
