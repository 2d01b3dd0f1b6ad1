/* Stamps of one answer's way through the machine, in TSC cycles.
 *
 * Each stage stores one word; whoever handles the answer reads them afterwards, off the path, and feeds the
 * histograms. One core stamps, so there is one set.
 *
 * A reading of the TSC takes the processor 6 to 12 ns in which it does little else (Zen 3, tests/bench/bench_net.c: a
 * segment handed on in 30 ns in place of 36, a frame published in 27 in place of 39). So on the path there is none: its
 * beginning is the turn's clock, its end is stamped when the frame has left, and the stages in between are stamped for
 * every TRACE_FINE_EACH-th answer only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kernel/base/cycles.h"

enum { TRACE_FINE_EACH = 16 };

enum trace_stage {
    TRACE_FRAME_SEEN,       /* the loop's turn began in which the frame was seen: its clock, read anyway */
    TRACE_MATCHED,          /* fine: the matcher named an answer */
    TRACE_PUBLISHED,        /* fine: the POST's frame stands in the available ring */
    TRACE_KICKED,           /* the device was notified, or needed no notification */
    TRACE_STAGE_COUNT,
};

extern struct trace {
    _Alignas(64) uint64_t cycles[TRACE_STAGE_COUNT];
    bool fine;              /* of the next answer all stages are stamped */
} trace;                    /* kernel/base/trace.c */

static inline void trace_stamp(enum trace_stage stage) { trace.cycles[stage] = cycles_now(); }

static inline void trace_stamp_fine(enum trace_stage stage)
{
    if (__builtin_expect(trace.fine, 0))
        trace_stamp(stage);
}
