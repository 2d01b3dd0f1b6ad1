/* The second CPU: started once, watches the loop of the first, and does the work it is given. Without work it sleeps
 * between two looks; with work it spins, as the first does.
 *
 * It shares nothing with the first CPU except what the modules it calls say they share. While the first CPU lives, the
 * second writes no log, no record and no reset register. When it traps or an assertion fails on it, it keeps the frame
 * and stops; the first CPU reports that and gives the machine back. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/cpu/traps.h"

/* Functions of the rooms above, which this one may not include. */
struct second_cpu_config {
    size_t cpu_count; /* CPUs of this machine, the first one among them */
    uint8_t (*cpu_apic_id)(size_t index);
    void *(*claim)(uint64_t address, size_t bytes); /* a piece of RAM below 1 MiB, or NULL */
    void (*wait_us)(uint32_t us);
    void (*enter)(void); /* on the second CPU, first of all: the page tables */
    void (*watch)(void); /* on the second CPU, again and again */
};

/* Starts it, before the seal; copies `config`. Returns false, with a line in the log, if there is none or it does not
 * come up. */
bool second_cpu_start(const struct second_cpu_config *config);

/* Returns true if it has come up. */
bool second_cpu_is_up(void);

/* Gives it work, which it calls again and again: a slice each time; false means that there was nothing to do. NULL: no
 * more work. */
void second_cpu_give(bool (*work)(void));

/* The reason why the second CPU has stopped. */
struct second_cpu_failure {
    struct trap_frame frame;
    uint64_t cr2;
    const char *message; /* a panic's; NULL: a trap */
};

/* Returns how it failed, or NULL if it has not. For the first CPU, each turn. */
const struct second_cpu_failure *second_cpu_failed(void);

/* Returns true on the second CPU. */
bool second_cpu_is_me(void);

/* Stops the second CPU, on which it runs, after a trap. */
_Noreturn void second_cpu_trapped(const struct trap_frame *frame);
/* Stops the second CPU, on which it runs, with a message that stays valid. */
_Noreturn void second_cpu_panicked(const char *message);

/* Sleeps, on the second CPU, until its timer: 5 ms under KVM (1 GHz), 0.2 s at 24 MHz. */
void second_cpu_nap(void);

/* Returns the APIC id of the first CPU. */
uint32_t second_cpu_first_apic_id(void);
