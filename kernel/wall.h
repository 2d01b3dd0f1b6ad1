/* The wall clock: what the machine calls the time of day, read once at the start; from then on the TSC carries it. And
 * how far the TSC has gone astray meanwhile. */
#pragma once

#include <stdint.h>

#include "kernel/base/counters.h"

/* After clock_init, before the seal. Sets log_wall_origin_ns (kernel/base/log.h) by kvmclock or the RTC, logs which,
 * and takes the first reading of the clock that the TSC will be compared with. */
void wall_init(void);

/* Compares the TSC with kvmclock, or the ACPI PM timer, since the start: now and again, for it costs an exit or two. */
void wall_compare(void);

/* The comparison in a log line: over how long, and how far apart. */
void wall_report(void);

extern const struct counter_group wall_counter_group;
