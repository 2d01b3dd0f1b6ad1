#include "kernel/base/trace.h"

uint64_t trace_cycles[TRACE_STAGE_COUNT];
