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
    TRACE_MATCHED,    /* fine: the matcher named an answer */
    TRACE_PUBLISHED,  /* fine: the POST's frame stands in the available ring */
    TRACE_KICKED,     /* the device was notified, or needed no notification */
    TRACE_STAGE_COUNT,
};

extern struct trace {
    _Alignas(64) uint64_t cycles[TRACE_STAGE_COUNT];
    bool fine; /* all stages of the next answer are stamped */
} trace;       /* base/trace.c */

static inline void trace_stamp(enum trace_stage stage) { trace.cycles[stage] = cycles_now(); }

static inline void trace_stamp_fine(enum trace_stage stage)
{
    if (__builtin_expect(trace.fine, 0))
        trace_stamp(stage);
}
