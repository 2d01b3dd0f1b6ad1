/* The Intel 6300ESB's watchdog timer, as QEMU, libvirt and some clouds offer it (`-device i6300esb`): it resets the
 * machine by itself, whatever the CPUs do. Intel 6300ESB I/O Controller Hub data sheet (300641-004) §16, "Watchdog
 * Timer". */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Finds it, if the machine has one, and starts it. It cannot wait longer than 2082 s, and does not if it is asked to.
 * False, and a line in the log, if there is one and it does not start; false if there is none. Before the seal. */
bool i6300esb_start(uint64_t timeout_ns);

/* Starts its time anew, when a third of it is over; three exits. Does nothing if it was not started. */
void i6300esb_tend(uint64_t now_ns);
