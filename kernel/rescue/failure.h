/* The end of everything that goes wrong: a trap or a panic on any CPU is described, and the machine goes back to
 * Linux. Only kernel/rescue/selftest.c and image/ include it; all others report through panic and traps. */
#pragma once

#include "kernel/cpu/traps.h"

/* Sets the panic handler. The first call of all. */
void failure_init(void);

/* Handles an exception of any CPU, for traps_init. Returns only if it was the watchdog's NMI and the loop still
 * turns. */
void failure_of_trap(const struct trap_frame *frame);

/* Reports a failure of a worker and gives the machine back. Returns if there is none. Each turn of the loop. */
void failure_of_workers(void);
