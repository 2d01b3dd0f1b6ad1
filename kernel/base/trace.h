/* Stamps of one answer's way through the machine, in TSC cycles.
 *
 * Each stage stores one word; whoever handles the answer reads them afterwards, off the path, and feeds the
 * histograms. One core stamps, so there is one set. */
#pragma once

#include <stdint.h>

#include "kernel/base/cycles.h"

enum trace_stage {
    TRACE_FRAME_SEEN,       /* the driver saw the used-ring entry of the frame being handled */
    TRACE_MATCHED,          /* the matcher named an answer */
    TRACE_PUBLISHED,        /* the POST's frame stands in the available ring */
    TRACE_KICKED,           /* the device was notified, or needed no notification */
    TRACE_STAGE_COUNT,
};

extern uint64_t trace_cycles[TRACE_STAGE_COUNT];    /* kernel/base/trace.c */

static inline void trace_stamp(enum trace_stage stage) { trace_cycles[stage] = cycles_now(); }
