#include "kernel/base/trace.h"

struct trace trace;
