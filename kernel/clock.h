/* Time since start from the TSC, whose frequency is measured or told, never assumed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Learns the frequency, after acpi_init. False when nothing on this machine tells it or can be measured against. */
bool clock_init(void);

/* What somebody else measured better, over a longer time (Linux, tsc.khz=). Taken if it is within 1 % of what
 * clock_init found, which guards against settings written for another machine; false and a line in the log otherwise.
 * Time goes on without a step. */
bool clock_refine(uint32_t khz);

uint64_t clock_now_ns(void);            /* monotonic, 0 at clock_init */
uint64_t clock_at_ns(uint64_t cycles);  /* what it showed, or will show, at a reading of cycles_now() */
uint64_t clock_tsc_khz(void);
const char *clock_source(void);         /* how the frequency was learned: "cpuid 0x15", "acpi pm timer", "tsc.khz=", ... */
void clock_spin_us(uint32_t us);
