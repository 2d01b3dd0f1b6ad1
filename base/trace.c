/* The one set of stamps. */
#include "base/trace.h"

struct trace trace;
