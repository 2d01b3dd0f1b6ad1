/* The one set of stamps. */
#include "base/trace.h"

struct trace trace;

bool trace_way(uint64_t ns_per_cycle_32, uint64_t *total_ns, uint64_t stage_ns[TRACE_STAGE_COUNT - 1])
{
    const uint64_t *t = trace.cycles;
    bool fine = trace.fine;
    for (int i = 0; i < TRACE_STAGE_COUNT - 1; i++)
        fine = fine && t[i + 1] >= t[i];
    for (int i = 0; i < TRACE_STAGE_COUNT - 1; i++)
        stage_ns[i] = fine ? (uint64_t)((unsigned __int128)(t[i + 1] - t[i]) * ns_per_cycle_32 >> 32) : 0;
    const uint64_t cycles = t[TRACE_KICKED] >= t[TRACE_FRAME_SEEN] ? t[TRACE_KICKED] - t[TRACE_FRAME_SEEN] : 0;
    *total_ns = (uint64_t)((unsigned __int128)cycles * ns_per_cycle_32 >> 32);
    return fine;
}
