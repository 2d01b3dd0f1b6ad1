/* The end of everything that goes wrong: a trap or a panic on either CPU is described, and the machine goes back to
 * Linux. The uppermost file of the kernel except the self-test; the rooms below hand their failures to it. */
#pragma once

#include "kernel/cpu/traps.h"

/* Sets the panic handler. The first call of all. */
void failure_init(void);

/* Takes an exception of either CPU. For traps_init. Returns from the watchdog's tick alone. */
void failure_of_trap(const struct trap_frame *frame);

/* Reports a failure of the second CPU and gives the machine back. Returns if there is none. Each turn of the loop. */
void failure_of_second_cpu(void);
