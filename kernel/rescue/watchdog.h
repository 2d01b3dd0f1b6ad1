/* The watchdog: checks now and then that the loop still turns. A turn of the loop raises watchdog_beats, and so does
 * long work inside a turn: a sign of life. If there is none for too long, with interrupts off or not, the loop's CPU
 * gets an NMI and reports where it stood. If it does not answer, the machine is reset.
 *
 * Worker 1 checks, if it is up, at the price of one store a turn. Else the loop's own CPU checks, in the handler of a
 * timer's NMI (kernel/rescue/nmi_timer.h), 18 times a second. Beside either, drivers/watchdog/i6300esb.h resets a
 * machine that has this device.
 *
 * The loop checks the workers once a second: one that stands still for too long gets an NMI as well. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"

/* The longest time without a beat of a dump: a full log at 115200 baud takes 5.7 s. */
#define WATCHDOG_DUMP_NS UINT64_C(8000000000)

enum { WATCHDOG_WORKER = 1 /* the worker that checks */ };

/* Resets the machine from now on when the loop shows no sign of life for `timeout_ns`. Says in the log who checks.
 * Returns false if nobody can: there is neither a worker nor a timer that sends an NMI. */
bool watchdog_arm(uint64_t timeout_ns, bool has_worker);

/* Takes a change of `counter` for a sign of life too, such as a count of frames within a long turn. `counter` must
 * stay valid. */
void watchdog_watch(const uint64_t *counter);

/* Checks the loop, on worker 1, once in 10 ms at most. */
void watchdog_poll(void);

/* Checks the workers, on the first CPU. Once a second. */
void watchdog_check_workers(void);

/* Checks the loop in the NMI's handler of the loop's CPU. Returns true if the NMI was the timer's and the loop turns.
 * Touches no SIMD register: nobody has saved them. */
bool watchdog_tick(void);

/* Counts signs of life. */
extern volatile uint64_t watchdog_beats;

/* Gives a sign of life: one store. */
static inline void watchdog_beat(void) { watchdog_beats = watchdog_beats + 1; }

/* Returns true if the watchdog sent the NMI that is being handled. */
bool watchdog_has_fired(void);

/* watchdog.timeout_ns (0: nobody checks), .checks, and .age_ns: of the newest sign of life at the last check. */
extern const struct counter_group watchdog_counter_group;
