/* Time since start from the TSC. Its frequency is reported by the machine or measured, never assumed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Learns the frequency, after acpi_init. Returns false when this machine neither reports it nor has a timer to
 * measure it by. */
bool clock_init(void);

/* Takes the frequency that somebody else has measured over a longer time (Linux, tsc.khz=). Returns false, with a
 * line in the log, if it is more than 1 % from what clock_init found: the settings were written for another machine.
 * If clock_init had CPUID's word alone, the measurement counts. Time goes on without a step. */
bool clock_refine(uint32_t khz);

/* Takes the TSC's new frequency if kvmclock says that this machine has moved to another host, and logs that; also logs
 * that the host had stopped the machine. Time goes on without a step. Reads memory; costs no exit. Once a second. */
void clock_follow_host(void);

uint64_t clock_now_ns(void);           /* 0 at clock_init; monotonic within a turn if the TSC is */
uint64_t clock_at_ns(uint64_t cycles); /* the clock's time at a reading of cycles_now() */

/* Returns the time at a reading of the loop, and keeps the reading in *last_cycles, which has the one before. Its time
 * never goes back: if the host has set the TSC back, the clock goes on from its last time, and the log says so. */
uint64_t clock_turn_ns(uint64_t cycles, uint64_t *last_cycles);

uint64_t clock_tsc_khz(void);
const char *clock_source(void); /* the source of the frequency: "cpuid 0x15", "acpi pm timer", "tsc.khz=", ... */
void clock_spin_us(uint32_t us);
