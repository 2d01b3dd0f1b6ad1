/* Time since start from the TSC, whose frequency is measured or told, never assumed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Learns the frequency, after acpi_init. False when nothing on this machine tells it or can be measured against. */
bool clock_init(void);

uint64_t clock_now_ns(void);            /* monotonic, 0 at clock_init */
uint64_t clock_from_cycles_ns(uint64_t cycles);     /* a difference of cycles_now() readings, in ns */
uint64_t clock_tsc_khz(void);
const char *clock_source(void);         /* how the frequency was learned: "cpuid 0x15", "kvmclock", "acpi pm timer", ... */
void clock_spin_us(uint32_t us);
