/* The second CPU: started once, looks after the loop (kernel/watchdog.h), and does the work it is given. Without work it
 * sleeps between two looks; with work it spins, as the first does.
 *
 * It shares nothing with the first CPU but what the modules it calls say they share. It writes no log, no record and
 * no reset register while the first one lives: when it traps or an assertion fails on it, it keeps the frame and
 * stops, and the first CPU tells of it and gives the machine back. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kernel/traps.h"

/* Starts it, before the seal. False, and a line in the log, if there is none or it does not come up. */
bool second_cpu_start(void);

/* From now on it calls `work` over and over: a slice each time; false means that there was nothing to do. */
void second_cpu_give(bool (*work)(void));

/* On the first CPU, each turn of the loop: if the second one has failed, tells why and gives the machine back. */
void second_cpu_check(void);

/* Whether this is the second CPU, and its end: from the trap, or with a message before one. */
bool second_cpu_is_me(void);
_Noreturn void second_cpu_trapped(const struct trap_frame *frame);
_Noreturn void second_cpu_panicked(const char *message);

/* For what runs on it: sleeps until its timer, 16 ms under KVM (1 GHz), 0.7 s at 24 MHz; and who the first CPU is. */
void second_cpu_nap(void);
uint32_t second_cpu_first_apic_id(void);
