/* The wall clock: the machine's time of day, read once at the start; from then on the TSC carries it. Compares the TSC
 * with a reference meanwhile. */
#pragma once

#include <stdint.h>

#include "base/counters.h"

/* Sets log_wall_origin_ns (base/log.h) by kvmclock or the RTC, logs which, and takes the first reading of the clock
 * that the TSC will be compared with. After clock_init, before the seal. */
void wall_clock_init(void);

/* Returns how far the wall clock may be from its source's: half a second by the RTC, whose register counts seconds. */
uint64_t wall_clock_error_ns(void);

/* Compares the TSC with kvmclock, or the ACPI PM timer, since the start. Costs an exit or two. */
void wall_clock_compare(void);

/* Logs the comparison: over how long, and how far apart. */
void wall_clock_report(void);

extern const struct counter_group wall_clock_counter_group;
