/* The workers: the CPUs besides the first, up to 63. Each is started once, has stacks, descriptor tables and vector
 * state of its own, and does the work that it is given. Without work it sleeps between two looks; with work it spins,
 * as the first does. Worker 1 also watches the loop of the first CPU.
 *
 * A worker shares nothing with the first CPU except what the modules it calls say they share. While the first CPU
 * lives, a worker writes no log, no record and no reset register. When it traps or an assertion fails on it, it keeps
 * the frame and stops; the first CPU reports that and gives the machine back. The same happens to a worker that stands
 * still: the first CPU's watchdog interrupts it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/cpu/stacks.h"
#include "kernel/cpu/traps.h"

/* Functions of the rooms above, which this one may not include. */
struct workers_config {
    size_t wanted;    /* workers */
    size_t cpu_count; /* CPUs of this machine, the first one among them */
    uint32_t (*cpu_apic_id)(size_t index);
    void *(*claim)(uint64_t address, size_t bytes); /* a piece of RAM below 1 MiB, or NULL */
    void (*wait_us)(uint32_t us);
    void (*enter)(void); /* on a worker, first of all: the page tables */
    void (*watch)(void); /* on worker 1, again and again */
};

/* Starts as many as are wanted, before the seal; copies `config`. Names in the log each that does not come up, and goes
 * on with the others. Returns how many are up: their numbers are 1, 2, ... */
uint32_t workers_start(const struct workers_config *config);

/* Returns how many are up. */
uint32_t workers_count(void);

/* Does a slice of work. Returns false if there was nothing to do. */
typedef bool worker_function(void);

/* Gives a worker work, which it calls again and again. NULL: no more work. */
void workers_give(uint32_t worker, worker_function *work);

/* The reason why a worker has stopped. */
struct worker_failure {
    uint32_t worker, apic_id;
    struct trap_frame frame; /* none with `is_deaf` */
    uint64_t cr2;
    const char *message; /* a panic's; NULL: a trap */
    bool is_deaf;        /* the worker stood still, and did not take the watchdog's NMI */
};

/* Returns how the first one failed, or NULL if none has. For the first CPU, each turn. */
const struct worker_failure *workers_failed(void);

/* Returns a number that changes as long as the worker turns. For the first CPU: it takes a line from the worker. */
uint64_t workers_beats(uint32_t worker);

/* Stops a worker that stands still, by an NMI: workers_failed says where it stood. */
void workers_stop(uint32_t worker);

/* Returns the number of the worker on which it runs; 0: the first CPU. */
uint32_t worker_me(void);

/* Stops the worker on which it runs, after a trap. */
_Noreturn void worker_trapped(const struct trap_frame *frame);
/* Stops the worker on which it runs, with a message that stays valid. */
_Noreturn void worker_panicked(const char *message);

/* Sleeps, on a worker, until its timer: 5 ms under KVM (1 GHz), 0.2 s at 24 MHz. */
void worker_nap(void);

/* Returns the APIC id of the first CPU. */
uint32_t workers_first_apic_id(void);
